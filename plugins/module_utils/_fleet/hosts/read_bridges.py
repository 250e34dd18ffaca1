# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The bridges of a hypervisor, which NICs of VMs may be on."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ..._errors import FleetVirtError
from ..._libvirt import (
    DOMAIN_XML_INACTIVE,
    ERR_NO_DOMAIN,
    ERR_NO_INTERFACE,
    ERR_NO_NETWORK,
)
from ..base.effects_connection import Connection
from ..base.xml_values import read_root
from . import network_info, segments

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain, VirInterface, VirNetwork
    from ..base.snapshot import NetworkInfo

_BRIDGE = "bridge"


def bridges(connection: Connection) -> list[str] | None:
    """Names of the hypervisor's bridges, sorted; None if they are unknown.

    This machine's kernel knows all of them. Another's are read through libvirt, if it has its
    interface driver, a package of its own in Debian 13. What cannot be read there may be the bridge
    that a VM needs, and which interfaces the driver sees differs between its backends: so neither
    an unreadable interface nor a list without a bridge proves that there is none.
    """
    if connection.local:
        kernel = Path("/sys/class/net")  # not there where /sys is not mounted
        names = sorted(path.parent.name for path in kernel.glob("*/bridge"))
        return names if kernel.is_dir() else None

    def kind(interface: VirInterface) -> str | None:
        what = f"interface {interface.name()}"
        return network_info.interface(interface.XMLDesc(0), what)["type"]

    try:
        kinds = connection.each_there(
            kind,
            connection.call("list interfaces", connection.conn.listAllInterfaces, 0),
            lambda interface: f"read interface {interface.name()}",
            ERR_NO_INTERFACE,
        )
    except FleetVirtError:
        return None
    return sorted(str(interface.name()) for interface, of in kinds if of == _BRIDGE) or None


def used(connection: Connection) -> set[str]:
    """The bridges that NICs of VMs are on by their definitions, also by a network that is one."""

    def places(domain: VirDomain) -> list[segments.NicPlace]:
        text = domain.XMLDesc(DOMAIN_XML_INACTIVE)
        return segments.nics(read_root(text, "domain", f"domain {domain.name()}"))

    def info(network: VirNetwork) -> NetworkInfo:
        return network_info.network(network.XMLDesc(0), f"network {network.name()}")

    networks = connection.each_there(
        info,
        connection.call("list networks", connection.conn.listAllNetworks, 0),
        lambda network: f"read network {network.name()}",
        ERR_NO_NETWORK,
    )
    known = {str(network.name()): of for network, of in networks}
    domains = connection.each_there(
        places,
        connection.call("list domains", connection.conn.listAllDomains, 0),
        lambda domain: f"read domain {domain.name()}",
        ERR_NO_DOMAIN,
    )
    nics = [nic for _domain, listed in domains for nic in listed]
    return {segment.partition(",")[0] for segment in segments.of_nics(nics, known)}
