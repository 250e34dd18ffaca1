# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""After a move, however it ended: reading which endpoint has the VM, and cleaning up.

``_fleet/migration/settling.py`` decides what to do in which case; this file reads and does it.
The steps that remain are planned by ``plan_steps``, and done on the endpoint that has the VM.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import posixpath
import time
import typing as t

from ..._errors import FleetVirtError, PlanRefused
from ..._libvirt import (
    DOMAIN_BLOCKED,
    DOMAIN_JOB_STATS_COMPLETED,
    DOMAIN_PAUSED,
    DOMAIN_PMSUSPENDED,
    DOMAIN_RUNNING,
    DOMAIN_SHUTOFF,
    DOMAIN_XML_INACTIVE,
)
from ..._records import dataclass
from ..base import effects_definitions as domains
from ..base import effects_lookup as lookup
from ..base import metadata
from ..base.effects_connection import Connection
from ..base.effects_lookup import find_domain, read_metadata
from ..base.metadata import Metadata, OwnVolume
from ..base.names import CLAIM, playbook_command
from ..cards.effects_keep import arrive, keep_cards
from ..engine import effects_verb as verb
from ..hosts import domain_info
from ..storage import effects_own_files as owned
from ..storage import effects_storage as storage
from ..storage import read_file_users as ownership
from ..storage.read_file_users import References
from . import effects_job as migration_job
from . import effects_records as migration_records
from . import effects_volumes as migration_volumes
from . import plan as migration_plan
from . import plan_steps as moving
from . import read_endpoints as migration_endpoints
from . import settling
from .effects_jobs import MigrationJob
from .plan_steps import Settled
from .read import job_of
from .read_endpoints import DestinationView, Endpoints, SourceView
from .records import Records
from .settling import Arrival, DestinationState, SourceState, Verdict

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain

_ARRIVALS = {
    DOMAIN_RUNNING: Arrival.RUNNING,
    DOMAIN_BLOCKED: Arrival.RUNNING,
    DOMAIN_PMSUSPENDED: Arrival.RUNNING,
    DOMAIN_PAUSED: Arrival.PAUSED,
    DOMAIN_SHUTOFF: Arrival.OFF,
}
_SETTLE = 30.0  # seconds in which the state of both endpoints may still change
_POLL = 0.5


class Undone(PlanRefused):
    """The VM is still on the source, and the destination was cleaned up as far as possible."""


