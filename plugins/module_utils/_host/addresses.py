# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The addresses of a running guest.

This file is private to the collection.
"""

from __future__ import annotations

import typing as t

from .. import _libvirt
from .._errors import FleetVirtError, LibvirtFailure

# virDomainInterfaceAddressesSource
_FROM_LEASE = 0
_FROM_AGENT = 1


def read(domain: t.Any, entry: dict[str, t.Any]) -> None:
    """Fill ``addresses`` of each NIC of ``entry``: from the guest agent, else from leases.

    Raises LibvirtFailure when an agent that is connected does not answer; a guest without an
    agent is no error. To be called inside :meth:`Connection.each`: an agent may hang.
    """
    failed: FleetVirtError | None = None
    answer: t.Mapping[str, t.Any] = {}
    if entry["agent"]:
        try:
            answer = _ask(domain, _FROM_AGENT, "ask the guest agent for addresses")
        except LibvirtFailure as error:
            failed = error
    if not answer and any(nic["type"] == "network" for nic in entry["nics"]):
        try:
            answer = _ask(domain, _FROM_LEASE, "read leases")
        except LibvirtFailure as error:
            failed = failed or error
    by_mac: dict[str, list[str]] = {}
    for interface in answer.values():
        mac = str(interface.get("hwaddr") or "").lower()
        found = by_mac.setdefault(mac, [])
        found += [str(address["addr"]) for address in interface.get("addrs") or ()]
    for nic in entry["nics"]:
        # link-local IPv6 addresses mean nothing without the hypervisor's interface
        found = by_mac.get(str(nic["mac"] or "").lower(), [])
        nic["addresses"] = [a for a in dict.fromkeys(found) if not a.lower().startswith("fe80:")]
    if failed is not None:
        raise failed


def _ask(domain: t.Any, source: int, action: str) -> t.Mapping[str, t.Any]:
    with _libvirt.calling(action):
        return t.cast("t.Mapping[str, t.Any]", domain.interfaceAddresses(source, 0) or {})
