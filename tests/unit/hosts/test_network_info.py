# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Virtual networks and host interfaces as facts."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import XmlError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import network_info

FIXTURES = Path(__file__).parents[1] / "fixtures"
NETWORKS: dict[str, dict[str, t.Any]] = {
    "nat": {
        "name": "default",
        "uuid": "dd8fe884-6c02-601e-7551-cca97df1c5df",
        "bridge": "virbr0",
        "forward": "nat",
        "devices": [],
        "portgroups": [],
        "addresses": ["192.168.122.1/24", "2001:db8:ca2:2::1/64"],
        "tags": False,
        "dhcp": True,
    },
    "isolated": {
        "name": "inner",
        "uuid": "0f4ab1c1-2e0c-4a73-8f6c-6f4e5d6c7b8a",
        "bridge": "virbr1",
        "forward": None,
        "devices": [],
        "portgroups": [],
        "addresses": ["10.24.10.1"],
        "tags": False,
        "dhcp": False,
    },
    "portgroups": {
        "name": "ovs",
        "uuid": "81ff0d90-c91e-6742-64da-4a736edb9a8b",
        "bridge": "ovsbr0",
        "forward": "bridge",
        "devices": [],
        "portgroups": ["plain", "blue"],
        "addresses": [],
        "tags": True,
        "dhcp": False,
    },
    "direct": {
        "name": "direct",
        "uuid": "f5b1d6a2-0c3e-4a4b-9c5d-7e8f90a1b2c3",
        "bridge": None,
        "forward": "private",
        "devices": ["eno1", "eno2"],
        "portgroups": [],
        "addresses": [],
        "tags": False,
        "dhcp": False,
    },
}


@pytest.mark.parametrize("name", NETWORKS)
def test_network(name: str) -> None:
    xml = (FIXTURES / "network" / f"{name}.xml").read_text(encoding="utf-8")
    assert network_info.network(xml) == NETWORKS[name]


@pytest.mark.parametrize(
    ("forward", "expected"),
    [("hostdev", True), ("passthrough", True), ("bridge", False), ("private", False)],
)
def test_devices_that_carry_vlan_tags_themselves(forward: str, expected: bool) -> None:
    found = network_info.network(f"<network><name>x</name><forward mode='{forward}'/></network>")
    assert found["tags"] is expected


def test_bridge_and_its_members() -> None:
    xml = (FIXTURES / "interface" / "bridge.xml").read_text(encoding="utf-8")
    assert network_info.interface(xml) == {
        "name": "br0",
        "type": "bridge",
        "mac": None,
        "members": ["eno1", "eno2.42"],
    }


def test_the_test_drivers_own() -> None:
    libvirt = pytest.importorskip("libvirt")
    connection = libvirt.open("test:///default")
    try:
        network = network_info.network(connection.networkLookupByName("default").XMLDesc())
        interface = network_info.interface(connection.interfaceLookupByName("eth1").XMLDesc())
    finally:
        connection.close()
    assert network == {**NETWORKS["nat"], "addresses": ["192.168.122.1/24"]}
    assert interface == {
        "name": "eth1",
        "type": "ethernet",
        "mac": "aa:bb:cc:dd:ee:ff",
        "members": [],
    }


@pytest.mark.parametrize(
    ("xml", "key", "expected"),
    [
        ("<forward/>", "forward", "nat"),
        ("<forward mode='teleport'/>", "forward", "teleport"),
        ("<ip/>", "addresses", []),
        ("<ip address='x'/>", "addresses", []),
        ("<ip address='10.0.0.1' netmask='9.9.9.9'/>", "addresses", []),
        ("<ip address='10.0.0.1' prefix='999999999999999999999'/>", "addresses", []),
        ("<ip address='fe80::1' prefix='64'/>", "addresses", ["fe80::1/64"]),
        ("<portgroup/><portgroup name='a'/>", "portgroups", ["a"]),
        ("", "name", None),
    ],
)
def test_what_makes_no_sense_is_unknown(xml: str, key: str, expected: t.Any) -> None:
    facts = network_info.network(f"<network>{xml}</network>")
    assert facts[key] == expected
    assert list(facts) == list(NETWORKS["nat"])


def test_another_document_is_refused() -> None:
    with pytest.raises(XmlError, match="network n: the document is a <pool>"):
        network_info.network("<pool/>", "network n")
    with pytest.raises(XmlError, match="interface: the document is a <network>"):
        network_info.interface("<network/>")
