# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading what a hypervisor has noted of others that do not answer."""

from __future__ import annotations

import typing as t

from ..base.effects_connection import Connection
from ..cards import leftover, read_leftovers
from ..notes import read as read_notes
from ..notes.note import Claim, Reading, notes, opened
from . import host_info

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..base.answers import VmIdentity
    from ..notes.silent import Told


def of_silent(connection: Connection, hosts: t.Collection[str]) -> Told:
    """The notes of machines that have one of these names, and what of it is here."""
    capabilities = connection.call("read capabilities", connection.conn.getCapabilities)
    texts: dict[str, str] = {}
    uuids: set[str] = set()
    others: set[str] = set()  # machines of another name
    for volume, text in read_notes.texts(connection, ()).items():
        (note,) = notes([volume])
        body = opened(note, text) if isinstance(note, Reading) else None
        if body is not None and body[0] in hosts:
            texts[volume] = text
            uuids |= {vm["uuid"] for vm in body[1]}
        elif body is not None:
            others.add(note.machine)
    held = [note for note in notes(read_notes.held(connection)) if note.machine not in others]
    uuids |= {note.value for note in held if isinstance(note, Claim) and note.kind == "uuid"}
    domains = connection.call("list domains", connection.conn.listAllDomains, 0)
    return {
        "changed": False,
        "machine": host_info.capabilities(capabilities, "capabilities")["uuid"],
        "held": [note.volume for note in held],
        "texts": texts,
        "here": sorted(_own(connection, domains, uuids)),
    }


def _own(
    connection: Connection, domains: t.Iterable[VirDomain], uuids: t.Collection[str]
) -> set[str]:
    """Those of ``uuids`` that are here, and not as leftovers of VMs that were restarted on one of
    the silent hypervisors; that only a hypervisor itself can tell."""
    entries: list[VmIdentity] = [
        {"name": str(domain.name()), "uuid": uuid, "phase": None}
        for domain in domains
        if (uuid := str(domain.UUIDString())) in uuids
    ]
    read_leftovers.mark(connection, entries)
    return leftover.uuids(entries)
