# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Restoring a disk beside its VM: what is there, and how each step is done and undone."""

from __future__ import annotations

import os
import typing as t
import uuid as uuids
from collections.abc import Mapping

from ... import _lxml
from ..._errors import FleetVirtError, PlanRefused
from ..._records import dataclass, field
from ..._units import MIB, format_size
from ..backup import archives
from ..backup.effects_borg import Access
from ..base import effects_deadline as deadline
from ..base import effects_programs as programs
from ..base import names
from ..base.effects_connection import Connection
from ..engine import effects_lease_holder as owners
from ..engine import effects_verb as verb
from ..storage import effects_image_writer as images
from ..storage import effects_storage as storage
from . import definition, plan_disk, read_archives
from .effects_archive import Archive
from .facts import DiskLook
from .options import RestoreOptions, SavedVm, skipped
from .options_disk import RestoreDiskOptions, RestoreDiskWork
from .plan_disk import (
    CreateUnfinished,
    DiskFacts,
    FillUnfinished,
    NameDisk,
    NewDisk,
    RemoveUnfinished,
)

_BORG_FOLDER = "/var/cache/fleet-virt/borg"
_LOCK_SECONDS = 5.0
_SECONDS = 60.0
_PROGRAMS = {"borg": "borgbackup", "qemu-nbd": "qemu-utils"}


@dataclass
class _DiskJob(verb.Job[DiskFacts]):
    """The disk of a VM."""

    wanted: NewDisk
    saved: archives.SavedDisk
    file: archives.SavedFile
    archive: Archive
    pool: storage.Pool | None
    remaining: list[str] = field(default_factory=list, init=False)
    changes_vm = False

    def stays(self, error: Exception) -> None:
        self.remaining.append(f"{self.wanted.unfinished} stays: {error}")

    def entry(self) -> verb.Shown:
        return {
            "steps": self.steps,
            "archive": self.wanted.source,
            "pool": self.wanted.pool,
            "path": self.wanted.path,
        }

    def shown(self) -> tuple[verb.Shown, verb.Shown]:
        return {}, {"archive": self.wanted.source, "path": self.wanted.path}


def look(connection: Connection, work: RestoreDiskWork) -> DiskLook:
    """Those of the VMs that are here, by their UUIDs."""
    here = _named(connection, work.vms)
    return {
        "changed": False,
        "disks": [
            {"name": here[vm.uuid], "uuid": vm.uuid, "phase": None}
            for vm in work.vms
            if vm.uuid in here
        ],
    }


def run(
    connection: Connection, options: RestoreDiskOptions, work: RestoreDiskWork, *, check: bool
) -> Mapping[str, object]:
    """Restore the disk of the VM that ``options`` or ``work`` name; the module's result."""
    verb.require_local(connection, "its disks are written where they are")
    access = Access(options["passphrase"], _BORG_FOLDER, options["ssh_key"])
    vms = work.vms or find(access, options, str(uuids.uuid4()))
    here = _named(connection, vms)
    absent = [vm.name for vm in vms if vm.uuid not in here]
    if absent:
        raise PlanRefused(
            f"{', '.join(absent)} is not on this hypervisor, and a disk is restored beside its VM;"
            f" restore the VM: {names.playbook_command('restore', vm_name=absent[0])}"
        )

    def planned() -> list[_DiskJob]:
        return [_planned(connection, options, vm, here[vm.uuid], access) for vm in vms]

    def carry_out(jobs: t.Sequence[_DiskJob]) -> None:
        for job in jobs:
            try:
                with owners.host_lock(_LOCK_SECONDS, f"restore-disk-{job.uuid}"):
                    job.facts = _facts(job.name, job.wanted, job.pool, job.saved)
                    job.plan = plan_disk.plan(job.facts, job.wanted)
                    job.problem = "; ".join(job.plan.refusals)
                    if not job.problem:
                        _ACTIONS.carry_out([job])
            except PlanRefused as error:  # the lock
                job.problem = str(error)
            job.problem = "; moreover, ".join(filter(None, [job.problem, *job.remaining]))

    result = verb.planned(planned(), carry_out, check=check, together=False)
    return result if work.vms else {**result, "warnings": skipped(vms)}


def find(access: Access, options: RestoreDiskOptions, run_id: str) -> list[SavedVm]:
    """The VM and its archive, which has that disk; raises PlanRefused."""
    if not options["name"]:
        raise PlanRefused("no VM is named; give -e vm_name=web1")
    wanted: RestoreOptions = {
        "names": [options["name"]],
        "new_name": None,
        "archive": options["archive"],
        "restore_as": None,
        "without": [],
        "place": options["place"],
        "passphrase": options["passphrase"],
        "ssh_key": options["ssh_key"],
        "pool": "",
        "pool_path": "",
        "base_pool": "",
        "base_path": "",
    }
    vms = read_archives.find(access, wanted, run_id, whole=False)
    for vm in vms:
        _target(vm, options["disk"])
    return vms


def _target(vm: SavedVm, disk: str) -> definition.RestoreTarget:
    """The disk that is meant by its target, or by what the collection calls it."""
    root = _lxml.parse(vm.definition, f"{archives.DOMAIN} of {vm.source}")
    disks = archives.read_manifest(vm.manifest).backup.disks
    targets = [definition.target_of(root, saved) for saved in disks]
    for target in targets:
        if disk in (target.saved.target, target.disk):
            return target
    known = ", ".join(
        one.disk if one.disk == one.saved.target else f"{one.disk} ({one.saved.target})"
        for one in targets
    )
    raise PlanRefused(f"{vm.source} has no disk {disk!r} of {vm.name!r}; it has: {known}")


