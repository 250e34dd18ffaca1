# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which hypervisors are worked on, in which order, and where their VMs go meanwhile.

What is foreseen here is decided again when a hypervisor's turn comes, from what is there then.
"""

from __future__ import annotations

import typing as t

from ..._errors import PlanRefused
from ..._records import dataclass, field
from ..base.names import playbook_command
from ..cell import quorum
from ..engine import proofs
from ..foresight import state
from ..foresight.state import Answers
from ..migration import evacuation
from ..migration.decide import MigrationDecision
from ..placement import decide as placement
from .marks import Progress

# The hypervisors of a fleet, as placement sees them
Hosts = t.Callable[[Answers], list[placement.PlacementHost]]
_Moves = list[tuple[str, str, str]]  # a VM, where it is, where it goes


@dataclass
class Turn:
    """Hypervisors that are worked on at the same time. ``resumed``: an interrupted run has begun
    there; without ``work`` only their VMs have to return. ``moves`` are the VMs that leave."""

    hosts: list[str]
    work: bool = True
    resumed: bool = False
    moves: _Moves = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class RollingPlan:
    """``passed`` have been worked on by an interrupted run, and when; ``left_out`` should have been
    worked on and cannot be now; ``skipped`` cannot be emptied, and the user said to go on."""

    turns: list[Turn] = field(default_factory=list)
    passed: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Fleet:
    """What is asked of a fleet: ``hosts`` makes hypervisors of answers, ``mute`` do not answer."""

    hosts: Hosts
    mute: t.Mapping[str, proofs.Silence]
    policy: placement.Policy
    relax: bool = False


def plan(
    selected: t.Sequence[str],
    answers: Answers,
    progress: t.Mapping[str, Progress],
    fleet: Fleet,
    *,
    serial: int = 1,
    skip_unmovable: bool = False,
) -> RollingPlan:
    """The turns for the ``selected`` hypervisors; raises PlanRefused if one cannot be emptied,
    unless those are to be skipped.

    What an interrupted run has begun comes first: it is in maintenance, and takes no VMs.
    """
    rolling = RollingPlan()
    begun: list[Turn] = []
    fresh: list[str] = []
    for host in selected:
        seen = progress.get(host, Progress())
        if host not in answers:
            silence = fleet.mute.get(host)
            rolling.left_out[host] = silence.why if silence else "it is declared lost"
        elif seen.begun and (
            seen.passed is not None or state.host_of(answers[host])["maintenance"]
        ):
            needed = _needed([host], answers) if seen.passed is None else ""
            if needed:
                rolling.left_out[host] = needed
            else:
                begun.append(Turn([host], work=seen.passed is None, resumed=True))
        elif seen.passed is not None:
            rolling.passed[host] = seen.passed
        elif state.host_of(answers[host])["maintenance"]:
            command = playbook_command("maintenance", virt_host=host, virt_maintenance="false")
            rolling.left_out[host] = f"it is in maintenance, and not for this; {command} ends that"
        elif needed := _needed([host], answers):
            rolling.left_out[host] = needed
        else:
            fresh.append(host)
    for turn in begun:
        (host,) = turn.hosts
        if turn.work:
            turn.moves = _leave(host, answers, fleet).moves
        answers = _returned(host, _moved(answers, turn.moves), fleet)
    rolling.turns = begun
    _fresh(rolling, fresh, answers, fleet, serial, skip_unmovable)
    return rolling


def _fresh(
    rolling: RollingPlan,
    fresh: t.Sequence[str],
    answers: Answers,
    fleet: Fleet,
    serial: int,
    skip_unmovable: bool,
) -> None:
    """Add turns for those that are not begun: as many at once as can be without all of them."""
    refused: dict[str, str] = {}
    last: Turn | None = None
    for host in fresh:
        alone = _leave(host, answers, fleet)
        if alone.problem:
            refused[host] = alone.problem
            continue
        if last is not None and len(last.hosts) < serial:
            together = _lose([*last.hosts, host], answers, fleet)
            if not together.problem and not _needed([*last.hosts, host], answers):
                last.hosts.append(host)
                last.moves, last.notes = together.moves, together.notes
                continue
        last = Turn([host], moves=alone.moves, notes=alone.notes)
        rolling.turns.append(last)
    if refused and not skip_unmovable:
        told = "; ".join(f"{host} cannot be emptied: {why}" for host, why in refused.items())
        command = playbook_command("state", vm_name="NAME", vm_state="shutoff")
        raise PlanRefused(
            f"{told}; nothing was done. Shut such a VM down ({command}): one that is off may stay."
            " Or leave these hypervisors out with -e virt_skip_unmovable=true"
        )
    rolling.skipped = refused


def _needed(gone: t.Sequence[str], answers: Answers) -> str:
    """Why a cell cannot do without these hypervisors, which may be rebooted; empty if all can. What
    the others say counts: who is alone knows nothing of them."""
    cells = [cell for answer in answers.values() if (cell := state.host_of(answer).get("cell"))]
    problems = (quorum.problem(gone, cell) for cell in cells if {*gone} & {*cell["members"]})
    return next((problem for problem in problems if problem), "")


@dataclass(frozen=True)
class _Leaving:
    """The VMs that leave hypervisors; ``problem``: one that runs cannot."""

    moves: _Moves
    problem: str
    notes: list[str]


def _leave(host: str, answers: Answers, fleet: Fleet) -> _Leaving:
    hosts = fleet.hosts(answers)
    decision = evacuation.leave(host, answers, hosts, fleet.mute, fleet.policy, relax=fleet.relax)
    return _leaving([host], answers, decision)


def _lose(gone: t.Sequence[str], answers: Answers, fleet: Fleet) -> _Leaving:
    decision = evacuation.lose(gone, answers, fleet.hosts(answers), fleet.policy)
    return _leaving(gone, answers, decision)


def _leaving(gone: t.Sequence[str], answers: Answers, decision: MigrationDecision) -> _Leaving:
    foreign = {
        vm["name"] for host in gone for vm in answers[host]["vms"] or () if vm.get("foreign")
    }
    moves = [
        (name, source, to)
        for source, share in decision.shares.items()
        for name, to in share
        if to not in gone and name not in foreign
    ]
    leave = {name for name, _source, _to in moves}
    staying = [
        vm["name"]
        for host in gone
        for vm in answers[host]["vms"] or ()
        if vm["name"] not in leave and (vm["active"] or vm["error"])
    ]
    if not staying:
        return _Leaving(moves, "", [*decision.notes, *decision.problems])
    why = "; ".join(decision.problems) or "no hypervisor takes it"
    return _Leaving(moves, f"{', '.join(staying)} would stay ({why})", decision.notes)


def _moved(answers: Answers, moves: _Moves) -> Answers:
    """The fleet after these moves; one that is under way may have left already."""
    for name, source, to in moves:
        if to in answers and any(vm["name"] == name for vm in answers[source]["vms"] or ()):
            answers = state.moved(answers, name, source, to)
    return answers


def _returned(host: str, answers: Answers, fleet: Fleet) -> Answers:
    """The fleet once the VMs of ``host`` are back, and it is no longer in maintenance."""
    decision = evacuation.come_back(host, answers, fleet.hosts(answers), fleet.mute, fleet.policy)
    moves = [(name, source, to) for source, share in decision.shares.items() for name, to in share]
    answers = _moved(answers, moves)
    return state.unmarked(answers, host)
