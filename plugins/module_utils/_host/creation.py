# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Creating VMs, second half: the transaction.

A VM is claimed by defining it, with phase ``creating`` and a drive whose medium never exists, so
that libvirt itself refuses to start it, whoever asks. Then the host is read: if it now promises
more than it has, the claim is withdrawn. Volumes are made under the claim, which names them; the
last step replaces the definition by the final one. Whatever fails on the way, exactly what this
call made is removed; a call that is killed leaves a claim whose owner is gone, which the next run
of the same request removes and makes anew.

This file is private to the collection.
"""

from __future__ import annotations

import functools
import time
import typing as t
import uuid as uuids

from .. import _lxml
from .._errors import FleetVirtError, LibvirtFailure, PlanRefused
from .._libvirt import ERR_NO_DOMAIN
from .._model import domain_xml, metadata, placement, request, seed
from .._model.domain_devices_xml import VolumeRef
from .._model.metadata import ImageRef, Metadata, Owner, OwnVolume
from . import owner as owners
from . import seed_nocloud, storage
from .creation_plan import DiskPlan, Host, Job, kept_metadata, lookup

_START_SECONDS = 300.0
_UNDEFINE = 1 | 2 | 4 | 16  # managed save, snapshots, NVRAM, checkpoints
_VALIDATE = 1  # VIR_DOMAIN_DEFINE_VALIDATE
_POLL = 0.25
_PATIENCE = 180.0  # seconds that a live run on this host may take to finish its VM
_LOG_FOLDER = "/var/log/libvirt/qemu"
MARKER_SUFFIX = ".fleet-virt-creating"


def claim(host: Host, jobs: t.Sequence[Job], owner: Owner) -> None:
    """Define a claim for every new job; those that cannot stay are failed and leave nothing."""
    for job in jobs:
        if job.state == "half":
            _guarded(job, functools.partial(_take_over, host, job))
    claimed: list[Job] = []
    with owners.host_lock():
        for job in [job for job in jobs if job.state == "new"]:
            _guarded(job, functools.partial(_define_claim, host, job, owner))
            if job.changed:
                claimed.append(job)
        # the last claims go first: those before them may stay
        while claimed:
            candidate = host.placement_host(host.read_facts())
            excess = placement.excess(candidate, host.policy)
            if not excess:
                break
            job = claimed.pop()
            _withdraw(host, job, owner.run)
            job.fail("; ".join(entry.reason for entry in excess), refused=True)


def _guarded(job: Job, function: t.Callable[[], None]) -> None:
    try:
        function()
    except FleetVirtError as error:
        job.fail(str(error))


def _define_claim(host: Host, job: Job, owner: Owner) -> None:
    if lookup(host.connection, job.domain.name) is not None:
        job.fail(f"{job.domain.name!r} was defined on this host meanwhile", refused=True)
        return
    job.uuid = str(uuids.uuid4())
    _define(host, job, owner)
    job.changed = True


def _take_over(host: Host, job: Job) -> None:
    """Remove the rest of a dead run, so that the job is new; or see a live one finish it.

    A claim that belongs to no process lies between two steps of its run: it is taken over when it
    has not moved for a while, as seen from here.
    """
    since, seen = time.monotonic(), None
    started = since
    while True:
        raw = lookup(host.connection, job.domain.name)
        if raw is None:
            job.state = "new"
            return
        kept = kept_metadata(host.connection, raw)
        if kept is not None and kept.phase is None and kept.request is not None:
            different = request.differences(kept.request, job.domain)
            if different:
                raise PlanRefused(f"{job.domain.name!r} exists and differs: {different}")
            job.state, job.uuid = "same", str(raw.UUIDString())
            return
        if kept is None or kept.owner is None:
            raise PlanRefused(
                f"{job.domain.name!r} is in creation, but its metadata does not say by whom;"
                " remove it with virt_purge"
            )
        now = time.monotonic()
        if kept.owner != seen:
            since, seen = now, kept.owner
        dead = not owners.is_alive(kept.owner)
        same_boot = kept.owner.boot_id == owners.boot_id()
        waiting = kept.owner.pid == 0 and same_boot
        if dead and (not waiting or now - since >= host.settings.observe):
            with owners.host_lock():
                again = kept_metadata(host.connection, raw)
                if again is not None and again.owner == kept.owner:
                    _remove(host, raw, kept)
                    job.state = "new"
                    return
        elif now - started > _PATIENCE:
            raise PlanRefused(
                f"{job.domain.name!r} is being created by a run on this host"
                f" (process {kept.owner.pid}); wait for it and try again"
            )
        time.sleep(_POLL)


def finish(host: Host, jobs: t.Sequence[Job], run: str) -> None:
    """Make what was claimed by ``run``; a job that fails leaves nothing behind."""
    for job in jobs:
        if job.state not in ("new", "mine"):
            continue
        made: list[DiskPlan] = []
        try:
            _own(host, job, run)
            _build(host, job, made)
            _final(host, job)
            job.changed = True
        except BaseException as error:
            _undo(host, job, run, made)
            if not isinstance(error, FleetVirtError):
                raise
            job.fail(str(error))
            job.changed = False


def withdraw(host: Host, jobs: t.Sequence[Job], run: str) -> None:
    """Take the claims of ``run`` back."""
    for job in jobs:
        _withdraw(host, job, run)


def _own(host: Host, job: Job, run: str) -> None:
    """The claim passes from its run to this process, if it is still that run's."""
    me = owners.myself(run)
    with owners.host_lock():
        raw = lookup(host.connection, job.domain.name)
        kept = kept_metadata(host.connection, raw) if raw is not None else None
        owner = kept.owner if kept is not None else None
        if raw is None or kept is None or kept.phase != "creating" or owner is None:
            raise PlanRefused(f"the claim of {job.domain.name!r} is gone; try again")
        if owner.run != run or (owner.pid and owner != me):
            raise PlanRefused(f"the claim of {job.domain.name!r} was taken over; try again")
        job.uuid = str(raw.UUIDString())
        if owner != me:
            _define(host, job, me)


