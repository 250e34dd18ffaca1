# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A domain as an inventory host: whether it is one, its variables, its groups."""

from __future__ import annotations

import re
import socket
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import states

if t.TYPE_CHECKING:
    from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.snapshot import (
        MetadataEntry,
    )

# Not a machine yet, or no longer
_UNFINISHED = ("creating", "purging")
# Ansible's own, and names that every machine has for itself
_OWN_NAMES = ("all", "ungrouped", "127.0.0.1", "::1")
_LOCALHOST = re.compile(r"(ip6-)?(localhost|loopback)[46]?(\..*)?", re.IGNORECASE)
# Names that Ansible would read as a host pattern
_PATTERN = re.compile(r"[!&~@].*|.*[*?\[\],:].*", re.DOTALL)
_LONGEST_NAME = 255
# Characters that cannot form a template or an ssh option
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,62}[$]?")


class GuestAddress(t.TypedDict):
    """An address of a guest and its source; ``behind``: reachable only from its hypervisor."""

    address: str
    source: str
    behind: bool


class Guest(t.TypedDict):
    """A guest's facts; plain data that can be cached."""

    name: str
    uuid: str
    state: str | None
    vcpus: int | None
    memory_mib: int | None
    title: str | None
    metadata: MetadataEntry
    error: str | None
    macs: list[str]
    hostname: str | None
    addresses: list[GuestAddress]


HostedGuest = tuple[str, Guest]  # with the name of its hypervisor


def is_listed(metadata: MetadataEntry, unmanaged: bool) -> bool:
    """Whether a domain with this metadata is a host of the inventory."""
    if not metadata["managed"]:
        return unmanaged
    return metadata["phase"] not in _UNFINISHED


def is_own_name(name: str) -> bool:
    """Whether a play on this name would run on all hosts, or on the controller."""
    return name.casefold() in _OWN_NAMES or _LOCALHOST.fullmatch(name) is not None


def name_problem(name: str) -> str | None:
    """Why a domain's name cannot be a host's, or None.

    libvirt accepts nearly any name, and a host name is used without being marked unsafe: in
    templates, in patterns, and as ssh's argument if no address is known.
    """
    if is_own_name(name):
        return "its name is reserved by Ansible"
    if _is_address(name):
        return "its name is an address"
    if _PATTERN.fullmatch(name):
        return "its name is a host pattern"
    if "{" in name or not name.isprintable():
        return "its name has characters that a host name must not have"
    if name.startswith("-") or len(name) > _LONGEST_NAME:
        return "its name starts with '-', or is too long"
    return None


def _is_address(name: str) -> bool:
    """Whether ssh reads the name as an address, such as ``10.1`` or ``167772161``."""
    try:
        socket.inet_aton(name)
    except (OSError, UnicodeError, ValueError):
        return False
    return True


def choose(guests: t.Iterable[HostedGuest]) -> tuple[list[HostedGuest], list[str]]:
    """One guest of each name, in order, and warnings about the others.

    A migrating VM is on two hypervisors for a while, with one UUID: the running one counts. If it
    was shut off, it is paused on both meanwhile.
    """
    chosen: dict[str, HostedGuest] = {}
    problems = []
    for guest in guests:
        name = str(guest[1]["name"])
        problem = name_problem(name)
        if problem is not None:
            problems.append(f"hypervisor {guest[0]}: domain {name!r} is left out: {problem}")
            continue
        other = chosen.get(name)
        if other is None:
            chosen[name] = guest
            continue
        better, worse = sorted((other, guest), key=_rank)
        chosen[name] = better
        twice = _rank(worse) == _rank(better) and better[1]["state"] != "paused"
        if better[1]["uuid"] != worse[1]["uuid"] or twice:
            problems.append(
                f"hypervisor {worse[0]}: domain {name!r} is left out:"
                f" hypervisor {better[0]} has one of that name"
            )
    return list(chosen.values()), problems


def lacking(silent: t.Sequence[str], groups: t.Collection[str], *, asked: bool = False) -> str:
    """The warning that VMs of silent hypervisors are in no group; ``groups`` are those of the other
    hypervisors' VMs. ``asked``: what was noted of them, which is nothing."""
    named = ", ".join(sorted(set(groups) - {"ungrouped"} | {"all"}))
    more = f"; nothing is noted of {', '.join(silent)}" if asked else ""
    return (
        f"the VMs on {', '.join(silent)} are not in the inventory, so groups may lack hosts:"
        f" {named}, and any group that only those VMs are in{more}"
    )


def not_contacted(lost: t.Sequence[str]) -> str:
    """The warning for hypervisors that are declared lost."""
    return (
        f"{', '.join(lost)}: declared lost (virt_hypervisors_lost), so not contacted; VMs there are"
        " not in the inventory"
    )


def _rank(guest: HostedGuest) -> int:
    state = guest[1]["state"]
    if state in ("running", "blocked"):
        return 0
    if state == "unknown":  # its hypervisor does not answer
        return 3
    return 1 if state in states.ACTIVE_STATES else 2


def address_of(guest: Guest, through: bool) -> GuestAddress | None:
    """The address to connect to; ``through``: addresses behind the hypervisor are reachable."""
    for address in guest["addresses"]:
        if through or not address["behind"]:
            return address
    return None


def variables(
    hypervisor: str,
    zone: object,
    guest: Guest,
    address: GuestAddress | None,
    cell: object = None,
) -> dict[str, object]:
    """Variables of the guest; ``ansible_host`` only where there is an address.

    ``zone`` is the hypervisor's; it overrides the one that was requested at creation. ``cell`` is
    the hypervisor's as well, of which a VM is none unless that was requested.
    """
    metadata = guest["metadata"]
    image = metadata["image"]
    values: dict[str, object] = {
        "virt_hypervisor": hypervisor,
        "virt_uuid": guest["uuid"],
        "virt_state": guest["state"],
        "virt_vcpus": guest["vcpus"],
        "virt_memory_mib": guest["memory_mib"],
        "virt_title": guest["title"],
        "virt_hostname": guest["hostname"],
        "virt_metadata": metadata,
        "virt_managed": metadata["managed"],
        "virt_groups": metadata["groups"],
        "virt_tags": metadata["tags"],
        "virt_image": None if image is None else image["name"],
        "virt_zone": str(zone) if zone else metadata["zone"],
        "virt_cell": str(cell) if cell and metadata["ha"] else None,
        "virt_addresses": [entry["address"] for entry in guest["addresses"]],
        "virt_address_source": address["source"] if address else None,
        "virt_error": guest["error"],
    }
    user = metadata["user"]
    if user is not None and _USER.fullmatch(user):
        values["ansible_user"] = user
    if address:
        values["ansible_host"] = address["address"]
    return values
