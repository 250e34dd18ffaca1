# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Moving a disk to another pool: how each step is done, and undone."""

from __future__ import annotations

import dataclasses
import os
import time
import typing as t

from ... import _libvirt, _lxml
from ..._errors import LibvirtFailure, PlanRefused
from ..._records import dataclass, field
from ..base import durations
from ..base import effects_definitions as domains
from ..base import effects_lookup as lookup
from ..base import effects_programs as programs
from ..base import read_caller as caller
from ..base import read_file_identity as identity
from ..base.effects_connection import Connection
from ..base.effects_lookup import require_domains
from ..base.metadata import Metadata, OwnVolume
from ..engine import effects_backups as backups
from ..engine import effects_lease_holder as owners
from ..engine import effects_verb as verb
from ..engine.effects_executor import Turns
from ..storage import effects_own_files as owned
from ..storage import effects_storage as storage
from ..storage import read_file_users as ownership
from . import plan as plans
from . import read
from .facts import (
    CopyDisk,
    CreateVolume,
    DiscardVolume,
    DiskMoveFacts,
    DiskMoveRequest,
    EndCopy,
    EndMoving,
    MarkMoving,
    RecordVolumes,
    RemoveLeft,
    SwitchDisk,
)

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..storage.read_file_users import References

_CALL_SECONDS = 300.0
_SWITCH_SECONDS = 60.0
_WHOLE = _libvirt.DOMAIN_XML_SECURE | _libvirt.DOMAIN_XML_INACTIVE

Value = t.TypeVar("Value")


@dataclass
class _DiskJob(verb.Job[DiskMoveFacts]):
    """One VM, and the move of its disk. ``stored`` is what its metadata are now."""

    dom: VirDomain
    wanted: DiskMoveRequest
    references: References
    stored: Metadata | None = field(default=None, init=False)
    source: os.stat_result | None = field(default=None, init=False)
    kept: owned.Stays | None = field(default=None, init=False)

    def entry(self) -> verb.Shown:
        facts, after = self.facts, self.after
        reason = facts.blocks if self.changed else ""
        kept = self.kept
        if kept is None and reason and facts.disk and after.disk and facts.disk != after.disk:
            kept = owned.Stays(facts.disk.path, reason)
        return {
            "steps": self.steps,
            "path": after.disk.path if after.disk is not None else None,
            "kept": {"path": kept.path, "reason": kept.reason} if kept is not None else None,
            "not_tried": self.not_tried,
        }

    def shown(self) -> tuple[verb.Shown, verb.Shown]:
        return _shown(self.facts), _shown(self.after)

    def finish(self) -> None:
        self.after = self.now()

    def write(self, stored: Metadata) -> None:
        """Replace our metadata."""
        lookup.write_metadata(self.connection, self.dom, stored, lookup.AFFECT_CONFIG)
        self.stored = stored

    def noted(self, volumes: t.Iterable[OwnVolume]) -> None:
        """Replace the volumes in our metadata."""
        if self.stored is not None:
            self.write(dataclasses.replace(self.stored, volumes=tuple(volumes)))

    def call(self, action: str, function: t.Callable[..., Value], *arguments: object) -> Value:
        """Call libvirt, which may take long."""
        what = f"{action} of {self.name}"
        return self.connection.call(what, function, *arguments, seconds=_CALL_SECONDS)

    @property
    def target(self) -> str:
        """libvirt's name of the disk."""
        return self.facts.disk.target if self.facts.disk is not None else ""

    def now(self) -> DiskMoveFacts:
        """What is there now."""
        return read.facts(self.connection, self.dom, self.wanted, self.references)


def run(
    connection: Connection, names: t.Sequence[str], wanted: DiskMoveRequest, *, check: bool
) -> dict[str, object]:
    """Have the disk of each domain be in the pool; the module's result.

    Unless that is possible for every one of them, none is changed.
    """
    verb.require_local(connection, "files are copied and removed")
    doms = require_domains(connection, names).values()

    def planned() -> list[_DiskJob]:
        references = ownership.read(connection)
        jobs = []
        for dom in doms:
            facts = read.facts(connection, dom, wanted, references)
            plan = plans.plan(facts)
            named = (connection, facts.name, facts.uuid)
            jobs.append(_DiskJob(*named, facts, plan, dom, wanted, references))
        return jobs

    def work(jobs: t.Sequence[_DiskJob]) -> None:
        for job in jobs:  # one after the other: each reads and writes all of a disk
            _ACTIONS.carry_out([job])
            _require_moved(job)

    return verb.run(connection, names, planned, work, check=check)


def _require_moved(job: _DiskJob) -> None:
    if job.problem:
        if job.irreversible:
            job.problem += "; run this again to finish it"
        return
    left = plans.plan(job.after)
    if left.steps or left.refusals:
        what = "; ".join([*left.refusals, *(step.text for step in left.steps)])
        job.problem = f"every step succeeded, and yet there is more to do: {what}; run this again"


