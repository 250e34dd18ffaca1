# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""XML of virtual networks and host interfaces (virNetworkGetXMLDesc, virInterfaceGetXMLDesc)."""

from __future__ import annotations

import ipaddress
import typing as t

from ..base.xml_values import attribute, first_children, read_root, text_of

if t.TYPE_CHECKING:
    from ..._lxml import Element
    from ..base.snapshot import InterfaceInfo, NetworkInfo


def network(xml: str, what: str = "network") -> NetworkInfo:
    """Facts about a virtual network; ``forward`` is None for an isolated one.

    Raises XmlError if the document is not readable or not a ``<network>``.
    """
    root = read_root(xml, "network", what)
    top = first_children(root)
    forward = top.get("forward")
    ips = list(root.iterchildren("ip"))
    return {
        "name": text_of(top.get("name")),
        "uuid": text_of(top.get("uuid")),
        "bridge": attribute(top.get("bridge"), "name"),
        # libvirt documents nat as the default of a <forward> without a mode
        "forward": None if forward is None else attribute(forward, "mode") or "nat",
        "devices": [] if forward is None else _attributes(forward, "interface", "dev"),
        "portgroups": _attributes(root, "portgroup", "name"),
        "addresses": [address for address in map(_address, ips) if address],
        # libvirt sets VLAN tags of NICs where Open vSwitch or the device itself supports them
        "tags": attribute(forward, "mode") in ("hostdev", "passthrough")
        or any(port.get("type") == "openvswitch" for port in root.iterchildren("virtualport")),
        "dhcp": any("dhcp" in first_children(ip) for ip in ips),
    }


def interface(xml: str, what: str = "interface") -> InterfaceInfo:
    """Facts about a host interface; ``members`` are those of a bridge or bond.

    Raises XmlError if the document is not readable or not an ``<interface>``.
    """
    root = read_root(xml, "interface", what)
    top = first_children(root)
    kind = attribute(root, "type")
    group = top.get(kind) if kind in ("bridge", "bond") else None
    return {
        "name": attribute(root, "name"),
        "type": kind,
        "mac": attribute(top.get("mac"), "address"),
        "members": [] if group is None else _attributes(group, "interface", "name"),
    }


def _attributes(element: Element, tag: str, name: str) -> list[str]:
    values = (child.get(name) for child in element.iterchildren(tag))
    return [value for value in values if value]


def _address(ip: Element) -> str | None:
    """``192.168.122.1/24`` of an ``<ip>``; without mask or prefix only the address."""
    address, mask = ip.get("address"), ip.get("prefix") or ip.get("netmask")
    if not address:
        return None
    try:
        if not mask:
            return str(ipaddress.ip_address(address))
        return ipaddress.ip_interface(f"{address}/{mask}").with_prefixlen
    except ValueError:
        return None
