# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a verb will do: steps, each with the only description of what it changes.

A planner is a pure function of a snapshot and a request. It is called again wherever something may
have changed since: planning again is the check, so there is no second list of preconditions. Check
mode applies the effects of the steps; the executor does the steps; tests of crashes start from
every snapshot that a kill may leave, and plan again.
"""

from __future__ import annotations

import typing as t

from ..._records import dataclass, field

Snapshot = t.TypeVar("Snapshot")
Effect = t.Callable[[Snapshot], Snapshot]


@dataclass(frozen=True)
class Action:
    """What a step does: the class says what, its fields to what.

    ``moves_disks``: the guest writes to other files from then on, so the VM's card is written at
    once. From an older card it would be started elsewhere without what it has written since.
    """

    moves_disks: t.ClassVar[bool] = False


@dataclass(frozen=True)
class Step(t.Generic[Snapshot]):
    """One step: ``action`` is what the executor does, ``text`` describes it to the user.

    ``effect`` turns the snapshot before the step into the one after it. ``torn`` are effects, any
    of which may be all that has happened when the process is killed within the step; a single call
    to libvirt has none. ``irreversible``: once it has begun, the plan is no longer undone, only
    finished. Of plans that are carried out together, none begins a ``stage`` before all others have
    finished the earlier ones.
    """

    action: Action
    text: str
    effect: Effect[Snapshot] = field(repr=False, compare=False)
    torn: tuple[Effect[Snapshot], ...] = field(default=(), repr=False, compare=False)
    irreversible: bool = False
    stage: int = 0


# A step of any verb, where only its action and its text matter
AnyStep = Step[t.Any]


@dataclass(frozen=True)
class Plan(t.Generic[Snapshot]):
    """The steps, none if all is as wanted; with ``refusals`` (the reasons) nothing is done."""

    steps: tuple[Step[Snapshot], ...] = ()
    refusals: tuple[str, ...] = ()


def predict(snapshot: Snapshot, steps: t.Iterable[Step[Snapshot]]) -> Snapshot:
    """The snapshot after ``steps``."""
    for step in steps:
        snapshot = step.effect(snapshot)
    return snapshot


def interrupted(
    snapshot: Snapshot, steps: t.Iterable[Step[Snapshot]]
) -> t.Iterator[tuple[str, Snapshot]]:
    """Every snapshot that a kill may leave, and its moment: before, within and after each step."""
    for step in steps:
        yield f"before: {step.text}", snapshot
        for number, torn in enumerate(step.torn, 1):
            yield f"within ({number}): {step.text}", torn(snapshot)
        snapshot = step.effect(snapshot)
        yield f"after: {step.text}", snapshot
