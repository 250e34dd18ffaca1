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
from ..engine.steps import Effect, Plan, Step

RUNNING = ("running", "blocked")  # blocked: it runs, and waits for a resource of the host
PAUSED = ("paused",)
OFF = ("shutoff",)
# States that can be requested: libvirt's, and one for memory saved to disk (managed save)
WANTED = ("running", "shutoff", "paused", "saved")

# Kinds of steps that start a domain
STARTS = ("start", "restore", "boot")

# Reasons for paused with which libvirt itself is at work on the domain
_BUSY = {
    "migration": "it is being migrated",
    "postcopy": "it is being migrated",
    "postcopy_failed": "its migration failed halfway",
    "save": "its memory is being saved",
    "dump": "its memory is being dumped",
    "snapshot": "a snapshot of it is being made",
}
# What a step does, by its kind
_WORDS = {
    "start": "start",
    "boot": "start again",
    "restore": "start from its saved memory",
    "resume": "resume",
    "wake": "wake up",
    "shutdown": "shut down",
    "destroy_crashed": "destroy the crashed domain",
    "await_off": "wait until it has shut down",
    "await_running": "wait until it has started",
    "autostart": "set autostart",
    "no_autostart": "unset autostart",
    "seed_medium": "remove the seed medium",
    "reset": "reset",
    "suspend": "pause",
    "save": "save its memory and stop",
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


# What each kind of step changes, as libvirt shows it afterwards
_EFFECTS: dict[str, Effect[StateFacts]] = {
    "start": lambda facts: replace(facts, state="running", reason="booted", active=True),
    "restore": lambda facts: replace(
        facts, state="running", reason="restored", active=True, managed_save=False
    ),
    "resume": lambda facts: replace(facts, state="running", reason="unpaused"),
    "wake": lambda facts: replace(facts, state="running", reason="wakeup"),
    "shutdown": lambda facts: replace(facts, state="shutoff", reason="shutdown", active=False),
    "destroy_crashed": lambda facts: replace(
        facts, state="shutoff", reason="destroyed", active=False
    ),
    "await_off": lambda facts: replace(facts, state="shutoff", reason="shutdown", active=False),
    "await_running": lambda facts: replace(facts, state="running", reason="booted", active=True),
    "autostart": lambda facts: replace(facts, autostart=True),
    "no_autostart": lambda facts: replace(facts, autostart=False),
    "seed_medium": lambda facts: replace(facts, seed_medium=None),
    "reset": lambda facts: replace(facts, resets=facts.resets + 1),
    "boot": lambda facts: replace(
        facts, state="running", reason="booted", active=True, reboots=facts.reboots + 1
    ),
    "suspend": lambda facts: replace(facts, state="paused", reason="user"),
    "save": lambda facts: replace(
        facts, state="shutoff", reason="saved", active=False, managed_save=True
    ),
}
# What an interrupted step that is more than one libvirt call can leave
_TORN: dict[str, tuple[Effect[StateFacts], ...]] = {
    "shutdown": (
        lambda facts: replace(facts, state="shutdown", reason="user"),
        lambda facts: replace(facts, state="paused", reason="shutting_down"),
    ),
    "start": (lambda facts: replace(facts, state="paused", reason="starting_up", active=True),),
    "restore": (
        lambda facts: replace(
            facts, state="paused", reason="starting_up", active=True, managed_save=False
        ),
    ),
    "boot": (lambda facts: replace(facts, state="paused", reason="starting_up", active=True),),
    "save": (lambda facts: replace(facts, state="paused", reason="save"),),
}


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
        kinds = _kinds(facts, wanted)
    except PlanRefused as error:
        return Plan(refusals=(str(error),))
    return Plan(
        tuple(
            Step(kind, _text(kind, wanted), _EFFECTS[kind], _TORN.get(kind, ())) for kind in kinds
        )
    )


def _kinds(facts: StateFacts, wanted: StateRequest) -> list[str]:
    kinds: list[str] = ["seed_medium"] if facts.seed_medium else []
    if wanted.autostart is not None and wanted.autostart != facts.autostart:
        if not facts.persistent:
            raise PlanRefused(
                f"{facts.name!r} is transient: it disappears when it stops, so it cannot start with"
                " its hypervisor; define it first (virsh define)"
            )
        kinds.append("autostart" if wanted.autostart else "no_autostart")
    if wanted.reboot:
        kinds += _rebooted(facts)
    elif wanted.state is not None and not is_reached(facts, wanted.state):
        kinds += _WAYS[wanted.state](facts)
    if wanted.reset and not {"start", "boot", "await_running"} & set(kinds):  # it starts anyway
        if not is_reached(facts, "running") and wanted.state is None:
            raise PlanRefused(
                f"{facts.name!r} is {facts.state} ({facts.reason}); only a running domain can be"
                " reset. To start it as well, request state running too"
            )
        kinds.append("reset")
    if kinds and facts.broken:
        raise PlanRefused(facts.broken)
    if kinds and facts.phase is not None:
        raise PlanRefused(leases.in_phase(facts.name, facts.phase, facts.holder))
    return kinds


def _text(kind: str, wanted: StateRequest) -> str:
    text = _WORDS[kind]
    if kind in ("shutdown", "await_off"):
        text += f", within {wanted.shutdown_timeout:g} s"
        if wanted.force:
            text += " or by force"
    return text


def _to_running(facts: StateFacts) -> list[str]:
    start = "restore" if facts.managed_save else "start"
    if facts.state == "shutoff":
        return [start]
    if facts.state == "crashed":
        return ["destroy_crashed", start] if facts.active else [start]
    if facts.state == "pmsuspended":
        return ["wake"]
    if facts.state == "shutdown":
        return ["await_off", start]
    if facts.state == "paused":
        if facts.reason == "starting_up":
            return ["await_running"]
        if facts.reason == "shutting_down":
            return ["await_off", start]
        if facts.reason == "crashed":
            return ["destroy_crashed", start]
        _refuse_busy(facts)
        return ["resume"]
    raise _unknown(facts)


def _to_off(facts: StateFacts) -> list[str]:
    if not facts.persistent:
        raise PlanRefused(
            f"{facts.name!r} is transient: it would disappear when shut off; if that is intended,"
            " use virsh shutdown, else define it first (virsh define)"
        )
    if facts.state in RUNNING:
        return ["shutdown"]
    if facts.state == "shutdown":
        return ["await_off"]
    if facts.state == "crashed":
        return ["destroy_crashed"] if facts.active else []
    if facts.state == "pmsuspended":
        return ["wake", "shutdown"]
    if facts.state == "paused":
        if facts.reason == "shutting_down":
            return ["await_off"]
        if facts.reason == "crashed":
            return ["destroy_crashed"]
        if facts.reason == "starting_up":
            return ["await_running", "shutdown"]
        _refuse_busy(facts)
        return ["resume", "shutdown"]  # a paused guest cannot react
    raise _unknown(facts)


def _to_paused(facts: StateFacts) -> list[str]:
    way = _awake(facts, "paused")
    return [*way, "suspend"]


def _to_saved(facts: StateFacts) -> list[str]:
    if not facts.persistent:
        raise PlanRefused(
            f"{facts.name!r} is transient: libvirt saves no memory of a domain that disappears when"
            " it stops; define it first (virsh define)"
        )
    if facts.state in PAUSED and facts.reason not in (*_BUSY, *_ON_THE_WAY):
        return ["save"]  # and is paused again when it is restored
    return [*_awake(facts, "saved"), "save"]


def _awake(facts: StateFacts, wanted: str) -> list[str]:
    """The steps until it runs; raises PlanRefused for a domain without memory to save."""
    if facts.state in RUNNING:
        return []
    if facts.state == "pmsuspended":
        return ["wake"]
    if facts.state in PAUSED and facts.reason == "starting_up":
        return ["await_running"]
    if facts.state in PAUSED:
        _refuse_busy(facts)
    raise PlanRefused(
        f"{facts.name!r} is {facts.state} ({facts.reason}); only a running domain can be {wanted}."
        " Bring it to state running first"
    )


def _rebooted(facts: StateFacts) -> list[str]:
    """Shut down if it runs, then start: the next run finishes one that was killed in between."""
    way = ["restore"] if facts.managed_save and facts.state in OFF else []
    if not way and facts.state in OFF:
        return ["start"]
    off = [*way, "shutdown"] if way else _to_off(facts)
    return [*off, "boot"]


_WAYS: dict[str, t.Callable[[StateFacts], list[str]]] = {
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
