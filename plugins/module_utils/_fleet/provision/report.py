# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Report on VMs that were to be created and to answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..._records import dataclass, field
from ..base.json_values import as_list, as_mappings
from ..engine import outcomes
from ..engine.outcomes import Answer
from ..state.actions import RUNNING

Shares = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Made:
    """Requests and answers, each by hypervisor.

    ``requested`` are names of VMs to create, ``created`` the answers, ``done`` entries of earlier
    rounds. ``waits`` are VMs to wait for once they are created; ``waited`` are the answers to that.
    ``withdrawn`` are names whose claims were withdrawn, ``restarted`` those that were restarted
    since, because a change required it.
    """

    requested: Shares
    created: Mapping[str, Answer]
    done: Mapping[str, Sequence[Answer]] = field(default_factory=dict)
    waits: Shares = field(default_factory=dict)
    waited: Mapping[str, Answer] = field(default_factory=dict)
    withdrawn: Shares = field(default_factory=dict)
    restarted: frozenset[str] = frozenset()


def report(made: Made, *, check: bool) -> tuple[list[dict[str, object]], list[str]]:
    """Each hypervisor with its VMs, and the failures.

    The entry of a VM has its ``address``, whether it was ``waited`` for, and whether it
    ``answered``: None if it was not waited for, or if there is no result. If only its SSH server
    answers, ``first_boot`` says why that is not enough. ``restarted`` is there if it was.
    """
    answers = {host: _with_done(made, host) for host in made.requested}
    vm_outcomes = outcomes.outcomes(made.requested, answers)
    failures = [outcome.problem for outcome in vm_outcomes if outcome.problem]
    running = {
        (outcome.host, outcome.name)
        for outcome in vm_outcomes
        if not outcome.problem and _runs(outcome.entry or {})
    }
    waits = {
        host: [name for name in names if (host, name) in running]
        for host, names in ({} if check else made.waits).items()
    }
    heard = {
        (outcome.host, outcome.name): outcome for outcome in outcomes.outcomes(waits, made.waited)
    }
    vms: dict[str, list[dict[str, object]]] = {}
    for outcome in vm_outcomes:
        entry = outcome.entry or outcomes.failed_entry(outcome, answers[outcome.host])
        wait = heard.get((outcome.host, outcome.name))
        said = (wait.entry or {}) if wait else {}
        answered = bool(said.get("answered")) if said else None
        if wait is not None and not answered:
            failures.append(wait.problem or _unanswered(wait))
        if outcome.name in made.restarted and not check:
            entry = {**entry, "restart_required": False, "restarted": True}
        vms.setdefault(outcome.host, []).append(
            {
                **entry,
                "address": said.get("address"),
                "waited": wait is not None,
                "answered": answered,
                "first_boot": said.get("first_boot"),
            }
        )
    hypervisors: list[dict[str, object]] = [
        {"name": host, "answered": True, "error": None, "vms": entries}
        for host, entries in vms.items()
    ]
    return hypervisors, failures + _left(made, check=check)


def ends(hypervisors: Sequence[Answer], failures: Sequence[str]) -> list[outcomes.Outcome[Answer]]:
    """What came of each VM of a report, as others are told of it."""
    return [
        outcomes.Outcome(str(entry["name"]), str(vm["name"]), vm, _problem(entry, vm, failures))
        for entry in hypervisors
        for vm in as_mappings(entry["vms"])
    ]


def _problem(entry: Answer, vm: Answer, failures: Sequence[str]) -> str | None:
    """The failure that is about a VM, as all of them begin."""
    start = f"{vm['name']} on {entry['name']}: "
    return next((failure for failure in failures if failure.startswith(start)), None)


def _runs(entry: Answer) -> bool:
    """Whether the VM was left running, so that it is waited for."""
    return entry.get("state") in (None, *RUNNING)


def _with_done(made: Made, host: str) -> Answer:
    """The last answer, with the entries of earlier rounds before its own."""
    answer = made.created.get(host) or {}
    done = made.done.get(host)
    if not done:
        return answer
    return {**answer, "vms": [*done, *as_list(answer.get("vms"))]}


def _unanswered(wait: outcomes.Outcome[Answer]) -> str:
    entry = wait.entry or {}
    problem = entry.get("msg") or "it does not answer"
    if entry.get("first_boot"):  # which says what to do
        return f"{wait.name} on {wait.host}: {problem}"
    return (
        f"{wait.name} on {wait.host}: {problem}; it exists, but there is no sign that it works:"
        " check its console"
    )


def _left(made: Made, *, check: bool) -> list[str]:
    """Claims that may still exist, because their withdrawal was not confirmed."""
    if check:
        return []
    silent = outcomes.without_answer(made.withdrawn, made.created, "vms")
    return [
        f"{host}: the claim of {', '.join(made.withdrawn[host])} may still exist because it was not"
        f" withdrawn: {why}; run the same command again, which takes it over"
        for host, why in silent.items()
    ]