class Settler:
    """Finishes or undoes a move, depending on which endpoint has the VM."""

    def __init__(self, endpoints: Endpoints, job: MigrationJob, *, keep_volumes: bool) -> None:
        self.endpoints = endpoints
        self.job = job
        self.keep_volumes = keep_volumes
        self.held = False  # by this run, or the dead one before: its cell has left it alone
        self._disks = 0  # bytes that were copied

    def settle(self, uuid: str, error: str, watched: migration_job.Watched | None) -> None:
        """Finish the move if the VM has arrived; else undo it and raise Undone.

        Raises PlanRefused, with nothing changed, where both endpoints leave it open.
        """
        name, source_host = self.endpoints.name, self.endpoints.source
        if watched is not None:
            self.job.progress += watched.lines
            self.job.bytes = watched.processed
            self._disks = watched.disks
        if watched is not None and watched.hangs:
            raise PlanRefused(
                f"{error}; libvirt's job on {source_host} does not end, and {name!r} remains there."
                " Run this again when the network is back, to abort or finish the move"
            )
        error = error or "the move ended without a result"
        limit = time.monotonic() + _SETTLE
        while True:
            source, silence = None, ""
            try:
                self.endpoints.reconnect()
                source = self.endpoints.source_view(uuid)
            except FleetVirtError as failure:
                silence = str(failure)
            source_state = SourceState.SILENT if silence else self._source_state(source)
            verdict = settling.verdict_of(source_state)
            if verdict is Verdict.JOIN:
                raise PlanRefused(
                    f"{error}, but libvirt is still moving {name!r}; run this again to wait for it"
                )
            if verdict is Verdict.AGAIN:
                if time.monotonic() > limit:
                    raise PlanRefused(
                        f"{error}; libvirt on {source_host} does not respond ({silence}), so the"
                        f" state of {name!r} is unknown. Run this again when it responds, to finish"
                        " or undo the move"
                    )
                time.sleep(_POLL)
                continue
            with self.endpoints.reconnected() as (remote, destination):
                verdict = settling.VERDICTS[source_state, _destination_state(destination, uuid)]
                if remote is not None and self._done(
                    verdict, source, remote, destination, uuid, error
                ):
                    return
                if time.monotonic() > limit:
                    if remote is None or verdict is not Verdict.STOP:
                        raise PlanRefused(self._undecided(source, destination, error))
                    self.endpoints.stop(remote, destination.require_dom())
            time.sleep(_POLL)

    def _source_state(self, source: SourceView | None) -> SourceState:
        if source is None:
            return SourceState.ABSENT
        if source.active and job_of(self.endpoints.connection, source.dom):
            return SourceState.MOVING
        return _state_of(source)

    def _done(
        self,
        verdict: Verdict,
        source: SourceView | None,
        remote: Connection,
        destination: DestinationView,
        uuid: str,
        error: str,
    ) -> bool:
        """Finish or undo the move if that is decided; whether it was finished."""
        if verdict in (Verdict.FINISH, Verdict.REPLACE):
            self.complete(remote, destination, uuid, source)
            return True
        if verdict is Verdict.UNDO and source is not None:
            name, source_host, where = (
                self.endpoints.name,
                self.endpoints.source,
                self.endpoints.where,
            )
            before = len(self.job.kept)
            off = self._back(source, uuid, remote)
            left = "; ".join(self.job.kept[before:])
            cleaned = f"; not removed: {left}" if left else f", and {where} was cleaned up"
            state = "remains shut off" if off else "keeps running"
            if self.job.remark is not None:
                state = "ran before and is shut off now"
            raise Undone(
                f"{error}; {name!r} {state} on {source_host}{cleaned}. Fix the cause and run it"
                " again"
            )
        return False

    def _undecided(
        self, source: SourceView | None, destination: DestinationView, error: str
    ) -> str:
        name, source_host, where = self.endpoints.name, self.endpoints.source, self.endpoints.where
        if source is not None and destination.error is not None:
            return (
                f"{error}; {where} does not respond ({destination.error}), so what it has of"
                f" {name!r} is unknown. Start nothing on {where}; {name!r} is on {source_host} and"
                f" stays in phase migrating. Run this again when {where} is back, to finish it"
            )
        both = self.endpoints.undecided(source, destination)
        return (
            f"{error}; cannot determine which hypervisor owns {name!r} ({both}); nothing more was"
            " done. Inspect both with virsh list --all, then run this again"
        )

    def _back(self, source: SourceView, uuid: str, remote: Connection) -> bool:
        """Clean up the destination and restore the VM on the source; whether it is shut off."""
        endpoints = self.endpoints
        records = self._records(source.stored, uuid, remote)
        plan = moving.undo(
            *(endpoints.name, endpoints.source, endpoints.where, _state_of(source), source.stored),
            records.names if records else (),
        )
        if plan.lost:
            self._note_off(endpoints.source)
        End(
            *(endpoints, self.job, endpoints.connection, source.dom, source.stored, remote, uuid),
            records=records,
            held=self.held,
        ).carry_out(plan)
        return plan.off

    def _note_off(self, host: str) -> None:
        """Note that the VM was shut off with its hypervisor and is left so."""
        self.job.remark = went_off(self.job.name, host)

    def complete(
        self,
        remote: Connection,
        destination: DestinationView,
        uuid: str,
        source: SourceView | None = None,
    ) -> None:
        """Finish the move of a VM that arrived: remove the source's volumes, then the claim, and
        the marks last. ``source`` is a definition that is left on the source.
        """
        name, stored = self.endpoints.name, destination.stored
        if source is not None:
            self._require_marked(source)
        self.job.changed = True
        self._read_figures(remote, destination)
        if stored is None or stored.phase != moving.MIGRATING:
            migration_job.clear(uuid)
            raise PlanRefused(
                f"{name!r} arrived on {self.endpoints.where} without the marks of its move, so its"
                f" leftovers on {self.endpoints.source} stay; its metadata were changed meanwhile"
            )
        records = self._records(stored, uuid, remote)
        vm = self._arrived(remote, destination, stored, records, twice=source is not None)
        plan = moving.finish(vm, keep_volumes=self.keep_volumes)
        if plan.lost:
            self._note_off(self.endpoints.where)
        self.job.kept += plan.stay
        copies = set(vm.copied)
        pools = {**pools_of(remote, stored.volumes), **vm.copied}
        plain = metadata.after_move(stored, self.endpoints.where, pools, copies)
        where = self.endpoints.where
        dom = destination.require_dom()
        arrive(self.endpoints.connection, remote, dom, plain, where, copied=bool(copies))
        End(
            *(self.endpoints, self.job, remote, destination.require_dom(), plain, remote, uuid),
            *(source, records),
            moved=lambda then: metadata.after_move(then, where, pools, copies),
        ).carry_out(plan)

    def _records(self, stored: Metadata | None, uuid: str, remote: Connection) -> Records | None:
        """The records of its snapshots that one end at least keeps for this move."""
        run = stored.move.run if stored is not None and stored.move is not None else None
        ends = (self.endpoints.connection, remote)
        return next(filter(None, (migration_records.kept(end, uuid, run) for end in ends)), None)

    def predict_settling(self, uuid: str) -> tuple[Verdict, Settled | None]:
        """What :meth:`settle` would do now, as far as both endpoints show; changes nothing."""
        source = self.endpoints.source_view(uuid)
        state = self._source_state(source)
        with self.endpoints.reconnected() as (remote, destination):
            verdict = settling.VERDICTS[state, _destination_state(destination, uuid)]
            if verdict is Verdict.UNDO and source is not None:
                name, source_host, where = (
                    self.endpoints.name,
                    self.endpoints.source,
                    self.endpoints.where,
                )
                records = self._records(source.stored, uuid, remote) if remote else None
                names = records.names if records else ()
                return verdict, moving.undo(name, source_host, where, state, source.stored, names)
            if verdict in (Verdict.FINISH, Verdict.REPLACE) and remote is not None:
                return verdict, self.predict(remote, destination, twice=source is not None)
        return verdict, None

    def predict(
        self, remote: Connection, destination: DestinationView, *, twice: bool = False
    ) -> Settled:
        """What :meth:`complete` would do with a VM that is marked on the destination."""
        stored = destination.stored or metadata.Metadata()
        uuid = str(destination.require_dom().UUIDString())
        records = self._records(stored, uuid, remote)
        vm = self._arrived(remote, destination, stored, records, twice=twice)
        return moving.finish(vm, keep_volumes=self.keep_volumes)

    def _arrived(
        self,
        remote: Connection,
        destination: DestinationView,
        stored: Metadata,
        records: Records | None,
        *,
        twice: bool,
    ) -> moving.Arrived:
        name = self.endpoints.name
        state = int(remote.call("read the state", destination.require_dom().state, 0)[0])
        claimed = find_domain(remote, name + CLAIM)
        claim = read_metadata(remote, claimed) if claimed is not None else None
        text = remote.call(f"read {name}", destination.require_dom().XMLDesc, DOMAIN_XML_INACTIVE)
        disks = domain_info.parse(text, f"domain {name}")["disks"]
        return moving.Arrived(
            *(name, self.endpoints.where, _ARRIVALS.get(state, Arrival.OTHER), stored),
            copied={volume.path: volume.pool for volume in (claim.volumes if claim else ())},
            attached={disk["source"] for disk in disks if disk["source"]},
            twice=twice,
            snapshots=records.names if records else (),
        )

    def _read_figures(self, remote: Connection, destination: DestinationView) -> None:
        with contextlib.suppress(FleetVirtError):
            stats = remote.call(
                "read the job", destination.require_dom().jobStats, DOMAIN_JOB_STATS_COMPLETED
            )
            if stats.get("data_processed"):
                # the destination does not count disks that libvirt copied over NBD
                disks = int(stats.get("disk_processed", 0))
                memory = int(stats["data_processed"]) - disks
                self.job.bytes = memory + max(disks, self._disks)
            self.job.downtime_ms = int(stats.get("downtime_net", stats.get("downtime", 0)))

    def _require_marked(self, source: SourceView) -> None:
        """Raise PlanRefused unless the definition on the source is a leftover of a move."""
        if source.stored is None or source.stored.phase != moving.MIGRATING:
            name = self.endpoints.name
            raise PlanRefused(
                f"{name!r} is defined on {self.endpoints.source} and on"
                f" {self.endpoints.where}; a VM must exist only once: find out which is"
                " right, and remove the other (virt_purge)"
            )


