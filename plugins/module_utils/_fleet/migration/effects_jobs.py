# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The VMs that one call moves, and the result of each."""

from __future__ import annotations

import typing as t

from ..._records import dataclass, field
from ..base.effects_connection import Connection
from ..engine import effects_verb as verb
from ..engine.steps import Action, Plan, Step
from .plan_steps import MoveState
from .types import Destination, LostSource, MigrationOptions


@dataclass(frozen=True)
class MigrationSettings:
    """``here`` is this hypervisor's name in the inventory; ``repair``: start no new move;
    ``parallel``: VMs to move at the same time; ``evacuating``: they are to return later.
    ``places``, ``cards`` and ``unmanaged``: see ``MigrateWork``. ``cleared`` are VMs of which there
    was only a leftover here."""

    here: str
    base_pool: str
    options: MigrationOptions
    repair: bool = False
    parallel: int = 1
    evacuating: bool = False
    places: t.Mapping[str, str] = field(default_factory=dict)
    cards: t.Sequence[str] = ()
    unmanaged: t.Sequence[str] = ()
    cleared: t.Collection[str] = ()


Figure = t.Union[int, float, str, None]  # a text in check mode


class Report(Action):
    """Nothing: something is reported that was done without a step of this run."""


@dataclass
class MigrationJob(verb.Job[MoveState]):
    """One VM and its result; ``lost``: its source, if that hypervisor is lost.

    It has several plans, one after the other: ``done`` are the steps of all, in check mode those
    that would be done. ``remark`` is what the user must know of a VM that was moved.
    """

    here: str
    destination: Destination
    lost: LostSource | None = None
    flow: str | None = field(default=None, init=False)
    kept: list[str] = field(default_factory=list, init=False)
    progress: list[str] = field(default_factory=list, init=False)
    bytes_to_copy: int = field(default=0, init=False)
    bytes: Figure = field(default=None, init=False)
    seconds: Figure = field(default=None, init=False)
    downtime_ms: Figure = field(default=None, init=False)
    changed: bool = field(default=False, init=False)
    remark: str | None = field(default=None, init=False)

    @property
    def source(self) -> str:
        """The hypervisor that it comes from."""
        return self.lost.name if self.lost else self.here

    @property
    def steps(self) -> list[str]:
        """What was done, also for a VM that stayed."""
        return [step.text for step in self.done]

    @property
    def failure(self) -> str:
        return f"{self.name}: {self.problem}"

    def tell(self, text: str) -> None:
        """Record what is done, or was done by another run, without a step of this one."""
        self.done.append(Step(Report(), text, lambda seen: seen))

    def report(self) -> dict[str, object]:
        report = super().report()
        del report["uuid"]  # unknown of one that is nowhere
        return report

    def entry(self) -> verb.Shown:
        keys = (
            *("source", "flow", "steps", "kept", "progress", "bytes_to_copy"),
            *("bytes", "seconds", "downtime_ms"),
        )
        return {
            "destination": self.destination.name,
            "findings": list(self.plan.refusals),
            "note": self.remark,
            **{key: getattr(self, key) for key in keys},
        }

    def shown(self) -> tuple[verb.Shown, verb.Shown]:
        return (
            {"hypervisor": self.source, "steps": []},
            {"hypervisor": self.destination.name, "steps": self.steps},
        )


def new_job(
    connection: Connection,
    name: str,
    here: str,
    destination: Destination,
    lost: LostSource | None = None,
) -> MigrationJob:
    """A VM of which nothing has been read yet."""
    return MigrationJob(connection, name, None, MoveState(None), Plan(), here, destination, lost)
