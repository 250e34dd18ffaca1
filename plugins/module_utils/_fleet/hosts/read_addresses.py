# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The addresses of a running guest."""

from __future__ import annotations

import socket
import typing as t

from ... import _libvirt
from ..._errors import FleetVirtError, LibvirtFailure
from ..base.ip import usable

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..base.snapshot import DomainEntry

_ANY_PORT = 9
_MOST = 64  # addresses of one NIC; a guest may claim any number


def read(domain: VirDomain, entry: DomainEntry) -> None:
    """Fill ``addresses`` of each NIC of ``entry``: from the guest agent, else from leases.

    Raises LibvirtFailure if a connected agent does not respond; a guest without an agent is no
    error. To be called inside :meth:`Connection.each`: an agent may hang.
    """
    failed: FleetVirtError | None = None
    answer: dict[str, list[str]] = {}
    if entry["agent"]:
        try:
            answer = from_agent(domain)
        except LibvirtFailure as error:
            failed = error
    if not answer and any(nic["type"] == "network" for nic in entry["nics"]):
        try:
            answer = from_leases(domain)
        except LibvirtFailure as error:
            failed = failed or error
    for nic in entry["nics"]:
        nic["addresses"] = answer.get(str(nic["mac"] or "").lower(), [])
    if failed is not None:
        raise failed


def from_agent(domain: VirDomain) -> dict[str, list[str]]:
    """Addresses by MAC address from the guest agent, which may hang. Raises LibvirtFailure.

    A guest also reports interfaces (bridges, tunnels) that are not NICs of the domain.
    """
    return _ask(
        domain, _libvirt.DOMAIN_INTERFACE_ADDRESSES_SRC_AGENT, "ask the guest agent for addresses"
    )


def from_leases(domain: VirDomain) -> dict[str, list[str]]:
    """Addresses by MAC address from the leases of libvirt's networks. Raises LibvirtFailure."""
    return _ask(domain, _libvirt.DOMAIN_INTERFACE_ADDRESSES_SRC_LEASE, "read leases")


def from_arp(domain: VirDomain) -> dict[str, list[str]]:
    """Addresses by MAC address from the hypervisor's current neighbour table.

    Raises LibvirtFailure; libvirt 9.0 cannot read the table of newer kernels ("wrong nlmsg len").
    """
    return _ask(domain, _libvirt.DOMAIN_INTERFACE_ADDRESSES_SRC_ARP, "read the neighbour table")


def _ask(domain: VirDomain, source: int, action: str) -> dict[str, list[str]]:
    with _libvirt.calling(action):
        answer = domain.interfaceAddresses(source, 0) or {}
    by_mac: dict[str, list[str]] = {}
    for interface in answer.values():
        addresses = by_mac.setdefault(str(interface.get("hwaddr") or "").lower(), [])
        for given in interface.get("addrs") or ():
            address = usable(given.get("addr"))
            if address is not None and address not in addresses and len(addresses) < _MOST:
                addresses.append(address)
    return by_mac


def is_local(address: str) -> bool:
    """Whether this machine has the address: its packets to itself come from the same one."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as datagram:
            datagram.connect((address, _ANY_PORT))  # sends nothing
            return bool(datagram.getsockname()[0] == address)
    except OSError:
        return False
