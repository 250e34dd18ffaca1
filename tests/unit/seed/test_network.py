# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The network of a seed: options, what does not fit the VM's NICs, and the document."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import Problem
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed import (
    documents as seed_documents,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed import network as seed_network
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.specification import (
    from_options,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.types import (
    NicConfig,
    Route,
    Seed,
    SeededNic,
)

KEYS = ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f",)
MAC = "52:01:02:03:04:05"
NICS = [
    SeededNic("eth0", MAC),
    SeededNic("eth1", "52:01:02:03:04:06"),
    SeededNic("eth2", "52:01:02:03:04:07"),
]
STATIC = {"name": "eth0", "addresses": ["192.0.2.10/24"]}
ALONE = {"name": "eth0", "addresses": ["192.0.2.10/32"]}


def read(network: t.Any, **more: t.Any) -> tuple[Seed, list[Problem]]:
    problems: list[Problem] = []
    return from_options({"network": network, **more}, "seed", KEYS, problems), problems


GOOD: list[tuple[t.Any, NicConfig]] = [
    ({"name": "eth0"}, NicConfig("eth0")),
    ({"mac": MAC.upper()}, NicConfig(mac=MAC)),
    (STATIC, NicConfig("eth0", dhcp4=False, addresses=("192.0.2.10/24",))),
    (
        {**STATIC, "addresses": "192.0.2.10/24,2001:DB8::a/64"},
        NicConfig("eth0", dhcp4=False, addresses=("192.0.2.10/24", "2001:db8::a/64")),
    ),
    (
        {
            **STATIC,
            "gateway": "192.0.2.1",
            "dns_servers": ["192.0.2.53", "2001:db8::53"],
            "dns_search": "example.org",
            "mtu": "9000",
        },
        NicConfig(
            "eth0",
            dhcp4=False,
            addresses=("192.0.2.10/24",),
            gateways=("192.0.2.1",),
            dns_servers=("192.0.2.53", "2001:db8::53"),
            dns_search=("example.org",),
            mtu=9000,
        ),
    ),
    (
        {"name": "eth0", "addresses": ["2001:db8::a/64"], "gateway": "fe80::1"},
        NicConfig("eth0", dhcp4=True, addresses=("2001:db8::a/64",), gateways=("fe80::1",)),
    ),
    (
        {**STATIC, "dhcp4": True, "dhcp6": True},
        NicConfig("eth0", dhcp4=True, dhcp6=True, addresses=("192.0.2.10/24",)),
    ),
    (
        {**STATIC, "routes": [{"to": "198.51.100.0/24", "via": "192.0.2.254", "metric": 50}]},
        NicConfig(
            "eth0",
            dhcp4=False,
            addresses=("192.0.2.10/24",),
            routes=(Route("198.51.100.0/24", "192.0.2.254", 50),),
        ),
    ),
    (
        {"name": "eth0", "addresses": ["192.0.2.0/31"], "gateway": "192.0.2.1"},
        NicConfig("eth0", dhcp4=False, addresses=("192.0.2.0/31",), gateways=("192.0.2.1",)),
    ),
    (
        {
            "name": "eth0",
            "addresses": ["192.0.2.10/32", "192.0.2.11/32", "2001:db8::a/128"],
            "gateway": ["198.51.100.1", "2001:db8:1::1"],
            "routes": [{"to": "10.0.0.0/8", "via": "198.51.100.2"}],
        },
        NicConfig(
            "eth0",
            dhcp4=False,
            addresses=("192.0.2.10/32", "192.0.2.11/32", "2001:db8::a/128"),
            gateways=("198.51.100.1", "2001:db8:1::1"),
            routes=(Route("10.0.0.0/8", "198.51.100.2"),),
        ),
    ),
]


@pytest.mark.parametrize(("entry", "expected"), GOOD, ids=lambda value: str(value)[:40])
def test_good(entry: t.Any, expected: NicConfig) -> None:
    seed, problems = read([entry])
    assert problems == []
    assert seed.network == (expected,)


def test_a_mapping_by_name_is_the_same_as_a_list() -> None:
    assert read({"eth0": {"addresses": ["192.0.2.10/24"]}})[0].network == read([STATIC])[0].network


BAD: list[tuple[t.Any, str, str]] = [
    ("eth0", "network", "not a list"),
    ({"name": "eth0", "mac": MAC}, "network[0].name", "either its name or its mac"),
    ({}, "network[0].name", "either its name or its mac"),
    ({"mac": "52:01"}, "network[0].mac", "six pairs"),
    ({"name": "eth0", "adresses": []}, "network[0].adresses", "did you mean addresses?"),
    ({"name": "eth0", "addresses": ["192.0.2.10"]}, "network[0].addresses[0]", "no prefix length"),
    (
        {"name": "eth0", "addresses": ["192.0.2.300/24"]},
        "network[0].addresses[0]",
        "not an address",
    ),
    (
        {"name": "eth0", "addresses": ["192.0.2.0/24"]},
        "network[0].addresses[0]",
        "network or broadcast address",
    ),
    ({"name": "eth0", "addresses": ["192.0.2.255/24"]}, "network[0].addresses[0]", "broadcast"),
    ({"name": "eth0", "addresses": ["127.0.0.1/8"]}, "network[0].addresses[0]", "loopback"),
    ({"name": "eth0", "addresses": ["ff02::1/64"]}, "network[0].addresses[0]", "multicast"),
    (
        {"name": "eth0", "addresses": ["192.0.2.9/24", "192.0.2.9/24"]},
        "network[0].addresses[1]",
        "twice",
    ),
    ({**STATIC, "gateway": "192.0.3.1"}, "network[0].gateway[0]", "not in the NIC's network"),
    ({**STATIC, "gateway": "192.0.2.10"}, "network[0].gateway[0]", "own address"),
    ({**ALONE, "gateway": "192.0.2.10"}, "network[0].gateway[0]", "own address"),
    ({**ALONE, "gateway": "127.0.0.1"}, "network[0].gateway[0]", "cannot be a router's"),
    ({**ALONE, "gateway": "224.0.0.1"}, "network[0].gateway[0]", "cannot be a router's"),
    ({**ALONE, "gateway": "255.255.255.255"}, "network[0].gateway[0]", "cannot be a router's"),
    ({**ALONE, "gateway": "2001:db8::1"}, "network[0].gateway[0]", "static IPv6 address"),
    (
        {"name": "eth0", "addresses": ["192.0.2.10/24", "192.0.2.77/32"], "gateway": "192.0.3.1"},
        "network[0].gateway[0]",
        "not in the NIC's network",
    ),
    ({**STATIC, "gateway": "2001:db8::1"}, "network[0].gateway[0]", "static IPv6 address"),
    ({**STATIC, "gateway": "router"}, "network[0].gateway[0]", "not an address"),
    (
        {**STATIC, "gateway": ["192.0.2.1", "192.0.2.2"]},
        "network[0].gateway[1]",
        "second IPv4 gateway",
    ),
    ({"name": "eth0", "gateway": "192.0.2.1"}, "network[0].gateway[0]", "with DHCP"),
    (
        {**STATIC, "routes": [{"to": "x", "via": "192.0.2.1"}]},
        "network[0].routes[0].to",
        "not a network",
    ),
    (
        {**STATIC, "routes": [{"to": "10.0.0.0/8", "via": "::1"}]},
        "network[0].routes[0].via",
        "IPv4",
    ),
    (
        {**STATIC, "routes": [{"to": "10.0.0.0/8", "via": "10.0.0.1"}]},
        "network[0].routes[0].via",
        "not in",
    ),
    ({**STATIC, "dns_servers": ["ns1"]}, "network[0].dns_servers[0]", "not an address"),
    ({**STATIC, "dns_search": ["a b"]}, "network[0].dns_search[0]", "example.org"),
    ({**STATIC, "mtu": 100}, "network[0].mtu", "576 to 65535"),
    ({**STATIC, "dhcp4": "perhaps"}, "network[0].dhcp4", "neither true nor false"),
]


@pytest.mark.parametrize(("entry", "path", "words"), BAD, ids=lambda value: str(value)[:40])
def test_bad(entry: t.Any, path: str, words: str) -> None:
    _seed, problems = read([entry] if isinstance(entry, dict) else entry)
    assert [problem.path for problem in problems] == [f"seed.{path}"]
    assert words in problems[0].message


def test_a_nic_or_an_address_given_twice() -> None:
    _seed, problems = read(
        [STATIC, {"name": "eth0"}, {"name": "eth1", "addresses": ["192.0.2.10/25"]}]
    )
    assert [problem.path for problem in problems] == ["seed.network[1]", "seed.network[2]"]
    assert all("also that of seed.network[0]" in problem.message for problem in problems)


def test_what_does_not_fit_the_vm() -> None:
    def wrong(*network: NicConfig) -> list[str]:
        found = seed_network.problems(Seed(network=network), NICS, "seed")
        return [f"{problem.path} {problem.message}" for problem in found]

    assert wrong(NicConfig("eth0"), NicConfig(mac=NICS[1].mac)) == []
    (unknown,) = wrong(NicConfig("eth7"))
    assert unknown.startswith("seed.network unknown NIC 'eth7'")
    assert "eth0, eth1, eth2" in unknown
    (unknown,) = wrong(NicConfig(mac="52:00:00:00:00:01"))
    assert NICS[2].mac in unknown
    (same,) = wrong(NicConfig("eth0"), NicConfig(mac=MAC))
    assert "are the same NIC" in same


def test_two_nics_of_one_vm_with_one_mac_address() -> None:
    assert seed_network.twins(NICS) == []
    for name in ("eth9", NICS[1].name):
        (found,) = seed_network.twins([*NICS, NICS[1]._replace(name=name)])
        assert found.path == "network"
        for word in (NICS[1].mac, "give one of them another"):
            assert word in found.message


def test_two_static_nics_and_one_by_dhcp() -> None:
    seed, problems = read(
        [
            STATIC,
            {"mac": NICS[1].mac, "addresses": ["198.51.100.2/24", "2001:db8::2/64"],
             "gateway": ["198.51.100.1", "2001:db8::1"], "dns_search": ["b.example"],
             "routes": [{"to": "203.0.113.0/24", "via": "198.51.100.9", "metric": 5}], "mtu": 1400},
        ],
        dns_servers=["192.0.2.53"],
        dns_search=["example.org"],
    )  # fmt: skip
    assert problems == []
    assert seed_documents.network(seed, NICS) == {
        "version": 2,
        "ethernets": {
            "eth0": {
                "match": {"macaddress": MAC},
                "set-name": "eth0",
                "dhcp4": False,
                "addresses": ["192.0.2.10/24"],
                "optional": True,
            },
            # the one with the gateway is waited for, and asks the names
            "eth1": {
                "match": {"macaddress": NICS[1].mac},
                "set-name": "eth1",
                "dhcp4": False,
                "addresses": ["198.51.100.2/24", "2001:db8::2/64"],
                "routes": [
                    {"to": "0.0.0.0/0", "via": "198.51.100.1"},
                    {"to": "::/0", "via": "2001:db8::1"},
                    {"to": "203.0.113.0/24", "via": "198.51.100.9", "metric": 5},
                ],
                "nameservers": {"addresses": ["192.0.2.53"], "search": ["b.example"]},
                "mtu": 1400,
            },
            "eth2": {
                "match": {"macaddress": NICS[2].mac},
                "set-name": "eth2",
                "dhcp4": True,
                "dhcp-identifier": "mac",
                "optional": True,
            },
        },
    }


def test_router_outside_a_single_address_is_on_the_link() -> None:
    def routes(*addresses: str) -> t.Any:
        entry = {
            "name": "eth0",
            "addresses": list(addresses),
            "gateway": ["192.0.2.1", "fe80::1"],
            "routes": [{"to": "203.0.113.0/24", "via": "192.0.2.1", "metric": 5}],
        }
        seed, problems = read([entry])
        assert problems == []
        ethernets = seed_documents.network(seed, NICS[:1])["ethernets"]
        assert isinstance(ethernets, dict)
        return ethernets["eth0"]["routes"]

    default = {"to": "0.0.0.0/0", "via": "192.0.2.1"}
    link_local = {"to": "::/0", "via": "fe80::1"}
    other = {"to": "203.0.113.0/24", "via": "192.0.2.1", "metric": 5}
    assert routes("192.0.2.10/24", "2001:db8::a/128") == [default, link_local, other]
    on_link = {"on-link": True}
    assert routes("192.0.2.10/32", "2001:db8::a/128") == [
        {**default, **on_link},
        link_local,
        {**other, **on_link},
    ]


def test_without_a_word_every_nic_has_dhcp_and_the_first_is_waited_for() -> None:
    ethernets = seed_documents.network(Seed(), NICS[:2])["ethernets"]
    dhcp = {"dhcp4": True, "dhcp-identifier": "mac"}
    assert ethernets == {
        "eth0": {"match": {"macaddress": MAC}, "set-name": "eth0", **dhcp},
        "eth1": {
            **{"match": {"macaddress": NICS[1].mac}, "set-name": "eth1"},
            **{**dhcp, "optional": True},
        },
    }
    assert seed_documents.network(Seed(), []) == {"version": 2, "ethernets": {}}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["eth0", "lan"], ["eth0", "lan"]),
        (["a-name-that-is-too-long", "eth0"], ["eth0", "eth1"]),
        (["eth0", "lan", "eth1"], ["eth0", "lan", "eth2"]),
        (["lo", "all", "1"], ["eth0", "eth1", "eth2"]),
        (["management.net", "default"], ["eth0", "eth1"]),
        (["exactly-15-long", "sixteen-is-much-"], ["exactly-15-long", "eth1"]),
    ],
)
def test_nic_is_named_in_the_guest_by_every_version_of_cloud_init(
    names: list[str], expected: list[str]
) -> None:
    """Before 22.2, cloud-init takes the key for the name where there is no set-name."""
    nics = [SeededNic(name, f"52:54:00:00:00:{number:02x}") for number, name in enumerate(names)]
    ethernets = seed_documents.network(Seed(), nics)["ethernets"]
    assert isinstance(ethernets, dict)
    assert [ethernets[name]["set-name"] for name in names] == expected
    links = seed_documents.links(nics)
    assert list(links) == [f"/etc/systemd/network/10-fleet-virt-{name}.link" for name in expected]
    for nic, name in zip(nics, expected):
        text = links[f"/etc/systemd/network/10-fleet-virt-{name}.link"]
        assert f"MACAddress={nic.mac}\n" in text
        assert f"\nName={name}\n" in text
