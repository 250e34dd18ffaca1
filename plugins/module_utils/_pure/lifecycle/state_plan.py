# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From the state a domain is in to the one that is wanted: the steps, or why there are none.

This file is private to the collection.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..._errors import PlanRefused
from ..plan.steps import Effect, Plan, Step

RUNNING = ("running", "blocked")  # blocked: it runs, and waits for something of the host
OFF = ("shutoff",)

# Reasons for paused with which libvirt itself is at work on the domain
_BUSY = {
    "migration": "it is being migrated",
    "postcopy": "it is being migrated",
    "postcopy_failed": "its migration broke off halfway",
    "save": "its memory is being saved",
    "dump": "its memory is being dumped",
    "snapshot": "a snapshot of it is being made",
}
# What a step does, by its kind
_WORDS = {
    "start": "start",
    "restore": "start, going on from its saved memory",
    "resume": "resume",
    "wake": "wake up",
    "shutdown": "shut down",
    "destroy_crashed": "destroy what has crashed",
    "await_off": "wait until it has shut down",
    "await_running": "wait until it has started",
    "autostart": "set autostart",
    "no_autostart": "unset autostart",
    "seed_medium": "remove the seed medium",
    "reset": "reset",
}


@dataclass(frozen=True)
class Facts:
    """What libvirt says about a domain now; ``phase`` is that of our metadata.

    ``seed_medium`` is the name of one that has done its work.
    """

    name: str
    state: str
    reason: str = "unknown"
    active: bool = False
    persistent: bool = True
    autostart: bool = False
    managed_save: bool = False
    phase: str | None = None
    seed_medium: str | None = None
    resets: int = 0  # in this run


@dataclass(frozen=True)
class Wanted:
    """What is asked for; None: leave it. ``force``: destroy what does not shut down in time.

    ``reset``: whoever runs begins again, as by the reset button.
    """

    state: str | None = None
    autostart: bool | None = None
    force: bool = False
    shutdown_timeout: float = 120.0
    reset: bool = False


# What each kind of step changes, as libvirt shows it afterwards
_EFFECTS: dict[str, Effect[Facts]] = {
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
}
# What is seen of a step that is not one call of libvirt's when it is cut short
_TORN: dict[str, tuple[Effect[Facts], ...]] = {
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
}


def is_reached(state: str, wanted: str | None) -> bool:
    """Whether ``state`` (libvirt's) is what ``wanted`` (running, shutoff, None) asks for."""
    if wanted is None:
        return True
    return state in (RUNNING if wanted == "running" else OFF)


def plan(facts: Facts, wanted: Wanted) -> Plan[Facts]:
    """The steps that lead from ``facts`` to ``wanted``, or why there is no right way."""
    try:
        kinds = _kinds(facts, wanted)
    except PlanRefused as error:
        return Plan(refusals=(str(error),))
    return Plan(
        tuple(
            Step(kind, _text(kind, wanted), _EFFECTS[kind], _TORN.get(kind, ())) for kind in kinds
        )
    )


def _kinds(facts: Facts, wanted: Wanted) -> list[str]:
    kinds: list[str] = ["seed_medium"] if facts.seed_medium else []
    if wanted.autostart is not None and wanted.autostart != facts.autostart:
        if not facts.persistent:
            raise PlanRefused(
                f"{facts.name!r} is transient, it is gone when it stops, so it cannot start with"
                " its hypervisor; define it first (virsh define)"
            )
        kinds.append("autostart" if wanted.autostart else "no_autostart")
    if not is_reached(facts.state, wanted.state):
        kinds += _to_running(facts) if wanted.state == "running" else _to_off(facts)
    if wanted.reset and not {"start", "await_running"} & set(kinds):  # it begins anyway
        if not is_reached(facts.state, "running") and wanted.state is None:
            raise PlanRefused(
                f"{facts.name!r} is {facts.state} ({facts.reason}); only what runs can be reset."
                " To have it run, and begin again, ask for state running too"
            )
        kinds.append("reset")
    if kinds and facts.phase is not None:
        raise PlanRefused(
            f"{facts.name!r} is in phase {facts.phase}: another run is at work on it, or died at"
            " it; nothing starts, stops or changes it meanwhile. Let that run end, or run it"
            " again to finish it"
        )
    return kinds


def _text(kind: str, wanted: Wanted) -> str:
    text = _WORDS[kind]
    if kind in ("shutdown", "await_off"):
        text += f", within {wanted.shutdown_timeout:g} s"
        if wanted.force:
            text += " or by force"
    return text


def _to_running(facts: Facts) -> list[str]:
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


def _to_off(facts: Facts) -> list[str]:
    if not facts.persistent:
        raise PlanRefused(
            f"{facts.name!r} is transient: shut off, it would be gone; if that is meant, use"
            " virsh shutdown, else define it first (virsh define)"
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
        return ["resume", "shutdown"]  # a paused guest hears nothing
    raise _unknown(facts)


def _refuse_busy(facts: Facts) -> None:
    why = _BUSY.get(facts.reason)
    if why is not None:
        raise PlanRefused(
            f"{facts.name!r} is paused because {why} ({facts.reason}); wait until that has ended"
            f" (virsh domjobinfo {facts.name}) and try again"
        )


def _unknown(facts: Facts) -> PlanRefused:
    return PlanRefused(
        f"{facts.name!r} is in state {facts.state} ({facts.reason}), in which its hypervisor"
        f" cannot say whether it runs; find out there (virsh domstate {facts.name} --reason)"
    )
