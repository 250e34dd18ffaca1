# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Creating VMs, second half: the transaction.

A VM is claimed by defining it, with phase ``creating`` and a drive whose medium never exists, so
that libvirt itself refuses to start it, whoever asks. Then the host is read: if it now promises
more than it has, the claim is withdrawn. Volumes are made under the claim, which names them. The
last step replaces the definition by the final one, with phase ``starting`` until it was started.
The guests of a batch are started paused and let run together at the end: guests that boot take the
time of the host that the rest of the work needs.

Whatever fails on the way, exactly what this call made is removed; a call that is killed leaves a
claim whose owner is gone, which the next run of the same request removes and makes anew, or a whole
VM that is yet to be started, which it starts.

This file is private to the collection.
"""

from __future__ import annotations

import dataclasses
import functools
import time
import typing as t
import uuid as uuids

from ..._errors import LibvirtFailure, PlanRefused, told
from ..._libvirt import DOMAIN_PAUSED, DOMAIN_START_PAUSED, ERR_OPERATION_INVALID
from ..._pure.base.metadata import BEGUN, Metadata, Owner
from ..._pure.domain import request
from ..base import domains
from ..base import owner as owners
from ..base.connection import Connection
from ..base.lookup import find_domain, kept_metadata
from ..plan import lease
from ..seed import nocloud as seed_nocloud
from . import creation_definition as definition
from .creation_types import DiskPlan, Host, Job, require_bases
from .creation_volumes import build

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..._pure.machine.snapshot import PlacementEntry

_START_SECONDS = 300.0
_POLL = 0.25
_PATIENCE = 180.0  # seconds that a live run on this host may take to finish its VM


def claim(host: Host, jobs: t.Sequence[Job], owner: Owner) -> PlacementEntry | None:
    """Define a claim for every new job; those that cannot stay are failed and leave nothing.

    Returns the facts of the host with the claims, None if nothing was claimed.
    """
    limit = time.monotonic() + _PATIENCE  # for all of them together
    for job in [job for job in jobs if job.state == "half"]:
        job.changed = job.whole
        if not job.whole:
            _guarded(job, functools.partial(_take_over, host, job, limit))
    from . import creation_capacity  # finishing needs none of it

    facts = None
    claimed: list[Job] = []
    with owners.host_lock():
        for job in [job for job in jobs if job.state == "new"]:
            _guarded(job, functools.partial(_define_claim, host, job, owner))
            if job.changed:
                claimed.append(job)
        # the last claims go first: those before them may stay
        while claimed:
            excess, facts = creation_capacity.excess(host)
            if not excess:
                break
            job = claimed.pop()
            _withdraw(host.connection, job.domain.name, owner.run)
            job.changed = False
            job.fail(excess, refused=True)
    return facts


def _guarded(job: Job, function: t.Callable[[], None]) -> None:
    try:
        function()
    except Exception as error:
        job.fail(told(error))


def _define_claim(host: Host, job: Job, owner: Owner) -> None:
    if find_domain(host.connection, job.domain.name) is not None:
        job.fail(f"{job.domain.name!r} was defined on this host meanwhile", refused=True)
        return
    require_bases(job, host.settings)
    job.uuid = str(uuids.uuid4())
    definition.define_claim(host, job, owner)
    job.changed = True


def _take_over(host: Host, job: Job, limit: float) -> None:
    """Remove the rest of a dead run, so that the job is new; or see a live one finish it, until the
    moment ``limit``.
    """
    watch = lease.Watch(host.settings.observe)
    while True:
        raw = find_domain(host.connection, job.domain.name)
        if raw is None:
            job.state = "new"
            return
        kept = kept_metadata(host.connection, raw)
        if kept is not None and kept.phase is None and kept.request is not None:
            different = request.differences(kept.request, job.domain)
            if different:
                raise PlanRefused(f"{job.domain.name!r} exists and differs: {'; '.join(different)}")
            job.state, job.uuid = "same", str(raw.UUIDString())
            return
        if kept is None or kept.owner is None:
            raise PlanRefused(
                f"{job.domain.name!r} is in creation, but its metadata does not say by whom;"
                " remove it with virt_purge"
            )
        if kept.phase == "starting" and not owners.is_alive(kept.owner):
            job.whole, job.uuid = True, str(raw.UUIDString())
            return
        if watch.is_dead(kept.owner):
            run = kept.owner.run
            taken = lease.take_over(host.connection, raw, kept.phase, kept.owner, run)
            if taken is not None:  # the lock is not held over calls that take long
                _remove(host, raw, taken)
                job.state = "new"
                return
        if time.monotonic() > limit:
            raise PlanRefused(
                f"{job.domain.name!r} is being created by a run on this host"
                f" (process {kept.owner.pid}); wait for it and try again"
            )
        time.sleep(_POLL)


def finish(host: Host, jobs: t.Sequence[Job], run: str) -> None:
    """Make what was claimed by ``run``; a job that fails leaves nothing behind."""
    open_jobs: list[tuple[Job, list[DiskPlan]]] = []

    def each(work: t.Callable[[Job, list[DiskPlan]], None]) -> None:
        """Do it for all that are left; whoever fails is undone and left out from then on."""
        for entry in list(open_jobs):
            try:
                work(*entry)
            except Exception as error:
                entry[0].fail(told(error))
                try:
                    _undo(host, entry[0], run, entry[1])
                except Exception as another:
                    entry[0].fail(f"{told(error)}; moreover, {told(another)}")
                open_jobs[:] = [one for one in open_jobs if one is not entry]

    def make(job: Job, made: list[DiskPlan]) -> None:
        _own(host, job, run)
        build(host, job, made)

    open_jobs += [(job, []) for job in jobs if job.state in ("new", "mine")]
    try:
        each(make)
        for job in [job for job in jobs if job.whole]:
            _guarded(job, functools.partial(_start_whole, host, job, run))
        paused = sum(job.domain.start for job, _made in open_jobs) > 1
        each(lambda job, _made: _complete(host, job, run, paused=paused))
        each(lambda job, _made: _release(host, job))
    except BaseException:
        for job, made in open_jobs:
            _undo(host, job, run, made)
        raise


def withdraw(connection: Connection, names: t.Iterable[str], run: str) -> list[str]:
    """Take back the claims of ``run`` on these names; those that were there."""
    return [name for name in names if _withdraw(connection, name, run)]


def _own(host: Host, job: Job, run: str) -> None:
    """The claim passes from its run to this process, if it is still that run's."""
    me = owners.myself(run)
    with owners.host_lock():
        raw = find_domain(host.connection, job.domain.name)
        kept = kept_metadata(host.connection, raw) if raw is not None else None
        owner = kept.owner if kept is not None else None
        if raw is None or kept is None or kept.phase != "creating" or owner is None:
            raise PlanRefused(f"the claim of {job.domain.name!r} is gone; try again")
        if owner.run != run or (owner.pid and owner != me):
            raise PlanRefused(f"the claim of {job.domain.name!r} was taken over; try again")
        job.uuid = str(raw.UUIDString())
        volumes = tuple(dataclasses.replace(one, made=BEGUN) for one in kept.volumes)
        mine = dataclasses.replace(kept, owner=me, volumes=volumes)
        definition.write_metadata(host, raw, mine, definition.AFFECT_CONFIG)


