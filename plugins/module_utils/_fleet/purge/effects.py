# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Removing domains with exactly what they own.

Everything is checked before anything is changed. Then the domain is marked: phase ``purging`` with
this process as the owner, and a drive that cannot be opened, so that it can no longer be started.
Then it is checked once more, its volumes are removed, and last its definition, which names them: a
call that is killed leaves what the next one needs to finish.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import typing as t
import uuid as uuids
from dataclasses import dataclass, field

from ... import _lxml
from ..._errors import FleetVirtError, LibvirtFailure, PlanRefused, error_message
from ..._libvirt import DOMAIN_XML_INACTIVE, DOMAIN_XML_SECURE, ERR_OPERATION_INVALID
from ..base import effects_definitions as domains
from ..base import effects_lookup as lookup
from ..base import unstartable
from ..base.effects_connection import Connection
from ..base.effects_lookup import find_domain, read_metadata
from ..base.metadata import Metadata, Owner, OwnVolume
from ..base.names import require_named
from ..engine import effects_executor as executor
from ..engine import effects_lease as lease
from ..engine import effects_lease_holder as owners
from ..engine.effects_executor import Turns
from ..engine.steps import Step
from ..storage import effects_storage as storage
from ..storage import read_file_users as ownership
from ..storage.read_file_users import References
from . import plan as purge_plan
from . import read as belongings
from .plan import Belongings, DomainFacts, Options, Removal, Removals, VolumeFacts

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain

_WHOLE = DOMAIN_XML_SECURE | DOMAIN_XML_INACTIVE  # passwords survive being defined again
_DESTROY_SECONDS = 300.0
_MARKER = ".fleet-virt-purging"
_MARKER_FOLDER = "/var/lib/libvirt/images"


@dataclass(frozen=True)
class Settings:
    """``asked``: paths of volumes on shared storage that no other hypervisor uses."""

    options: Options
    asked: tuple[str, ...] = ()


@dataclass
class _Job:
    """One domain and its result."""

    connection: Connection
    name: str
    settings: Settings
    dom: VirDomain | None = None
    domain: DomainFacts | None = None
    plan: Removals = field(default_factory=Removals)
    steps: tuple[Step[Belongings], ...] = ()
    removed: list[Removal] = field(default_factory=list)
    destroyed: bool = False
    failed: bool = False
    not_tried: bool = False
    msg: str | None = None
    me: Owner | None = None
    original: str = ""  # the definition before it was marked

    def require_dom(self) -> VirDomain:
        """The domain; raises PlanRefused if it does not exist."""
        if self.dom is None:
            raise PlanRefused(f"{self.name!r} is not on this hypervisor")
        return self.dom

    @property
    def changed(self) -> bool:
        return bool(self.removed) or self.destroyed

    def fail(self, msg: str) -> None:
        self.failed, self.msg = True, msg

    def do(self, step: Step[Belongings]) -> Turns:
        yield from ()
        _DO[step.kind](self, step)
        self.removed += _removals(step)

    def undo(self, step: Step[Belongings]) -> None:
        if step.kind == "mark":
            _unmark(self)

    def finish(self) -> None:
        """Do nothing: each step has verified its removal."""


def _removals(step: Step[Belongings]) -> tuple[Removal, ...]:
    return t.cast("tuple[Removal, ...]", step.payload or ())


def run(
    connection: Connection, names: t.Sequence[str], settings: Settings, *, check: bool
) -> dict[str, object]:
    """Remove the domains ``names``; the module's result. Unless all can go, none is changed."""
    require_named(names)
    _require_local(connection)
    jobs = [_Job(connection, name, settings) for name in dict.fromkeys(names)]
    if not check:
        lease.wait_for_others(connection, [job.name for job in jobs])
    for job in jobs:
        job.dom = find_domain(connection, job.name)
    there = [job for job in jobs if job.dom is not None]
    if there:
        references = ownership.read(connection)
        for job in there:
            try:
                job.domain, job.plan = _look(connection, job.require_dom(), settings, references)
                job.steps = purge_plan.steps(job.plan, job.domain)
            except Exception as error:
                job.plan.problems.append(f"{job.name!r}: {error_message(error)}")
            if job.plan.problems:
                job.fail("; ".join(job.plan.problems))
    for job in jobs:
        if job.dom is None:
            job.msg = "not there"
    if any(job.failed for job in jobs):
        for job in jobs:
            job.not_tried = job.dom is not None and not job.failed
    elif check:
        for job in there:
            job.removed = [item for step in job.steps for item in _removals(step)]
    else:
        _carry_out(there)
    return _result(jobs)