def _mark(job: _DiskJob, _step: MarkMoving) -> None:
    """Become its owner, unless it was changed since the plan was made."""
    wanted = job.step.effect(job.facts).stored
    if wanted is None:
        raise PlanRefused(f"{job.name!r} has lost its metadata; run this again")
    with owners.host_lock():
        stored = lookup.read_metadata(job.connection, job.dom)
        if stored != job.facts.stored or owners.is_alive(stored.owner if stored else None):
            raise PlanRefused(f"another run is at work on {job.name!r}; try again")
        job.write(dataclasses.replace(wanted, owner=owners.myself("")))
    now = dataclasses.replace(job.now(), stored=job.facts.stored, holder=None)
    texts = [step.text for step in plans.plan(now).steps]
    if texts != [step.text for step in job.plan.steps]:
        raise PlanRefused(f"{job.name!r} was changed by others meanwhile; run this again")


def _unmark(job: _DiskJob, _step: MarkMoving) -> None:
    stored = lookup.read_metadata(job.connection, job.dom)
    if job.stored is None or stored != job.stored:
        return
    before = job.facts.stored
    if before is not None:
        job.write(dataclasses.replace(before, owner=None))


def _end_copy(job: _DiskJob, _step: EndCopy) -> None:
    job.call(f"end the copy of disk {job.target}", job.dom.blockJobAbort, job.target, 0)


def _discard(job: _DiskJob, step: DiscardVolume) -> None:
    _remove(job, step.volume)


def _create(job: _DiskJob, step: CreateVolume) -> None:
    disk = job.facts.disk
    pool = storage.find_pool(job.connection, step.volume.pool, None)
    if disk is None or pool is None:
        raise PlanRefused(f"pool {step.volume.pool} is gone; run this again")
    if storage.is_taken(job.connection, pool, step.volume.name):
        raise PlanRefused(f"{step.volume.path} appeared meanwhile; refusing to overwrite it")
    storage.create_volume(
        job.connection,
        pool,
        step.volume.name,
        size=disk.capacity,
        volume_format=disk.format,
        backing=disk.backing,
    )
    _note(job, step.volume, made=identity.of_file(step.volume.path))


def _note(job: _DiskJob, volume: OwnVolume, **changes: str) -> None:
    volumes = job.stored.volumes if job.stored is not None else ()
    job.noted(
        dataclasses.replace(one, **changes) if one.path == volume.path else one for one in volumes
    )


def _uncreate(job: _DiskJob, step: CreateVolume) -> None:
    _remove(job, step.volume, made_now=True)


def _remove(job: _DiskJob, volume: OwnVolume, *, made_now: bool = False) -> None:
    """Remove a volume that this VM was made, and never ran on; raises PlanRefused if it stays. No
    other hypervisor knows one that was ``made_now``, by this run."""
    volumes = job.stored.volumes if job.stored is not None else ()
    own = next((one for one in volumes if one.path == volume.path), volume)
    references = ownership.read(job.connection)
    stays = owned.remove(job.connection, own, str(job.uuid), references, asked=made_now)
    if stays is not None:
        raise PlanRefused(f"{stays.path} stays: {stays.reason}")


def _copy(job: _DiskJob, step: CopyDisk) -> Turns:
    disk = job.facts.disk
    if disk is None:
        return
    if not job.facts.active:
        job.source = os.stat(disk.path)
        _convert(job, step.volume.path)
        storage.flush(step.volume.path)
        return
    root = _lxml.new("disk", {"type": "file"})
    _lxml.add(root, "driver", {"type": disk.format})
    _lxml.add(root, "source", {"file": step.volume.path})
    flags = _libvirt.DOMAIN_BLOCK_COPY_REUSE_EXT | _libvirt.DOMAIN_BLOCK_COPY_TRANSIENT_JOB
    if disk.backing is not None:
        flags |= _libvirt.DOMAIN_BLOCK_COPY_SHALLOW
    text = _lxml.tostring(root)
    backups.give_way(job.connection, job.facts.uuid)
    job.call(f"copy disk {disk.target}", job.dom.blockCopy, disk.target, text, {}, flags)
    limit = time.monotonic() + durations.transfer(disk.capacity)
    while not _is_mirrored(job):
        caller.require()
        if time.monotonic() > limit:
            raise PlanRefused(
                f"disk {disk.target} of {job.name!r} was not copied in time: its storage is slow,"
                " or the guest writes faster than it is copied; the VM is unchanged"
            )
        yield


def _is_mirrored(job: _DiskJob) -> bool:
    """Whether all is copied; raises PlanRefused if the job has ended, as when a pool is full."""
    text = job.connection.call(f"read domain {job.name}", job.dom.XMLDesc, 0)
    mirror = read.mirror_of(_lxml.parse(text, f"domain {job.name}"), job.target)
    if mirror is not None:
        return mirror.get("ready") == "yes"
    raise PlanRefused(
        f"the copy of disk {job.target} of {job.name!r} has ended early: the pool is full, or it"
        " was shut off; see its log in /var/log/libvirt/qemu; the VM is unchanged"
    )


