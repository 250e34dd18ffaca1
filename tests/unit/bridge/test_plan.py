# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.bridge import plan as bridge_plan
from ansible_collections.fleet.virt.plugins.module_utils._fleet.bridge.types import (
    Address,
    Expected,
    Link,
    Manager,
    NetworkFacts,
    RequestedBridge,
    Route,
)

MAC = "52:54:00:00:00:01"
ETH0 = Link("eth0", MAC, addresses=(Address("192.0.2.7/24"),))
INTERFACES = {
    "/etc/network/interfaces": "iface eth0 inet static\n address 192.0.2.7/24\n gateway 192.0.2.1\n"
}
DEFAULT = Route("default", "192.0.2.1", "eth0")
BR0 = RequestedBridge("br0")


def facts(*links: Link, **more: Any) -> NetworkFacts:
    return NetworkFacts(
        {link.name: link for link in links},
        **{
            "routes": (DEFAULT,),
            "managers": {"eth0": Manager("ifupdown")},
            "interfaces": INTERFACES,
            **more,
        },
    )


def test_the_default_bridge() -> None:
    plan = bridge_plan.make([BR0], facts(ETH0, nameservers=("192.0.2.53",)))
    assert plan.bridges == (
        {
            "name": "br0",
            "uplink": "eth0",
            "changed": True,
            "backend": "ifupdown",
            "mac": MAC,
            "addresses": ["192.0.2.7/24"],
        },
    )
    assert plan.expected == (
        Expected(
            "br0", "eth0", MAC, ("192.0.2.7/24",), (("default", "192.0.2.1"),), ("192.0.2.53",)
        ),
    )
    assert plan.switch is not None


@pytest.mark.parametrize(
    "wanted", [BR0, RequestedBridge("br0", "eth0"), RequestedBridge("br0", "none")]
)
def test_a_right_bridge_is_left_alone(wanted: RequestedBridge) -> None:
    bridge = Link("br0", MAC, kind="bridge", addresses=(Address("192.0.2.7/24"),))
    found = facts(bridge, Link("eth0", MAC, master="br0"), managers={}, interfaces={})
    plan = bridge_plan.make([wanted], found)
    assert plan.switch is None
    assert not plan.bridges[0]["changed"]
    assert plan.bridges[0]["addresses"] == ["192.0.2.7/24"]


def test_two_bridges_are_one_switch() -> None:
    plan = bridge_plan.make([BR0, RequestedBridge("br1", "none")], facts(ETH0))
    assert plan.switch is not None
    (file,) = plan.switch.files
    assert file.before == INTERFACES[file.path]
    assert "iface br0 inet static" in (file.after or "")
    assert "iface br1 inet manual" in (file.after or "")
    assert plan.switch.enter[-2:] == ("ifup br0", "ifup br1")


def test_a_spare_card_is_managed_as_the_rest_is() -> None:
    found = facts(ETH0, Link("eth1", "52:54:00:00:00:02"))
    plan = bridge_plan.make([RequestedBridge("br1", "eth1")], found)
    assert plan.bridges[0]["backend"] == "ifupdown"
    assert plan.expected[0].addresses == ()


OTHER = Link("br9", kind="bridge")


@pytest.mark.parametrize(
    ("wanted", "found", "message"),
    [
        (BR0, facts(ETH0, routes=()), "there is no default route"),
        (
            RequestedBridge("br0", "eth7"),
            facts(ETH0),
            "uplink eth7 does not exist; existing interfaces: eth0; set uplink to one of them",
        ),
        (BR0, facts(replace(ETH0, wireless=True)), "eth0 is wireless.* libvirt network with NAT"),
        (BR0, facts(replace(ETH0, ethernet=False)), "eth0 is not an Ethernet device.* with NAT"),
        (BR0, facts(replace(ETH0, kind="bridge")), "eth0 is already a bridge; use that one"),
        (BR0, facts(replace(ETH0, master="br9"), OTHER), r"eth0 is a port of br9 \(bridge\)"),
        (
            BR0,
            facts(ETH0, Link("macvtap0", kind="macvtap", lower="eth0")),
            "already passes its frames to macvtap0",
        ),
        (BR0, facts(ETH0, managers={}), "eth0 is managed by none of ifupdown"),
        (
            BR0,
            facts(replace(ETH0, addresses=(*ETH0.addresses, Address("192.0.2.99/32")))),
            "eth0 has 192.0.2.99/32, which ifupdown .* does not know",
        ),
        (
            RequestedBridge("eth0", "none"),
            facts(ETH0),
            r"eth0 exists and is not a bridge \(a network card\)",
        ),
        (BR0, facts(ETH0, Link("br0", kind="bridge")), "br0 exists but has no uplink"),
        (
            RequestedBridge("br0", "eth0"),
            facts(ETH0, Link("br0", kind="bridge")),
            "br0 exists, but eth0 is not a port of it",
        ),
        (
            RequestedBridge("br0", addresses=("192.0.2.8/24",)),
            facts(Link("eth0", master="br0"), Link("br0", kind="bridge")),
            r"br0 exists, but without 192.0.2.8/24 \(it has none\)",
        ),
        (
            RequestedBridge("br0", stp=True),
            facts(Link("eth0", master="br0"), Link("br0", kind="bridge")),
            "br0 exists, but without stp",
        ),
    ],
)
def test_refused(wanted: RequestedBridge, found: NetworkFacts, message: str) -> None:
    with pytest.raises(PlanRefused, match=message):
        bridge_plan.make([wanted], found)


def test_an_address_from_dhcp_is_known_without_a_file() -> None:
    dynamic = replace(ETH0, addresses=(Address("192.0.2.50/24", dynamic=True),))
    plan = bridge_plan.make([BR0], facts(dynamic))
    assert plan.expected[0].addresses == ("192.0.2.50/24",)


def test_what_routers_advertise_need_not_be_the_same() -> None:
    addresses = (*ETH0.addresses, Address("2001:db8::5054:1/64", dynamic=True))
    plan = bridge_plan.make([BR0], facts(replace(ETH0, addresses=addresses)))
    assert plan.expected[0].addresses == ("192.0.2.7/24",)


EXPECTED = Expected("br0", "eth0", MAC, ("192.0.2.7/24",), (("default", "192.0.2.1"),), ("::1",))
DONE = NetworkFacts(
    {
        "eth0": Link("eth0", MAC, master="br0"),
        "br0": Link("br0", MAC, kind="bridge", addresses=ETH0.addresses),
    },
    (Route("default", "192.0.2.1", "br0"),),
    ("::1",),
)


def test_nothing_is_missing() -> None:
    assert bridge_plan.missing(EXPECTED, DONE) == []


@pytest.mark.parametrize(
    ("after", "message"),
    [
        (NetworkFacts({}), "br0 does not exist"),
        (replace(DONE, links={**DONE.links, "eth0": ETH0}), "eth0 is not a port of br0"),
        (
            replace(DONE, links={**DONE.links, "br0": Link("br0", "52:54:00:00:00:09", "bridge")}),
            f"br0 has the MAC address 52:54:00:00:00:09, not {MAC}",
        ),
        (
            replace(DONE, links={**DONE.links, "br0": Link("br0", MAC, "bridge")}),
            "br0 has no address 192.0.2.7/24",
        ),
        (replace(DONE, routes=(DEFAULT,)), "no route to default via 192.0.2.1 over br0"),
        (replace(DONE, nameservers=()), "the name server ::1 is missing"),
    ],
)
def test_missing(after: NetworkFacts, message: str) -> None:
    assert message in bridge_plan.missing(EXPECTED, after)
