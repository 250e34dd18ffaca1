# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide from all hypervisors' answers where a VM is renamed, or why not."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ..._errors import PlanRefused
from ..base.names import require_named
from ..base.results import word
from ..base.tables import table
from ..cards import leftover
from ..engine import located, proofs
from ..engine.outcomes import Failure, outcomes
from ..notes import note, rule
from .facts import Renamed, RenamedVm, RenameLook, RenameVm
from .plan import PHASE

_HEADS = ["VM", "HYPERVISOR", "RESULT", "STEPS"]


Fleet = located.Fleet[RenameLook]
Names = t.Collection[str]


def _vms_by_host(seen: Fleet) -> dict[str, list[RenameVm]]:
    return {host: answer.get("defined") or [] for host, answer in seen.answers.items()}


def answering(seen: Fleet) -> dict[str, rule.Answering]:
    """The hypervisors that answered, with the notes that they hold."""
    return {
        host: rule.Answering(str(answer.get("machine")), answer.get("notes") or ())
        for host, answer in seen.answers.items()
    }


def claims(seen: Fleet) -> list[str]:
    """The claims that they hold, by the volumes."""
    return sorted({one for host in answering(seen).values() for one in note.claims_in(host.held)})


def standing(seen: Fleet, texts: rule.Texts, excused: t.Collection[str]) -> rule.Standing:
    """What is known of those that did not answer, by the ``texts`` of what others noted."""
    return rule.judge(
        answering(seen), proofs.missing("rename", seen.silent), texts, excused, "renamed"
    )


def decide(old: str, new: str, seen: Fleet, known: rule.Standing, only: str = "") -> str:
    """The hypervisor that renames the VM, which is ``only`` if that is not empty; raises
    PlanRefused with everything that is unproven."""
    require_named([old, new])
    problems = _unproven(new, seen, known)
    vms = _vms_by_host(seen)
    begun = _begun(old, new, located.on_host(only, vms, seen.silent) if only else vms)
    where = None
    if begun:
        where = begun[0]
    else:
        location = located.locate([old], vms, seen.silent, host=only, whole=True)
        problems += [*location.problems, *located.absences(location, seen.silent)]
        where = location.places[old][0] if old in location.places else None
    problems += clashes(old, new, where, seen)
    if problems or where is None:
        why = "; ".join(dict.fromkeys(problems)) or f"{old!r} does not exist"
        raise PlanRefused(f"{old!r} is not renamed to {new!r}: {why}")
    return where


def _begun(old: str, new: str, vms_by_host: t.Mapping[str, t.Sequence[RenameVm]]) -> list[str]:
    """Where the VM already has the new name; another VM may have got the old name since."""
    vms = [(host, vm) for host, vms in vms_by_host.items() for vm in vms]
    if any(vm["name"] == old for _host, vm in vms):
        return []
    return [
        host
        for host, vm in vms
        if (vm["name"], vm["renamed_from"]) == (new, old) and not vm.get("error")
    ]


def _unproven(new: str, seen: Fleet, known: rule.Standing) -> list[str]:
    """Why the new name may be taken on a hypervisor that did not answer."""
    uuids = leftover.uuids(vm for vms in _vms_by_host(seen).values() for vm in vms)
    return [*rule.not_free([rule.Wanted(new)], known, uuids).values()]


def clashes(old: str, new: str, where: str | None, seen: Fleet) -> list[str]:
    """Other VMs that have the new name, ignoring case."""
    conflicts = []
    for host, vms in _vms_by_host(seen).items():
        for vm in vms:
            itself = host == where and old in (vm["name"], vm["renamed_from"])
            if vm["name"].lower() == new.lower() and not itself:
                what = f"in phase {vm['phase']}" if vm["phase"] else "a VM"
                conflicts.append(
                    f"{vm['name']!r} is on {host} ({what}); VM names are unique, ignoring case:"
                    " choose another"
                )
    return conflicts


def confirm(
    old: str, new: str, host: str, seen: Fleet, known: rule.Standing, run: str, before: Names
) -> str:
    """Conflicts with the new name now that it is in use; empty if there are none. ``run`` has
    claimed it on those that are ``seen``, which held the claims ``before``."""
    claimed = rule.claimed(rule.Wanted(new), answering(seen), run, before)
    problems = [*_unproven(new, seen, known), *clashes(old, new, host, seen), *claimed]
    return "; ".join(problems)


def report(
    old: str,
    new: str,
    host: str,
    answers: Mapping[str, Renamed],
    problem: str,
    *,
    check: bool,
    taken: Mapping[str, Renamed] | None = None,
) -> tuple[str, list[str]]:
    """The report as text, and the failures. ``taken`` is the answer of the stage before, whose
    steps were done first."""
    stages = [taken, answers] if taken is not None else [answers]
    ends = [outcomes({host: [new]}, stage, RenamedVm)[0] for stage in stages]
    first, outcome = ends[0], ends[-1]
    known = [end.entry for end in ends if end.entry is not None]
    changed = any(entry["changed"] for entry in known)
    failures: list[str] = []
    if outcome.problem is not None:
        failures.append(Failure(host, f"renaming {old} to {outcome.problem}"))
    if problem:
        back = "" if outcome.problem is not None or check else "; it has its old name again"
        why = f"{old!r} is not renamed to {new!r}: {problem}{back}"
        failures.insert(0, Failure(host, why))
    done = "would be renamed" if check else "renamed"
    steps = [step for entry in known for step in entry["steps"]]
    steps += [
        f"keep the name of {file['path']}: {file['reason']}"
        for file in (first.entry["kept"] if first.entry is not None else ())
    ]
    status = "failed" if failures else word({"changed": changed}, done)
    row = [f"{old} to {new}", host, status, "; ".join(steps)]
    return table(_HEADS, [row]) + "\n", failures


__all__ = ["PHASE", "Fleet", "clashes", "confirm", "decide", "report"]
