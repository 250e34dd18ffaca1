# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Evacuate a hypervisor and return its VMs: which VMs move, and where each of them goes.

All are placed at once, the largest first. One that cannot move is a problem and stops no other.
"""

from __future__ import annotations

import dataclasses
import operator
import typing as t

from ..._errors import PlanRefused
from ..base.names import playbook_command
from ..cards import leftover
from ..engine import proofs
from ..placement import decide as placement
from ..placement import together
from ..placement.types import Policy
from . import decide as migration_decision
from .decide import MigrationDecision, Mute
from .lost_source import Answer

LOST = "it is lost"  # of a hypervisor, as a reason against placing a VM there


def leave(
    source: str,
    answers: t.Mapping[str, Answer],
    hosts: t.Sequence[placement.PlacementHost],
    mute: Mute,
    policy: Policy,
    *,
    relax: bool = False,
    partly: bool = False,
) -> MigrationDecision:
    """Where the VMs of ``source`` go, including those that an earlier run was moving.

    With ``relax``, one that fits nowhere by anti-affinity goes where it does without. ``partly``:
    one that is off and cannot go is no failure. A VM that was not made by this collection stays.
    """
    migration_decision.require("evacuate", source, answers, mute)
    marked = [_with_mark(host, True) if host.name == source else host for host in hosts]
    names = {str(vm["name"]): vm for vm in _own(answers[source])}
    for name, vm in _under_way(answers).items():
        if vm["move"]["source"] == source:
            names.setdefault(name, vm)
    left_out = [name for name, silence in mute.items() if not silence.asked]
    if names and left_out and not set(answers) - {source}:
        raise PlanRefused(
            f"--limit leaves out every hypervisor that could take the VMs of {source}"
            f" ({', '.join(left_out)}), so nothing would move, and it is not marked as in"
            " maintenance; run without --limit"
        )
    foreign = {name: names.pop(name) for name, vm in [*names.items()] if vm.get("foreign")}
    off = [name for name, vm in names.items() if not (vm["active"] or vm.get("error"))]
    may_stay = off if partly else []
    decision = _decide(names, None, answers, marked, mute, policy, relax=relax, may_stay=may_stay)
    for name, vm in foreign.items():
        kind = decision.problems if vm["active"] or not partly else decision.notes
        kind.append(
            f"{name!r} stays on {source}: it was not made by this collection, so that it is unknown"
            f" which files belong to it ({playbook_command('adopt', vm_name=name)} takes it over)"
        )
    if decision.kept_away:
        decision.problems.append(
            f"only affinity or anti-affinity keeps {', '.join(decision.kept_away)} on {source};"
            " -e virt_relax=true breaks it for this evacuation"
        )
    decision.problems += [
        f"{name!r} was being moved to {source}, and that move is finished first; run this again to"
        " move it away"
        for moves in decision.shares.values()
        for name, to in moves
        if to == source
    ]
    return decision


def lose(
    sources: t.Collection[str],
    answers: t.Mapping[str, Answer],
    hosts: t.Sequence[placement.PlacementHost],
    policy: Policy,
) -> MigrationDecision:
    """Where the VMs of all ``sources`` go if none of these is there any more, planned as an
    evacuation is. One that goes nowhere is a problem."""
    gone = [
        dataclasses.replace(host, problem=LOST, problem_filter="lost")
        if host.name in sources
        else host
        for host in hosts
    ]
    names = {str(vm["name"]): vm for source in sources for vm in _own(answers[source])}
    decision = _decide(names, None, answers, gone, {}, policy)
    decision.problems += [
        f"{name!r} is being moved to {to}, which is lost too"
        for moves in decision.shares.values()
        for name, to in moves
        if to in sources
    ]
    return decision


def come_back(
    home: str,
    answers: t.Mapping[str, Answer],
    hosts: t.Sequence[placement.PlacementHost],
    mute: Mute,
    policy: Policy,
    *,
    partly: bool = False,
) -> MigrationDecision:
    """Which VMs that were evacuated from ``home`` return, as far as they fit, including those that
    an earlier run was moving. ``partly``: those that a silent hypervisor may have are no failure.
    """
    migration_decision.require("return", home, answers, mute)
    ready = [_with_mark(host, False) if host.name == home else host for host in hosts]
    names = {
        str(vm["name"]): vm
        for where, answer in answers.items()
        for vm in _own(answer)
        if where != home and home in vm["evacuated_from"]
    }
    for name, vm in _under_way(answers).items():
        if vm["move"]["destination"] == home:
            names.setdefault(name, vm)
    decision = _decide(names, home, answers, ready, mute, policy)
    asked = {name: silence for name, silence in mute.items() if silence.asked}
    missing = proofs.missing("return all", asked)
    if missing:
        (decision.notes if partly else decision.problems).append(
            f"VMs of {home} on a hypervisor that did not respond are not returned now"
            f" ({proofs.named(missing)}); {proofs.remedy(missing)}; then run this again"
        )
    return decision


def _with_mark(host: placement.PlacementHost, mark: bool) -> placement.PlacementHost:
    """The hypervisor as it is once the mark is set or removed: check mode did not change it."""
    return dataclasses.replace(host, maintenance=mark) if host.maintenance is not None else host


def _under_way(answers: t.Mapping[str, Answer]) -> dict[str, Answer]:
    return {
        str(vm["name"]): vm
        for answer in answers.values()
        for vm in _own(answer)
        if vm["phase"] == "migrating" and vm["move"]
    }


def _own(answer: Answer) -> list[Answer]:
    """Its VMs; what is left of one that was restarted elsewhere is none of them."""
    return [vm for vm in answer.get("vms") or () if not vm.get("leftover")]


def _decide(
    names: t.Mapping[str, Answer],
    host: str | None,
    answers: t.Mapping[str, Answer],
    hosts: t.Sequence[placement.PlacementHost],
    mute: Mute,
    policy: Policy,
    *,
    relax: bool = False,
    may_stay: t.Collection[str] = (),
) -> MigrationDecision:
    decision = MigrationDecision()
    fleet = placement.FleetLoad(hosts, policy)
    order = sorted(names, key=lambda name: (-int(names[name]["memory_mib"]), name))
    turns = together.turns([(names[name]["groups"], names[name]["affinity"]) for name in order])
    for _turn, name in sorted(zip(turns, order), key=operator.itemgetter(0)):
        places = {
            where: vm
            for where, answer in answers.items()
            for vm in (*answer["host"]["vms"], *(answer.get("vms") or ()))
            if vm["name"] == name
        }
        problem = migration_decision.place_one(
            name, host, leftover.without(places), answers, mute, fleet, decision, relax=relax
        )
        if problem:
            (decision.notes if name in may_stay else decision.problems).append(problem)
    return decision
