# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many more VMs of a shape fit, and whether the fleet survives the loss of hypervisors.

By the same filters that creation has, and by the planner of an evacuation. Nothing is guessed: a
hypervisor that did not answer takes no VM.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import typing as t

from ..._errors import PlanRefused
from ..._records import dataclass
from ..migration import evacuation
from ..migration.facts import MigrateLook
from ..placement import decide as placement
from ..placement.filters import fixed_rejection, room_rejection

Answers = t.Mapping[str, MigrateLook]
# More of them would take minutes
MOST_LOSSES = 2000


@dataclass(frozen=True)
class Room:
    """How many more VMs fit on a hypervisor, and what keeps the next one away: a filter of
    placement, with its figures."""

    name: str
    more: int
    filter: str
    reason: str


@dataclass(frozen=True)
class Loss:
    """Hypervisors whose loss the fleet does not survive, and what keeps their VMs from others."""

    lost: tuple[str, ...]
    problems: tuple[str, ...]


def rooms(
    hosts: t.Iterable[placement.PlacementHost],
    request: placement.Request,
    policy: placement.Policy,
) -> list[Room]:
    """How many VMs like ``request`` fit on each hypervisor, if they are the only ones to come.

    VMs that are alike take nothing from each other on different hypervisors, so the sum is the
    number that creation would place, in whatever order.
    """
    return [_room(host, request, policy) for host in sorted(hosts, key=lambda host: host.name)]


def _room(
    host: placement.PlacementHost, request: placement.Request, policy: placement.Policy
) -> Room:
    fixed = fixed_rejection(host, request)
    if fixed is not None:
        return Room(host.name, 0, fixed.filter, fixed.reason)
    fleet = placement.FleetLoad([host], policy)
    load = fleet.loads[host.name]
    for more in itertools.count():
        full = room_rejection(load, request, policy)
        if full is not None:
            # said of a batch that is placed; here it is what would be
            reason = full.reason.replace("others in this batch", "these VMs")
            return Room(host.name, more, full.filter, reason)
        fleet.add(host.name, dataclasses.replace(request, name=f"{request.name}-{more}"))
    raise AssertionError("memory has an end")


def losses(
    answers: Answers,
    hosts: t.Sequence[placement.PlacementHost],
    number: int,
    policy: placement.Policy,
) -> list[Loss]:
    """The losses of ``number`` hypervisors at once that leave VMs without a place.

    ``answers`` are of those that answered; of fewer than ``number`` all are lost. Raises
    PlanRefused where there are too many cases.
    """
    number = min(number, len(answers))
    cases = math.comb(len(answers), number)
    if cases > MOST_LOSSES:
        raise PlanRefused(
            f"virt_loss: {number} of {len(answers)} hypervisors are {cases} cases, more than"
            f" {MOST_LOSSES}; give a smaller number"
        )
    losses = []
    for lost in itertools.combinations(sorted(answers), number):
        decision = evacuation.lose(lost, answers, hosts, policy)
        if decision.problems:
            losses.append(Loss(lost, tuple(decision.problems)))
    return losses
