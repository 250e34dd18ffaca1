# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import SpecError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.bridge.options import BRIDGE, parse
from ansible_collections.fleet.virt.plugins.module_utils._fleet.bridge.types import RequestedBridge

DEFAULTS = {name: option.get("default") for name, option in BRIDGE.items()}


def options(**given: Any) -> dict[str, Any]:
    return {**DEFAULTS, "name": "br0", **given}


def test_the_default() -> None:
    assert parse([options()], 60) == (RequestedBridge("br0"),)


def test_addresses_are_normal() -> None:
    (wanted,) = parse([options(addresses=["2001:DB8::7/64"], gateways=["2001:DB8::1"])], 60)
    assert wanted.addresses == ("2001:db8::7/64",)
    assert wanted.gateways == ("2001:db8::1",)
    assert wanted.explicit


def test_several_without_uplink() -> None:
    assert len(parse([options(name=name, uplink="none") for name in ("br1", "br2")], 60)) == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"name": "bridge-too-long1"},
            "bridges[0].name: 'bridge-too-long1' is not a valid bridge name",
        ),
        ({"name": "br0; rm"}, "is not a valid bridge name"),
        ({"name": "../etc"}, "is not a valid bridge name"),
        ({"name": "lo"}, "'lo' is not a valid bridge name"),
        ({"uplink": "lo"}, "bridges[0].uplink: 'lo' is not a valid uplink"),
        ({"uplink": "$(id)"}, "is not a valid uplink"),
        ({"uplink": "br0"}, "'br0' is the bridge itself"),
        ({"addresses": ["192.0.2.7"]}, "'192.0.2.7' is not an address with a prefix length"),
        ({"addresses": ["192.0.2.7/33"]}, "write 192.0.2.7/24"),
        (
            {"addresses": ["192.0.2.7/24"], "gateways": ["192.0.3.1"]},
            "bridges[0].gateways: 192.0.3.1 is not in the network of any address",
        ),
        (
            {"addresses": ["192.0.2.7/24"], "gateways": ["192.0.2.1", "192.0.2.2"]},
            "at most one for IPv4 and one for IPv6",
        ),
        ({"nameservers": ["192.0.2.53"]}, "leave nameservers out"),
        ({"dhcp": True, "nameservers": ["dns"]}, "'dns' is not an address"),
    ],
)
def test_broken_rules(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse([options(**given)], 60)
    assert message in str(caught.value)


@pytest.mark.parametrize("seconds", [0, 4, 3601])
def test_the_window_has_limits(seconds: int) -> None:
    with pytest.raises(SpecError, match=f"{seconds} is out of range; it must be 5 to 3600"):
        parse([options()], seconds)


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(SpecError) as caught:
        parse([options(), options(uplink="eth0/1")], 1)
    assert [problem.path for problem in caught.value.problems] == [
        "rollback_seconds",
        "bridges[1].uplink",
        "bridges[1].name",
    ]


def test_an_uplink_has_one_bridge() -> None:
    with pytest.raises(SpecError, match=r"bridges\[1\].uplink: 'auto' is given twice"):
        parse([options(), options(name="br1")], 60)
