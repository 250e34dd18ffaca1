# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""After a move, however it ended: which end has the VM is found out from both, and put right.

What is done in which case is in ``_pure/migration/settling.py``; here it is looked at and done.

This file is private to the collection.
"""

from __future__ import annotations

import contextlib
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
from ..._pure.base import metadata
from ..._pure.base.metadata import Metadata, OwnVolume
from ..._pure.base.names import CLAIM
from ..._pure.machine import domain_info
from ..._pure.migration import moving, settling
from ..._pure.migration.moving import Settled
from ..._pure.migration.settling import Arrival, DestinationState, SourceState, Verdict
from ..base.connection import Connection
from ..base.lookup import find_domain, read_metadata
from ..machine import storage
from . import job as migration_job
from .ending import End
from .ends import Ends, Here, There
from .facts import job_of
from .jobs import Job

_ARRIVALS = {
    DOMAIN_RUNNING: Arrival.RUNNING,
    DOMAIN_BLOCKED: Arrival.RUNNING,
    DOMAIN_PMSUSPENDED: Arrival.RUNNING,
    DOMAIN_PAUSED: Arrival.PAUSED,
    DOMAIN_SHUTOFF: Arrival.OFF,
}
_SETTLE = 30.0  # seconds in which both ends may still change their minds
_POLL = 0.5


class Undone(PlanRefused):
    """The VM is where it was, and the destination is clean."""


class Settler:
    """Puts everything right for whichever end has the VM."""

    def __init__(self, ends: Ends, job: Job, *, keep_volumes: bool) -> None:
        self.ends = ends
        self.job = job
        self.keep_volumes = keep_volumes
        self._disks = 0  # bytes that were copied

    def settle(self, uuid: str, error: str, watched: migration_job.Watched | None) -> None:
        """Finish the move if the VM has arrived; else undo it and raise Undone.

        Raises PlanRefused, having done nothing, where the ends do not tell.
        """
        name, source = self.ends.name, self.ends.source
        if watched is not None:
            self.job.progress += watched.lines
            self.job.bytes = watched.processed
            self._disks = watched.disks
        if watched is not None and watched.hangs:
            raise PlanRefused(
                f"{error}; libvirt's job on {source} does not end, and {name!r} goes on there. Run"
                " this again when the network is back: that ends or finishes it"
            )
        error = error or "the move ended without a result"
        limit = time.monotonic() + _SETTLE
        while True:
            here, silence = None, ""
            try:
                self.ends.reconnect()
                here = self.ends.here(uuid)
            except FleetVirtError as failure:
                silence = str(failure)
            source_state = SourceState.SILENT if silence else self._source_state(here)
            verdict = settling.verdict_of(source_state)
            if verdict is Verdict.JOIN:
                raise PlanRefused(
                    f"{error}, but libvirt still moves {name!r}; run this again, which joins it"
                )
            if verdict is Verdict.AGAIN:
                if time.monotonic() > limit:
                    raise PlanRefused(
                        f"{error}; libvirt on {source} does not answer ({silence}), so what became"
                        f" of {name!r} is not known. Run this again when it does: that finishes or"
                        " undoes it"
                    )
                time.sleep(_POLL)
                continue
            with self.ends.again() as (remote, there):
                verdict = settling.VERDICTS[source_state, _destination_state(there, uuid)]
                if remote is not None and self._done(verdict, here, remote, there, uuid, error):
                    return
                if time.monotonic() > limit:
                    if remote is None or verdict is not Verdict.STOP:
                        raise PlanRefused(self._untold(here, there, error))
                    self.ends.stop(remote, there.require_dom())
            time.sleep(_POLL)

    def _source_state(self, here: Here | None) -> SourceState:
        if here is None:
            return SourceState.ABSENT
        if here.active and job_of(self.ends.connection, here.dom):
            return SourceState.MOVING
        return _state_here(here)

    def _done(
        self,
        verdict: Verdict,
        here: Here | None,
        remote: Connection,
        there: There,
        uuid: str,
        error: str,
    ) -> bool:
        """Do at once what is to be done at once; whether that has settled it."""
        if verdict in (Verdict.FINISH, Verdict.REPLACE):
            self.complete(remote, there, uuid, here)
            return True
        if verdict is Verdict.UNDO and here is not None:
            name, source, where = self.ends.name, self.ends.source, self.ends.where
            off = self._back(here, uuid, remote)
            state = "remains shut off" if off else "keeps running"
            if self.job.note is not None:
                state = "ran before and is shut off now"
            raise Undone(
                f"{error}; {name!r} {state} on {source}, and {where} was cleaned up: fix"
                " the cause and run it again"
            )
        return False

    def _untold(self, here: Here | None, there: There, error: str) -> str:
        name, source, where = self.ends.name, self.ends.source, self.ends.where
        if here is not None and there.error is not None:
            return (
                f"{error}; {where} does not answer ({there.error}), so what it has of {name!r} is"
                f" not known. Start nothing on {where}; {name!r} is on {source} and stays in phase"
                f" migrating. Run this again when {where} is back: that finishes it"
            )
        return (
            f"{error}; where {name!r} belongs cannot be told ({self.ends.undecided(here, there)});"
            " nothing more was done. Look at both with virsh list --all, and run this again"
        )

    def _back(self, here: Here, uuid: str, remote: Connection) -> bool:
        """It is here: the destination becomes clean, and the VM what it was; whether shut off."""
        ends = self.ends
        found = moving.undo(ends.name, ends.source, ends.where, _state_here(here), here.stored)
        if found.lost:
            self._note_off(ends.source)
        End(ends, self.job, ends.connection, here.dom, here.stored, remote, uuid).carry_out(found)
        return found.off

    def _note_off(self, host: str) -> None:
        """Its hypervisor went down: the VM is left as it is, which has to be said."""
        self.job.note = went_off(host)

    def complete(
        self, remote: Connection, there: There, uuid: str, here: Here | None = None
    ) -> None:
        """It is there: its volumes here go, then the claim, and the marks last.

        ``here`` is a definition of it that was not taken away.
        """
        name, stored = self.ends.name, there.stored
        if here is not None:
            self._require_marked(here)
        self.job.changed = True
        self._read_figures(remote, there)
        if stored is None or stored.phase != moving.MIGRATING:
            migration_job.clear(uuid)
            raise PlanRefused(
                f"{name!r} came to {self.ends.where} without the marks of its move, so what is left"
                f" of it on {self.ends.source} stays; somebody changed its metadata meanwhile"
            )
        vm = self._arrived(remote, there, stored, twice=here is not None)
        found = moving.finish(vm, keep_volumes=self.keep_volumes)
        if found.lost:
            self._note_off(self.ends.where)
        self.job.kept += found.stay
        copies = set(vm.copied)
        pools = {**pools_of(remote, stored.volumes), **vm.copied}
        plain = metadata.settled(stored, self.ends.where, pools, copies)
        End(self.ends, self.job, remote, there.require_dom(), plain, remote, uuid, here).carry_out(
            found
        )

    def foresee(self, uuid: str) -> tuple[Verdict, Settled | None]:
        """What :meth:`settle` would do now, as far as both ends tell; it changes nothing."""
        here = self.ends.here(uuid)
        state = self._source_state(here)
        with self.ends.again() as (remote, there):
            verdict = settling.VERDICTS[state, _destination_state(there, uuid)]
            if verdict is Verdict.UNDO and here is not None:
                name, source, where = self.ends.name, self.ends.source, self.ends.where
                return verdict, moving.undo(name, source, where, state, here.stored)
            if verdict in (Verdict.FINISH, Verdict.REPLACE) and remote is not None:
                return verdict, self.predict(remote, there, twice=here is not None)
        return verdict, None

    def predict(self, remote: Connection, there: There, *, twice: bool = False) -> Settled:
        """What :meth:`complete` would do with a VM that has the marks of its move there."""
        vm = self._arrived(remote, there, there.stored or metadata.Metadata(), twice=twice)
        return moving.finish(vm, keep_volumes=self.keep_volumes)

    def _arrived(
        self, remote: Connection, there: There, stored: Metadata, *, twice: bool
    ) -> moving.Arrived:
        name = self.ends.name
        state = int(remote.call("read the state", there.require_dom().state, 0)[0])
        claimed = find_domain(remote, name + CLAIM)
        claim = read_metadata(remote, claimed) if claimed is not None else None
        text = remote.call(f"read {name}", there.require_dom().XMLDesc, DOMAIN_XML_INACTIVE)
        disks = domain_info.parse(text, f"domain {name}")["disks"]
        return moving.Arrived(
            *(name, self.ends.where, _ARRIVALS.get(state, Arrival.OTHER), stored),
            copied={one.path: one.pool for one in (claim.volumes if claim else ())},
            attached={disk["source"] for disk in disks if disk["source"]},
            twice=twice,
        )

    def _read_figures(self, remote: Connection, there: There) -> None:
        with contextlib.suppress(FleetVirtError):
            stats = remote.call(
                "read the job", there.require_dom().jobStats, DOMAIN_JOB_STATS_COMPLETED
            )
            if stats.get("data_processed"):
                # the destination has not heard of disks that libvirt copied by NBD
                disks = int(stats.get("disk_processed", 0))
                memory = int(stats["data_processed"]) - disks
                self.job.bytes = memory + max(disks, self._disks)
            self.job.downtime_ms = int(stats.get("downtime_net", stats.get("downtime", 0)))

    def _require_marked(self, here: Here) -> None:
        """It is there, and what is here is a definition that was not taken away."""
        if here.stored is None or here.stored.phase != moving.MIGRATING:
            name = self.ends.name
            raise PlanRefused(
                f"{name!r} is defined on {self.ends.source} and on {self.ends.where}; a VM exists"
                " once: find out which is right, and remove the other (virt_purge)"
            )


def _state_here(here: Here) -> SourceState:
    """Of a VM that libvirt does not move."""
    if not here.active:
        return SourceState.OFF
    return SourceState.PAUSED if here.paused else SourceState.RUNNING


def _destination_state(there: There, uuid: str) -> DestinationState:
    if there.error is not None:
        return DestinationState.SILENT
    if there.dom is None:
        return DestinationState.ABSENT
    if there.arrived(uuid):
        return DestinationState.ARRIVED
    if not (there.coming and there.is_of(uuid)):
        return DestinationState.FOREIGN
    return DestinationState.WAITING if there.paused else DestinationState.COMING


def went_off(host: str) -> str:
    """Of a VM that ran before its move and does not any more."""
    return (
        f"it ran before the move and is shut off on {host} now, where nothing starts it by itself:"
        " start it with virt_state, state running"
    )


def pools_of(connection: Connection, volumes: t.Sequence[OwnVolume]) -> dict[str, str]:
    """What the pools of volumes are called there, by the volumes' paths."""
    found = {}
    for folder in {posixpath.dirname(one.path) for one in volumes}:
        pool = storage.pool_at(connection, folder)
        if pool is not None:
            found.update(
                {one.path: pool for one in volumes if posixpath.dirname(one.path) == folder}
            )
    return found
