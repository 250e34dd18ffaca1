# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Creating VMs: how each step is done and rolled back.

A VM is claimed by defining it, with phase ``creating`` and a drive whose medium never exists, so
that libvirt itself refuses to start it for any caller. Then the host is read: if it now promises
more than it has, the claim is withdrawn. Volumes are created under the claim, which names them. The
last step replaces the definition by the final one, with phase ``starting`` until it was started.
The guests of a batch are started paused and resumed together at the end: booting guests would take
the CPU time that the rest of the work needs.

Whatever fails, exactly what this call created is removed; a call that is killed leaves a claim
whose owner is dead, which the next run of the same request removes and creates again, or a complete
VM that is yet to be started, which it starts.
"""

from __future__ import annotations

import dataclasses
import typing as t
import uuid as uuids

from ..._errors import LibvirtFailure, PlanRefused
from ..._libvirt import DOMAIN_PAUSED, DOMAIN_START_PAUSED, ERR_OPERATION_INVALID
from ..base import effects_definitions as domains
from ..base.effects_connection import Connection
from ..base.effects_lookup import find_domain, read_metadata
from ..base.metadata import BEGUN, Metadata, Owner
from ..engine import effects_lease as lease
from ..engine import effects_lease_holder as owners
from ..engine import effects_verb as verb
from ..hosts import read_rolling
from ..seed import effects_nocloud as seed_nocloud
from . import effects_creation_definition as definition
from . import effects_creation_volumes as volumes
from . import plan_creation as planning
from .effects_batch import CreationJob, Host, require_bases
from .plan_creation import BOOT, CLAIM, CLEAR, MAKE, RUN, Fill, Take, Volume

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..base.snapshot import PlacementEntry

_START_SECONDS = 300.0


class Outrun(PlanRefused):
    """Another run was faster; another hypervisor, or a retry, may succeed."""


def claim(host: Host, jobs: t.Sequence[CreationJob], owner: Owner) -> PlacementEntry | None:
    """Define a claim for every new job; jobs that do not fit fail and leave nothing behind.

    Returns the facts of the host with the claims, None if nothing was claimed.
    """
    for job in jobs:
        job.altered, job.claimer = job.complete, owner
    _carry_out(jobs, (CLEAR,))
    from . import read_capacity as creation_capacity  # finishing needs none of it

    facts = None
    with owners.host_lock():  # not held over calls that take long
        claimed = _carry_out(jobs, (CLAIM,))
        for job in claimed:
            job.altered = True
        # withdraw the last claims first: earlier ones may then stay
        while claimed:
            last, reason, facts = creation_capacity.exceeding(host, claimed)
            if last is None:
                break
            claimed = [job for job in claimed if job is not last]
            _withdraw(host.connection, last.name, owner)
            last.altered = False
            last.fail(reason, refused=True)
    return facts


def finish(jobs: t.Sequence[CreationJob], run: str) -> None:
    """Create what ``run`` has claimed; a job that fails leaves nothing behind."""
    jobs = [job for job in jobs if not job.problem]
    starting = sum(
        isinstance(step.action, planning.StartCreated) for job in jobs for step in job.plan.steps
    )
    for job in jobs:
        job.claimer, job.paused = owners.myself(run), starting > 1
    for job in _carry_out(jobs, (MAKE, BOOT, RUN)):
        job.altered = True


def _carry_out(jobs: t.Sequence[CreationJob], stages: t.Container[int]) -> list[CreationJob]:
    """Do the steps of these stages; returns the jobs that had any and succeeded."""
    jobs = [job for job in jobs if not job.problem]
    done = _ACTIONS.carry_out(jobs, stages)
    for job in jobs:
        if job.problem:
            msg = "; moreover, ".join([job.problem, *job.remaining])
            job.fail(msg, refused=isinstance(job.error, Outrun))
    return done


def withdraw(connection: Connection, names: t.Iterable[str], run: str) -> list[str]:
    """Withdraw the claims of ``run`` on these names that it has not begun to carry out; returns
    those that existed.

    A process that has begun may still be at work without anybody hearing from it; if it is dead,
    only the definition names what it created, for the next run to remove.
    """
    with owners.host_lock():  # in which a process takes a claim over
        return [name for name in names if _withdraw(connection, name, owners.reserved(run))]


def _withdraw(connection: Connection, name: str, claimer: Owner) -> bool:
    dom = find_domain(connection, name)
    stored = read_metadata(connection, dom) if dom is not None else None
    if dom is None or stored is None or stored.phase != "creating":
        return False
    owner = stored.owner
    if owner is None or (owner.run, owner.pid) != (claimer.run, claimer.pid):
        return False
    domains.undefine(connection, dom)
    return True


# --- the steps ---


def _take(job: CreationJob, step: Take) -> None:
    before = job.facts.stored
    dom = find_domain(job.connection, job.name)
    if dom is not None and before is not None and before.owner is not None:
        job.taken = lease.take_over(job.connection, dom, before.phase, before.owner, step.run)
    if job.taken is None:
        raise Outrun(f"another run is at work on {job.name!r}; try again")


def _clear(job: CreationJob) -> None:
    """Remove the volumes that a dead run created for a VM that never ran."""
    from . import effects_creation_rest as creation_rest

    seed_nocloud.clear(str(job.uuid))
    if job.taken is not None:
        creation_rest.remove(job.host, job.claimed(), job.taken)


def _forget(job: CreationJob) -> None:
    domains.undefine(job.connection, job.claimed())
    job.dom = job.uuid = job.taken = None


def _claim(job: CreationJob) -> None:
    if find_domain(job.connection, job.name) is not None:
        raise Outrun(f"{job.name!r} was defined on this host meanwhile")
    require_bases(job.domain.disks, job.host.settings)
    job.uuid = str(uuids.uuid4())
    definition.define_claim(job.host, job.draft, job.uuid, job.claimer)


def _begin(job: CreationJob) -> None:
    """Pass the claim from its run to this process, if it still belongs to that run."""
    me = job.claimer
    with owners.host_lock():
        dom = find_domain(job.connection, job.name)
        stored = read_metadata(job.connection, dom) if dom is not None else None
        owner = stored.owner if stored is not None else None
        if dom is None or stored is None or stored.phase != "creating" or owner is None:
            raise PlanRefused(f"the claim of {job.name!r} is gone; try again")
        if owner.run != me.run or (owner.pid and owner != me):
            raise PlanRefused(f"the claim of {job.name!r} was taken over; try again")
        job.uuid = str(dom.UUIDString())
        own = tuple(dataclasses.replace(one, made=BEGUN) for one in stored.volumes)
        claimed = dataclasses.replace(stored, owner=me, volumes=own)
        definition.write_metadata(job.host, dom, claimed, definition.AFFECT_CONFIG)


def _volume(job: CreationJob, step: Volume) -> None:
    volumes.make(job.host, job.disk(step.path), job.made)


def _note(job: CreationJob) -> None:
    volumes.note(job.host, job.draft, str(job.uuid), job.draft.disks)


def _fill(job: CreationJob, step: Fill) -> None:
    volumes.fill(job.disk(step.path))


def _seed(job: CreationJob) -> None:
    volumes.seed(job.host, job.draft, str(job.uuid), job.made)


def _autostart(job: CreationJob) -> None:
    job.connection.call(f"set autostart of {job.name}", job.claimed().setAutostart, 1)


def _define(job: CreationJob) -> None:
    """Replace the claim, whose volumes are complete, by the VM."""
    starter = job.claimer if job.domain.start else None
    job.dom = definition.define_final(job.host, job.draft, str(job.uuid), starter)


def _start(job: CreationJob) -> None:
    """Start the domain unless it is active; paused, if others are started with it."""
    connection, dom = job.connection, job.claimed()
    flags = DOMAIN_START_PAUSED if job.paused else 0
    read_rolling.require_startable(connection, job.name, new=True)
    try:
        connection.call(f"start {job.name}", dom.createWithFlags, flags, seconds=_START_SECONDS)
    except LibvirtFailure as error:
        running = error.code == ERR_OPERATION_INVALID
        if not running or not connection.call("read the state", dom.isActive):
            raise


def _release(job: CreationJob) -> None:
    """Resume it, and record that nothing is left to do."""
    dom, taken = job.claimed(), job.taken
    if taken is None:
        stored = definition.metadata_of(job.host, job.draft, None, None)
    else:
        stored = dataclasses.replace(taken, phase=None, owner=None)
    state, _reason = job.connection.call("read the state", dom.state, 0)
    if state == DOMAIN_PAUSED:
        job.connection.call(f"resume {job.name}", dom.resume)
    definition.write_metadata(job.host, dom, stored, definition.AFFECT_CONFIG)
    try:
        definition.write_metadata(job.host, dom, stored, definition.AFFECT_LIVE)
    except LibvirtFailure as error:
        if error.code != ERR_OPERATION_INVALID:  # a guest that has shut down meanwhile
            raise


# --- rolling them back ---


def _own(job: CreationJob) -> tuple[VirDomain, Metadata] | None:
    """The domain and its metadata; None if it is not ours to roll back, or complete.

    The definition is removed last, as it names the rest; if a part of that stays, so does the
    definition.
    """
    dom = None if job.remaining else find_domain(job.connection, job.name)
    if dom is None or str(dom.UUIDString()) != job.uuid:
        return None
    stored = read_metadata(job.connection, dom)
    owner = stored.owner if stored is not None else None
    if stored is None or stored.phase is None or owner is None or owner.run != job.claimer.run:
        return None
    return (dom, stored) if owner.pid == 0 or owner == job.claimer else None


def _undefine(job: CreationJob) -> None:
    own = _own(job)
    if own is not None:
        domains.undefine(job.connection, own[0])


def _unmade(job: CreationJob, step: Volume | None = None) -> None:
    """Remove the volume of the step, or without one the medium, if it was created."""
    own = _own(job)
    disks = [plan.path for plan in job.draft.disks]
    made = [plan.path for plan in job.made]
    paths = [path for path in made if (path == step.path if step else path not in disks)]
    if paths and own is not None:
        from . import effects_creation_rest as creation_rest  # what ends well needs none of it

        creation_rest.undo(job.host, *own, paths)
        job.made = [plan for plan in job.made if plan.path not in paths]


def _stop(job: CreationJob) -> None:
    own = _own(job)
    if own is not None and job.connection.call("read the state", own[0].isActive):
        job.connection.call(f"stop {job.name}", own[0].destroy, seconds=_START_SECONDS)


_ACTIONS = (
    verb.Actions[CreationJob](undo_failed=True)
    .on(Take, _take)
    .simply(planning.ClearLeft, _clear)
    .simply(planning.UndefineLeft, _forget)
    .simply(planning.ClaimName, _claim, _undefine)
    .simply(planning.BeginClaimed, _begin, _undefine)
    .on(Volume, _volume, _unmade)
    .simply(planning.RecordFiles, _note)
    .on(Fill, _fill)
    .simply(planning.GiveSeed, _seed, _unmade)
    .simply(planning.SetAutostart, _autostart)
    .simply(planning.DefineFinal, _define)
    .simply(planning.StartCreated, _start, _stop)
    .simply(planning.LetRun, _release)
)
