# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The steps from the state a domain is in to the wanted one, or why there are none."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..._errors import PlanRefused
from ..engine import leases
from ..engine.leases import Holder
from ..engine.steps import Action, Effect, Plan, Step

RUNNING = ("running", "blocked")  # blocked: it runs, and waits for a resource of the host
PAUSED = ("paused",)
OFF = ("shutoff",)
# States that can be requested: libvirt's, and one for memory saved to disk (managed save)
WANTED = ("running", "shutoff", "paused", "saved")

# Reasons for paused with which libvirt itself is at work on the domain
_BUSY = {
    "migration": "it is being migrated",
    "postcopy": "it is being migrated",
    "postcopy_failed": "its migration failed halfway",
    "save": "its memory is being saved",
    "dump": "its memory is being dumped",
    "snapshot": "a snapshot of it is being made",
}
# Reasons for paused that are temporary
_ON_THE_WAY = ("starting_up", "shutting_down", "crashed")


@dataclass(frozen=True)
class StateFacts:
    """What libvirt reports about a domain now; ``phase`` is that of our metadata, ``broken`` why
    they cannot be used.

    ``seed_medium`` is the name of one that is no longer needed.
    """

    name: str
    state: str
    reason: str = "unknown"
    active: bool = False
    persistent: bool = True
    autostart: bool = False
    managed_save: bool = False
    phase: str | None = None
    broken: str | None = None
    holder: Holder | None = None  # of the lease, if it is alive
    seed_medium: str | None = None
    resets: int = 0  # in this run, as are reboots
    reboots: int = 0
    order: int | None = None  # start_order
    delay: int = 0  # seconds after its start

    @property
    def shown_state(self) -> str:
        """libvirt's state, or ``saved`` for one that is off with its memory saved."""
        return "saved" if self.state in OFF and self.managed_save else self.state


@dataclass(frozen=True)
class StateRequest:
    """The request; None: leave it. ``force``: destroy a domain that does not shut down in time.

    ``reset``: a running domain is reset, as by the reset button. ``reboot``: the guest is shut
    down if it runs, and started.
    """

    state: str | None = None
    autostart: bool | None = None
    force: bool = False
    shutdown_timeout: float = 120.0
    reset: bool = False
    reboot: bool = False

    @property
    def end(self) -> str | None:
        """The final state."""
        return "running" if self.reboot else self.state


def _changes(**changes: t.Any) -> Effect[StateFacts]:
    return lambda facts: replace(facts, **changes)


_STARTING = {"state": "paused", "reason": "starting_up", "active": True}


class StateAction(Action):
    """What is done to a domain: ``text`` says it to the user, ``effect`` as libvirt shows it
    afterwards, ``torn`` is what may be left of one that is more than one call of libvirt.

    ``starts``: the domain is started.
    """

    text: t.ClassVar[str]
    effect: t.ClassVar[Effect[StateFacts]]
    torn: t.ClassVar[tuple[Effect[StateFacts], ...]] = ()
    starts: t.ClassVar[bool] = False


class Start(StateAction):
    """Start it."""

    text, starts = "start", True
    effect = _changes(state="running", reason="booted", active=True)
    torn = (_changes(**_STARTING),)


def _booted_again(facts: StateFacts) -> StateFacts:
    return replace(Start.effect(facts), reboots=facts.reboots + 1)


class Boot(StateAction):
    """Start it again, after it was shut down for that."""

    text, starts = "start again", True
    effect, torn = _booted_again, Start.torn


class Restore(StateAction):
    """Start it with its memory."""

    text, starts = "start from its saved memory", True
    effect = _changes(state="running", reason="restored", active=True, managed_save=False)
    torn = (_changes(**_STARTING, managed_save=False),)


class Resume(StateAction):
    """Let a paused one run."""

    text = "resume"
    effect = _changes(state="running", reason="unpaused")


class Wake(StateAction):
    """Wake one up that its guest suspended."""

    text = "wake up"
    effect = _changes(state="running", reason="wakeup")


class AwaitOff(StateAction):
    """Wait for one that is shutting down."""

    text = "wait until it has shut down"
    effect = _changes(state="shutoff", reason="shutdown", active=False)


class Shutdown(StateAction):
    """Ask the guest to shut down, and wait."""

    text, effect = "shut down", AwaitOff.effect
    torn = (
        _changes(state="shutdown", reason="user"),
        _changes(state="paused", reason="shutting_down"),
    )


class DestroyCrashed(StateAction):
    """Stop one whose guest has crashed."""

    text = "destroy the crashed domain"
    effect = _changes(state="shutoff", reason="destroyed", active=False)


class AwaitRunning(StateAction):
    """Wait for one that another process starts."""

    text, effect = "wait until it has started", Start.effect


class Autostart(StateAction):
    """Have it start with its hypervisor."""

    text, effect = "set autostart", _changes(autostart=True)


