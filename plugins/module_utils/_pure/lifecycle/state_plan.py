# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From the state a domain is in to the one that is wanted: the steps, or why there are none.

This file is private to the collection.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..._errors import PlanRefused

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
}
_STILL = ("autostart", "no_autostart", "seed_medium")  # what leaves the state as it is


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


@dataclass(frozen=True)
class Wanted:
    """What is asked for; None: leave it. ``force``: destroy what does not shut down in time."""

    state: str | None = None
    autostart: bool | None = None
    force: bool = False
    shutdown_timeout: float = 120.0


@dataclass(frozen=True)
class Step:
    """One step; ``kind`` is a key of the table of words, ``text`` is for people."""

    kind: str
    text: str


def is_reached(state: str, wanted: str | None) -> bool:
    """Whether ``state`` (libvirt's) is what ``wanted`` (running, shutoff, None) asks for."""
    if wanted is None:
        return True
    return state in (RUNNING if wanted == "running" else OFF)


def plan(facts: Facts, wanted: Wanted) -> list[Step]:
    """The steps that lead from ``facts`` to ``wanted``, none when it is so already.

    Raises PlanRefused, saying why, where there is no right way.
    """
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
    if kinds and facts.phase is not None:
        raise PlanRefused(
            f"{facts.name!r} is in phase {facts.phase}: another run is at work on it, or died at"
            " it; nothing starts, stops or changes it meanwhile. Let that run end, or run it"
            " again to finish it"
        )
    return [Step(kind, _text(kind, wanted)) for kind in kinds]


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


def predicted_state(facts: Facts, wanted: Wanted, steps: t.Sequence[Step]) -> str:
    """The state after ``steps``."""
    moves = any(step.kind not in _STILL for step in steps)
    return str(wanted.state) if moves else facts.state
