# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fleet compared with the request: what is to be created, what differs, what is surplus."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._records import dataclass
from ..base import duplicate_vm as twice
from ..base.metadata import UNREADABLE
from ..base.tables import csv_text, table
from ..cards import leftover
from ..placement.facts import vms_of
from .facts import Compared

# What has to be done about a VM, or its condition, in display order
ACTIONS = {
    "create": "to create",
    "nowhere": "fits nowhere",
    "unknown": "unknown",
    "conflict": "in conflict",
    "finish": "unfinished",
    "change": "differs",
    "drift": "drifted",
    "start": "not running",
    "restart": "needs a restart",
    "surplus": "surplus",
    "unmanaged": "unmanaged",
    "unchanged": "unchanged",
}
_BROKEN = "its metadata cannot be used; ansible-playbook fleet.virt.list shows why, and what to do"
# With only these there is nothing to do
_AT_REST = ("unchanged", "unmanaged")


@dataclass(frozen=True)
class PlannedVm:
    """One VM; ``hypervisor`` is where it is, or where it would be created. ``details`` say what
    differs, or why. ``restart_required``: a change already waits for its next start."""

    name: str
    action: str
    hypervisor: str | None = None
    details: tuple[str, ...] = ()
    restart_required: bool = False


@dataclass(frozen=True)
class Place:
    """Where a VM would be created; without ``host``, ``reason`` says why nowhere. ``remark`` is
    what else is to be known."""

    host: str | None
    reason: str = ""
    remark: str | None = None


def missing(names: t.Sequence[str], answers: t.Mapping[str, Compared]) -> list[str]:
    """Those of ``names`` that no hypervisor has."""
    there = {vm["name"] for answer in answers.values() for vm in vms_of(answer)}
    return [name for name in names if name not in there]


def compare(
    names: t.Sequence[str],
    answers: t.Mapping[str, Compared],
    places: t.Mapping[str, Place],
    refused: t.Mapping[str, str] | None = None,
    unusable: t.Mapping[str, str] | None = None,
) -> list[PlannedVm]:
    """An entry for each of ``names`` and for every other VM of the fleet.

    ``answers`` are those of the hypervisors that responded: ``host`` with its ``vms``, and ``vms``
    with what differs. ``refused`` says by VM that none of them has why it may be on a silent
    hypervisor, ``unusable`` why an image of it cannot be used, with which a run refuses it.
    """
    entries = [_entry(name, answers, places, refused or {}) for name in dict.fromkeys(names)]
    entries = [_with_image(entry, (unusable or {}).get(entry.name)) for entry in entries]
    for host, answer in answers.items():
        for vm in vms_of(answer):
            if vm["name"] not in names:
                action = "surplus" if vm.get("managed") else "unmanaged"
                notes: tuple[str, ...] = ()
                if vm["phase"] == UNREADABLE:
                    notes = (_BROKEN,)
                elif vm["phase"] is not None:
                    action, notes = "finish", (f"in phase {vm['phase']}",)
                entries.append(PlannedVm(vm["name"], action, host, notes))
    order = list(ACTIONS)
    return sorted(
        entries, key=lambda entry: (order.index(entry.action), entry.name, entry.hypervisor or "")
    )


