# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VMs of a cell that no member runs and that this one does not define: those that were off when
their hypervisor died, and those of a hypervisor that is not proven off. They are known from their
cards alone."""

from __future__ import annotations

from ..base.answers import GroupedVm
from ..base.effects_connection import Connection
from ..base.effects_lookup import list_domains
from ..base.selected import Selected
from ..cards import read_cards, read_vms
from ..cards.card import Card
from . import read
from .facts import CellView, CellVm


def vms(
    connection: Connection, meant: Selected | None, view: CellView | None = None
) -> list[tuple[str, Card, CellVm]]:
    """The cell, the card and the resource of each of those that are ``meant``, None for all;
    ``view`` if it was read already. Without quorum nothing is known of others."""
    if view is None:
        view = read.here() if connection.local else None
    if view is None or not view.quorate:
        return []
    idle = {vm.uuid: vm for vm in view.vms.values() if view.online.isdisjoint(vm.nodes)}
    if not idle:
        return []
    here = {str(dom.UUIDString()) for dom in list_domains(connection)}
    folders = {vm.cards for uuid, vm in idle.items() if uuid not in here}
    folders &= read_vms.shared_folders(connection).keys() if folders else set()

    def look() -> list[Card]:
        return [
            file.card
            for folder in sorted(folders)
            for file in read_cards.load_all(folder, lambda at: not at.hosts)
            if file.card is not None
        ]

    return [
        (view.cell, card, idle[card.uuid])
        for card in connection.call("look for cards of the cell", look)
        if card.uuid in idle and card.uuid not in here
        if meant is None or meant.takes(card.name, card.stored.groups)
    ]


def entry(cell: str, card: Card, vm: CellVm) -> GroupedVm:
    """What every verb must know of one of :func:`vms`."""
    return {
        "name": card.name,
        "uuid": card.uuid,
        "phase": None,
        "groups": [*card.stored.groups],
        "nowhere": cell,
        "error": doubt(vm),
    }


def doubt(vm: CellVm) -> str | None:
    """Why nobody can say whether it runs; None if it does not."""
    if not vm.nodes:
        return None
    return (
        f"it may run on {', '.join(vm.nodes)}, which is not proven off; its cell starts it"
        " elsewhere once that is switched off or, if nothing else can prove it, stated:"
        f" stonith_admin --confirm {vm.nodes[0]}"
    )
