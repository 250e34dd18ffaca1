# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide from all hypervisors' answers where the VMs are whose disks move, and report on them."""

from __future__ import annotations

import typing as t

from ..base.results import word
from ..base.selected import Selected
from ..base.tables import table
from ..engine import located
from ..engine.outcomes import outcomes
from .facts import DiskLook, DiskMoved, DiskMovedVm

_HEADS = ["VM", "HYPERVISOR", "RESULT", "DISK", "KEPT"]


def decide(
    names: t.Sequence[str],
    seen: located.Fleet[DiskLook],
    groups: t.Sequence[str] = (),
    host: str = "",
) -> located.Shares:
    """Where each VM of ``names``, names or patterns, and of ``groups`` is, only those on ``host``
    if one is named; raises PlanRefused with everything that is unproven."""
    vms = {host: answer.get("vms") or [] for host, answer in seen.answers.items()}
    return located.shares(Selected.of(names, groups), vms, seen.silent, host)


def report(
    shares: t.Mapping[str, t.Sequence[str]], answers: t.Mapping[str, DiskMoved], *, check: bool
) -> tuple[str, list[str]]:
    """The report as text, and the failures."""
    rows: list[list[str | None]] = []
    failures = []
    for vm in outcomes(shares, answers, DiskMovedVm):
        if vm.problem is not None:
            failures.append(vm.problem)
        outcome = word(vm.entry, "would be moved" if check else "moved", vm.problem)
        path = vm.entry["path"] if vm.entry is not None else None
        kept = vm.entry["kept"] if vm.entry is not None else None
        left = f"{kept['path']}: {kept['reason']}" if kept is not None else ""
        rows.append([vm.name, vm.host, outcome, path, left])
    return table(_HEADS, sorted(rows, key=lambda row: str(row[0]))) + "\n", failures