def _build(host: Host, job: Job, made: list[DiskPlan]) -> None:
    connection = host.connection
    for plan in job.disks:
        pool = _ready_pool(host, plan)
        base, disk = plan.base, plan.disk
        if storage.is_taken(connection, pool, plan.volume):
            raise PlanRefused(f"{plan.path} appeared meanwhile; nothing is taken over")
        if base is None:
            storage.create_volume(
                connection, pool, plan.volume, size=plan.size, volume_format=disk.format
            )
        elif disk.overlay:
            storage.create_volume(
                connection,
                pool,
                plan.volume,
                size=plan.size,
                volume_format="qcow2",
                backing=(base.path, base.format),
            )
        else:
            source = storage.find_pool(connection, host.settings.base_pool, None)
            volume = storage.find_volume(connection, source, base.volume) if source else None
            if volume is None:
                raise PlanRefused(f"base image {base.volume} is gone from its pool; try again")
            storage.create_volume(
                connection,
                pool,
                plan.volume,
                size=plan.size,
                volume_format=disk.format,
                copy_of=volume,
            )
        made.append(plan)
        storage.flush(plan.path)
    if job.seed is not None and job.domain.seed is not None:
        pool = _ready_pool(host, job.seed)
        nics = [seed.SeededNic(nic.name, nic.mac) for nic in job.domain.nics]
        files = seed.nocloud(job.domain.seed, job.domain.name, str(job.uuid), nics)
        content = seed_nocloud.medium(files, str(job.uuid))
        if storage.is_taken(connection, pool, job.seed.volume):
            raise PlanRefused(f"{job.seed.path} appeared meanwhile; nothing is taken over")
        volume = storage.create_volume(
            connection,
            pool,
            job.seed.volume,
            size=len(content),
            volume_format="raw",
            mode="0600",
        )
        made.append(job.seed)
        storage.upload(connection, volume, job.seed.volume, content)
        storage.flush(job.seed.path)


def _ready_pool(host: Host, plan: DiskPlan) -> storage.Pool:
    """The pool of the plan, made now if it was not there."""
    pool = host.pool(plan.key)
    if pool.raw is not None:
        return pool
    with owners.host_lock():
        found = storage.find_pool(host.connection, pool.name, pool.path)
        pool = found or storage.make_pool(host.connection, pool.name, pool.path)
    host.pools[plan.key] = pool
    return pool


def _final(host: Host, job: Job) -> None:
    connection, domain = host.connection, job.domain
    raw = connection.call(
        f"define {domain.name}",
        connection.raw.defineXMLFlags,
        xml(host, job, None, final=True),
        _VALIDATE,
    )
    if domain.autostart:
        connection.call(f"set autostart of {domain.name}", raw.setAutostart, 1)
    if domain.start:
        connection.call(f"start {domain.name}", raw.create, seconds=_START_SECONDS)


