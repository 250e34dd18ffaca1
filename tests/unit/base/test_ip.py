# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which addresses a guest can have, whoever says so; and no zones anywhere."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import (
    PlanRefused,
    Problem,
    SpecError,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import ip
from ansible_collections.fleet.virt.plugins.module_utils._fleet.bridge import (
    options as bridge_options,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.firewall import plan as firewall
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    read_addresses as addresses,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    serial_output as console,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images import (
    options as image_options,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys import decide as keys
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed import specification as seed
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec import options_devices

MAC = "52:54:00:12:34:56"
# What is said, and what of it may be a guest's
SAID: dict[str, str | None] = {
    "192.0.2.7": "192.0.2.7",
    "192.0.2.7/24": "192.0.2.7",
    "10.0.0.255": "10.0.0.255",  # broadcast of some networks, a host of others
    "2001:db8::7/64": "2001:db8::7",
    "2001:DB8:0::7": "2001:db8::7",
    "fd00::7": "fd00::7",
    "::ffff:192.0.2.7": "192.0.2.7",
    "2002:c000:207::1": "2002:c000:207::1",  # 6to4 of 192.0.2.7
    "127.0.0.1": None,
    "127.3.2.1": None,
    "::1": None,
    "::ffff:127.0.0.1": None,
    "::ffff:7f00:1": None,
    "::ffff:127.0.0.1/128": None,
    "::ffff:0:127.0.0.1": None,
    "::127.0.0.1": None,
    "64:ff9b::127.0.0.1": None,
    "2002:7f00:1::": None,
    "2001:0:c000:207::80ff:fffe": None,  # Teredo of 127.0.0.1
    "0.0.0.0": None,  # noqa: S104
    "0.0.0.1": None,
    "::": None,
    "::ffff:0.0.0.0": None,
    "255.255.255.255": None,
    "::ffff:255.255.255.255": None,
    "240.0.0.1": None,
    "224.0.0.1": None,
    "ff02::1": None,
    "169.254.169.254": None,
    "::ffff:169.254.169.254": None,
    "fe80::1": None,
    "fe80::1%eth0": None,
    "2001:db8::7%1": None,
    "2001:db8::7%\n    post-up touch x": None,
    "-oProxyCommand=x": None,
    "{{ 1 }}": None,
    "192.0.2.7 -oProxyCommand=x": None,
    "localhost": None,
    "127.1": None,
    "2130706433": None,
    "0x7f000001": None,
    "": None,
}


@pytest.mark.parametrize(("said", "expected"), SAID.items())
def test_from_everywhere_alike(said: str, expected: str | None) -> None:
    """Metadata and neighbour tables go through this function itself."""
    assert ip.usable(said) == expected
    domain = Domain({"eth0": {"hwaddr": MAC, "addrs": [{"addr": said}]}})
    from_agent = addresses.from_agent(domain)[MAC]
    assert from_agent == [] if expected is None else from_agent == [expected]
    if "\n" not in said:
        row = f"ci-info: ++++Net device info++++\nci-info: | eth0 | True | {said} | . | g | {MAC} |"
        assert console.addresses(row, [MAC]) == from_agent


class Domain:
    """A domain whose agent says this."""

    def __init__(self, answer: t.Any) -> None:
        self.answer = answer

    def interfaceAddresses(self, _source: int, _flags: int) -> t.Any:
        return self.answer


@pytest.mark.parametrize("said", [2130706433, None, b"\x7f\0\0\1"])
def test_what_is_no_text_is_no_address(said: t.Any) -> None:
    assert ip.usable(said) is None
    with pytest.raises(ValueError, match="is not text"):
        ip.address(said)


@pytest.mark.parametrize("zone", ["%eth0", "%1", "%\n    post-up touch /x", "%{{ 1 }}", "%a b"])
def test_no_zones(zone: str) -> None:
    for read in (ip.address, ip.interface, ip.network):
        with pytest.raises(ValueError, match="zone"):
            read(f"fe80::1{zone}")
    with pytest.raises(ValueError, match="zone"):
        ip.interface(f"fe80::1{zone}/64")


_ZONE = "fe80::1%\n    post-up touch x"
_NETWORK = {"name": "eth0", "addresses": ["2001:db8::7/64"]}


def _seed(nic: dict[str, t.Any], **more: t.Any) -> list[Problem]:
    problems: list[Problem] = []
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
    seed.from_options({"network": [nic], **more}, "seed", (key,), problems)
    return problems


@pytest.mark.parametrize(
    "problems",
    [
        lambda: _seed({"name": "eth0", "addresses": [f"{_ZONE}/64"]}),
        lambda: _seed({"name": "eth0", "addresses": ["2001:db8::7%\nx/64"]}),
        lambda: _seed({**_NETWORK, "gateway": _ZONE}),
        lambda: _seed({**_NETWORK, "routes": [{"to": "2001:db8:1::/48", "via": _ZONE}]}),
        lambda: _seed({**_NETWORK, "routes": [{"to": f"{_ZONE}/128", "via": "2001:db8::1"}]}),
        lambda: _seed({**_NETWORK, "dns_servers": [_ZONE]}),
        lambda: _seed(_NETWORK, dns_servers=[_ZONE]),
        lambda: _bridge(addresses=[f"{_ZONE}/64"]),
        lambda: _bridge(addresses=["2001:db8::7/64"], gateways=[_ZONE]),
        lambda: _bridge(addresses=["2001:db8::7/64"], nameservers=[_ZONE]),
        lambda: _console(_ZONE),
    ],
)
def test_no_zone_gets_into_an_option(problems: t.Callable[[], list[Problem]]) -> None:
    """It stood in the guest's interfaces file as a command of its own."""
    found = problems()
    assert len(found) == 1, found
    assert "is no" in found[0].message


def _bridge(**options: t.Any) -> list[Problem]:
    defaults = {name: option.get("default") for name, option in bridge_options.BRIDGE.items()}
    try:
        bridge_options.parse([{**defaults, "name": "br0", **options}], 60)
    except SpecError as error:
        return list(error.problems)
    return []


def _console(listen: str) -> list[Problem]:
    problems: list[Problem] = []
    options_devices.console_from({"type": "vnc", "listen": listen}, "console", problems)
    return problems


def test_no_zone_of_a_machine() -> None:
    assert firewall.parse_network(_ZONE) is None
    for refuse in (
        lambda: keys.certificate_names("hv1", None, [_ZONE]),
        lambda: image_options.peer_uris([_ZONE]),
    ):
        with pytest.raises((SpecError, PlanRefused)):
            refuse()
