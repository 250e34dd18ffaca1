# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Removing domains with exactly what is theirs.

Everything is looked at before anything is touched. Then the domain is marked: phase ``purging``
with this process as the owner, and a drive that cannot be opened, so that nobody starts it any
more. Then it is looked at once more, its volumes go, and its definition, which names them, goes
last: a call that is killed leaves what the next one needs to finish.

This file is private to the collection.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import time
import typing as t
import uuid as uuids
from dataclasses import dataclass, field

from ... import _lxml
from ..._errors import FleetVirtError, LibvirtFailure, PlanRefused, told
from ..._libvirt import ERR_NO_DOMAIN, ERR_OPERATION_INVALID
from ..._pure.base import metadata
from ..._pure.base.metadata import Metadata, Owner, OwnVolume
from ..._pure.domain import unstartable
from ..._pure.lifecycle import purge_plan
from ..._pure.lifecycle.purge_plan import DomainFacts, Options, Plan, Removal, VolumeFacts
from ..base import owner as owners
from ..base.connection import Connection
from ..base.lookup import find_domain, kept_metadata
from ..machine import belongings, ownership, storage
from ..machine.ownership import References

_SECURE_INACTIVE = 1 | 2  # VIR_DOMAIN_XML_SECURE, so that passwords survive being defined again
_UNDEFINE = 1 | 2 | 16  # managed save, snapshots' metadata, checkpoints' metadata
_UNDEFINE_NVRAM, _KEEP_NVRAM = 4, 8
_METADATA_ELEMENT, _AFFECT_CONFIG = 2, 2
_DESTROY_SECONDS = 300.0
_PATIENCE = 120.0  # seconds that a live run may take to finish
_OBSERVE = 10.0  # seconds in which a claim that lies between two steps of its run must not move
_POLL = 0.25
_MARKER = ".fleet-virt-purging"
_MARKER_FOLDER = "/var/lib/libvirt/images"


@dataclass
class _Job:
    """One domain and what becomes of it."""

    name: str
    raw: t.Any = None
    domain: DomainFacts | None = None
    plan: Plan = field(default_factory=Plan)
    removed: list[Removal] = field(default_factory=list)
    destroyed: bool = False
    failed: bool = False
    msg: str | None = None

    @property
    def changed(self) -> bool:
        return bool(self.removed) or self.destroyed


@dataclass(frozen=True)
class Settings:
    """``asked``: paths of volumes on shared storage that no other hypervisor uses."""

    options: Options
    asked: tuple[str, ...] = ()


def run(
    connection: Connection, names: t.Sequence[str], settings: Settings, *, check: bool
) -> dict[str, t.Any]:
    """Remove the domains ``names``; the module's result. Unless all can go, none is touched."""
    _require_local(connection)
    jobs = [_Job(name) for name in dict.fromkeys(names)]
    if not check:
        _wait_for_others(connection, [job.name for job in jobs])
    for job in jobs:
        job.raw = find_domain(connection, job.name)
    there = [job for job in jobs if job.raw is not None]
    if there:
        references = ownership.read(connection)
        for job in there:
            try:
                job.domain, job.plan = _look(connection, job.raw, settings, references)
            except Exception as error:
                job.plan.problems.append(f"{job.name!r}: {told(error)}")
            if job.plan.problems:
                job.failed, job.msg = True, "; ".join(job.plan.problems)
    for job in jobs:
        if job.raw is None:
            job.msg = "not there"
    if not any(job.failed for job in jobs):
        for job in there:
            if check:
                job.removed = job.plan.removed
            else:
                _guarded(connection, job, settings)
    return _result(jobs)


def look(
    connection: Connection, names: t.Sequence[str], files: t.Sequence[str]
) -> dict[str, t.Any]:
    """What other hypervisors have to know: which of ``names`` are here, with their volumes, and
    who here uses files called ``files``. Changes nothing."""
    _require_local(connection)
    pools = ownership.read_pools(connection)
    vms = []
    for name in dict.fromkeys(names):
        raw = find_domain(connection, name)
        if raw is not None:
            kept = kept_metadata(connection, raw) or Metadata()
            volumes = [_seen_from_elsewhere(own, pools) for own in kept.volumes]
            facts = {"name": name, "uuid": str(raw.UUIDString()), "phase": kept.phase}
            vms.append({**facts, "volumes": volumes})
    users = []
    if files:
        references = ownership.read(connection)
        for name in files:
            found = sorted({user.text for user in references.named(name)})
            users += [{"file": name, "users": found}] if found else []
    return {
        "changed": False,
        "vms": vms,
        "pool_ids": sorted(pool.id for pool in pools.values() if pool.id),
        "users": users,
    }