def _complete(host: Host, job: Job, run: str, *, paused: bool) -> None:
    """The claim, whose volumes are there, becomes the VM, and is started if it is to be."""
    connection, domain = host.connection, job.domain
    if domain.autostart:
        raw = connection.call("find the claim", connection.raw.lookupByUUIDString, str(job.uuid))
        connection.call(f"set autostart of {domain.name}", raw.setAutostart, 1)
    raw = definition.define_final(host, job, owners.myself(run) if domain.start else None)
    if domain.start:
        _start(host, raw, paused=paused)


def _release(host: Host, job: Job) -> None:
    """Let it run, and note that nothing is left to do."""
    if job.domain.start:
        raw = host.connection.call(
            f"find {job.domain.name}", host.connection.raw.lookupByUUIDString, str(job.uuid)
        )
        _let_run(host, raw, definition.kept_of(host, job, None, None))
    job.changed = True


def _start_whole(host: Host, job: Job, run: str) -> None:
    """Start what a dead run had made but not started."""
    _take_over(host, job, time.monotonic() + _PATIENCE)
    if job.state == "same":
        return
    raw = find_domain(host.connection, job.domain.name)
    kept = kept_metadata(host.connection, raw) if raw is not None else None
    if raw is not None and kept is not None:
        kept = lease.take_over(host.connection, raw, "starting", kept.owner, run)
    if raw is None or kept is None:
        raise PlanRefused(f"another run is at work on {job.domain.name!r}; try again")
    _start(host, raw, paused=False)
    _let_run(host, raw, dataclasses.replace(kept, phase=None, owner=None))
    job.changed = True