def _carry_out(jobs: t.Sequence[_Job]) -> None:
    runs = [executor.Run(job.steps, job) for job in jobs]
    executor.carry_out(runs)
    for job, done in zip(jobs, runs):
        if done.problem is None:
            continue
        job.fail(error_message(done.problem))
        if done.irreversible:
            job.fail(
                f"{job.msg}; {job.name!r} is partly removed and can no longer be started. Fix the"
                " cause, then remove it again to finish"
            )


def look(
    connection: Connection, names: t.Sequence[str], files: t.Sequence[str]
) -> dict[str, object]:
    """What other hypervisors must know: which of ``names`` are here, with their volumes, and which
    domains here use files called ``files``. Changes nothing."""
    _require_local(connection)
    pools = ownership.read_pools(connection)
    vms = []
    for name in dict.fromkeys(names):
        dom = find_domain(connection, name)
        if dom is not None:
            stored = read_metadata(connection, dom) or Metadata()
            owned = (*stored.volumes, *belongings.own_files(connection, dom))
            volumes = [_seen_from_elsewhere(own, pools) for own in owned]
            facts = {"name": name, "uuid": str(dom.UUIDString()), "phase": stored.phase}
            vms.append({**facts, "volumes": volumes})
    users = []
    if files:
        references = ownership.read(connection)
        for name in files:
            texts = sorted({user.text for user in references.named(name)})
            users += [{"file": name, "users": texts}] if texts else []
    return {
        "changed": False,
        "vms": vms,
        "pool_ids": sorted(pool.id for pool in pools.values() if pool.id),
        "users": users,
    }


def _seen_from_elsewhere(
    own: OwnVolume, pools: t.Mapping[str, ownership.PoolPlace]
) -> dict[str, object]:
    pool = pools.get(own.pool)
    return {
        "path": f"{pool.path}/{own.name}" if pool and pool.path else own.path,
        "shared": bool(pool and pool.shared),
        "pool_id": pool.id if pool else None,
    }


def _require_local(connection: Connection) -> None:
    if not connection.local:
        raise PlanRefused(
            f"{connection.uri} is not this machine's hypervisor, and the owner of a file is known"
            " only where it is stored: run this on the hypervisor itself, with uri qemu:///system"
        )


def _look(
    connection: Connection,
    dom: VirDomain,
    settings: Settings,
    references: References,
    me: Owner | None = None,
) -> tuple[DomainFacts, Removals]:
    domain = belongings.read_domain(connection, dom, references, me)
    disks = [path for path, what in domain.disks if what != belongings.BACKING]
    stored = domain.metadata or Metadata()
    claimed = stored.phase == "creating"
    made = belongings.own_files(connection, dom)
    volumes = [
        belongings.read_volume(
            own, domain.uuid, disks, references, settings.asked, claimed=claimed, made=made
        )
        for own in (*made, *stored.volumes)
    ]
    return domain, purge_plan.plan(domain, volumes, settings.options)


def _mark(job: _Job, _step: Step[Belongings]) -> None:
    """Mark the domain as being removed by this process, and store its original definition."""
    connection = job.connection
    job.me = owners.myself(str(uuids.uuid4()))
    with owners.host_lock():
        dom = find_domain(connection, job.name)
        if dom is None or job.domain is None or str(dom.UUIDString()) != job.domain.uuid:
            raise PlanRefused(f"{job.name!r} was removed or replaced meanwhile; try again")
        stored = read_metadata(connection, dom)
        if stored is None or stored != job.domain.metadata:
            raise PlanRefused(f"{job.name!r} was changed by another run meanwhile; try again")
        original = str(connection.call("read the definition", dom.XMLDesc, _WHOLE))
        own = tuple(volume for volume in stored.volumes if volume not in job.plan.foreign)
        ours = dataclasses.replace(stored, phase="purging", owner=job.me, volumes=own)
        text = unstartable.marked(
            _lxml.parse(original, f"domain {job.name}"),
            ours,
            f"{_MARKER_FOLDER}/{job.name}{_MARKER}",
        )
        try:
            domains.define(connection, f"mark {job.name}", text)
        except LibvirtFailure:
            # a definition that libvirt itself no longer accepts, such as one with a machine type
            # that is gone: what cannot be defined cannot be started either
            lookup.write_metadata(connection, dom, ours, lookup.AFFECT_CONFIG)
    job.original = original


