# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What came of restarting VMs elsewhere: every name has an outcome."""

from __future__ import annotations

import typing as t

from ..._records import dataclass, field
from ..base.results import word
from ..base.tables import clean, table
from ..engine.outcomes import Answer, Failure, Outcome, outcomes
from .facts import Restarted, RestartedVm

_HEADS = ["VM", "FROM", "TO", "STATE", "RESULT", "STEPS"]
RUNNING, OFF = "running", "shut off"


@dataclass
class Starts:
    """Of the VMs that were taken over: the ``names`` of those to be started; all, by hypervisor,
    and those that are to respond then."""

    names: list[str] = field(default_factory=list)
    taken: dict[str, list[str]] = field(default_factory=dict)
    waits: dict[str, list[str]] = field(default_factory=dict)


def starts(shares: t.Mapping[str, t.Sequence[str]], answers: t.Mapping[str, Restarted]) -> Starts:
    """What follows for the VMs that were taken over."""
    made = Starts()
    for outcome in outcomes(shares, answers, RestartedVm):
        if outcome.entry is not None and outcome.problem is None:
            made.taken.setdefault(outcome.host, []).append(outcome.name)
            if outcome.entry["running"]:
                made.names.append(outcome.name)
            if outcome.entry["waits"]:
                made.waits.setdefault(outcome.host, []).append(outcome.name)
    return made


def report(
    hosts: t.Sequence[str],
    origins: t.Mapping[str, str],
    shares: t.Mapping[str, t.Sequence[str]],
    failures: t.Mapping[str, str],
    answers: t.Mapping[str, Restarted],
    finished: t.Mapping[str, Restarted],
    not_started: t.Mapping[str, str],
    *,
    check: bool,
) -> tuple[str, list[str], list[Outcome[Answer]]]:
    """A table of the outcomes, the failures, and what came of each VM.

    ``hosts`` are off, ``origins`` says which of them had a VM that was taken over. ``not_started``
    are the reasons of those that were taken over and could not be started, or do not respond."""
    rows: list[list[str | None]] = []
    host = " or ".join(hosts)
    problems: list[str] = []
    ends: list[Outcome[Answer]] = []
    last = {
        (outcome.host, outcome.name): outcome.problem
        for outcome in outcomes(shares, finished, RestartedVm)
    }
    for outcome in outcomes(shares, answers, RestartedVm):
        entry, problem = outcome.entry, outcome.problem
        why = problem
        if why is None and not check:
            why = not_started.get(outcome.name) or last.get((outcome.host, outcome.name))
        done = "would be restarted" if check else "restarted"
        state = None
        if entry is not None:
            state = RUNNING if entry["running"] else OFF
            done = done if entry["running"] else done.replace("restarted", "defined")
        steps = "; ".join(entry["steps"]) if entry is not None else None
        status = "failed" if why else word({"changed": True}, done)
        rows.append([outcome.name, origins.get(outcome.name), outcome.host, state, status, steps])
        ends.append(Outcome(outcome.host, outcome.name, {"changed": True}, why or None))
        if why:
            problems.append(why if isinstance(why, Failure) else Failure(outcome.host, why))
    for name, reason in failures.items():
        rows.append([name, host, None, None, "stays", None])
        problem = f"{clean(name)} stays on {host}: {clean(reason)}"
        problems.append(problem)
        ends.append(Outcome(host, name, None, problem))
    text = table(_HEADS, rows) + "\n" if rows else f"no VM of {host} has a card; nothing to do\n"
    return text, problems, ends
