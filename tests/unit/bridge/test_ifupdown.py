# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.bridge import (
    ifupdown as bridge_ifupdown,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.bridge.types import (
    Link,
    Manager,
    NetworkFacts,
    RequestedBridge,
    Switch,
)

MAIN = bridge_ifupdown.INTERFACES
MANAGER = Manager("ifupdown", MAIN)
MADE = """\
    pre-up [ -d /sys/class/net/br0 ] || ip link add name br0 type bridge stp_state 0 forward_delay 0
"""
WIRED = (
    MADE
    + """\
    pre-up ip link set dev br0 address "$(cat /sys/class/net/eth0/address)"
    pre-up ip link set dev eth0 master br0 up
"""
)
LOOPBACK = "auto lo\niface lo inet loopback\n\n"


def switch(
    text: str, wanted: RequestedBridge | None = None, uplink: str = "eth0"
) -> tuple[Switch, dict[str, str]]:
    facts = NetworkFacts({}, interfaces={MAIN: text})
    link = Link(uplink) if uplink else None
    done, after = bridge_ifupdown.switch(facts, MANAGER, wanted or RequestedBridge("br0"), link)
    return done, dict(after.interfaces)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "auto eth0\niface eth0 inet static\n    address 192.0.2.7/24\n    gateway 192.0.2.1\n",
            "auto eth0\niface eth0 inet manual\n\nauto br0\niface br0 inet static\n"
            "    address 192.0.2.7/24\n    gateway 192.0.2.1\n" + WIRED,
            id="static",
        ),
        pytest.param(
            "allow-hotplug eth0\niface eth0 inet dhcp\n",
            "allow-hotplug eth0\niface eth0 inet manual\n\nauto br0\niface br0 inet dhcp\n" + WIRED,
            id="dhcp",
        ),
        pytest.param(
            "auto eth0\niface eth0 inet dhcp\n"
            "iface eth0 inet6 static\n    address 2001:db8::7/64\n",
            "auto eth0\niface eth0 inet manual\n\nauto br0\niface br0 inet dhcp\n"
            + WIRED
            + "iface br0 inet6 static\n    address 2001:db8::7/64\n",
            id="two families",
        ),
        pytest.param(
            "iface eth0 inet static\n"
            "  mtu 9000\n"
            "  address 192.0.2.7/24\n"
            "  dns-nameservers 192.0.2.53\n"
            "  up ip route add 198.51.100.0/24 via 192.0.2.2 dev eth0\n"
            "  post-up ethtool -K eth0 tso off\n",
            "iface eth0 inet manual\n"
            "  mtu 9000\n"
            "  post-up ethtool -K eth0 tso off\n"
            "\nauto br0\niface br0 inet static\n"
            "  address 192.0.2.7/24\n"
            "  dns-nameservers 192.0.2.53\n"
            "  up ip route add 198.51.100.0/24 via 192.0.2.2 dev br0\n" + WIRED,
            id="the wire's options stay, routes move",
        ),
        pytest.param(
            "auto eth0 eth0:1\niface eth0 inet dhcp\n\n# second\niface eth0:1 inet static\n"
            "  address 192.0.2.8/24\n",
            "auto eth0 br0:1\niface eth0 inet manual\n\nauto br0\niface br0 inet dhcp\n"
            + WIRED
            + "\n# second\niface br0:1 inet static\n  address 192.0.2.8/24\n",
            id="label",
        ),
    ],
)
def test_stanzas_become_the_bridges(before: str, after: str) -> None:
    done, files = switch(LOOPBACK + before)
    assert files[MAIN] == LOOPBACK + after
    (file,) = done.files
    assert (file.before, file.after) == (LOOPBACK + before, LOOPBACK + after)


def test_a_last_line_without_its_end() -> None:
    _, files = switch("iface eth0 inet static\n  address 192.0.2.7/24")
    assert "  address 192.0.2.7/24\n    pre-up" in files[MAIN]


