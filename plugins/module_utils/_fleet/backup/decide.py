# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide from all hypervisors' answers where the VMs are, and report on their backups."""

from __future__ import annotations

import typing as t

from ..base.results import word
from ..base.selected import Selected
from ..base.tables import table
from ..engine import located
from ..engine.outcomes import outcomes
from .facts import BackedUp, BackedUpVm, BackupLook

_HEADS = ["VM", "HYPERVISOR", "RESULT", "ARCHIVE", "CONSISTENCY", "SIZE MiB", "NEW MiB"]
_MIB = 1024**2

Fleet = located.Fleet[BackupLook]


def fleet(
    registered: t.Mapping[str, BackupLook],
    expected: t.Sequence[str] | None,
    lost: t.Sequence[str],
) -> Fleet:
    """Who answered; raises PlanRefused as :func:`located.sort` does."""
    return located.sort(registered, "vms", expected, lost)


def decide(names: t.Sequence[str], seen: Fleet, groups: t.Sequence[str] = ()) -> located.Shares:
    """Where each VM of ``names``, names or patterns, and of ``groups`` is; raises PlanRefused with
    everything that is unproven."""
    vms = {host: answer.get("vms") or [] for host, answer in seen.answers.items()}
    return located.shares(Selected.of(names, groups), vms, seen.silent)


def report(
    shares: t.Mapping[str, t.Sequence[str]], answers: t.Mapping[str, BackedUp], *, check: bool
) -> tuple[str, list[str]]:
    """The report as text, and the failures."""
    rows: list[list[str | None]] = []
    failures = []
    for vm in outcomes(shares, answers, BackedUpVm):
        if vm.problem is not None:
            failures.append(vm.problem)
        entry = vm.entry
        outcome = word(entry, "would be saved" if check else "saved", vm.problem)
        cells: list[str | None] = [None] * 4
        if entry is not None:
            cells = [
                entry["archive"],
                entry["consistency"],
                _mib(entry["size"]),
                _mib(entry["added"]),
            ]
        rows.append([vm.name, vm.host, outcome, *cells])
    return table(_HEADS, sorted(rows, key=lambda row: str(row[0]))) + "\n", failures


def _mib(size: int | None) -> str | None:
    return None if size is None else f"{size / _MIB:.1f}"
