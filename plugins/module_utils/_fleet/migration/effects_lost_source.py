# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finishing or undoing, on the destination, a move whose source is declared lost.

:mod:`._fleet.migration.lost_source` decides what to do; this file reads the facts and does it.
"""

from __future__ import annotations

import typing as t

from ..._errors import PlanRefused
from ..._libvirt import (
    DOMAIN_BLOCKED,
    DOMAIN_PAUSED,
    DOMAIN_PMSUSPENDED,
    DOMAIN_RUNNING,
    DOMAIN_RUNNING_POSTCOPY,
    DOMAIN_RUNNING_POSTCOPY_FAILED,
    DOMAIN_SHUTOFF,
    DOMAIN_XML_INACTIVE,
    DOMAIN_XML_SECURE,
)
from ..._records import dataclass
from ..base import effects_definitions as domains
from ..base import metadata
from ..base import read_ports as ports
from ..base.effects_connection import Connection
from ..base.effects_lookup import find_domain, read_metadata
from ..base.metadata import Metadata, Move
from ..base.names import CLAIM
from ..cards.effects_keep import keep_cards
from ..cell import effects_hold as cells
from ..engine import effects_lease_holder as owners
from . import effects_records as migration_records
from . import effects_settle as migration_settle
from . import effects_volumes as migration_volumes
from . import lost_source as lost_plan
from . import plan as migration_plan
from . import read as migration_facts
from . import read_endpoints as migration_endpoints
from .effects_jobs import MigrationJob
from .lost_source import LostMoveFacts
from .types import LostSource

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain

_EXECUTES = (DOMAIN_RUNNING, DOMAIN_BLOCKED, DOMAIN_PMSUSPENDED)
_POST_COPY = (DOMAIN_RUNNING_POSTCOPY, DOMAIN_RUNNING_POSTCOPY_FAILED)  # memory incomplete
_WHOLE = DOMAIN_XML_SECURE | DOMAIN_XML_INACTIVE
_STOP_SECONDS = 300.0


def settle(
    connection: Connection, job: MigrationJob, here: str, lost: LostSource, *, check: bool
) -> None:
    """Finish or undo the move of the job's VM from ``lost`` to ``here``; raises PlanRefused if that
    is impossible, or if the VM is lost."""
    _Settler(connection, job, here, lost, check=check).settle()


@dataclass(frozen=True)
class _Found:
    """What this hypervisor has: facts for the plan, and libvirt's objects."""

    seen: LostMoveFacts
    dom: VirDomain | None
    claimed: VirDomain | None
    uuid: str
    state: int
    stored: Metadata | None
    claim: Metadata | None
    written: t.Sequence[tuple[str, int]]

    def require_dom(self) -> VirDomain:
        """The VM's domain; raises PlanRefused if it is gone."""
        if self.dom is None:
            raise PlanRefused("the VM is no longer on this hypervisor; run this again")
        return self.dom

    @property
    def move(self) -> Move | None:
        """The move as recorded in the VM's metadata, else in its claim's."""
        if self.seen.marks and self.stored is not None:
            return self.stored.move
        return self.claim.move if self.claim is not None else None