def _seen_from_elsewhere(
    own: OwnVolume, pools: t.Mapping[str, ownership.PoolPlace]
) -> dict[str, t.Any]:
    pool = pools.get(own.pool)
    return {
        "path": f"{pool.path}/{own.name}" if pool and pool.path else own.path,
        "shared": bool(pool and pool.shared),
        "pool_id": pool.id if pool else None,
    }


def _require_local(connection: Connection) -> None:
    if not connection.local:
        raise PlanRefused(
            f"{connection.uri} is no hypervisor of this machine; whose a file is can only be told"
            " where it lies: run this on the hypervisor itself, with uri qemu:///system"
        )


def _wait_for_others(connection: Connection, names: t.Sequence[str]) -> None:
    """Let runs that are creating or removing the domains come to their end, or be seen to be dead:
    all of them within one limit. The plan refuses what is busy then, by name.

    A claim that belongs to no process lies between two steps of its run: it counts as left over
    when it has not moved for a while, as seen from here.
    """
    limit = time.monotonic() + _PATIENCE
    busy: dict[str, tuple[Owner, float]] = {}  # by whom, and since when as seen from here
    waited = list(names)
    while waited:
        now = time.monotonic()
        for name in waited:
            owner = _owner_at_work(connection, name)
            if owner is None:
                busy.pop(name, None)
            elif name not in busy or busy[name][0] != owner:
                busy[name] = owner, now
        waited = [
            name
            for name, (owner, since) in busy.items()
            if owners.is_alive(owner) or (_is_between(owner) and now - since < _OBSERVE)
        ]
        if now >= limit:
            return
        if waited:
            time.sleep(_POLL)


def _owner_at_work(connection: Connection, name: str) -> Owner | None:
    """Whose phase the domain is in; None when it is in none."""
    raw = find_domain(connection, name)
    kept = kept_metadata(connection, raw) if raw is not None else None
    at_work = kept is not None and kept.phase in ("creating", "starting", "purging", "seeding")
    return kept.owner if kept is not None and at_work else None


def _is_between(owner: Owner) -> bool:
    return owner.pid == 0 and owner.boot_id == owners.boot_id()


def _look(
    connection: Connection,
    raw: t.Any,
    settings: Settings,
    references: References,
    me: Owner | None = None,
) -> tuple[DomainFacts, Plan]:
    domain = belongings.read_domain(connection, raw, references, me)
    disks = [path for path, what in domain.disks if what != belongings.BACKING]
    kept = domain.metadata or Metadata()
    claimed = kept.phase == "creating"
    volumes = [
        belongings.read_volume(own, domain.uuid, disks, references, settings.asked, claimed=claimed)
        for own in kept.volumes
    ]
    return domain, purge_plan.plan(domain, volumes, settings.options)


def _guarded(connection: Connection, job: _Job, settings: Settings) -> None:
    try:
        _purge(connection, job, settings)
    except Exception as error:
        job.failed, job.msg = True, told(error)


def _purge(connection: Connection, job: _Job, settings: Settings) -> None:
    me = owners.myself(str(uuids.uuid4()))
    original = _mark(connection, job, me)
    try:
        if job.domain is not None and job.domain.active:
            _destroy(connection, job)
        _once_more(connection, job, settings, me)
    except Exception:
        _unmark(connection, job, original)
        raise
    try:
        _remove(connection, job)
    except Exception as error:
        raise PlanRefused(
            f"{told(error)}; {job.name!r} is half removed and cannot be started any more: remove it"
            " again once this is mended, that finishes it"
        ) from None


def _mark(connection: Connection, job: _Job, me: Owner) -> str:
    """Make the domain ours to remove; returns its definition as it was."""
    with owners.host_lock():
        raw = find_domain(connection, job.name)
        if raw is None or job.domain is None or str(raw.UUIDString()) != job.domain.uuid:
            raise PlanRefused(f"{job.name!r} was removed or replaced meanwhile; try again")
        kept = kept_metadata(connection, raw)
        if kept is None or kept != job.domain.metadata:
            raise PlanRefused(f"{job.name!r} was changed by another run meanwhile; try again")
        original = str(connection.call("read the definition", raw.XMLDesc, _SECURE_INACTIVE))
        own = tuple(one for one in kept.volumes if one not in job.plan.foreign)
        ours = dataclasses.replace(kept, phase="purging", owner=me, volumes=own)
        text = unstartable.marked(
            _lxml.parse(original, f"domain {job.name}"),
            ours,
            f"{_MARKER_FOLDER}/{job.name}{_MARKER}",
        )
        try:
            connection.call(f"mark {job.name}", connection.raw.defineXML, text)
        except LibvirtFailure:
            # a definition that libvirt itself would not take any more, such as one for a machine
            # type that is gone: what cannot be defined cannot be started either
            element = _lxml.tostring(metadata.to_plain_element(ours))
            connection.call(
                f"mark {job.name}",
                raw.setMetadata,
                _METADATA_ELEMENT,
                element,
                metadata.PREFIX,
                metadata.NAMESPACE,
                _AFFECT_CONFIG,
            )
    return original


