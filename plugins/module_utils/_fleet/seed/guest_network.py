# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The network of a seed as configuration files of the guest's network backend.

Every NIC is matched by its MAC address, which also identifies its DHCP client: the default is the
machine id, with which a VM recreated with the same address would get a different lease.
"""

from __future__ import annotations

import ipaddress
import typing as t

from ..._errors import PlanRefused
from .documents import ConfiguredNic
from .types import NicConfig

BACKENDS = ("networkmanager", "networkd", "ifupdown")
INTERFACES = "/etc/network/interfaces"
_NETWORKD = "/etc/systemd/network"
_KEYFILES = "/etc/NetworkManager/system-connections"
_HEADER = "# Made by fleet.virt.\n"
_ANY = {4: "0.0.0.0/0", 6: "::/0"}


class NetworkFile(t.NamedTuple):
    """A file owned by root."""

    path: str
    text: str
    mode: int = 0o644


def files(backend: str, nics: t.Sequence[ConfiguredNic]) -> list[NetworkFile]:
    """The files that configure ``nics`` for ``backend``, one of BACKENDS."""
    if backend == "networkd":
        return [_networkd(configured) for configured in nics]
    if backend == "networkmanager":
        return [_networkmanager(configured) for configured in nics]
    return _ifupdown(nics)


def resolv_conf(nics: t.Sequence[ConfiguredNic]) -> str:
    """resolv.conf for a guest whose network configuration does not write one; empty if unknown."""
    servers = dict.fromkeys(
        server for configured in nics for server in configured.config.dns_servers
    )
    search = dict.fromkeys(domain for configured in nics for domain in configured.config.dns_search)
    lines = [f"nameserver {server}" for server in servers]
    if lines and search:
        lines.append(f"search {' '.join(search)}")
    return _HEADER + "".join(f"{line}\n" for line in lines) if lines else ""


def _routes(config: NicConfig) -> list[tuple[str, str, int | None]]:
    """Network, router and metric, default routes first."""
    gateways = [(_ANY[6 if ":" in gateway else 4], gateway, None) for gateway in config.gateways]
    return [*gateways, *((route.to, route.via, route.metric) for route in config.routes)]


def _section(name: str, *lines: tuple[str, str | int | None]) -> str:
    """A section with the lines that have a value; empty without any."""
    given = [f"{key}={value}\n" for key, value in lines if value not in (None, "", False)]
    return f"[{name}]\n{''.join(given)}\n" if given else ""


def _networkd(configured: ConfiguredNic) -> NetworkFile:
    config = configured.config
    dhcp = {(True, True): "yes", (True, False): "ipv4", (False, True): "ipv6"}
    text = _section(
        "Match",
        ("MACAddress", configured.nic.mac),
        ("Type", "!vlan bridge bond"),  # these may have the MAC address of their NIC
    )
    text += _section(
        "Link",
        ("MTUBytes", config.mtu),
        ("RequiredForOnline", None if configured.first else "no"),
    )
    text += _section(
        "Network",
        ("DHCP", dhcp.get((config.dhcp4, config.dhcp6), "no")),
        *(("Address", address) for address in config.addresses),
        *(("DNS", server) for server in config.dns_servers),
        ("Domains", " ".join(config.dns_search)),
    )
    if config.dhcp4:
        text += _section("DHCPv4", ("ClientIdentifier", "mac"))
    for to, via, metric in _routes(config):
        # any other router outside the NIC's networks was refused when the seed was read
        link = "yes" if config.on_link(via) else None
        text += _section(
            "Route",
            ("Destination", to),
            ("Gateway", via),
            ("GatewayOnLink", link),
            ("Metric", metric),
        )
    # before the image's files; the first one that matches a NIC is used
    return NetworkFile(f"{_NETWORKD}/05-fleet-virt-{configured.nic.name}.network", _HEADER + text)


def _networkmanager(configured: ConfiguredNic) -> NetworkFile:
    config, name = configured.config, f"fleet-virt-{configured.nic.name}"
    text = _section(
        "connection",
        ("id", name),
        ("type", "ethernet"),
        ("autoconnect-priority", 100),  # before the image's own profiles
        ("wait-device-timeout", 60000 if configured.first else None),
    )
    text += _section("ethernet", ("mac-address", configured.nic.mac.upper()), ("mtu", config.mtu))
    for version in (4, 6):
        addresses = [address for address in config.addresses if _version(address) == version]
        routes = [route for route in _routes(config) if _version(route[0]) == version]
        servers = [server for server in config.dns_servers if _version(server) == version]
        if version == 4:
            method = "auto" if config.dhcp4 else "manual" if addresses else "disabled"
        else:
            method = "auto"  # as in networkd: router advertisements, DHCP if they say so
        text += _section(
            f"ipv{version}",
            ("method", method),
            *((f"address{number}", address) for number, address in enumerate(addresses, 1)),
            *(
                (f"route{number}", f"{to},{via}" + (f",{metric}" if metric is not None else ""))
                for number, (to, via, metric) in enumerate(routes, 1)
            ),
            *(
                (f"route{number}_options", "onlink=true")
                for number, (_to, via, _metric) in enumerate(routes, 1)
                if config.on_link(via)
            ),
            ("dns", "".join(f"{server};" for server in servers)),
            ("dns-search", "".join(f"{domain};" for domain in config.dns_search)),
            ("dhcp-client-id", "mac" if version == 4 and method == "auto" else None),
        )
    # NetworkManager ignores files that others may read
    return NetworkFile(f"{_KEYFILES}/{name}.nmconnection", _HEADER + text, 0o600)


def _ifupdown(nics: t.Sequence[ConfiguredNic]) -> list[NetworkFile]:
    """ifupdown identifies NICs by name only: each gets a name that the kernel never uses."""
    text = f"{_HEADER}auto lo\niface lo inet loopback\n"
    links: list[NetworkFile] = []
    for number, configured in enumerate(nics):
        name = f"nic{number}"
        match = _section("Match", ("MACAddress", configured.nic.mac), ("Type", "ether"))
        link = match + _section("Link", ("Name", name))
        links.append(NetworkFile(f"{_NETWORKD}/05-fleet-virt-{name}.link", _HEADER + link))
        # the boot waits for what is "auto"
        text += (
            f"\n# {configured.nic.name}\n{'auto' if configured.first else 'allow-hotplug'} {name}\n"
        )
        text += _stanzas(name, configured.config)
    return [NetworkFile(INTERFACES, text), *links]


def _stanzas(name: str, config: NicConfig) -> str:
    # DHCP stanzas have no option for it
    rest = [f"pre-up ip link set dev {name} mtu {config.mtu}"] if config.mtu is not None else []
    if config.dns_servers:
        rest.append(f"dns-nameservers {' '.join(config.dns_servers)}")
    if config.dns_search:
        rest.append(f"dns-search {' '.join(config.dns_search)}")
    routes = _routes(config)
    # "onlink" is unknown to old kernels (IPv6) and to busybox; a route to the router is not
    for via in dict.fromkeys(via for _to, via, _metric in routes if config.on_link(via)):
        family, length = ("-6 ", 128) if ":" in via else ("", 32)
        rest.append(f"up ip {family}route replace {via}/{length} dev {name}")
    for to, via, metric in routes:
        family = "-6 " if ":" in via else ""
        end = f" metric {metric}" if metric is not None else ""
        rest.append(f"up ip {family}route replace {to} via {via} dev {name}{end}")
    heads: list[tuple[str, list[str]]] = []
    if config.dhcp4:
        heads.append(("inet dhcp", []))
    heads += [
        (f"inet{'6' if ':' in address else ''} static", [f"address {address}"])
        for address in config.addresses
    ]
    if config.dhcp6:
        heads.append(("inet6 dhcp", []))
    if not heads:
        heads.append(("inet manual", []))
    # routes come last, when all addresses exist
    heads[-1][1].extend(rest)
    return "".join(
        f"iface {name} {head}\n" + "".join(f"    {line}\n" for line in lines)
        for head, lines in heads
    )


def _version(text: str) -> int:
    return ipaddress.ip_interface(text).version


def require(backend: str | None, nics: t.Sequence[ConfiguredNic]) -> str:
    """``backend``, or PlanRefused if the image has none and there are NICs to configure."""
    if backend is None and nics:
        raise PlanRefused(
            "the image has neither NetworkManager nor systemd-networkd nor ifupdown, so nothing in"
            " it would configure the VM's NICs; build one of them into the image, or give the VM"
            " no NIC"
        )
    return backend or "networkd"