def _entry(
    name: str,
    answers: t.Mapping[str, Compared],
    places: t.Mapping[str, Place],
    refused: t.Mapping[str, str],
) -> PlannedVm:
    vms_by_host = leftover.without(
        {
            host: vm
            for host, answer in answers.items()
            for vm in vms_of(answer)
            if vm["name"] == name
        }
    )
    if not vms_by_host and name in refused:
        return PlannedVm(name, "unknown", None, (refused[name],))
    if not vms_by_host:
        place = places.get(name, Place(None, "it was not placed"))
        if place.host is None:
            return PlannedVm(name, "nowhere", None, (place.reason,))
        taken = answers[place.host].get("taken") if place.host in answers else None
        details = tuple(
            f"refused: {reason}"
            for entry in taken or ()
            if entry["name"] == name
            for reason in entry["reasons"]
        )
        if place.remark is not None:
            details += (place.remark,)
        return PlannedVm(name, "create", place.host, details)
    if len(vms_by_host) > 1:
        phases = {host: vm["phase"] for host, vm in vms_by_host.items()}
        uuids = [vm.get("uuid") for vm in vms_by_host.values()]
        text = twice.duplicate_vm_message(name, phases, uuids)
        return PlannedVm(name, "conflict", " ".join(sorted(vms_by_host)), (text,))
    ((host, vm),) = vms_by_host.items()
    left = leftover.refusal(name, host, vm)
    if left:
        return PlannedVm(name, "conflict", host, (left,))
    if vm["phase"] == UNREADABLE:
        return PlannedVm(name, "conflict", host, (_BROKEN,))
    if vm["phase"] is not None:
        return PlannedVm(name, "finish", host, (f"in phase {vm['phase']}",))
    compared = answers[host].get("vms")
    if compared is None:
        return PlannedVm(name, "unknown", host, ("it exists and was not compared",))
    comparison = next((entry for entry in compared if entry["name"] == name), None)
    unread = comparison.get("error") if comparison is not None else None
    if unread:
        return PlannedVm(name, "unknown", host, (unread,))
    if comparison is None or comparison["differences"] is None:
        why = "it was not made by this collection, so it is not compared"
        return PlannedVm(name, "conflict", host, (why,))
    waits = tuple(f"{path} waits for the next start" for path in comparison["pending"])
    action = "restart" if waits else "unchanged"
    if comparison.get("not_running"):
        action = "start"
    if comparison["differences"]:
        action = "drift" if comparison["drift"] else "change"
    condition = comparison.get("condition")
    details = (*comparison["differences"], *([condition] if condition else []), *waits)
    return PlannedVm(name, action, host, details, bool(waits))


def _with_image(entry: PlannedVm, problem: str | None) -> PlannedVm:
    """The entry of a VM that exists, one of whose images cannot be used."""
    if problem is None or entry.action not in ("change", "drift", "start", "restart", "unchanged"):
        return entry
    action = entry.action if entry.action == "drift" else "change"
    details = (*entry.details, f"refused: {problem}")
    return dataclasses.replace(entry, action=action, details=details)


def refusals(entries: t.Sequence[PlannedVm]) -> list[str]:
    """Why a run would refuse VMs; those with the same reason are named together."""
    names: dict[str, list[str]] = {}
    for entry in entries:
        nowhere = entry.action == "unknown" and entry.hypervisor is None
        if entry.action in ("conflict", "nowhere") or nowhere:
            names.setdefault("; ".join(entry.details), []).append(entry.name)
    return [f"{', '.join(those)}: {why}" for why, those in names.items()]


def is_empty(entries: t.Sequence[PlannedVm]) -> bool:
    """Whether the fleet is as requested; unmanaged VMs do not count."""
    return all(one.action in _AT_REST for one in entries)


def summary(entries: t.Sequence[PlannedVm]) -> str:
    """``1 to create, 2 unchanged``."""
    counts = {action: sum(one.action == action for one in entries) for action in ACTIONS}
    words = [f"{counts[action]} {word}" for action, word in ACTIONS.items() if counts[action]]
    return ", ".join(words) or "no VM is requested, and none exists"


def records(entries: t.Sequence[PlannedVm], silent: t.Mapping[str, str]) -> str:
    """CSV, one record for each VM and each hypervisor that did not answer, with its reason."""
    rows: list[list[object]] = [
        [one.name, one.hypervisor, one.action, one.details] for one in entries
    ]
    rows += [[None, host, "no answer", why] for host, why in silent.items()]
    return csv_text(["name", "hypervisor", "action", "details"], rows)


def text(entries: t.Sequence[PlannedVm]) -> str:
    """One line for each VM and each further difference, then the counts."""
    rows: list[list[str | None]] = []
    for entry in entries:
        details = entry.details or (None,)
        rows.append([entry.name, entry.hypervisor, ACTIONS[entry.action], details[0]])
        rows += [["", "", "", detail] for detail in details[1:]]
    lines = [table(["VM", "HYPERVISOR", "PLAN", "WHAT"], rows)] if rows else []
    return "\n".join([*lines, summary(entries)]) + "\n"
