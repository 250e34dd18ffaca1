# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading the domains of a member of a cell: what Pacemaker says of them, and the VMs of the cell
that are off and defined nowhere, which are known from their cards alone."""

from __future__ import annotations

import typing as t

from ..base.effects_connection import Connection
from ..base.selected import Selected
from ..cards import read_vms
from ..cards.card import Card
from ..cards.read_cards import load_all
from ..cell import read
from . import cells, domain_entry, domain_info
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
        return {"changed": False, "domains": read_domains(connection, wanted), "cell": None}
    off = _off(connection, seen, wanted)
    known = [str(entry["name"]) for entry in off]
    entries = read_domains(connection, wanted, elsewhere=known)
    for entry in entries:
        vm = seen.vms.get(entry["uuid"])
        if vm is not None:
            entry["cell"] = cells.of_domain(seen.cell, vm, defined=True)
    here = {entry["uuid"] for entry in entries}
    entries += [entry for entry in off if entry["uuid"] not in here]
    entries.sort(key=lambda entry: str(entry["name"]))
    return {"changed": False, "domains": entries, "cell": cells.entry(seen)}


def _off(connection: Connection, seen: CellView, wanted: DomainQuery) -> list[DomainEntry]:
    """The VMs that run nowhere, from their cards. Without quorum nothing is known of others."""
    if not seen.quorate:
        return []
    idle = {vm.uuid: vm for vm in seen.vms.values() if not vm.nodes}
    chosen = None if wanted.names is None else Selected.of(wanted.names)
    folders = sorted({vm.cards for vm in idle.values()})
    entries: list[DomainEntry] = []
    for card in _cards(connection, folders):
        vm = idle.get(card.uuid)
        if vm is not None and (chosen is None or chosen.takes(card.name)):
            info = domain_info.from_root(card.root, card.stored)
            entry = domain_entry.from_info(info, card.name, card.uuid)
            entries.append(
                {
                    **entry,
                    "state": "shutoff",
                    "reason": REASON,
                    "autostart": False,
                    "persistent": False,
                    "managed_save": False,
                    "cell": cells.of_domain(seen.cell, vm, defined=False),
                }
            )
    return entries


def _cards(connection: Connection, folders: t.Iterable[str]) -> list[Card]:
    """The cards without a hypervisor in these folders, which may be of other cells as well."""
    shared = read_vms.shared_folders(connection)

    def look() -> list[Card]:
        return [
            file.card
            for folder in folders
            if folder in shared
            for file in load_all(folder, lambda at: not at.hosts)
            if file.card is not None
        ]

    return connection.call("look for cards of the cell", look)
