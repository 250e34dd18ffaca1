# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading a hypervisor's domains, leftovers named; of a member of a cell what Pacemaker says of
them, and the VMs of the cell that are off and defined nowhere, known from their cards alone."""

from __future__ import annotations

import typing as t

from ..base.effects_connection import Connection
from ..base.selected import Selected
from ..cell import read, read_nowhere
from . import cells, domain_entry, domain_info, read_left
from .read_domains import DomainQuery, read_domains

if t.TYPE_CHECKING:
    from ..base.snapshot import DomainEntry, Domains
    from ..cell.facts import CellView

REASON = "defined nowhere, known by its card"


def view(connection: Connection) -> CellView | None:
    """What Pacemaker says on this hypervisor, None if it is in no cell or another machine."""
    return read.here() if connection.local else None


def domains(connection: Connection, wanted: DomainQuery) -> Domains:
    """The domains of this hypervisor, with what its cell says of them."""
    seen = view(connection)
    if seen is None:
        entries = read_domains(connection, wanted)
        read_left.name(connection, entries)
        return {"changed": False, "domains": entries, "cell": None}
    off = _off(connection, seen, wanted)
    known = [str(entry["name"]) for entry in off]
    entries = read_domains(connection, wanted, elsewhere=known)
    for entry in entries:
        vm = seen.vms.get(entry["uuid"])
        if vm is not None:
            entry["cell"] = cells.of_domain(seen.cell, vm, defined=True)
    read_left.name(connection, entries)
    entries += off
    entries.sort(key=lambda entry: str(entry["name"]))
    return {"changed": False, "domains": entries, "cell": cells.entry(seen)}


def names_off(connection: Connection, seen: CellView | None) -> list[str]:
    """The names of VMs of the cell that are defined nowhere that this member knows of."""
    if seen is None:
        return []
    return [card.name for _cell, card, _vm in read_nowhere.vms(connection, None, seen)]


def _off(connection: Connection, seen: CellView, wanted: DomainQuery) -> list[DomainEntry]:
    """The VMs that are defined nowhere, from their cards."""
    chosen = None if wanted.names is None else Selected.of(wanted.names)
    entries: list[DomainEntry] = []
    for cell, card, vm in read_nowhere.vms(connection, chosen, seen):
        info = domain_info.from_root(card.root, card.stored)
        entry = domain_entry.from_info(info, card.name, card.uuid)
        doubt = read_nowhere.doubt(vm)
        entries.append(
            {
                **entry,
                "state": "shutoff" if doubt is None else "unknown",
                "reason": REASON if doubt is None else f"may run on {', '.join(vm.nodes)}",
                "autostart": False,
                "persistent": False,
                "managed_save": False,
                "cell": cells.of_domain(cell, vm, defined=False),
            }
        )
    return entries
