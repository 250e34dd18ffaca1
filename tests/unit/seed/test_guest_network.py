# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A seed's network as the files of each backend."""

from __future__ import annotations

import configparser

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed import guest_network
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.documents import (
    configured_nics,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.types import (
    NicConfig,
    Route,
    Seed,
    SeededNic,
)

NICS = [SeededNic("eth0", "52:01:02:03:04:05"), SeededNic("eth1", "52:01:02:03:04:06")]
STATIC = Seed(
    network=(
        NicConfig(
            name="eth1",
            dhcp4=False,
            addresses=("192.0.2.10/24", "2001:db8::10/64"),
            gateways=("192.0.2.1", "2001:db8::1"),
            routes=(Route("198.51.100.0/24", "192.0.2.254", 50),),
            dns_servers=("192.0.2.53", "2001:db8::53"),
            dns_search=("example.org",),
            mtu=1400,
        ),
    ),
)


def texts(backend: str, seed: Seed) -> dict[str, str]:
    found = guest_network.files(backend, configured_nics(seed, NICS))
    assert all(file.text.startswith("# Made by fleet.virt.\n") for file in found)
    return {file.path: file.text for file in found}


def test_networkd_static_and_dhcp() -> None:
    found = texts("networkd", STATIC)
    assert found["/etc/systemd/network/05-fleet-virt-eth1.network"] == (
        "# Made by fleet.virt.\n"
        "[Match]\nMACAddress=52:01:02:03:04:06\nType=!vlan bridge bond\n\n"
        "[Link]\nMTUBytes=1400\n\n"
        "[Network]\nDHCP=no\nAddress=192.0.2.10/24\nAddress=2001:db8::10/64\n"
        "DNS=192.0.2.53\nDNS=2001:db8::53\nDomains=example.org\n\n"
        "[Route]\nDestination=0.0.0.0/0\nGateway=192.0.2.1\n\n"
        "[Route]\nDestination=::/0\nGateway=2001:db8::1\n\n"
        "[Route]\nDestination=198.51.100.0/24\nGateway=192.0.2.254\nMetric=50\n\n"
    )
    assert found["/etc/systemd/network/05-fleet-virt-eth0.network"] == (
        "# Made by fleet.virt.\n"
        "[Match]\nMACAddress=52:01:02:03:04:05\nType=!vlan bridge bond\n\n"
        "[Link]\nRequiredForOnline=no\n\n"
        "[Network]\nDHCP=ipv4\n\n"
        "[DHCPv4]\nClientIdentifier=mac\n\n"
    )


@pytest.mark.parametrize(
    ("dhcp4", "dhcp6", "said"),
    [(True, True, "yes"), (True, False, "ipv4"), (False, True, "ipv6"), (False, False, "no")],
)
def test_networkd_dhcp(dhcp4: bool, dhcp6: bool, said: str) -> None:
    seed = Seed(network=(NicConfig(name="eth0", dhcp4=dhcp4, dhcp6=dhcp6),))
    text = texts("networkd", seed)["/etc/systemd/network/05-fleet-virt-eth0.network"]
    assert f"\nDHCP={said}\n" in text
    assert ("ClientIdentifier=mac" in text) is dhcp4


def test_networkmanager_static_and_dhcp() -> None:
    files = guest_network.files("networkmanager", configured_nics(STATIC, NICS))
    assert [file.mode for file in files] == [0o600, 0o600]
    parsed = {}
    for file in files:
        parser = configparser.ConfigParser()
        parser.read_string(file.text)
        parsed[file.path.rpartition("/")[2]] = parser
    static = parsed["fleet-virt-eth1.nmconnection"]
    assert dict(static["ethernet"]) == {"mac-address": "52:01:02:03:04:06", "mtu": "1400"}
    assert dict(static["ipv4"]) == {
        "method": "manual",
        "address1": "192.0.2.10/24",
        "route1": "0.0.0.0/0,192.0.2.1",
        "route2": "198.51.100.0/24,192.0.2.254,50",
        "dns": "192.0.2.53;",
        "dns-search": "example.org;",
    }
    assert static["ipv6"]["address1"] == "2001:db8::10/64"
    assert static["ipv6"]["route1"] == "::/0,2001:db8::1"
    assert static["ipv6"]["dns"] == "2001:db8::53;"
    dhcp = parsed["fleet-virt-eth0.nmconnection"]
    assert dict(dhcp["ipv4"]) == {"method": "auto", "dhcp-client-id": "mac"}
    assert dhcp["connection"]["type"] == "ethernet"


def test_ifupdown_names_nics_by_their_addresses() -> None:
    found = texts("ifupdown", STATIC)
    assert found.pop("/etc/network/interfaces") == (
        "# Made by fleet.virt.\n"
        "auto lo\niface lo inet loopback\n"
        "\n# eth0\nallow-hotplug nic0\niface nic0 inet dhcp\n"
        "\n# eth1\nauto nic1\n"
        "iface nic1 inet static\n    address 192.0.2.10/24\n"
        "iface nic1 inet6 static\n    address 2001:db8::10/64\n"
        "    pre-up ip link set dev nic1 mtu 1400\n"
        "    dns-nameservers 192.0.2.53 2001:db8::53\n"
        "    dns-search example.org\n"
        "    up ip route replace 0.0.0.0/0 via 192.0.2.1 dev nic1\n"
        "    up ip -6 route replace ::/0 via 2001:db8::1 dev nic1\n"
        "    up ip route replace 198.51.100.0/24 via 192.0.2.254 dev nic1 metric 50\n"
    )
    assert found["/etc/systemd/network/05-fleet-virt-nic1.link"] == (
        "# Made by fleet.virt.\n[Match]\nMACAddress=52:01:02:03:04:06\nType=ether\n\n"
        "[Link]\nName=nic1\n\n"
    )
    assert len(found) == 2


ALONE = Seed(
    network=(
        NicConfig(
            name="eth1",
            dhcp4=False,
            addresses=("192.0.2.10/32", "2001:db8::10/128"),
            gateways=("198.51.100.1", "2001:db8:1::1"),
            routes=(Route("203.0.113.0/24", "198.51.100.1", 50),),
        ),
    ),
)


def test_networkd_router_of_a_single_address_is_on_the_link() -> None:
    text = texts("networkd", ALONE)["/etc/systemd/network/05-fleet-virt-eth1.network"]
    assert text.partition("[Route]")[2] == (
        "\nDestination=0.0.0.0/0\nGateway=198.51.100.1\nGatewayOnLink=yes\n\n"
        "[Route]\nDestination=::/0\nGateway=2001:db8:1::1\nGatewayOnLink=yes\n\n"
        "[Route]\nDestination=203.0.113.0/24\nGateway=198.51.100.1\nGatewayOnLink=yes\n"
        "Metric=50\n\n"
    )


def test_networkmanager_router_of_a_single_address_is_on_the_link() -> None:
    parser = configparser.ConfigParser()
    path = "/etc/NetworkManager/system-connections/fleet-virt-eth1.nmconnection"
    parser.read_string(texts("networkmanager", ALONE)[path])
    assert dict(parser["ipv4"]) == {
        "method": "manual",
        "address1": "192.0.2.10/32",
        "route1": "0.0.0.0/0,198.51.100.1",
        "route1_options": "onlink=true",
        "route2": "203.0.113.0/24,198.51.100.1,50",
        "route2_options": "onlink=true",
    }
    assert parser["ipv6"]["route1"] == "::/0,2001:db8:1::1"
    assert parser["ipv6"]["route1_options"] == "onlink=true"


def test_ifupdown_router_of_a_single_address_is_on_the_link() -> None:
    text = texts("ifupdown", ALONE)["/etc/network/interfaces"]
    assert text.partition("address 2001:db8::10/128\n")[2] == (
        "    up ip route replace 198.51.100.1/32 dev nic1\n"
        "    up ip -6 route replace 2001:db8:1::1/128 dev nic1\n"
        "    up ip route replace 0.0.0.0/0 via 198.51.100.1 dev nic1\n"
        "    up ip -6 route replace ::/0 via 2001:db8:1::1 dev nic1\n"
        "    up ip route replace 203.0.113.0/24 via 198.51.100.1 dev nic1 metric 50\n"
    )


def test_resolv_conf() -> None:
    assert guest_network.resolv_conf(configured_nics(STATIC, NICS)) == (
        "# Made by fleet.virt.\nnameserver 192.0.2.53\nnameserver 2001:db8::53\n"
        "search example.org\n"
    )
    assert guest_network.resolv_conf(configured_nics(Seed(), NICS)) == ""


def test_an_image_without_any_backend() -> None:
    assert guest_network.require(None, []) in guest_network.BACKENDS
    with pytest.raises(PlanRefused, match="neither NetworkManager nor systemd-networkd"):
        guest_network.require(None, configured_nics(Seed(), NICS))
