# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Cells and their VMs as they are shown. What members say of their cell may differ: each statement
is shown with those that make it, and none overrides another."""

from __future__ import annotations

import typing as t

from ..base import tables
from ..base.json_values import as_list, as_mapping, as_mappings
from ..base.snapshot import CellEntry, DomainCell

if t.TYPE_CHECKING:
    from ..cell.facts import CellView, CellVm

Entry = t.Mapping[str, object]


def entry(view: CellView | None) -> CellEntry | None:
    """The cell of a hypervisor."""
    if view is None:
        return None
    return {
        "name": view.cell,
        "members": [*view.members],
        "running": view.running,
        "quorate": view.quorate,
        "online": sorted(view.online),
        "unclean": sorted(view.unclean),
        "device": view.device,
    }


def of_domain(cell: str, vm: CellVm, *, defined: bool) -> DomainCell:
    """A VM of the cell."""
    return {
        "name": cell,
        "managed": vm.managed,
        "held_by": vm.by,
        "failed": vm.failed,
        "reason": vm.reason,
        "defined": defined,
    }


def once(hypervisors: t.Sequence[Entry]) -> list[dict[str, object]]:
    """The hypervisors with their ``domains``, without VMs that are known by their cards where a
    hypervisor that answers has the definition, or another one names the card as well.

    One of those that is shown hides what was noted of it on a hypervisor that does not answer.
    """
    defined = {
        domain.get("uuid")
        for entry in hypervisors
        for domain in as_mappings(entry["domains"])
        if entry["answered"] and tables.is_defined(domain)
    }
    shown: set[object] = set()
    kept: dict[str, list[Entry]] = {}
    for entry in hypervisors:
        domains = kept[str(entry["name"])] = []
        for domain in as_mappings(entry["domains"]):
            uuid = domain.get("uuid")
            if tables.is_defined(domain):
                domains.append(domain)
            elif uuid not in shown | defined:
                shown.add(uuid)
                domains.append(domain)
    return [
        {
            **entry,
            "domains": [
                domain
                for domain in kept[str(entry["name"])]
                if entry["answered"] or domain.get("uuid") not in shown
            ],
        }
        for entry in hypervisors
    ]


def statements(hypervisors: t.Sequence[Entry], *, well: bool = True) -> list[str]:
    """What members say of each cell, a line for each statement; one that all make names none.
    Without ``well`` only what is not as it should be."""
    by_cell: dict[str, dict[str, list[str]]] = {}
    for hypervisor in hypervisors:
        cell = as_mapping(hypervisor.get("cell") or as_mapping(hypervisor.get("host")).get("cell"))
        if cell:
            said = by_cell.setdefault(str(cell["name"]), {})
            text = statement(cell) if well or not _is_well(cell) else ""
            said.setdefault(text, []).append(str(hypervisor["name"]))
    lines = []
    for name, said in sorted(by_cell.items()):
        for text, hosts in said.items():
            verb = "says" if len(hosts) == 1 else "say"
            by = f" (as {', '.join(hosts)} {verb})" if len(said) > 1 else ""
            lines += [f"cell {name}: {text}{by}"] if text else []
    return lines


def statement(cell: Entry) -> str:
    """What a member says of its cell."""
    if not cell["running"]:
        return "Pacemaker does not run"
    members, online = _names(cell, "members"), _names(cell, "online")
    unclean = _names(cell, "unclean")
    away = [name for name in members if name not in (*online, *unclean)]
    words = [
        "quorum" if cell["quorate"] else "no quorum",
        f"online {', '.join(online) or 'none'}",
        *([f"offline {', '.join(away)}"] if away else []),
        *(f"{name} not proven off" for name in unclean),
        *(["its quorum device does not vote"] if cell.get("device") is False else []),
    ]
    return "; ".join(words)


def _is_well(cell: Entry) -> bool:
    complete = _names(cell, "members") == _names(cell, "online")
    voted = cell.get("device") is not False
    sound = bool(cell["running"] and cell["quorate"]) and voted
    return sound and complete and not cell["unclean"]


def _names(cell: Entry, key: str) -> list[str]:
    return sorted(map(str, as_list(cell[key])))