def test_other_interfaces_stay_byte_for_byte() -> None:
    other = "# ours\nauto eth1\niface eth1 inet static\n\taddress 198.51.100.1/24\n\n"
    _, files = switch(f"{other}iface eth0 inet dhcp\n")
    assert files[MAIN].startswith(other)


def test_own_addresses_replace_the_uplinks() -> None:
    wanted = RequestedBridge(
        "br0",
        addresses=("203.0.113.5/24", "2001:db8::5/64"),
        gateways=("203.0.113.1",),
        nameservers=("203.0.113.53",),
    )
    _, files = switch("auto eth0\niface eth0 inet static\n  address 192.0.2.7/24\n", wanted)
    assert files[MAIN] == (
        "auto eth0\niface eth0 inet manual\n\nauto br0\n"
        "iface br0 inet static\n    address 203.0.113.5/24\n    gateway 203.0.113.1\n"
        f"    dns-nameservers 203.0.113.53\n{WIRED}"
        "iface br0 inet6 static\n    address 2001:db8::5/64\n"
    )


def test_a_bridge_without_uplink_is_added_at_the_end() -> None:
    done, files = switch(LOOPBACK, uplink="")
    assert files[MAIN] == f"{LOOPBACK}auto br0\niface br0 inet manual\n{MADE}"
    assert done.leave == ()
    assert done.enter == ("ifup br0",)


def test_the_second_bridge_sees_the_first() -> None:
    facts = NetworkFacts({}, interfaces={MAIN: f"{LOOPBACK}iface eth0 inet dhcp\n"})
    _, facts = bridge_ifupdown.switch(facts, MANAGER, RequestedBridge("br0"), Link("eth0"))
    _, facts = bridge_ifupdown.switch(facts, MANAGER, RequestedBridge("br1"), None)
    assert "iface br0 inet dhcp" in facts.interfaces[MAIN]
    assert "iface br1 inet manual" in facts.interfaces[MAIN]


def test_commands_leave_before_and_come_back_after() -> None:
    done, _ = switch("auto eth0\niface eth0 inet dhcp\n")
    assert done.leave[:2] == ("ifdown --force eth0", "ip address flush dev eth0 scope global")
    assert any('s/interface "eth0"/interface "br0"/' in line for line in done.leave)
    assert done.enter[-1] == "ifup br0"
    assert done.undo[:2] == ("ifdown --force br0", "ip link del dev br0")
    assert done.restore == ("ifup --force eth0",)


def test_stp() -> None:
    _, files = switch("iface eth0 inet dhcp\n", RequestedBridge("br0", stp=True))
    assert "type bridge stp_state 1\n" in files[MAIN]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("iface eth0 inet static inherits common\n", "write the stanza out in full"),
        ("iface br0 inet dhcp\niface eth0 inet dhcp\n", "has a stanza for br0"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(PlanRefused, match=message):
        switch(text)


def test_known_addresses() -> None:
    text = (
        "iface eth0 inet static\n address 192.0.2.7\n netmask 255.255.255.0\n"
        " up ip addr add 192.0.2.9/32 dev $IFACE\n"
        "iface eth0:1 inet static\n address 192.0.2.8/24\n"
        "iface eth1 inet static\n address 192.0.2.99/24\n"
        "iface eth0 inet6 static\n address 2001:DB8::7\n netmask 64\n"
    )
    facts = NetworkFacts({}, interfaces={MAIN: text})
    assert bridge_ifupdown.known(facts, MANAGER, "eth0") == {
        "192.0.2.7/24",
        "192.0.2.8/24",
        "192.0.2.9/32",
        "2001:db8::7/64",
    }


def test_sources() -> None:
    text = "source /etc/network/interfaces.d/*\nsource-directory extra\n# source no\n"
    assert bridge_ifupdown.sources(text) == ["/etc/network/interfaces.d/*", "/etc/network/extra/*"]