def _start(host: Host, raw: VirDomain, *, paused: bool) -> None:
    """Start the domain unless it is active; ``paused``: its guest does not run yet."""
    flags = DOMAIN_START_PAUSED if paused else 0
    try:
        host.connection.call(
            f"start {raw.name()}", raw.createWithFlags, flags, seconds=_START_SECONDS
        )
    except LibvirtFailure as error:
        running = error.code == ERR_OPERATION_INVALID
        if not running or not host.connection.call("read the state", raw.isActive):
            raise


def _let_run(host: Host, raw: VirDomain, kept: Metadata) -> None:
    """Resume the domain if it was started paused, and write its final metadata."""
    state, _reason = host.connection.call("read the state", raw.state, 0)
    if state == DOMAIN_PAUSED:
        host.connection.call(f"resume {raw.name()}", raw.resume)
    definition.write_metadata(host, raw, kept, definition.AFFECT_CONFIG)
    try:
        definition.write_metadata(host, raw, kept, definition.AFFECT_LIVE)
    except LibvirtFailure as error:
        if error.code != ERR_OPERATION_INVALID:  # a guest that has shut itself off meanwhile
            raise


def _withdraw(connection: Connection, name: str, run: str) -> bool:
    raw = find_domain(connection, name)
    kept = kept_metadata(connection, raw) if raw is not None else None
    if raw is None or kept is None or kept.phase != "creating":
        return False
    if kept.owner is None or kept.owner.run != run:
        return False
    domains.undefine(connection, raw)
    return True


def _undo(host: Host, job: Job, run: str, made: t.Sequence[DiskPlan]) -> None:
    """Remove what this call made; the definition goes last, it is what names the rest."""
    raw = find_domain(host.connection, job.domain.name)
    if raw is None or str(raw.UUIDString()) != job.uuid:
        return
    kept = kept_metadata(host.connection, raw)
    if kept is None or kept.phase is None or kept.owner is None or kept.owner.run != run:
        return  # not ours, or complete
    if host.connection.call("read the state", raw.isActive):
        host.connection.call(f"stop {job.domain.name}", raw.destroy, seconds=_START_SECONDS)
    if made:
        from . import creation_rest  # what ends well needs none of it

        creation_rest.undo(host, raw, kept, [plan.path for plan in made])
    domains.undefine(host.connection, raw)


def _remove(host: Host, raw: VirDomain, kept: Metadata) -> None:
    """What a dead run left of a VM that never ran: the volumes that it made, then the claim."""
    from . import creation_rest

    seed_nocloud.clear(str(raw.UUIDString()))
    creation_rest.remove(host, raw, kept)
    domains.undefine(host.connection, raw)


def foresee(host: Host, jobs: t.Sequence[Job]) -> None:
    """Fail the jobs whose claim is of a dead run and could not be removed; changes nothing."""
    from . import creation_rest

    def look(job: Job) -> None:
        raw = find_domain(host.connection, job.domain.name)
        kept = kept_metadata(host.connection, raw) if raw is not None else None
        left = kept is not None and kept.phase == "creating" and not owners.is_alive(kept.owner)
        if raw is not None and kept is not None and left:
            creation_rest.require(host, raw, kept)

    for job in jobs:
        if job.state == "half" and not job.whole:
            _guarded(job, functools.partial(look, job))
