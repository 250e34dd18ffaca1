# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of keys that the action refuses before it asks a hypervisor to change anything."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.action import virt_keys
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError

_GOOD = {
    "organization": "fleet",
    "days": 90,
    "ca_days": 3650,
    "renew_days": 30,
    "client_name": "controller",
    "renew": False,
}


def _settings(**changed: t.Any) -> t.Any:
    return virt_keys._settings(t.cast("t.Any", {**_GOOD, **changed}))


def test_settings_in_order_are_taken() -> None:
    taken = _settings()
    assert (taken.organization, taken.days, taken.client_name) == ("fleet", 90, "controller")


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"organization": "a,CN=b"}, "libvirt_keys_organization: 'a,CN=b' .*name pattern"),
        (
            {"days": 30},
            r"renew_days \(30\) must be at least 1 and less than libvirt_keys_days \(30",
        ),
        ({"renew_days": 0}, r"renew_days \(0\) must be at least 1"),
        ({"ca_days": 89}, r"must not exceed libvirt_keys_ca_days \(89\)"),
    ],
)
def test_settings_that_contradict_are_refused(changed: dict[str, t.Any], match: str) -> None:
    with pytest.raises(FleetVirtError, match=match):
        _settings(**changed)
