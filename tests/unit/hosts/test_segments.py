# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which segment each kind of NIC is on, from libvirt's XML."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import segments
from ansible_collections.fleet.virt.plugins.module_utils._lxml import parse

_NETWORKS: dict[str, t.Any] = {
    "default": {"bridge": "virbr0", "forward": "nat"},
    "alone": {"bridge": "virbr1", "forward": None},
    "routed": {"bridge": "virbr2", "forward": "route"},
    "lan": {"bridge": "br0", "forward": "bridge"},
    "macvtap": {"bridge": None, "forward": "bridge"},
}


@pytest.mark.parametrize(
    ("nic", "expected"),
    [
        ("<interface type='bridge'><source bridge='br0'/></interface>", ["br0"]),
        (
            "<interface type='bridge'><source bridge='br0'/><vlan><tag id='12'/></vlan>"
            "</interface>",
            ["br0, VLAN 12"],
        ),
        ("<interface type='network'><source network='lan'/></interface>", ["br0"]),
        ("<interface type='network'><source network='default'/></interface>", []),
        ("<interface type='network'><source network='alone'/></interface>", []),
        ("<interface type='network'><source network='routed'/></interface>", []),
        ("<interface type='network'><source network='macvtap'/></interface>", []),
        ("<interface type='network'><source network='gone'/></interface>", []),
        ("<interface type='direct'><source dev='eth0' mode='bridge'/></interface>", ["eth0"]),
        ("<interface type='ethernet'/>", []),
        ("<interface type='user'/>", []),
        ("", []),
    ],
)
def test_segment_of_nic_is_bridge_and_vlan(nic: str, expected: list[str]) -> None:
    root = parse(f"<domain><devices>{nic}</devices></domain>", "a domain")
    assert segments.of_nics(segments.nics(root), _NETWORKS) == expected