def _state_of(source: SourceView) -> SourceState:
    """State of a VM that libvirt is not moving."""
    if not source.active:
        return SourceState.OFF
    return SourceState.PAUSED if source.paused else SourceState.RUNNING


def _destination_state(destination: DestinationView, uuid: str) -> DestinationState:
    if destination.error is not None:
        return DestinationState.SILENT
    if destination.dom is None:
        return DestinationState.ABSENT
    if destination.arrived(uuid):
        return DestinationState.ARRIVED
    if not (destination.incoming and destination.is_of(uuid)):
        return DestinationState.FOREIGN
    return DestinationState.WAITING if destination.paused else DestinationState.COMING


def went_off(name: str, host: str) -> str:
    """Note on a VM that ran before its move and no longer does."""
    command = playbook_command("state", vm_name=name, vm_state="running")
    return (
        f"it ran before the move and is shut off on {host} now, where it does not start"
        f" automatically: start it with {command}"
    )


def pools_of(connection: Connection, volumes: t.Sequence[OwnVolume]) -> dict[str, str]:
    """Names of the volumes' pools on that hypervisor, by the volumes' paths."""
    pools = {}
    for folder in {posixpath.dirname(volume.path) for volume in volumes}:
        pool = storage.pool_at(connection, folder)
        if pool is not None:
            pools.update(
                {
                    volume.path: pool
                    for volume in volumes
                    if posixpath.dirname(volume.path) == folder
                }
            )
    return pools