class NoAutostart(StateAction):
    """Have it not start with its hypervisor."""

    text, effect = "unset autostart", _changes(autostart=False)


class SeedMedium(StateAction):
    """Remove a medium that is no longer needed."""

    text, effect = "remove the seed medium", _changes(seed_medium=None)


def _reset_again(facts: StateFacts) -> StateFacts:
    return replace(facts, resets=facts.resets + 1)


class Reset(StateAction):
    """Reset it, as by the reset button."""

    text, effect = "reset", _reset_again


class Suspend(StateAction):
    """Pause it."""

    text, effect = "pause", _changes(state="paused", reason="user")


class Save(StateAction):
    """Save its memory, and stop it."""

    text = "save its memory and stop"
    effect = _changes(state="shutoff", reason="saved", active=False, managed_save=True)
    torn = (_changes(state="paused", reason="save"),)


_Way = list[type[StateAction]]


def is_reached(facts: StateFacts, wanted: str | None) -> bool:
    """Whether ``facts`` are what ``wanted`` (one of :data:`WANTED`, or None) asks for."""
    if wanted == "running":
        return facts.state in RUNNING
    if wanted == "paused":
        return facts.state in PAUSED and facts.reason not in (*_BUSY, *_ON_THE_WAY)
    if wanted == "saved":
        return facts.state in OFF and facts.managed_save
    return wanted is None or facts.state in OFF


def plan(facts: StateFacts, wanted: StateRequest) -> Plan[StateFacts]:
    """The steps that lead from ``facts`` to ``wanted``, or the reason to refuse."""
    try:
        actions = _actions(facts, wanted)
    except PlanRefused as error:
        return Plan(refusals=(str(error),))
    return Plan(
        tuple(
            Step(action(), _text(action, wanted), action.effect, action.torn) for action in actions
        )
    )


def starts(plan: Plan[StateFacts]) -> bool:
    """Whether a step of the plan starts the domain."""
    actions = (step.action for step in plan.steps)
    return any(isinstance(action, StateAction) and action.starts for action in actions)


def _actions(facts: StateFacts, wanted: StateRequest) -> _Way:
    way: _Way = [SeedMedium] if facts.seed_medium else []
    if wanted.autostart is not None and wanted.autostart != facts.autostart:
        if not facts.persistent:
            raise PlanRefused(
                f"{facts.name!r} is transient: it disappears when it stops, so it cannot start with"
                " its hypervisor; define it first (virsh define)"
            )
        way.append(Autostart if wanted.autostart else NoAutostart)
    if wanted.reboot:
        way += _rebooted(facts)
    elif wanted.state is not None and not is_reached(facts, wanted.state):
        way += _WAYS[wanted.state](facts)
    if wanted.reset and not {Start, Boot, AwaitRunning} & set(way):  # it starts anyway
        if not is_reached(facts, "running") and wanted.state is None:
            raise PlanRefused(
                f"{facts.name!r} is {facts.state} ({facts.reason}); only a running domain can be"
                " reset. To start it as well, request state running too"
            )
        way.append(Reset)
    if way and facts.broken:
        raise PlanRefused(facts.broken)
    if way and facts.phase is not None:
        raise PlanRefused(leases.in_phase(facts.name, facts.phase, facts.holder))
    return way


def _text(action: type[StateAction], wanted: StateRequest) -> str:
    text = action.text
    if action in (Shutdown, AwaitOff):
        text += f", within {wanted.shutdown_timeout:g} s"
        if wanted.force:
            text += " or by force"
    return text


def _to_running(facts: StateFacts) -> _Way:
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


def _to_off(facts: StateFacts) -> _Way:
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


def _to_paused(facts: StateFacts) -> _Way:
    way = _awake(facts, "paused")
    return [*way, Suspend]


def _to_saved(facts: StateFacts) -> _Way:
    if not facts.persistent:
        raise PlanRefused(
            f"{facts.name!r} is transient: libvirt saves no memory of a domain that disappears when"
            " it stops; define it first (virsh define)"
        )
    if facts.state in PAUSED and facts.reason not in (*_BUSY, *_ON_THE_WAY):
        return [Save]  # and is paused again when it is restored
    return [*_awake(facts, "saved"), Save]


def _awake(facts: StateFacts, wanted: str) -> _Way:
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


def _rebooted(facts: StateFacts) -> _Way:
    """Shut down if it runs, then start: the next run finishes one that was killed in between."""
    way = [Restore] if facts.managed_save and facts.state in OFF else []
    if not way and facts.state in OFF:
        return [Start]
    off = [*way, Shutdown] if way else _to_off(facts)
    return [*off, Boot]


_WAYS: dict[str, t.Callable[[StateFacts], _Way]] = {
    "running": _to_running,
    "shutoff": _to_off,
    "paused": _to_paused,
    "saved": _to_saved,
}


def _refuse_busy(facts: StateFacts) -> None:
    why = _BUSY.get(facts.reason)
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
