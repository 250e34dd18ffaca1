# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What becomes of the files of networkd, NetworkManager and netplan."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import yaml
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.bridge import (
    netplan as bridge_netplan,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.bridge import (
    networkd as bridge_networkd,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.bridge import (
    networkmanager as bridge_networkmanager,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.bridge.types import (
    Link,
    Manager,
    NetworkFacts,
    RequestedBridge,
    Switch,
)

MAC = "52:54:00:00:00:01"
ETH0 = Link("eth0", MAC)
BR0 = RequestedBridge("br0")
OWN = RequestedBridge(
    "br0",
    stp=True,
    addresses=("203.0.113.5/24", "2001:db8::5/64"),
    gateways=("203.0.113.1",),
    nameservers=("203.0.113.53",),
)


def files(done: tuple[Switch, NetworkFacts]) -> dict[str, str]:
    """The new text of each file by the last part of its path, without the head line."""
    found = {}
    for file in done[0].files:
        text = file.after or ""
        if text.startswith("# Written by fleet.virt: bridge br0\n"):
            text = text.partition("\n")[2]
        found[file.path.rpartition("/")[2]] = text
    return found


# networkd

NETWORK = """\
# the wire
[Match]
Name=en*

[Link]
MTUBytes=9000

[Network]
Address=192.0.2.7/24
Gateway=192.0.2.1
DNS=192.0.2.53
VLAN=eth0.5

[Route]
Destination=198.51.100.0/24
Gateway=192.0.2.2
"""
LAN = Manager("networkd", "/etc/systemd/network/10-lan.network", NETWORK)
NETDEV = f"""\
[NetDev]
Name=br0
Kind=bridge
MACAddress={MAC}

[Bridge]
STP=no
ForwardDelaySec=0
"""


def test_networkd_divides_wire_and_address() -> None:
    done = bridge_networkd.switch(NetworkFacts({}), LAN, BR0, ETH0)
    assert files(done) == {
        "0-fleet-virt-br0.netdev": NETDEV,
        "0-fleet-virt-br0-uplink.network": "[Match]\nName=eth0\n\n[Network]\nBridge=br0\n"
        "LinkLocalAddressing=no\nVLAN=eth0.5\n\n[Link]\nMTUBytes=9000\n",
        "0-fleet-virt-br0.network": "[Match]\nName=br0\n\n[Network]\nAddress=192.0.2.7/24\n"
        "Gateway=192.0.2.1\nDNS=192.0.2.53\n\n[Route]\nDestination=198.51.100.0/24\n"
        "Gateway=192.0.2.2\n",
    }
    assert all(file.before is None for file in done[0].files)
    assert done[0].enter == ("networkctl reload", "networkctl reconfigure eth0")
    assert done[0].undo == ("ip link del dev br0",)


def test_networkd_stays_who_it_is_for_the_dhcp_server() -> None:
    manager = Manager("networkd", LAN.path, "[Network]\nDHCP=yes\n", "", "ff12345678000200ab")
    text = files(bridge_networkd.switch(NetworkFacts({}), manager, BR0, ETH0))[
        "0-fleet-virt-br0.network"
    ]
    assert text.endswith("[DHCPv4]\nIAID=305419896\n\n[DHCPv6]\nIAID=305419896\n")
    by_mac = Manager("networkd", LAN.path, "[Network]\nDHCP=yes\n", "", "01525400000001")
    assert "IAID" not in str(files(bridge_networkd.switch(NetworkFacts({}), by_mac, BR0, ETH0)))


def test_networkd_own_addresses() -> None:
    found = files(bridge_networkd.switch(NetworkFacts({}), LAN, OWN, ETH0))
    assert found["0-fleet-virt-br0.network"] == (
        "[Match]\nName=br0\n\n[Network]\nAddress=203.0.113.5/24\nAddress=2001:db8::5/64\n"
        "Gateway=203.0.113.1\nDNS=203.0.113.53\n"
    )
    assert "STP=yes" in found["0-fleet-virt-br0.netdev"]


def test_networkd_without_uplink() -> None:
    found = files(bridge_networkd.switch(NetworkFacts({}), Manager("networkd"), BR0, None))
    assert found["0-fleet-virt-br0.network"] == (
        "[Match]\nName=br0\n\n[Network]\nLinkLocalAddressing=no\n"
    )
    assert len(found) == 2
    assert "MACAddress" not in found["0-fleet-virt-br0.netdev"]


def test_networkd_files_in_the_way() -> None:
    early = Manager("networkd", "/etc/systemd/network/0-a.network", NETWORK)
    with pytest.raises(PlanRefused, match="sorts before"):
        bridge_networkd.switch(NetworkFacts({}), early, BR0, ETH0)
    there = NetworkFacts({}, existing=frozenset(["/etc/systemd/network/0-fleet-virt-br0.netdev"]))
    with pytest.raises(PlanRefused, match=r"0-fleet-virt-br0\.netdev exists"):
        bridge_networkd.switch(there, LAN, BR0, ETH0)


# NetworkManager

PROFILE = """\
[connection]
id=lan of Bob's
uuid=0c8bb2f0-6a6b-4a2b-8d3e-0d4b4a6b3f10
type=ethernet
zone=public

[ethernet]
mtu=9000

[ipv4]
method=manual
address1=192.0.2.7/24,192.0.2.1
dns=192.0.2.53;
route1=198.51.100.0/24,192.0.2.2

[ipv6]
method=auto
"""
PATH = f"{bridge_networkmanager.FOLDER}/lan of Bob's.nmconnection"
UUID = "0c8bb2f0-6a6b-4a2b-8d3e-0d4b4a6b3f10"
BOBS = Manager("networkmanager", PATH, PROFILE, UUID)


def test_networkmanager_divides_wire_and_address() -> None:
    done = bridge_networkmanager.switch(NetworkFacts({}), BOBS, BR0, ETH0)
    found = files(done)
    assert found["lan of Bob's.nmconnection"] == (
        f"[connection]\nid=lan of Bob's\nuuid={UUID}\ntype=ethernet\ninterface-name=eth0\n"
        "master=br0\nslave-type=bridge\n\n[ethernet]\nmtu=9000\n"
    )
    bridge = found["fleet-virt-br0.nmconnection"]
    assert "type=bridge\ninterface-name=br0\nzone=public\n" in bridge
    assert f"[ethernet]\ncloned-mac-address={MAC}\n" in bridge
    assert bridge.endswith(PROFILE.partition("mtu=9000\n\n")[2])
    assert [file.mode for file in done[0].files] == [0o600, 0o600]
    assert done[0].files[1].before == PROFILE
    quoted = f"{bridge_networkmanager.FOLDER}/lan of Bob'\\''s.nmconnection"
    assert f"nmcli connection load '{quoted}'" in done[0].enter
    assert done[0].restore[-1] == f"nmcli --wait 20 connection up {UUID}"


def test_networkmanager_stays_who_it_is_for_the_dhcp_server() -> None:
    profile = "[connection]\nid=lan\n[ipv4]\nmethod=auto\n[ipv6]\nmethod=auto\n"
    manager = Manager("networkmanager", PATH, profile, UUID, "01:52:54", "aa:bb:cc:dd")
    found = files(bridge_networkmanager.switch(NetworkFacts({}), manager, BR0, ETH0))
    assert found["fleet-virt-br0.nmconnection"].endswith(
        "[ipv4]\nmethod=auto\ndhcp-client-id=01:52:54\n\n"
        "[ipv6]\nmethod=auto\ndhcp-iaid=aa:bb:cc:dd\n"
    )


def test_networkmanager_own_addresses() -> None:
    found = files(bridge_networkmanager.switch(NetworkFacts({}), BOBS, OWN, ETH0))
    assert found["fleet-virt-br0.nmconnection"].endswith(
        "[bridge]\nstp=true\n\n"
        "[ipv4]\nmethod=manual\naddress1=203.0.113.5/24\ngateway=203.0.113.1\ndns=203.0.113.53;\n\n"
        "[ipv6]\nmethod=manual\naddress1=2001:db8::5/64\n"
    )


def test_networkmanager_spare_card() -> None:
    done = bridge_networkmanager.switch(NetworkFacts({}), Manager("networkmanager"), BR0, ETH0)
    port = files(done)["fleet-virt-br0-port.nmconnection"]
    assert "type=ethernet\ninterface-name=eth0\nmaster=br0\n" in port
    assert all(file.before is None for file in done[0].files)


def test_networkmanager_profile_elsewhere() -> None:
    memory = Manager("networkmanager", "", PROFILE, UUID)
    with pytest.raises(PlanRefused, match=r"is in memory only.*nmcli connection modify"):
        bridge_networkmanager.switch(NetworkFacts({}), memory, BR0, ETH0)


# netplan

PLAN = {
    "network": {
        "version": 2,
        "ethernets": {
            "lan": {
                "match": {"macaddress": MAC},
                "set-name": "eth0",
                "mtu": 9000,
                "addresses": ["192.0.2.7/24", {"192.0.2.8/24": {"label": "eth0:1"}}],
                "routes": [{"to": "default", "via": "192.0.2.1"}],
                "nameservers": {"addresses": ["192.0.2.53"], "search": []},
            },
            "eth1": {"dhcp4": True},
        },
    }
}
NETPLAN = Manager("netplan", "/run/systemd/network/10-netplan-lan.network", NETWORK, "lan")
YAML = "/etc/netplan/50-cloud-init.yaml"


def netplan(data: Any, path: str = YAML) -> NetworkFacts:
    return NetworkFacts({}, netplan={path: ("former", data)})


def test_netplan_moves_the_addressing() -> None:
    done = bridge_netplan.switch(netplan(PLAN), NETPLAN, BR0, ETH0)
    (file,) = done[0].files
    assert (file.path, file.before) == (YAML, "former")
    lan = PLAN["network"]["ethernets"]["lan"]  # type: ignore[index]
    assert yaml.safe_load(file.after or "") == {
        "network": {
            "version": 2,
            "ethernets": {
                "lan": {key: lan[key] for key in ("match", "set-name", "mtu")},
                "eth1": {"dhcp4": True},
            },
            "bridges": {
                "br0": {
                    "interfaces": ["lan"],
                    "macaddress": MAC,
                    "parameters": {"stp": False, "forward-delay": 0},
                    **{key: lan[key] for key in ("addresses", "routes", "nameservers")},
                }
            },
        }
    }
    assert done[0].boot == ("netplan generate",)


def test_netplan_several_files_keep_their_part() -> None:
    facts = NetworkFacts(
        {},
        netplan={
            "/etc/netplan/1.yaml": ("", {"network": {"ethernets": {"lan": {"dhcp4": True}}}}),
            "/etc/netplan/2.yaml": (
                "",
                {"network": {"ethernets": {"lan": {"addresses": ["192.0.2.7/24"]}}}},
            ),
            "/etc/netplan/3.yaml": ("", {"network": {"ethernets": {"eth1": {"dhcp4": True}}}}),
        },
    )
    found = files(bridge_netplan.switch(facts, NETPLAN, BR0, ETH0))
    assert sorted(found) == ["1.yaml", "2.yaml"]
    bridges = [yaml.safe_load(found[name])["network"]["bridges"]["br0"] for name in sorted(found)]
    assert bridges[0]["dhcp4"] is True
    assert bridges[1] == {"addresses": ["192.0.2.7/24"]}


def test_netplan_stays_who_it_is_for_the_dhcp_server() -> None:
    manager = Manager("netplan", NETPLAN.path, NETWORK, "lan", "ff12345678000200ab")
    done = bridge_netplan.switch(netplan(PLAN), manager, BR0, ETH0)
    path = "/etc/systemd/network/10-netplan-br0.network.d/fleet-virt.conf"
    assert done[0].files[-1].path == path
    assert "[DHCPv4]\nIAID=305419896\n" in files(done)["fleet-virt.conf"]


def test_netplan_own_addresses() -> None:
    found = files(bridge_netplan.switch(netplan(PLAN), NETPLAN, OWN, ETH0))
    assert yaml.safe_load(found["50-cloud-init.yaml"])["network"]["bridges"]["br0"] == {
        "interfaces": ["lan"],
        "macaddress": MAC,
        "parameters": {"stp": True},
        "dhcp4": False,
        "addresses": ["203.0.113.5/24", "2001:db8::5/64"],
        "routes": [{"to": "0.0.0.0/0", "via": "203.0.113.1"}],
        "nameservers": {"addresses": ["203.0.113.53"]},
    }


def test_netplan_without_uplink_is_a_file_of_its_own() -> None:
    done = bridge_netplan.switch(netplan(PLAN), Manager("netplan"), BR0, None)
    assert [file.path for file in done[0].files] == [bridge_netplan.FILE]
    _, after = bridge_netplan.switch(done[1], Manager("netplan"), RequestedBridge("br1"), None)
    _, data = after.netplan[bridge_netplan.FILE]
    assert sorted(data["network"]["bridges"]) == ["br0", "br1"]


@pytest.mark.parametrize("data", [None, {"network": None}, {"network": {"bridges": None}}])
def test_netplan_takes_a_section_that_is_there_and_empty(data: Any) -> None:
    facts = netplan(data, bridge_netplan.FILE)
    done = bridge_netplan.switch(facts, Manager("netplan"), BR0, None)
    found = yaml.safe_load(files(done)["90-fleet-virt.yaml"])
    assert list(found["network"]["bridges"]) == ["br0"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"bridges": {"br0": {}}}, "defines it, but it is not up"),
        ({"renderer": "NetworkManager"}, "hands the network to NetworkManager"),
    ],
)
def test_netplan_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanRefused, match=message):
        bridge_netplan.switch(netplan({"network": more}), NETPLAN, BR0, ETH0)


@pytest.mark.parametrize(
    "data",
    [
        {"a": {"b": [1, 2.5, True, None, "yes", "plain", "12:30", "with: colon", ""]}},
        {"a": [], "b": {}, "c": [{"d": 1, "e": [{"f": "#"}]}, [["g"]]]},
        {"norway": "no", "null": "~", "1e3": "1e3", "quote": 'a "b" \\c', "umlaut": "\u00e4"},
    ],
)
def test_yaml_reads_back(data: Any) -> None:
    assert yaml.safe_load(bridge_netplan.render(data)) == data


@pytest.mark.parametrize(
    ("backend", "facts", "manager", "addresses"),
    [
        (bridge_networkd, NetworkFacts({}), LAN, {"192.0.2.7/24"}),
        (bridge_networkmanager, NetworkFacts({}), BOBS, {"192.0.2.7/24"}),
        (bridge_netplan, netplan(PLAN), NETPLAN, {"192.0.2.7/24", "192.0.2.8/24"}),
    ],
)
def test_known_addresses(
    backend: ModuleType, facts: NetworkFacts, manager: Manager, addresses: set[str]
) -> None:
    assert backend.known(facts, manager, "eth0") == addresses