def _convert(job: _DiskJob, path: str) -> None:
    """Copy the disk of a VM that is off. QEMU's locks prevent its start meanwhile; the copying ends
    with this process."""
    disk = job.facts.disk
    if disk is None:
        return
    if disk.backing is None:
        storage.copy(disk.path, disk.format, path, disk.format)
        return
    below, kind = disk.backing
    done = programs.attempt(
        programs.bound(
            [
                *("qemu-img", "convert", "-n", "-f", disk.format, "-O", disk.format),
                *("-B", below, "-F", kind, disk.path, path),
            ]
        ),
        seconds=durations.transfer(disk.capacity),
    )
    if done is None or done.status:
        reason = done.error_text[-500:] if done else "setpriv (package util-linux) is missing"
        raise PlanRefused(f"{disk.path} could not be copied to {path}: {reason}")


def _uncopy(job: _DiskJob, _step: CopyDisk) -> None:
    """End the block job, if there is one."""
    if not job.facts.active:
        return
    try:
        job.call(f"end the copy of disk {job.target}", job.dom.blockJobAbort, job.target, 0)
    except LibvirtFailure:  # there may be none by now
        disk = job.now().disk
        if disk is None or disk.copied is not None:
            raise


def _switch(job: _DiskJob, step: SwitchDisk) -> Turns:
    path = step.volume.path
    if not job.facts.active:
        _redefine(job, path)
        return
    pivot = _libvirt.DOMAIN_BLOCK_JOB_ABORT_PIVOT
    job.call(f"switch disk {job.target}", job.dom.blockJobAbort, job.target, pivot)
    limit = time.monotonic() + _SWITCH_SECONDS
    while (places := read.places(job.connection, job.dom, job.target)) != (path, path):
        if time.monotonic() > limit:
            raise PlanRefused(
                f"disk {job.target} of {job.name!r} is {places[0]}, and it runs with {places[1]},"
                f" not {path}"
            )
        yield


def _redefine(job: _DiskJob, path: str) -> None:
    """Change the definition of a VM that is off, and stayed off since the copy was begun.

    A start takes libvirt's lock on the VM, as this does: one that was earlier is seen afterwards,
    by the VM's state or by the file, and then the definition is put back.
    """
    before = job.call("read the definition", job.dom.XMLDesc, _WHOLE)
    root = _lxml.parse(before, f"domain {job.name}")
    for element in root.iterfind("devices/disk"):
        target, source = element.find("target"), element.find("source")
        if target is not None and target.get("dev") == job.target and source is not None:
            source.set("file", path)
    domains.define(job.connection, f"define {job.name}", _lxml.tostring(root))
    disk, then = job.facts.disk, job.source
    if disk is None or then is None:
        return
    now = os.stat(disk.path)
    same = (then.st_mtime_ns, then.st_size, then.st_ino) == (
        now.st_mtime_ns,
        now.st_size,
        now.st_ino,
    )
    if same and not job.connection.call(f"read the state of {job.name}", job.dom.isActive):
        return
    domains.define(job.connection, f"define {job.name} as before", before)
    raise PlanRefused(
        f"{job.name!r} was started while its disk was copied, and stays on {disk.path}; run this"
        " again"
    )


def _record(job: _DiskJob, _step: RecordVolumes) -> None:
    after = job.step.effect(dataclasses.replace(job.facts, stored=job.stored)).stored
    if after is not None and job.stored is not None:
        job.write(dataclasses.replace(after, owner=job.stored.owner))


def _remove_left(job: _DiskJob, step: RemoveLeft) -> None:
    """Remove the file that the VM ran on; one that others need, or that is locked, stays."""
    references = ownership.read(job.connection)
    job.kept = owned.remove(job.connection, step.volume, str(job.uuid), references, proven=True)


def _end(job: _DiskJob, _step: EndMoving) -> None:
    after = job.step.effect(dataclasses.replace(job.facts, stored=job.stored)).stored
    if after is not None:
        job.write(after)


def _shown(facts: DiskMoveFacts) -> dict[str, object]:
    """The disk for the diff."""
    disk = facts.disk
    return {"disk": {"target": disk.target, "path": disk.path}} if disk is not None else {}


_ACTIONS = (
    verb.Actions[_DiskJob](undo_failed=True)
    .on(MarkMoving, _mark, _unmark)
    .on(EndCopy, _end_copy)
    .on(DiscardVolume, _discard)
    .on(CreateVolume, _create, _uncreate)
    .on(CopyDisk, _copy, _uncopy)
    .on(SwitchDisk, _switch)
    .on(RecordVolumes, _record)
    .on(RemoveLeft, _remove_left)
    .on(EndMoving, _end)
)
