# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The steps of a move: marks, claim and volumes on the destination, the move itself.

No step is undone on its own. Whatever happens once the VM is marked, both endpoints are checked,
and the move is finished or undone.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..._errors import FleetVirtError, PlanRefused, error_message
from ..._libvirt import DOMAIN_START_PAUSED
from ..._records import dataclass
from ..base import effects_lookup as lookup
from ..base.effects_connection import Connection
from ..base.effects_lookup import read_metadata
from ..base.metadata import Move, Owner
from ..cards.effects_keep import keep_cards
from ..cell import effects_hold as cells
from ..engine import effects_backups as backups
from ..engine import effects_lease_holder as owners
from ..engine import effects_verb as verb
from ..engine.steps import Step
from ..seeding import effects_medium as seed_medium
from . import effects_job as migration_job
from . import effects_records as records
from . import effects_volumes as migration_volumes
from . import plan as migration_plan
from . import plan_steps as moving
from .effects_jobs import MigrationSettings
from .effects_settle import Settler
from .plan_steps import MoveState
from .records import Records
from .types import MigrationPlan, Source, Target

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain

_START_SECONDS = 300.0


class Overtaken(PlanRefused):
    """Another run changed the VM meanwhile, before this one did anything."""


@dataclass
class Moving(verb.Work):
    """The move of one VM: ``read`` reads the source again, ``watch`` waits for libvirt."""

    remote: Connection
    dom: VirDomain
    source: Source
    target: Target
    plan: MigrationPlan
    settings: MigrationSettings
    settler: Settler
    run: str
    read: t.Callable[[], Source]
    watch: t.Callable[[float], migration_job.Watched]
    marked: bool = False
    finished: bool = False
    held: bool = False
    records: Records | None = None
    copied: int = 0  # bytes of files
    watched: migration_job.Watched | None = None

    @property
    def connection(self) -> Connection:
        return self.settler.endpoints.connection

    @property
    def where(self) -> str:
        return self.settler.endpoints.where

    @property
    def owner(self) -> Owner:
        return owners.myself(self.run)

    @property
    def move(self) -> Move:
        return moving.move_of(self.source, self.where, self.run)

    def carry_out(self, steps: t.Sequence[Step[MoveState]]) -> None:
        """Move it. Raises the error of a step that failed, Undone if it is still on the source."""
        try:
            ACTIONS.do(self, steps)
        except Exception:
            if not self.finished:
                raise

    def step_is_done(self) -> None:
        self.settler.job.done.append(self.step)

    def hold(self) -> None:
        self.held = self.settler.held = cells.hold(self.connection, self.source.uuid)

    def keep_cards(self) -> None:
        # of a VM that left, the end of the move has kept it; one that is still here has changed
        name, uuid = self.source.name, self.source.uuid
        keep_cards(self.connection, [name], sure=self.held)
        try:
            cells.settle(self.connection, name, uuid, held=self.held, to=self.where)
        except FleetVirtError as error:
            # the move itself is done or undone, whose own message remains
            job = self.settler.job
            if self.finished:
                job.problem = error_message(error)
            else:
                job.remark = "; ".join(filter(None, [job.remark, error_message(error)]))

    def finish(self) -> None:
        """Finish or undo the move, if anything but what is in its drives was changed."""
        if self.marked:
            told = self.watched.error or "" if self.watched is not None else ""
            error = told if self.error is None else error_message(self.error)
            self.settler.settle(self.source.uuid, error, self.watched)
            self.finished = True


def _remove_seed(moves: Moving) -> None:
    if seed_medium.remove(moves.connection, moves.dom):
        moves.source = moves.read()


def _eject(moves: Moving, step: moving.EjectMedium) -> None:
    seed_medium.eject_from(moves.connection, moves.dom, step.target, active=moves.source.active)


def _mark(moves: Moving) -> None:
    source = moves.source
    with owners.host_lock():
        if read_metadata(moves.connection, moves.dom) != source.metadata or source.metadata is None:
            raise Overtaken(f"{source.name!r} was changed by another run meanwhile; try again")
        stored = moving.marked(source, moves.move, evacuating=moves.settings.evacuating)
        stored = dataclasses.replace(stored, owner=moves.owner)
        lookup.write_metadata(moves.connection, moves.dom, stored, lookup.AFFECT_CONFIG)
    moves.marked = True
    backups.give_way(moves.connection, source.uuid)  # one that began before it was marked
    keep_cards(
        moves.connection, [source.name], sure=moves.held
    )  # from here on it is that of both ends


def _no_autostart(moves: Moving) -> None:
    moves.connection.call("switch autostart off", moves.dom.setAutostart, 0)


def _claim(moves: Moving) -> None:
    volumes = moves.plan.volumes
    migration_volumes.define_claim(moves.remote, moves.source, volumes, moves.owner, moves.move)


def _volume(moves: Moving, step: moving.MakeVolume) -> None:
    migration_volumes.make(moves.remote, moves.source, [step.volume])
    moves.copied += step.volume.allocation if step.volume.whole else 0


def _keep(moves: Moving) -> None:
    ends = (moves.connection, moves.remote)
    moves.records = records.keep(ends, moves.dom, moves.source.name, moves.run)


def _detach(moves: Moving) -> None:
    if moves.records is not None:
        records.forget(moves.connection, moves.dom, moves.records)


def _start(moves: Moving) -> None:
    start = moves.dom.createWithFlags
    what = f"start {moves.source.name} paused"
    moves.connection.call(what, start, DOMAIN_START_PAUSED, seconds=_START_SECONDS)


def _move(moves: Moving) -> None:
    source, plan, options = moves.source, moves.plan, moves.settings.options
    argv = migration_plan.command(source, moves.target, plan, options, moves.connection.uri)
    migration_job.start(source.uuid, argv)
    moves.watched = moves.watch(migration_plan.seconds(plan, source.memory_mib, options))
    moves.watched.processed += moves.copied


# None is undone by itself: which endpoint has the VM decides whether the move is finished or undone
ACTIONS = (
    verb.Actions[Moving]()
    .simply(moving.RemoveSeed, _remove_seed)
    .on(moving.EjectMedium, _eject)
    .simply(moving.MarkMoving, _mark)
    .simply(moving.SwitchAutostartOff, _no_autostart)
    .simply(moving.ClaimDestination, _claim)
    .on(moving.MakeVolume, _volume)
    .simply(moving.LeaveShared, lambda _moves: None)
    .simply(moving.KeepSnapshots, _keep)
    .simply(moving.DetachSnapshots, _detach)
    .simply(moving.StartPaused, _start)
    .simply(moving.MoveVm, _move)
)
