# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A domain as an inventory host: whether it is one, its variables, its groups.

This file is private to the collection.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._model import states

# Not a machine yet, or no more
_UNFINISHED = ("creating", "purging")
_OWN_NAMES = ("all", "ungrouped", "localhost", "127.0.0.1", "::1")
_LONGEST_NAME = 255
# Characters that no template and no option of ssh can be made of
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,62}[$]?")

Found = tuple[str, dict[str, t.Any]]  # name of the hypervisor, its guest as _reading has it


def is_listed(metadata: t.Mapping[str, t.Any], unmanaged: bool) -> bool:
    """Whether a domain with this metadata is a host of the inventory."""
    if not metadata["managed"]:
        return unmanaged
    return metadata["phase"] not in _UNFINISHED


def name_problem(name: str) -> str | None:
    """Why a domain's name cannot be a host's, or None.

    libvirt takes nearly any name, and a host's is used where variables are marked but it is not:
    in templates, and as ssh's argument where no address is known.
    """
    if name in _OWN_NAMES:
        return "it is one of Ansible's own names"
    if "{" in name or not name.isprintable():
        return "it has characters that no name of a host may have"
    if name.startswith("-") or len(name) > _LONGEST_NAME:
        return "it starts with '-', or is too long"
    return None


def choose(found: t.Iterable[Found]) -> tuple[list[Found], list[str]]:
    """One guest of each name, in their order, and what there is to say about the others.

    A VM that migrates is on two hypervisors for a while, with one UUID: the one that runs counts.
    """
    chosen: dict[str, Found] = {}
    problems = []
    for one in found:
        name = str(one[1]["name"])
        problem = name_problem(name)
        if problem is not None:
            problems.append(f"hypervisor {one[0]}: domain {name!r} is left out, {problem}")
            continue
        other = chosen.get(name)
        if other is None:
            chosen[name] = one
            continue
        better, worse = sorted((other, one), key=_rank)
        chosen[name] = better
        if better[1]["uuid"] != worse[1]["uuid"] or _rank(worse) == _rank(better):
            problems.append(
                f"hypervisor {worse[0]}: domain {name!r} is left out,"
                f" hypervisor {better[0]} has one of that name"
            )
    return list(chosen.values()), problems


def _rank(found: Found) -> int:
    state = found[1]["state"]
    if state in ("running", "blocked"):
        return 0
    return 1 if state in states.ACTIVE_STATES else 2


def address_of(guest: t.Mapping[str, t.Any], through: bool) -> dict[str, t.Any] | None:
    """The address to connect to; ``through``: those behind the hypervisor can be reached too."""
    for address in guest["addresses"]:
        if through or not address["behind"]:
            return t.cast("dict[str, t.Any]", address)
    return None


def variables(
    hypervisor: str,
    zone: t.Any,
    guest: t.Mapping[str, t.Any],
    address: t.Mapping[str, t.Any] | None,
) -> dict[str, t.Any]:
    """Variables of the guest; ``ansible_host`` only where there is an address.

    ``zone`` is the hypervisor's; it goes before the one that was asked for when it was created.
    """
    metadata = guest["metadata"]
    values = {
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
        "virt_image": (metadata["image"] or {}).get("name"),
        "virt_zone": str(zone) if zone else metadata["zone"],
        "virt_addresses": [one["address"] for one in guest["addresses"]],
        "virt_address_source": address["source"] if address else None,
        "virt_error": guest["error"],
    }
    user = metadata["user"]
    if user is not None and _USER.fullmatch(user):
        values["ansible_user"] = user
    if address:
        values["ansible_host"] = address["address"]
    return values
