# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Restore a disk of a VM as a new volume beside it: reasons to refuse, and the steps.

It is written under a name of its own, and gets the one that says what it is only once all of it is
there and has its digest. So a volume of that name is complete, and what a run that was killed has
left is known by the other name.
"""

from __future__ import annotations

import dataclasses

from ..._records import dataclass
from ..engine.steps import Action, Plan, Step

UNFINISHED = ".restoring"
# How far the content has been written
EMPTY, PART, FILLED = "empty", "part", "filled"

_Step = Step["DiskFacts"]


@dataclass(frozen=True)
class DiskFacts:
    """What is where the disk is to be.

    ``there``: a file has its final name, and how far it was written where that is known; None
    without one. ``unfinished`` is the same of the name that it has until then. ``blockers`` prevent
    that it is restored here.
    """

    name: str
    there: str | None = None
    unfinished: str | None = None
    blockers: tuple[str, ...] = ()


@dataclass(frozen=True)
class NewDisk:
    """The disk: where it is from, and the pool, name and file that it gets."""

    source: str
    pool: str
    volume: str
    path: str

    @property
    def unfinished(self) -> str:
        """The file until it is complete."""
        return f"{self.path}{UNFINISHED}"


@dataclass(frozen=True)
class RemoveUnfinished(Action):
    """Remove the file that an interrupted run left."""


@dataclass(frozen=True)
class CreateUnfinished(Action):
    """Create the volume under its other name, empty."""


@dataclass(frozen=True)
class FillUnfinished(Action):
    """Fill it from the archive, compare its digest, and sync it to disk."""


@dataclass(frozen=True)
class NameDisk(Action):
    """Give the file its final name, which nothing may have, and take the other away."""


def plan(facts: DiskFacts, wanted: NewDisk) -> Plan[DiskFacts]:
    """The steps from ``facts`` to the volume; one of that name is complete, and stays as it is."""
    remove: _Step = Step(
        RemoveUnfinished(),
        f"remove {wanted.unfinished}, which an interrupted run left",
        lambda before: dataclasses.replace(before, unfinished=None),
        irreversible=True,
    )
    clear: tuple[_Step, ...] = (remove,) if facts.unfinished is not None else ()
    if facts.there is not None:
        return Plan(clear)
    if facts.blockers:
        return Plan((), facts.blockers)
    return Plan((*clear, *_make(wanted)))


def _make(wanted: NewDisk) -> tuple[_Step, ...]:
    def unfinished(before: DiskFacts, kind: str) -> DiskFacts:
        return dataclasses.replace(before, unfinished=kind)

    return (
        Step(
            CreateUnfinished(),
            f"create {wanted.pool}/{wanted.volume}",
            lambda before: unfinished(before, EMPTY),
        ),
        Step(
            FillUnfinished(),
            f"restore {wanted.pool}/{wanted.volume}",
            lambda before: unfinished(before, FILLED),
            (lambda before: unfinished(before, PART),),
        ),
        Step(
            NameDisk(),
            f"name it {wanted.path}",
            lambda before: DiskFacts(before.name, FILLED, blockers=before.blockers),
            (lambda before: dataclasses.replace(before, there=FILLED),),
        ),
    )
