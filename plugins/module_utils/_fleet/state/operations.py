# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can be requested of a domain: the states that it is brought to, and operations.

Each stands in one of two tables. From its row come the choice or the option that requests it, its
place in a plan, and its call of libvirt.
"""

from __future__ import annotations

import typing as t

from ..._errors import PlanRefused
from ..._records import dataclass
from .actions import (
    BUSY,
    OFF,
    ON_THE_WAY,
    PAUSED,
    RUNNING,
    AwaitOff,
    AwaitRunning,
    Call,
    DestroyCrashed,
    Restore,
    Resume,
    Save,
    Shutdown,
    Start,
    StateAction,
    StateFacts,
    Suspend,
    Wake,
)

Way = list[type[StateAction]]


@dataclass(frozen=True)
class Goal:
    """A state that can be requested: whether facts are it already, and the way to it from facts
    that are not, which raises PlanRefused if there is none."""

    reached: t.Callable[[StateFacts], bool]
    way: t.Callable[[StateFacts], Way]


@dataclass(frozen=True)
class Operation:
    """What is done again each time that the option of its name requests it.

    ``does`` says what, where it contradicts something else that is requested. ``action`` completes
    it. ``way`` has the steps, from the facts and from those to the state that is requested too, or
    None; it raises PlanRefused if there are none. ``end`` is the state that it brings a domain to
    in any case.
    """

    does: str
    action: type[StateAction]
    way: t.Callable[[StateFacts, Way | None], Way]
    end: str | None = None


class Reset(Call):
    """Reset it, as by the reset button."""

    text, operation = "reset", "reset"
    method, arguments, until = "reset", (0,), RUNNING


def _reset(facts: StateFacts, to_state: Way | None) -> Way:
    if to_state is None and facts.state not in RUNNING:
        raise PlanRefused(
            f"{facts.name!r} is {facts.state} ({facts.reason}); only a running domain can be"
            " reset. To start it as well, request state running too"
        )
    way = to_state or []
    return way if {Start, AwaitRunning} & set(way) else [*way, Reset]


class Boot(StateAction):
    """Start it again, after it was shut down for that."""

    text, starts, operation = "start again", True, "reboot"
    effect, torn = Start.effect, Start.torn


def _reboot(facts: StateFacts, _to_state: Way | None) -> Way:
    """Shut down if it runs, then start: the next run finishes one that was killed in between."""
    if facts.state in OFF:
        return [Restore, Shutdown, Boot] if facts.managed_save else [Start]
    return [*_to_off(facts), Boot]


def _to_running(facts: StateFacts) -> Way:
    start: type[StateAction] = Restore if facts.managed_save else Start
    if facts.state == "shutoff":
        return [start]
    if facts.state == "crashed":
        return [DestroyCrashed, start] if facts.active else [start]
    if facts.state == "pmsuspended":
        return [Wake]
    if facts.state == "shutdown":
        return [AwaitOff, start]
    if facts.state == "paused":
        if facts.reason == "starting_up":
            return [AwaitRunning]
        if facts.reason == "shutting_down":
            return [AwaitOff, start]
        if facts.reason == "crashed":
            return [DestroyCrashed, start]
        _refuse_busy(facts)
        return [Resume]
    raise _unknown(facts)


def _to_off(facts: StateFacts) -> Way:
    if not facts.persistent:
        raise PlanRefused(
            f"{facts.name!r} is transient: it would disappear when shut off; if that is intended,"
            " use virsh shutdown, else define it first (virsh define)"
        )
    if facts.state in RUNNING:
        return [Shutdown]
    if facts.state == "shutdown":
        return [AwaitOff]
    if facts.state == "crashed":
        return [DestroyCrashed] if facts.active else []
    if facts.state == "pmsuspended":
        return [Wake, Shutdown]
    if facts.state == "paused":
        if facts.reason == "shutting_down":
            return [AwaitOff]
        if facts.reason == "crashed":
            return [DestroyCrashed]
        if facts.reason == "starting_up":
            return [AwaitRunning, Shutdown]
        _refuse_busy(facts)
        return [Resume, Shutdown]  # a paused guest cannot react
    raise _unknown(facts)


def _to_paused(facts: StateFacts) -> Way:
    way = _awake(facts, "paused")
    return [*way, Suspend]


def _to_saved(facts: StateFacts) -> Way:
    if not facts.persistent:
        raise PlanRefused(
            f"{facts.name!r} is transient: libvirt saves no memory of a domain that disappears when"
            " it stops; define it first (virsh define)"
        )
    if facts.state in PAUSED and facts.reason not in (*BUSY, *ON_THE_WAY):
        return [Save]  # and is paused again when it is restored
    return [*_awake(facts, "saved"), Save]


def _awake(facts: StateFacts, wanted: str) -> Way:
    """The steps until it runs; raises PlanRefused for a domain without memory to save."""
    if facts.state in RUNNING:
        return []
    if facts.state == "pmsuspended":
        return [Wake]
    if facts.state in PAUSED and facts.reason == "starting_up":
        return [AwaitRunning]
    if facts.state in PAUSED:
        _refuse_busy(facts)
    raise PlanRefused(
        f"{facts.name!r} is {facts.state} ({facts.reason}); only a running domain can be {wanted}."
        " Bring it to state running first"
    )


def _refuse_busy(facts: StateFacts) -> None:
    why = BUSY.get(facts.reason)
    if why is not None:
        raise PlanRefused(
            f"{facts.name!r} is paused because {why} ({facts.reason}); wait until that ends"
            f" (virsh domjobinfo {facts.name}) and try again"
        )


def _unknown(facts: StateFacts) -> PlanRefused:
    return PlanRefused(
        f"{facts.name!r} is in state {facts.state} ({facts.reason}), in which its hypervisor"
        f" cannot say whether it runs; find out there (virsh domstate {facts.name} --reason)"
    )


GOALS: t.Mapping[str, Goal] = {
    "running": Goal(lambda facts: facts.state in RUNNING, _to_running),
    "shutoff": Goal(lambda facts: facts.state in OFF, _to_off),
    "paused": Goal(
        lambda facts: facts.state in PAUSED and facts.reason not in (*BUSY, *ON_THE_WAY), _to_paused
    ),
    # libvirt has no state of this name: it is managed save
    "saved": Goal(lambda facts: facts.state in OFF and facts.managed_save, _to_saved),
}
OPERATIONS: t.Mapping[str, Operation] = {
    "reset": Operation("restarts a domain", Reset, _reset),
    "reboot": Operation("shuts a domain down and starts it", Boot, _reboot, end="running"),
}


class OperationOptions(t.TypedDict):
    """The options that request operations."""

    reset: bool
    reboot: bool
