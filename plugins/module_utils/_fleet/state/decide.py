# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide from all answers where each domain is brought to a state, and report on it."""

from __future__ import annotations

import typing as t

from ..._errors import PlanRefused
from ..._records import dataclass, field
from ..base.json_values import as_list, as_mapping, as_text
from ..base.results import NOT_TRIED, word
from ..base.selected import Selected
from ..base.tables import table
from ..engine import located, proofs
from ..engine.outcomes import Answer, Failure, Outcome, outcomes
from . import start_order
from .facts import Brought, BroughtVm, StateLook, StateVm
from .plan import StateRequest

Fleet = located.Fleet[StateLook]
_HEADS = ["VM", "HYPERVISOR", "STATE", "RESULT", "STEPS"]


@dataclass
class StateDecision:
    """The names that each hypervisor brings to the state, all of them and round by round; there is
    always a round. ``silent`` as in :class:`located.Located`."""

    shares: dict[str, list[str]] = field(default_factory=dict)
    rounds: list[dict[str, list[str]]] = field(default_factory=list)
    silent: str = ""


def decide(
    names: t.Sequence[str],
    groups: t.Sequence[str],
    seen: Fleet,
    wanted: StateRequest,
    host: str = "",
) -> StateDecision:
    """Where each VM of ``names``, names or patterns, and of ``groups`` is, only those on ``host``
    if one is named; raises PlanRefused with everything that is not proven."""
    selected = Selected.of(names, groups)
    vms = located.vms_by_host(seen, StateVm)
    where = located.select(selected, vms, seen.silent, host=host, nowhere=True)
    problems = [*where.problems, *located.absences(where, seen.silent)]
    if problems:
        raise PlanRefused("; ".join(problems))
    decision = StateDecision(silent=where.silent)
    able = [
        (host, vm)
        for host, vm in where.places.values()
        if not proofs.missing("state", seen.silent, host)
    ]
    decision.shares = _shares(able)
    rounds = start_order.rounds(able, lambda place: place[1]["start_order"], wanted)
    decision.rounds = [_shares(places) for places in rounds] or [{}]
    return decision


def _shares(placed: t.Iterable[tuple[str, StateVm]]) -> dict[str, list[str]]:
    shares: dict[str, list[str]] = {}
    for host, vm in placed:
        shares.setdefault(host, []).append(vm["name"])
    return shares


@dataclass
class Told:
    """The outcomes for VMs: a row of the table for each, and the failures by name."""

    rows: list[list[str | None]] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)


def earlier_outcomes(note: object) -> Told:
    """Parse the outcomes of an earlier round, returned through Ansible."""
    known = as_mapping(note)
    rows = [[as_text(cell) for cell in as_list(row)] for row in as_list(known.get("rows"))]
    failures = {name: str(why) for name, why in as_mapping(known.get("failures")).items()}
    return Told(rows, failures)


def tell(
    shares: t.Mapping[str, t.Sequence[str]],
    answers: t.Mapping[str, Brought],
    earlier: Told,
    *,
    check: bool = False,
) -> Told:
    """The outcomes for the ``shares`` of a round, after ``earlier``. A failure stops the rest.

    The state of each is libvirt's own: in ``check`` mode, the one that nothing has changed.
    """
    rows, failures = list(earlier.rows), dict(earlier.failures)
    failed = [str(row[0]) for row in rows if row[3] == "failed"]
    if failed:
        for host, names in shares.items():
            for name in names:
                why = start_order.not_begun(name, failed)
                failures[name] = f"{name} on {host}: {why}"
                rows.append([name, host, None, NOT_TRIED, None])
        return Told(rows, failures)
    for outcome in outcomes(shares, answers, BroughtVm):
        entry = outcome.entry
        if outcome.problem is not None:
            failures[outcome.name] = outcome.problem
        status = word(outcome.entry, "changed", outcome.problem)
        state, details = None, []
        if entry is not None:
            state = entry["before" if check else "state"]
            note = entry["msg"] if outcome.problem is None else None
            details = [*entry["steps"], *([note] if note else [])]
        rows.append([outcome.name, outcome.host, state, status, "; ".join(details)])
    return Told(rows, failures)


def ends(told: Told) -> list[Outcome[Answer]]:
    """What came of each VM, as others are told of it."""
    return [
        Outcome(
            str(row[1]),
            str(row[0]),
            {"changed": row[3] == "changed", "not_tried": row[3] == NOT_TRIED},
            told.failures.get(str(row[0])) if row[3] != NOT_TRIED else None,
        )
        for row in told.rows
    ]


def report(so_far: Told, silent: str, *, check: bool) -> tuple[str, list[str]]:
    """The report as text, and the failures."""
    words = {"changed": "would change"} if check else {}
    rows = [[*row[:3], words.get(str(row[3]), row[3]), *row[4:]] for row in so_far.rows]
    # Ansible returned what the rounds noted, as text alone
    places = {str(row[0]): str(row[1]) for row in so_far.rows}
    own = [Failure(places.get(name, ""), why) for name, why in so_far.failures.items()]
    failures = [*own, *located.not_done(silent)]
    return table(_HEADS, sorted(rows, key=lambda row: str(row[0]))) + "\n", failures
