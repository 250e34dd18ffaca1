# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide which hypervisor restores a disk beside its VM, and report on it."""

from __future__ import annotations

import typing as t

from ..._errors import PlanRefused
from ..base import duplicate_vm as twice
from ..base.names import playbook_command
from ..base.results import word
from ..base.tables import table
from ..engine import located, proofs
from ..engine.outcomes import outcomes
from .facts import DiskLook, DiskRestored, RestoredDisk
from .options import SavedVm

_HEADS = ["VM", "HYPERVISOR", "RESULT", "ARCHIVE", "VOLUME"]

Fleet = located.Fleet[DiskLook]


def decide(vm: SavedVm, seen: Fleet) -> dict[str, list[str]]:
    """The hypervisor that has the VM, and the name that it has there; raises PlanRefused."""
    places = {
        host: one
        for host, answer in seen.answers.items()
        for one in answer.get("disks") or ()
        if one["uuid"] == vm.uuid
    }
    if len(places) > 1:
        phases = {host: one["phase"] for host, one in places.items()}
        raise PlanRefused(twice.duplicate_vm_message(vm.name, phases, [vm.uuid]))
    if not places:
        missing = proofs.missing("absent", seen.silent)
        why = f" that answered; it may be on {proofs.named(missing)}" if missing else ""
        raise PlanRefused(
            f"{vm.name!r} ({vm.uuid}) is on no hypervisor{why}, and a disk is restored beside its"
            f" VM; restore the VM: {playbook_command('restore', vm_name=vm.name)}"
        )
    return {host: [one["name"]] for host, one in places.items()}


def report(
    shares: t.Mapping[str, t.Sequence[str]],
    answers: t.Mapping[str, DiskRestored],
    archive: str,
    *,
    check: bool,
) -> tuple[str, list[str]]:
    """A table of what came of it, and the failures."""
    rows: list[list[str | None]] = []
    failures = []
    for outcome in outcomes(shares, answers, RestoredDisk):
        entry, problem = outcome.entry, outcome.problem
        status = word(entry, "would be restored" if check else "restored", problem)
        if entry is not None and not problem and not entry["changed"]:
            status = "exists already, and stays as it is"
        path = None if entry is None else entry["path"]
        rows.append([outcome.name, outcome.host, status, archive, path])
        if problem is not None:
            failures.append(problem)
    return table(_HEADS, rows) + "\n", failures
