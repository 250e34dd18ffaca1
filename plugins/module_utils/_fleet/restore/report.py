# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What came of restoring VMs: every name has an outcome."""

from __future__ import annotations

import typing as t

from ..base.results import word
from ..base.tables import table
from ..engine.outcomes import Answer, Failure, Outcome, outcomes
from .facts import Restored, RestoredVm

_HEADS = ["VM", "HYPERVISOR", "RESULT", "ARCHIVE", "STEPS"]


def report(
    shares: t.Mapping[str, t.Sequence[str]],
    there: t.Mapping[str, str],
    archives: t.Mapping[str, str],
    claimed: t.Mapping[str, Restored],
    finished: t.Mapping[str, Restored],
    withdrawn: t.Mapping[str, str],
    *,
    check: bool,
) -> tuple[str, list[str], list[Outcome[Answer]]]:
    """A table of the outcomes, the failures, and what came of each VM.

    ``withdrawn`` are the reasons of VMs whose claim was taken back."""
    rows: list[list[str | None]] = []
    problems: list[str] = []
    ends: list[Outcome[Answer]] = []
    last = {
        (outcome.host, outcome.name): outcome
        for outcome in outcomes(shares, claimed if check else finished, RestoredVm)
    }
    for outcome in outcomes(shares, claimed, RestoredVm):
        name, host, why = outcome.name, outcome.host, outcome.problem
        end = outcome
        if why is None and name in withdrawn:
            what = "would not be" if check else "is not"
            why = Failure(host, f"{name!r} {what} restored: {withdrawn[name]}")
        elif why is None:
            end = last[host, name]
            why = end.problem
        steps = [] if why or end.entry is None else end.entry["steps"]
        done = "would be restored" if check else "restored, shut off"
        status = "failed" if why else word({"changed": True}, done)
        rows.append([name, host, status, archives.get(name), "; ".join(steps)])
        ends.append(Outcome(host, name, {"changed": True}, why or None))
        if why:
            problems.append(why if isinstance(why, Failure) else Failure(host, why))
    for name, host in there.items():
        rows.append([name, host, "restored before", archives.get(name), None])
        ends.append(Outcome(host, name, {"changed": False}, None))
    return table(_HEADS, rows) + "\n", problems, ends