def _unmark(connection: Connection, job: _Job, original: str) -> None:
    """Nothing was removed: the domain is as it was. Best effort, the first error counts."""
    before = job.domain.metadata if job.domain else None
    if before is None or before.phase is not None:
        return  # the rest of an earlier run stays one
    with contextlib.suppress(FleetVirtError):
        connection.call(f"define {job.name}", connection.raw.defineXML, original)


def _destroy(connection: Connection, job: _Job) -> None:
    try:
        connection.call(f"destroy {job.name}", job.raw.destroy, seconds=_DESTROY_SECONDS)
    except LibvirtFailure as error:
        if error.code != ERR_OPERATION_INVALID:  # it went by itself in the meantime
            raise
    job.destroyed = True


def _once_more(connection: Connection, job: _Job, settings: Settings, me: Owner) -> None:
    """Look again, now that nobody can start the domain: the same, or nothing is done."""
    stopped = dataclasses.replace(
        settings, options=dataclasses.replace(settings.options, force=False)
    )
    _domain, plan = _look(connection, job.raw, stopped, ownership.read(connection), me)
    if plan.problems:
        raise PlanRefused("; ".join(plan.problems))
    if (plan.removed, plan.kept) != (job.plan.removed, job.plan.kept):
        raise PlanRefused(f"what belongs to {job.name!r} changed meanwhile; try again")
    job.plan = plan


def _remove(connection: Connection, job: _Job) -> None:
    """Everything that is planned, in its order; what is gone is noted at once."""
    volumes = {volume.path: volume for volume in job.plan.volumes}
    for item in job.plan.removed:
        if item.kind == "managed_save":
            connection.call(f"remove {item.name}'s saved memory", job.raw.managedSaveRemove, 0)
        elif item.kind in ("volume", "seed"):
            _delete(connection, volumes[item.path])
        elif item.kind == "log":
            with contextlib.suppress(FileNotFoundError):
                os.unlink(str(item.path))
        else:
            break  # the rest goes with the definition
        job.removed.append(item)
    _undefine(connection, job)
    job.removed = list(job.plan.removed)


def _delete(connection: Connection, facts: VolumeFacts) -> None:
    """One volume, if nobody has it open at the last moment."""
    path = str(facts.path)
    if os.path.lexists(path) and ownership.is_locked(path):
        raise PlanRefused(f"{path} is in use (locked) by a program; see fuser -v {path}")
    pool = storage.find_pool(connection, facts.own.pool, None)
    if pool is None:
        raise PlanRefused(f"pool {facts.own.pool!r} is gone")
    if not storage.delete_volume(connection, pool, facts.own.name):
        # there, but libvirt has not looked since it came
        storage.patiently(connection, f"refresh pool {pool.name}", lambda: pool.raw.refresh(0))
        storage.delete_volume(connection, pool, facts.own.name)
    if os.path.lexists(path):
        raise PlanRefused(f"{path} is still there, although libvirt has removed it")


def _undefine(connection: Connection, job: _Job) -> None:
    own_nvram = any(item.kind == "nvram" for item in job.plan.removed)
    flags = _UNDEFINE | (_UNDEFINE_NVRAM if own_nvram else _KEEP_NVRAM)
    try:
        connection.call(f"undefine {job.name}", job.raw.undefineFlags, flags)
    except LibvirtFailure as error:
        if error.code != ERR_NO_DOMAIN:
            raise
    if find_domain(connection, job.name) is not None:
        raise PlanRefused(f"{job.name!r} is still there, although libvirt has undefined it")


def _result(jobs: t.Sequence[_Job]) -> dict[str, t.Any]:
    vms = [
        {
            "name": job.name,
            "uuid": job.domain.uuid if job.domain else None,
            "changed": job.changed,
            "removed": [dict(vars(item)) for item in job.removed],
            "kept": [dict(vars(item)) for item in job.plan.kept],
            "failed": job.failed,
            "msg": job.msg,
        }
        for job in jobs
    ]
    result: dict[str, t.Any] = {
        "changed": any(job.changed for job in jobs),
        "vms": vms,
        "diff": [_diff(job) for job in jobs if job.changed],
    }
    if any(job.failed for job in jobs):
        result["failed"] = True
        result["msg"] = "; ".join(str(job.msg) for job in jobs if job.failed)
    return result


def _diff(job: _Job) -> dict[str, str]:
    removed = [dict(vars(item)) for item in job.removed]
    kept = [dict(vars(item)) for item in job.plan.kept]
    return {
        "before_header": job.name,
        "after_header": job.name,
        "before": json.dumps({"kept": kept, "removed": removed}, indent=1) + "\n",
        "after": json.dumps({"kept": kept, "removed": []}, indent=1) + "\n",
    }
