# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What libvirt says of a domain's state, and what is done to a domain to change it."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..._records import dataclass
from ..engine.leases import Holder
from ..engine.steps import Action, Effect

RUNNING = ("running", "blocked")  # blocked: it runs, and waits for a resource of the host
PAUSED = ("paused",)
OFF = ("shutoff",)

# Reasons for paused with which libvirt itself is at work on the domain
BUSY = {
    "migration": "it is being migrated",
    "postcopy": "it is being migrated",
    "postcopy_failed": "its migration failed halfway",
    "save": "its memory is being saved",
    "dump": "its memory is being dumped",
    "snapshot": "a snapshot of it is being made",
}
# Reasons for paused that are temporary
ON_THE_WAY = ("starting_up", "shutting_down", "crashed")


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
    in_cell: bool = False  # a cell restarts it
    seed_medium: str | None = None
    operations: tuple[str, ...] = ()  # done in this run
    order: int | None = None  # start_order
    delay: int = 0  # seconds after its start

    @property
    def shown_state(self) -> str:
        """libvirt's state, or ``saved`` for one that is off with its memory saved."""
        return "saved" if self.state in OFF and self.managed_save else self.state


def _changes(**changes: t.Any) -> Effect[StateFacts]:
    return lambda facts: replace(facts, **changes)


_STARTING = {"state": "paused", "reason": "starting_up", "active": True}


class StateAction(Action):
    """What is done to a domain: ``text`` says it to the user, ``effect`` as libvirt shows it
    afterwards, ``torn`` is what may be left of one that is more than one call of libvirt.

    ``starts``: the domain is started. ``operation``: the one that this completes, and that is
    therefore counted.
    """

    text: t.ClassVar[str]
    effect: t.ClassVar[Effect[StateFacts]] = _changes()
    torn: t.ClassVar[tuple[Effect[StateFacts], ...]] = ()
    starts: t.ClassVar[bool] = False
    operation: t.ClassVar[str] = ""

    @classmethod
    def outcome(cls, facts: StateFacts) -> StateFacts:
        """The facts after it, with the operation counted."""
        after = cls.effect(facts)
        counted = (cls.operation,) if cls.operation else ()
        return replace(after, operations=(*after.operations, *counted))


class Call(StateAction):
    """An action that is one call of libvirt: a ``method`` of the domain with its ``arguments``,
    after which the domain is in one of the states ``until``."""

    method: t.ClassVar[str]
    arguments: t.ClassVar[tuple[int, ...]] = ()
    until: t.ClassVar[tuple[str, ...]]


class Start(StateAction):
    """Start it."""

    text, starts = "start", True
    effect = _changes(state="running", reason="booted", active=True)
    torn = (_changes(**_STARTING),)


class Restore(StateAction):
    """Start it with its memory."""

    text, starts = "start from its saved memory", True
    effect = _changes(state="running", reason="restored", active=True, managed_save=False)
    torn = (_changes(**_STARTING, managed_save=False),)


class Resume(Call):
    """Let a paused one run."""

    text, method, until = "resume", "resume", RUNNING
    effect = _changes(state="running", reason="unpaused")


class Wake(Call):
    """Wake one up that its guest suspended."""

    text, method, arguments, until = "wake up", "pMWakeup", (0,), RUNNING
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


class Suspend(Call):
    """Pause it."""

    text, method, until = "pause", "suspend", PAUSED
    effect = _changes(state="paused", reason="user")


class Save(StateAction):
    """Save its memory, and stop it."""

    text = "save its memory and stop"
    effect = _changes(state="shutoff", reason="saved", active=False, managed_save=True)
    torn = (_changes(state="paused", reason="save"),)