class _Settler:
    """Finishes or undoes the move of one VM."""

    def __init__(
        self, connection: Connection, job: MigrationJob, here: str, lost: LostSource, *, check: bool
    ) -> None:
        self.connection = connection
        self.job = job
        self.name = job.name
        self.here = here
        self.lost = lost
        self.check = check
        self.answered = ports.answering(lost.addresses)

    def settle(self) -> None:
        current = self._see()
        what = lost_plan.action(current.seen)
        if what == lost_plan.NOTHING:
            self._nothing(current)
        elif what == lost_plan.ALIVE:
            raise PlanRefused(lost_plan.alive(self.name, self.lost.name, str(self.answered)))
        elif what == lost_plan.WAIT:
            comes = current.seen.place == lost_plan.COMING
            raise PlanRefused(lost_plan.waits(self.name, self.lost.name, self.here, comes=comes))
        elif what == lost_plan.OTHER:
            raise PlanRefused(lost_plan.other(self.name, self.lost.name, self.here))
        elif what in (lost_plan.CLEAR, lost_plan.KEEP):
            self._gone(current, clear=what == lost_plan.CLEAR)
        else:
            self._arrived(current, what)

    def _see(self) -> _Found:
        call = self.connection.call
        claimed = find_domain(self.connection, self.name + CLAIM)
        claim = read_metadata(self.connection, claimed) if claimed is not None else None
        if claim is None or claim.phase != "creating" or not self._is_this(claim.move):
            claimed = claim = None
        dom = find_domain(self.connection, self.name)
        if dom is None:
            written = migration_volumes.written(self.connection, claim) if claim else []
            seen = LostMoveFacts(
                claim=claim is not None, written=bool(written), answers=bool(self.answered)
            )
            return _Found(seen, None, claimed, "", 0, None, claim, written)
        uuid = str(dom.UUIDString())
        active = bool(call("read the state", dom.isActive))
        state, reason = call("read the state", dom.state, 0)[:2]
        place = lost_plan.DEFINED
        if not call("read the state", dom.isPersistent):
            place = lost_plan.LIVE if state in _EXECUTES else lost_plan.COMING
        stored = read_metadata(self.connection, dom)
        seen = LostMoveFacts(
            place=place,
            marks=stored is not None and stored.phase == "migrating" and self._is_this(stored.move),
            phase=stored is not None and stored.phase is not None,
            claim=claim is not None,
            same=claimed is not None
            and str(claimed.UUIDString()) == migration_plan.claim_uuid(uuid),
            job=active
            and (
                (state in _EXECUTES and reason in _POST_COPY)
                or migration_facts.job_of(self.connection, dom) is not None
            ),
            answers=bool(self.answered),
        )
        return _Found(seen, dom, claimed, uuid, int(state), stored, claim, [])

    def _is_this(self, move: Move | None) -> bool:
        return move is not None and (move.source, move.destination) == (self.lost.name, self.here)

    def _nothing(self, current: _Found) -> None:
        if current.dom is None:
            raise PlanRefused(
                f"{self.here} no longer has {self.name!r} or a claim of its move from"
                f" {self.lost.name}: another run may have finished or undone it"
            )
        self.job.flow, self.job.note = "none", f"it is on {self.here}"

    def _gone(self, current: _Found, *, clear: bool) -> None:
        """The VM was lost with its hypervisor: remove empty volumes, keep those with content."""
        self.job.kept += [
            f"{path}: may be all that is left of it" for path, _size in current.written
        ]
        if clear:
            self.job.changed = True
            self.job.tell(f"remove the claim of {self.name} and its empty volumes")
            if not self.check and current.claimed is not None:
                stay = migration_volumes.drop(
                    self.connection, self.name, current.claimed, volumes=True
                )
                self.job.kept += [str(left) for left in stay]
                migration_records.drop(self.connection, str(current.claimed.UUIDString()))
        self.job.flow = "lost"
        raise PlanRefused(
            lost_plan.gone(self.name, self.lost.name, self.here, current.written, check=self.check)
        )

    def _arrived(self, before: _Found, what: str) -> None:
        """The VM arrived complete: make it persistent, and clean up after the move."""
        name, move = self.name, before.move
        self.job.flow, self.job.changed = "finish", self.check
        if what == lost_plan.DEFINE:
            self.job.tell(f"make the transient domain {name} persistent")
        self.job.tell(f"finish the move of {name}")
        self.job.remark = self._note(before)
        if self.check:
            return
        if self._never_ran(before):
            self.connection.call(
                f"stop {name}", before.require_dom().destroy, seconds=_STOP_SECONDS
            )
        with owners.host_lock():
            # another run may have finished it, and started another move since
            current = self._see()
            if current.uuid != before.uuid or lost_plan.action(current.seen) != what:
                raise PlanRefused(
                    f"{name!r} was changed by another run meanwhile; run this again to see its"
                    " current state"
                )
            self.job.changed = True
            dom = current.require_dom()
            if what == lost_plan.DEFINE:
                text = self.connection.call(f"read {name}", dom.XMLDesc, _WHOLE)
                domains.define(self.connection, f"define {name}", text)
            self._plain(current, move)
        in_cell = current.stored is not None and current.stored.in_cell
        keep_cards(self.connection, [name], sure=in_cell)
        if in_cell:
            cells.settle(self.connection, name, current.uuid, held=True)

    def _never_ran(self, current: _Found) -> bool:
        """Whether it was shut off before and was started only for the move."""
        move = current.move
        return (
            current.state == DOMAIN_PAUSED
            and current.seen.marks
            and move is not None
            and move.state == "shutoff"
        )

    def _plain(self, current: _Found, move: Move | None) -> None:
        """Restore autostart, remove the marks, and the claim last: a VM that was just defined has
        no marks for the next run to find."""
        dom, stored = current.require_dom(), current.stored
        copies = {
            volume.path: volume.pool for volume in (current.claim.volumes if current.claim else ())
        }
        if move is not None and move.autostart == "yes":
            self.connection.call("switch autostart on", dom.setAutostart, 1)
        if stored is not None:
            pools = {**migration_settle.pools_of(self.connection, stored.volumes), **copies}
            self._snapshots(current, move, pools, copies)
            plain = metadata.after_move(stored, self.here, pools, set(copies))
            migration_endpoints.write_everywhere(self.connection, dom, plain)
        migration_volumes.drop_claim(self.connection, self.name, current.uuid, volumes=False)

    def _snapshots(
        self,
        current: _Found,
        move: Move | None,
        pools: t.Mapping[str, str],
        copies: t.Collection[str],
    ) -> None:
        """Restore the snapshots from the records that this end keeps, before its marks go."""
        run = move.run if move is not None else None
        records = migration_records.kept(self.connection, current.uuid, run)
        if records is not None:
            migration_records.restore(
                self.connection,
                current.require_dom(),
                records,
                lambda then: metadata.after_move(then, self.here, pools, set(copies)),
            )
            migration_records.drop(self.connection, migration_plan.claim_uuid(current.uuid))

    def _note(self, current: _Found) -> str:
        """What the user must know of it, and of its leftovers."""
        move, notes = current.move, []
        if move is not None and move.state == "running":
            if current.state == DOMAIN_SHUTOFF:
                notes.append(migration_settle.went_off(self.name, self.here))
            elif current.state == DOMAIN_PAUSED:
                notes.append(
                    f"it is paused on {self.here} and not resumed automatically; if it was not"
                    f" paused before the move, resume it there (virsh resume {self.name})"
                )
        copied = {volume.path for volume in (current.claim.volumes if current.claim else ())}
        old = [volume.path for volume in (current.stored.volumes if current.stored else ())]
        left = [path for path in old if path in copied]
        self.job.kept += [f"{path}: on {self.lost.name}, which is lost" for path in left]
        return "; ".join([*notes, lost_plan.remains(self.name, self.lost.name, left)])
