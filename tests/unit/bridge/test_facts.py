# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

from ansible_collections.fleet.virt.plugins.module_utils._fleet.bridge import facts as bridge_facts
from ansible_collections.fleet.virt.plugins.module_utils._fleet.bridge.types import (
    Address,
    Link,
    NetworkFacts,
    Route,
)

# As iproute2 6.1 prints it, with what is not looked at left out
SHOWN = [
    {},
    {"ifname": "lo", "link_type": "loopback", "address": "00:00:00:00:00:00", "addr_info": []},
    {
        "ifname": "eth0",
        "link_type": "ether",
        "address": "52:54:00:00:00:01",
        "master": "br0",
        "addr_info": [],
    },
    {
        "ifname": "br0",
        "link_type": "ether",
        "address": "52:54:00:00:00:01",
        "linkinfo": {"info_kind": "bridge", "info_data": {"stp_state": 1}},
        "addr_info": [
            {"local": "192.0.2.7", "prefixlen": 24, "scope": "global", "dynamic": True},
            {"local": "2001:db8::1", "prefixlen": 64, "scope": "global", "temporary": True},
            {"local": "fe80::1", "prefixlen": 64, "scope": "link"},
        ],
    },
    {
        "ifname": "macvtap0",
        "link": "eth0",
        "link_type": "ether",
        "linkinfo": {"info_kind": "macvtap"},
    },
    {"ifname": "wlan0", "link_type": "ether"},
]
ROUTES = [
    {"dst": "default", "gateway": "192.0.2.1", "dev": "br0", "protocol": "dhcp", "metric": 100},
    {"dst": "192.0.2.0/24", "dev": "br0", "protocol": "kernel"},
]


def test_links() -> None:
    found = bridge_facts.links(json.dumps(SHOWN), ["wlan0"])
    assert sorted(found) == ["br0", "eth0", "lo", "macvtap0", "wlan0"]
    assert found["br0"] == Link(
        "br0",
        "52:54:00:00:00:01",
        kind="bridge",
        stp=True,
        addresses=(Address("192.0.2.7/24", dynamic=True),),
    )
    assert found["eth0"].master == "br0"
    assert not found["lo"].ethernet
    assert (found["macvtap0"].kind, found["macvtap0"].lower) == ("macvtap", "eth0")
    assert found["wlan0"].wireless


def test_routes_without_those_that_come_by_themselves() -> None:
    assert bridge_facts.routes(json.dumps(ROUTES), "") == (
        Route("default", "192.0.2.1", "br0", 100, "dhcp"),
    )


def test_default_link_is_the_cheapest_of_ipv4_first() -> None:
    routes = (
        Route("default", "fe80::1", "eth3", 0),
        Route("default", "192.0.2.1", "eth1", 200),
        Route("default", "192.0.2.1", "eth2", 100),
    )
    assert NetworkFacts({}, routes).default_link == "eth2"
    assert NetworkFacts({}, routes[:1]).default_link == "eth3"
    assert NetworkFacts({}).default_link == ""


def test_nameservers() -> None:
    text = "# nameserver 192.0.2.1\nnameserver 192.0.2.53\nnameserver\t2001:db8::53 # two\n"
    assert bridge_facts.nameservers(text) == ("192.0.2.53", "2001:db8::53")
