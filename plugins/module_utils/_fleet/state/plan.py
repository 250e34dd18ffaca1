# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The steps from the state a domain is in to the wanted one, or why there are none."""

from __future__ import annotations

from ..._errors import PlanRefused
from ..._records import dataclass
from ..engine import leases
from ..engine.steps import Plan, Step
from .actions import (
    Autostart,
    AwaitOff,
    NoAutostart,
    Save,
    SeedMedium,
    Shutdown,
    StateAction,
    StateFacts,
)
from .operations import GOALS, OPERATIONS, Way


@dataclass(frozen=True)
class StateRequest:
    """The request; None: leave it. ``force``: destroy a domain that does not shut down in time."""

    state: str | None = None
    autostart: bool | None = None
    force: bool = False
    shutdown_timeout: float = 120.0
    operations: tuple[str, ...] = ()

    @property
    def end(self) -> str | None:
        """The final state."""
        return next(filter(None, (OPERATIONS[name].end for name in self.operations)), self.state)


def is_reached(facts: StateFacts, wanted: str | None) -> bool:
    """Whether ``facts`` are what ``wanted`` (one of :data:`GOALS`, or None) asks for."""
    return wanted is None or GOALS[wanted].reached(facts)


def plan(facts: StateFacts, wanted: StateRequest) -> Plan[StateFacts]:
    """The steps that lead from ``facts`` to ``wanted``, or the reason to refuse."""
    try:
        actions = _actions(facts, wanted)
    except PlanRefused as error:
        return Plan(refusals=(str(error),))
    return Plan(
        tuple(
            Step(action(), _text(action, wanted), action.outcome, action.torn) for action in actions
        )
    )


def starts(plan: Plan[StateFacts]) -> bool:
    """Whether a step of the plan starts the domain."""
    actions = (step.action for step in plan.steps)
    return any(isinstance(action, StateAction) and action.starts for action in actions)


def _actions(facts: StateFacts, wanted: StateRequest) -> Way:
    way: Way = [SeedMedium] if facts.seed_medium else []
    if wanted.autostart is not None and wanted.autostart != facts.autostart:
        if not facts.persistent:
            raise PlanRefused(
                f"{facts.name!r} is transient: it disappears when it stops, so it cannot start with"
                " its hypervisor; define it first (virsh define)"
            )
        way.append(Autostart if wanted.autostart else NoAutostart)
    way += _to_state(facts, wanted)
    if way and facts.broken:
        raise PlanRefused(facts.broken)
    if facts.in_cell and (Save in way or Autostart in way):
        what = "saved memory" if Save in way else "a start at boot"
        raise PlanRefused(
            f"{facts.name!r} is a VM of a cell (ha), which could start it elsewhere: {what} is of"
            " one hypervisor alone; use vm_state=shutoff, vm_autostart=false"
        )
    if way and facts.phase is not None:
        raise PlanRefused(leases.in_phase(facts.name, facts.phase, facts.holder))
    return way


def _to_state(facts: StateFacts, wanted: StateRequest) -> Way:
    way: Way | None = None if wanted.state is None else []
    if wanted.state is not None and not is_reached(facts, wanted.state):
        way = GOALS[wanted.state].way(facts)
    for name in wanted.operations:
        way = OPERATIONS[name].way(facts, way)
    return way or []


def _text(action: type[StateAction], wanted: StateRequest) -> str:
    text = action.text
    if action in (Shutdown, AwaitOff):
        text += f", within {wanted.shutdown_timeout:g} s"
        if wanted.force:
            text += " or by force"
    return text