def _named(connection: Connection, vms: t.Sequence[SavedVm]) -> dict[str, str]:
    """The names that the VMs have here, by UUID."""
    wanted = {vm.uuid for vm in vms}
    domains = connection.call("list domains", connection.conn.listAllDomains, 0)
    here = {str(dom.UUIDString()): str(dom.name()) for dom in domains}
    return {uuid: name for uuid, name in here.items() if uuid in wanted}


def _planned(
    connection: Connection, options: RestoreDiskOptions, vm: SavedVm, name: str, access: Access
) -> _DiskJob:
    target = _target(vm, options["disk"])
    file = archives.read_manifest(vm.manifest).file(target.saved.path)
    if file is None:
        raise PlanRefused(f"{vm.source} has no {target.saved.path}")
    moment = vm.archive.replace(":", "")
    volume = names.volume_name(name, f"{target.disk}-{moment}", target.saved.format)
    former = storage.pool_of(connection, target.folder, target.pool)
    called = options["pool"] or former or "default"
    pool = storage.find_pool(connection, called, None)
    path = f"{pool.path if pool else target.folder}/{volume}"
    wanted = NewDisk(vm.source, called, volume, path)
    facts = _facts(name, wanted, pool, target.saved)
    archive = Archive(access, options["place"], vm.repository, vm.archive)
    planned = plan_disk.plan(facts, wanted)
    return _DiskJob(
        connection, name, vm.uuid, facts, planned, wanted, target.saved, file, archive, pool
    )


def _facts(
    name: str,
    wanted: NewDisk,
    pool: storage.Pool | None,
    saved: archives.SavedDisk,
) -> DiskFacts:
    def read_files() -> DiskFacts:
        there, unfinished = map(os.path.lexists, (wanted.path, wanted.unfinished))
        return DiskFacts(
            name,
            plan_disk.FILLED if there else None,
            plan_disk.PART if unfinished else None,
            tuple(_blockers(wanted, pool, saved)),
        )

    return deadline.call(read_files, seconds=_SECONDS, what=f"look at {wanted.path}")


def _blockers(
    wanted: NewDisk, pool: storage.Pool | None, saved: archives.SavedDisk
) -> t.Iterator[str]:
    for program, package in _PROGRAMS.items():
        if programs.find(program) is None:
            yield f"{program} is not installed here; install {package}"
    if pool is None:
        yield f"there is no pool {wanted.pool!r} here; choose one: -e virt_to_pool=default"
        return
    space = os.statvfs(pool.path)
    free = space.f_bavail * space.f_frsize
    if free < saved.size:
        yield (
            f"pool {wanted.pool} has {format_size(free // MIB)} free, and the disk may need"
            f" {format_size(-(-saved.size // MIB))}; make space, or choose another pool:"
            " -e virt_to_pool=NAME"
        )


# --- the steps ---


def _existing(job: _DiskJob) -> storage.Pool:
    if job.pool is None:
        raise PlanRefused(f"there is no pool {job.wanted.pool!r} here")
    return job.pool


def _remove(job: _DiskJob) -> None:
    """libvirt may not know it."""
    if os.path.lexists(job.wanted.unfinished):
        os.unlink(job.wanted.unfinished)
    _refresh(job)


def _refresh(job: _DiskJob) -> None:
    pool = _existing(job)
    storage.patiently(job.connection, f"refresh pool {pool.name}", lambda: pool.existing.refresh(0))


def _create(job: _DiskJob) -> None:
    name, pool = os.path.basename(job.wanted.unfinished), _existing(job)
    if storage.find_volume(job.connection, pool, name) is not None:
        _refresh(job)  # libvirt still knows one whose file is gone
    storage.create_volume(
        job.connection,
        pool,
        name,
        size=job.saved.size,
        volume_format=job.saved.format,
    )


def _fill(job: _DiskJob) -> None:
    path = job.wanted.unfinished
    with images.opened(path, job.saved.format) as image:
        if image.size < job.saved.size:
            raise PlanRefused(f"{path} has {image.size} bytes, fewer than {job.saved.size}")
        job.archive.pour(job.file, image.write)
    storage.flush(path)


def _name(job: _DiskJob) -> None:
    """A link is not made where anything has the name, and is there at once or not at all."""
    try:
        os.link(job.wanted.unfinished, job.wanted.path)
    except FileExistsError:
        raise PlanRefused(
            f"{job.wanted.path} appeared meanwhile; refusing to overwrite it"
        ) from None
    except OSError as error:
        raise PlanRefused(
            f"{job.wanted.path}: {error.strerror}; choose a pool whose file system has links:"
            " -e virt_to_pool=NAME"
        ) from None
    os.unlink(job.wanted.unfinished)
    storage.flush(job.wanted.path)
    _refresh(job)


def _unname(job: _DiskJob) -> None:
    """What was named is complete; the next run takes the other name away."""


def _remove_created(job: _DiskJob) -> None:
    if os.path.lexists(job.wanted.path) or not os.path.lexists(job.wanted.unfinished):
        return
    try:
        _remove(job)
    except FleetVirtError as error:
        job.stays(error)


_ACTIONS = (
    verb.Actions[_DiskJob](undo_failed=True)
    .simply(RemoveUnfinished, _remove)
    .simply(CreateUnfinished, _create, _remove_created)
    .simply(FillUnfinished, _fill)
    .simply(NameDisk, _name, _unname)
)