def xml(host: Host, job: Job, owner: Owner | None, *, final: bool) -> str:
    """The domain's XML, as a claim of ``owner`` or final."""
    domain = job.domain
    machine = host.machine(domain)
    volumes = {
        plan.disk.name: VolumeRef(
            plan.path,
            plan.disk.format,
            plan.base.path if plan.base and plan.disk.overlay else None,
            plan.base.format if plan.base and plan.disk.overlay else None,
        )
        for plan in job.disks
    }
    image = next((plan.base for plan in job.disks if plan.base), None)
    kept = Metadata(
        phase=None if final else "creating",
        owner=None if final else owner,
        home=host.settings.home,
        image=ImageRef(image.name, image.digest, image.format) if image else None,
        groups=domain.groups,
        anti_affinity=domain.placement.anti_affinity,
        tags=domain.placement.tags,
        zone=domain.placement.zone,
        user=domain.seed.user if domain.seed else None,
        volumes=tuple(
            OwnVolume(
                plan.pool.name,
                plan.volume,
                plan.path,
                plan.disk.name,
                "seed" if plan is job.seed else "disk",
            )
            for plan in job.volumes
        ),
        request=request.to_text(domain),
    )
    text = domain_xml.render(
        domain,
        uuid=str(job.uuid),
        domain_type=host.domain_type(domain),
        machine=str(machine),
        arch=host.facts["arch"],
        volumes=volumes,
        cpu=_lxml.new("cpu", {"mode": "host-model"}) if host.domain_type(domain) == "kvm" else None,
        seed_path=job.seed.path if job.seed else None,
        metadata=metadata.to_element(kept),
        log_path=f"{_LOG_FOLDER}/{domain.name}-console.log",
    )
    return text if final else _with_marker(text, job)


def _with_marker(text: str, job: Job) -> str:
    """The definition with a drive whose medium never exists: nobody can start it."""
    root = _lxml.parse(text, "claim")
    devices = root.find("devices")
    marker = _lxml.new("disk", {"type": "file", "device": "cdrom"})
    _lxml.add(marker, "driver", {"name": "qemu", "type": "raw"})
    folder = job.disks[0].pool.path if job.disks else "/var/lib/libvirt/images"
    path = f"{folder}/{job.domain.name}{MARKER_SUFFIX}"
    _lxml.add(marker, "source", {"file": path, "startupPolicy": "mandatory"})
    _lxml.add(marker, "target", {"dev": "sdzz", "bus": "scsi"})
    _lxml.add(marker, "readonly")
    devices.append(marker)
    return _lxml.tostring(root)


def _define(host: Host, job: Job, owner: Owner) -> None:
    host.connection.call(
        f"define {job.domain.name}",
        host.connection.raw.defineXMLFlags,
        xml(host, job, owner, final=False),
        _VALIDATE,
    )


def _withdraw(host: Host, job: Job, run: str) -> None:
    raw = lookup(host.connection, job.domain.name)
    if raw is None:
        return
    kept = kept_metadata(host.connection, raw)
    if kept is None or kept.phase != "creating" or kept.owner is None or kept.owner.run != run:
        return
    _undefine(host, raw)
    job.changed = False


def _undo(host: Host, job: Job, run: str, made: t.Sequence[DiskPlan]) -> None:
    """Remove what this call made; the definition goes last, it is what names the rest."""
    raw = lookup(host.connection, job.domain.name)
    if raw is None or str(raw.UUIDString()) != job.uuid:
        return
    kept = kept_metadata(host.connection, raw)
    if (
        kept is not None
        and kept.phase is not None
        and (kept.owner is None or kept.owner.run != run)
    ):
        return
    if host.connection.call("read the state", raw.isActive):
        host.connection.call(f"stop {job.domain.name}", raw.destroy, seconds=_START_SECONDS)
    for plan in reversed(made):
        storage.delete_volume(host.connection, host.pool(plan.key), plan.volume)
    _undefine(host, raw)


def _remove(host: Host, raw: t.Any, kept: Metadata) -> None:
    """What a dead run left of a VM that never ran: the volumes its claim names, then the claim."""
    seed_nocloud.clear(str(raw.UUIDString()))
    for volume in reversed(kept.volumes):
        pool = storage.find_pool(host.connection, volume.pool, None)
        if pool is not None:
            storage.delete_volume(host.connection, pool, volume.name)
    _undefine(host, raw)


def _undefine(host: Host, raw: t.Any) -> None:
    try:
        host.connection.call(f"undefine {raw.name()}", raw.undefineFlags, _UNDEFINE)
    except LibvirtFailure as error:
        if error.code != ERR_NO_DOMAIN:
            raise
