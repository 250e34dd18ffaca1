# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the choice of a destination needs to know of a hypervisor and of the VMs to move.

This file is private to the collection.
"""

from __future__ import annotations

import typing as t

from .._model.metadata import Metadata
from . import migration_facts, migration_keys, placement_facts
from .connection import Connection
from .lookup import find_domain, kept_metadata


def look(
    connection: Connection,
    names: t.Sequence[str],
    base_pool: str,
    base_path: str,
    *,
    unfinished: bool = False,
    every: bool = False,
    home: str | None = None,
) -> dict[str, t.Any]:
    """The hypervisor with its promises, and those of ``names`` that are here. Changes nothing.

    With ``unfinished``, no names stand for all VMs whose move was interrupted; with ``every`` they
    stand for all, with ``home`` for those that were made there and those under way.
    """
    host = placement_facts.read(connection, base_pool, base_path)
    if not names and (unfinished or every or home):
        names = [
            str(vm["name"])
            for vm in host["vms"]
            if every
            or vm["phase"] == "migrating"
            or (home and vm["managed"] and _home(connection, str(vm["name"])) == home)
        ]
    vms = []
    for name in dict.fromkeys(names):
        raw = find_domain(connection, name)
        if raw is None:
            continue
        source = migration_facts.read_source(connection, raw, "")
        kept = source.metadata
        move = kept.move if kept else None
        vms.append(
            {
                "name": name,
                "uuid": source.uuid,
                "active": source.active,
                "phase": kept.phase if kept else None,
                "move": dict(vars(move)) if move else None,
                "vcpus": source.vcpus,
                "memory_mib": source.memory_mib,
                "domain_type": source.domain_type,
                "arch": source.arch,
                "bridges": list(source.bridges),
                "networks": list(source.networks),
                "groups": list(kept.groups) if kept else [],
                "anti_affinity": list(kept.anti_affinity) if kept else [],
                "tags": list(kept.tags) if kept else [],
                "zone": kept.zone if kept else None,
                "home": kept.home if kept else None,
                "disks": [
                    {
                        "path": disk.path,
                        "bytes": disk.capacity,
                        "backing": disk.chain[0][0] if disk.chain else None,
                    }
                    for disk in source.disks
                    if disk.capacity
                ],
            }
        )
    expired = migration_keys.for_coming()
    return {"changed": False, "host": host, "vms": vms, "expired": expired}


def _home(connection: Connection, name: str) -> str | None:
    raw = find_domain(connection, name)
    kept: Metadata | None = kept_metadata(connection, raw) if raw is not None else None
    return kept.home if kept else None
