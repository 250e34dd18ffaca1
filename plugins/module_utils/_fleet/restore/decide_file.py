# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide which hypervisor reads a file of a guest from its backup, and report on it."""

from __future__ import annotations

import typing as t

from ..._errors import PlanRefused
from ..base.tables import table
from ..engine.outcomes import outcomes
from .facts import FileLook, FileRestored, RestoredFile

_HEADS = ["VM", "READ ON", "RESULT", "ARCHIVE", "BYTES", "FILE"]


def decide(name: str, host: str | None, answers: t.Mapping[str, FileLook]) -> dict[str, list[str]]:
    """The hypervisor that reads it: ``host``, or the first that can; raises PlanRefused."""
    if host is not None and host not in answers:
        raise PlanRefused(f"vm_host: {host} is no hypervisor; there are: {', '.join(answers)}")
    reasons = []
    for place, answer in answers.items():
        lacks = answer.get("lacks")
        if host not in (None, place):
            continue
        if lacks is None:
            reasons.append(f"{place} did not answer")
        elif lacks:
            reasons.append(f"{place}: {'; '.join(lacks)}")
        else:
            return {place: [name]}
    raise PlanRefused(
        "no hypervisor can read files of guests, which libguestfs does; one that has it is enough."
        f" {'. '.join(reasons)}"
    )


def report(
    shares: t.Mapping[str, t.Sequence[str]],
    answers: t.Mapping[str, FileRestored],
    archive: str,
    dest: str,
    *,
    check: bool,
) -> tuple[str, list[str]]:
    """A table of what came of it, and the failures."""
    rows: list[list[str | None]] = []
    failures = []
    for outcome in outcomes(shares, answers, RestoredFile):
        entry, problem = outcome.entry, outcome.problem
        status = "failed"
        if entry is not None and not problem:
            done = "would be written" if check else "written"
            status = done if entry["changed"] else "unchanged"
        size = None if entry is None else str(entry["size"])
        rows.append([outcome.name, outcome.host, status, archive, size, dest])
        if problem is not None:
            failures.append(problem)
    return table(_HEADS, rows) + "\n", failures