# --- the steps that remain once it is known which endpoint has the VM ---


@dataclass
class End(verb.Work):
    """The endpoint that has the VM, ``dom`` on ``connection``, where the remaining steps are done.

    ``stored`` is its metadata: those to write on the destination, the present ones on the source.
    ``source`` is the definition that the source still has, ``records`` are those kept of its
    snapshots, and ``moved`` makes of metadata in these what they are on the destination.
    """

    endpoints: Endpoints
    job: MigrationJob
    connection: Connection
    dom: VirDomain
    stored: Metadata | None
    remote: Connection
    uuid: str
    source: SourceView | None = None
    records: Records | None = None
    references: References | None = None
    moved: t.Callable[[Metadata], Metadata] | None = None
    held: bool = False

    def carry_out(self, plan: Settled) -> None:
        """Do all steps; raises the error of the one that failed."""
        ACTIONS.do(self, plan.steps)

    def step_is_done(self) -> None:
        self.job.done.append(self.step)

    def keep_cards(self) -> None:
        if self.connection is not self.remote:
            keep_cards(self.connection, [self.endpoints.name], sure=self.held)

    def finish(self) -> None:
        """Do nothing: the marks are removed last, so the next run finds whatever is left."""


def _forget(end: End) -> None:
    if end.source is not None:
        domains.undefine(
            end.endpoints.connection, end.source.dom, keep_nvram=True, missing_ok=False
        )


def _clear(end: End) -> None:
    stay = migration_volumes.drop_claim(end.remote, end.endpoints.name, end.uuid, volumes=True)
    end.job.kept += [f"{left.path} on {end.endpoints.where}: {left.reason}" for left in stay]
    migration_job.clear(end.uuid)


def _release(end: End) -> None:
    migration_job.clear(end.uuid)
    migration_volumes.drop_claim(end.remote, end.endpoints.name, end.uuid, volumes=False)


def _stop(end: End) -> None:
    end.endpoints.stop(end.connection, end.dom)


def _resume(end: End) -> None:
    end.connection.call(f"resume {end.endpoints.name}", end.dom.resume)


def _old(end: End, step: moving.RemoveOld) -> None:
    """Remove a volume on the source: the VM ran on it, so it is its own. Shared ones stay."""
    own = step.volume
    if not os.path.lexists(own.path):
        return
    connection = end.endpoints.connection
    if end.references is None:
        end.references = ownership.read(connection)
    stays = owned.remove(connection, own, end.uuid, end.references, proven=True)
    end.job.kept += [] if stays is None else [str(stays)]


def _restore(end: End) -> None:
    if end.records is not None:
        migration_records.restore(end.connection, end.dom, end.records, end.moved)


def _drop(end: End) -> None:
    for connection in (end.remote, end.endpoints.connection):
        migration_records.drop(connection, migration_plan.claim_uuid(end.uuid))


def _autostart(end: End) -> None:
    end.connection.call("switch autostart on", end.dom.setAutostart, 1)


def _unmark(end: End) -> None:
    if end.stored is None:
        return
    if end.connection is end.remote:
        migration_endpoints.write_everywhere(end.connection, end.dom, end.stored)
        return
    left = metadata.arriving(end.stored, end.endpoints.source)
    plain = dataclasses.replace(end.stored, phase=None, owner=None, move=None, evacuated_from=left)
    lookup.write_metadata(end.connection, end.dom, plain, lookup.AFFECT_CONFIG)


ACTIONS = (
    verb.Actions[End]()
    .simply(moving.ForgetSource, _forget)
    .simply(moving.ClearDestination, _clear)
    .simply(moving.ReleaseClaim, _release)
    .simply(moving.StopVm, _stop)
    .simply(moving.ResumeVm, _resume)
    .simply(moving.RestoreSnapshots, _restore)
    .on(moving.RemoveOld, _old)
    .simply(moving.DropRecords, _drop)
    .simply(moving.SwitchAutostartOn, _autostart)
    .simply(moving.Unmark, _unmark)
)
