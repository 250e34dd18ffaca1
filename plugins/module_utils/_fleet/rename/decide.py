# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide from all hypervisors' answers where a VM is renamed, or why not."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from ..._errors import PlanRefused
from ..base.json_values import as_list, as_mappings, as_text
from ..base.names import require_named
from ..base.results import word
from ..base.tables import table
from ..engine import located, proofs
from ..engine.outcomes import Answer, outcomes
from .plan import PHASE

_HEADS = ["VM", "HYPERVISOR", "RESULT", "STEPS"]


@dataclass(frozen=True)
class Vm:
    """A VM of a hypervisor."""

    name: str
    uuid: str | None
    phase: str | None
    renamed_from: str | None


@dataclass(frozen=True)
class Fleet:
    """The VMs of each hypervisor of the play. ``silent`` did not respond and are not declared
    lost."""

    vms_by_host: Mapping[str, tuple[Vm, ...]]
    silent: located.Silences


def fleet(
    registered: Mapping[str, Answer], expected: t.Sequence[str] | None, lost: t.Sequence[str]
) -> Fleet:
    """Parse the registered results; raises PlanRefused as :func:`located.sort` does."""
    answers, silent = located.sort(registered, "defined", expected, lost)
    return Fleet({name: _vms(answer) for name, answer in answers.items()}, silent)


def _vms(answer: Answer) -> tuple[Vm, ...]:
    return tuple(
        Vm(
            str(vm["name"]),
            as_text(vm.get("uuid")),
            as_text(vm.get("phase")),
            as_text(vm.get("renamed_from")),
        )
        for vm in as_mappings(answer.get("defined"))
    )


def decide(old: str, new: str, seen: Fleet) -> str:
    """The hypervisor that renames the VM; raises PlanRefused with everything that is unproven."""
    require_named([old, new])
    problems = _unproven(new, seen)
    begun = _begun(old, new, seen)
    where = None
    if begun:
        where = begun[0]
    else:
        location = located.locate([old], seen.vms_by_host, seen.silent)
        problems += location.problems
        if location.absent and not proofs.missing("absent", seen.silent):
            problems.append(f"no hypervisor has a VM {old!r}; fleet.virt.list shows the VMs")
        where = location.places[old][0] if old in location.places else None
    problems += clashes(old, new, where, seen)
    if problems or where is None:
        raise PlanRefused("; ".join(dict.fromkeys(problems)) or f"{old!r} does not exist")
    return where


def _begun(old: str, new: str, seen: Fleet) -> list[str]:
    """Where the VM already has the new name; another VM may have got the old name since."""
    if any(vm.name == old for vms in seen.vms_by_host.values() for vm in vms):
        return []
    return [
        host
        for host, vms in seen.vms_by_host.items()
        for vm in vms
        if (vm.name, vm.renamed_from) == (new, old)
    ]


def _unproven(new: str, seen: Fleet) -> list[str]:
    missing = proofs.missing("rename", seen.silent)
    if not missing:
        return []
    return [
        f"a VM {new!r} may be on a hypervisor that did not respond ({proofs.named(missing)});"
        f" {proofs.remedy(missing)}"
    ]


def clashes(old: str, new: str, where: str | None, seen: Fleet) -> list[str]:
    """Other VMs that have the new name, ignoring case."""
    conflicts = []
    for host, vms in seen.vms_by_host.items():
        for vm in vms:
            itself = host == where and old in (vm.name, vm.renamed_from)
            if vm.name.lower() == new.lower() and not itself:
                what = f"in phase {vm.phase}" if vm.phase else "a VM"
                conflicts.append(
                    f"{vm.name!r} is on {host} ({what}); VM names are unique, ignoring case:"
                    " choose another"
                )
    return conflicts


def confirm(old: str, new: str, host: str, seen: Fleet) -> str:
    """Conflicts with the new name now that it is in use; empty if there are none."""
    return "; ".join([*_unproven(new, seen), *clashes(old, new, host, seen)])


def report(
    old: str,
    new: str,
    host: str,
    answers: Mapping[str, Answer],
    problem: str,
    *,
    check: bool,
    taken: Mapping[str, Answer] | None = None,
) -> tuple[str, list[str]]:
    """The report as text, and the failures. ``taken`` is the answer of the stage before, whose
    steps were done first."""
    (outcome,) = outcomes({host: [new]}, answers)
    entries = [outcome.entry or {}]
    if taken is not None:
        (first,) = outcomes({host: [new]}, taken)
        entries.insert(0, first.entry or {})
    changed = any(entry.get("changed") for entry in entries)
    failures = [f"renaming {old} to {outcome.problem}"] if outcome.problem is not None else []
    if problem:
        back = "" if outcome.problem is not None or check else "; it has its old name again"
        failures.insert(0, f"{old!r} is not renamed to {new!r}: {problem}{back}")
    done = "would be renamed" if check else "renamed"
    steps = [str(step) for entry in entries for step in as_list(entry.get("steps"))]
    steps += [
        f"keep the name of {volume['path']}: {volume['reason']}"
        for volume in as_mappings(entries[0].get("kept"))
    ]
    status = "failed" if failures else word({"changed": changed}, done)
    row = [f"{old} to {new}", host, status, "; ".join(steps)]
    return table(_HEADS, [row]) + "\n", failures


__all__ = ["PHASE", "Fleet", "clashes", "confirm", "decide", "fleet", "report"]