def _unmark(job: _Job) -> None:
    """Restore the definition, as nothing was removed. Best effort: the first error counts."""
    before = job.domain.metadata if job.domain else None
    if before is None or before.phase is not None:
        return  # leftovers of an earlier run stay marked
    with contextlib.suppress(FleetVirtError):
        domains.define(job.connection, f"define {job.name}", job.original)


def _destroy(job: _Job, _step: Step[Belongings]) -> None:
    try:
        job.connection.call(
            f"destroy {job.name}", job.require_dom().destroy, seconds=_DESTROY_SECONDS
        )
    except LibvirtFailure as error:
        if error.code != ERR_OPERATION_INVALID:  # it shut down by itself meanwhile
            raise
    job.destroyed = True


def _look_again(job: _Job, _step: Step[Belongings]) -> None:
    """Plan again, now that the domain cannot be started; raise PlanRefused if that differs."""
    stopped = dataclasses.replace(
        job.settings, options=dataclasses.replace(job.settings.options, force=False)
    )
    references = ownership.read(job.connection)
    _domain, plan = _look(job.connection, job.require_dom(), stopped, references, job.me)
    if plan.problems:
        raise PlanRefused("; ".join(plan.problems))
    if (plan.removed, plan.kept) != (job.plan.removed, job.plan.kept):
        raise PlanRefused(f"what belongs to {job.name!r} changed meanwhile; try again")
    job.plan = plan


def _forget_memory(job: _Job, _step: Step[Belongings]) -> None:
    what = f"remove {job.name}'s saved memory"
    job.connection.call(what, job.require_dom().managedSaveRemove, 0)


def _remove_log(_job: _Job, step: Step[Belongings]) -> None:
    for item in _removals(step):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(str(item.path))


def _remove_volume(job: _Job, step: Step[Belongings]) -> None:
    volumes = {volume.path: volume for volume in job.plan.volumes}
    for item in _removals(step):
        _delete(job.connection, volumes[item.path])


def _delete(connection: Connection, facts: VolumeFacts) -> None:
    """Delete one volume, unless a program has it open at the last moment."""
    path = str(facts.path)
    if os.path.lexists(path) and ownership.is_locked(path):
        raise PlanRefused(f"{path} is in use (locked) by a program; see fuser -v {path}")
    pool = storage.find_pool(connection, facts.own.pool, None)
    if pool is None:
        raise PlanRefused(f"pool {facts.own.pool!r} is gone")
    if not storage.delete_volume(connection, pool, facts.own.name):
        # it exists, but libvirt has not refreshed the pool since
        storage.patiently(connection, f"refresh pool {pool.name}", lambda: pool.existing.refresh(0))
        storage.delete_volume(connection, pool, facts.own.name)
    if os.path.lexists(path):
        raise PlanRefused(f"{path} still exists, although libvirt has removed it")


def _undefine(job: _Job, step: Step[Belongings]) -> None:
    connection = job.connection
    own_nvram = any(item.kind == "nvram" for item in _removals(step))
    domains.undefine(connection, job.require_dom(), keep_nvram=not own_nvram)
    if find_domain(connection, job.name) is not None:
        raise PlanRefused(f"{job.name!r} still exists, although libvirt has undefined it")


# How each kind of step is done
_DO: dict[str, t.Callable[[_Job, Step[Belongings]], None]] = {
    "mark": _mark,
    "destroy": _destroy,
    "look_again": _look_again,
    "managed_save": _forget_memory,
    "volume": _remove_volume,
    "seed": _remove_volume,
    "log": _remove_log,
    "undefine": _undefine,
}


def _result(jobs: t.Sequence[_Job]) -> dict[str, object]:
    vms = [
        {
            "name": job.name,
            "uuid": job.domain.uuid if job.domain else None,
            "changed": job.changed,
            "removed": [dict(vars(item)) for item in job.removed],
            "kept": [dict(vars(item)) for item in job.plan.kept],
            "failed": job.failed,
            "not_tried": job.not_tried,
            "msg": job.msg,
        }
        for job in jobs
    ]
    result: dict[str, object] = {
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
