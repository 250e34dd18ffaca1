# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What would be if hypervisors were lost or added, and VMs created: the plan, and the fleet then.

Each part is planned as the playbook that does it plans it, from the fleet as the parts before it
leave it.
"""

from __future__ import annotations

import typing as t

from ..._errors import Problem, SpecError
from ..._records import dataclass, field
from ..migration import evacuation
from ..placement import decide as placement
from . import state
from .state import Answers, NewHost

# The hypervisors of a fleet, as placement sees them
Hosts = t.Callable[[Answers], list[placement.PlacementHost]]


@dataclass(frozen=True)
class PlannedStep:
    """A VM that moves, or is created: without ``destination`` it cannot, and ``reason`` says
    why."""

    name: str
    source: str | None
    destination: str | None
    reason: str = ""


@dataclass
class Foreseen:
    """The steps, and the fleet once they are done; ``problems`` are what cannot be done."""

    answers: Answers
    steps: list[PlannedStep] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def foresee(
    answers: Answers,
    hosts: Hosts,
    lost: t.Sequence[str],
    new: t.Sequence[NewHost],
    requests: t.Sequence[placement.Request],
    policy: placement.Policy,
) -> Foreseen:
    """First hypervisors are added, then others are lost, then VMs are created."""
    unknown = [name for name in lost if name not in answers]
    if unknown:
        text = (
            f"{', '.join(unknown)} did not answer, or is no hypervisor of this play; there are:"
            f" {', '.join(answers)}"
        )
        raise SpecError([Problem("virt_lose", text)])
    for hypervisor in new:
        answers = state.added(answers, hypervisor)
    foreseen = Foreseen(answers)
    if lost:
        _lose(foreseen, hosts, lost, policy)
    if requests:
        _create(foreseen, hosts, requests, policy)
    return foreseen


def _lose(
    foreseen: Foreseen, hosts: Hosts, lost: t.Sequence[str], policy: placement.Policy
) -> None:
    decision = evacuation.lose(lost, foreseen.answers, hosts(foreseen.answers), policy)
    for source, moves in decision.shares.items():
        for name, destination in moves:
            if destination not in lost:
                foreseen.steps.append(PlannedStep(name, source, destination))
                foreseen.answers = state.moved(foreseen.answers, name, source, destination)
    foreseen.problems += decision.problems
    foreseen.answers = state.without(foreseen.answers, lost)


def _create(
    foreseen: Foreseen,
    hosts: Hosts,
    requests: t.Sequence[placement.Request],
    policy: placement.Policy,
) -> None:
    wanted = {request.name: request for request in requests}
    for placed in placement.place(hosts(foreseen.answers), requests, policy):
        told = placement.describe(placed)
        if placed.host is None:
            foreseen.problems.append(told)
        else:
            foreseen.steps.append(PlannedStep(placed.name, None, placed.host, placed.why))
            request = wanted[placed.name]
            foreseen.answers = state.created(foreseen.answers, placed.host, request, policy)
