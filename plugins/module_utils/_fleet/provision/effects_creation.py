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

from ..._errors import LibvirtFailure, PlanRefused, error_message
from ..._libvirt import DOMAIN_PAUSED, DOMAIN_START_PAUSED, ERR_OPERATION_INVALID
from ..base import effects_definitions as domains
from ..base.effects_connection import Connection
from ..base.effects_lookup import find_domain, read_metadata
from ..base.metadata import BEGUN, Metadata, Owner
from ..engine import effects_executor as executor
from ..engine import effects_lease_holder as owners
from ..seed import effects_nocloud as seed_nocloud
from . import effects_creation_definition as definition
from . import effects_creation_volumes as volumes
from .effects_batch import DiskPlan, Host, ProvisionJob, require_bases
from .plan_creation import BOOT, CLAIM, CLEAR, MAKE, RUN, CreationFacts

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..base.snapshot import PlacementEntry
    from ..engine.steps import Step

_START_SECONDS = 300.0
_OPEN = ("new", "complete")


class _Outrun(PlanRefused):
    """Another run was faster; another hypervisor, or a retry, may succeed."""


class CreationWork:
    """The steps of one VM. ``claimer`` is the owner of its claim."""

    def __init__(self, host: Host, job: ProvisionJob, claimer: Owner) -> None:
        self.host, self.job, self.claimer = host, job, claimer
        self.connection, self.name, self.run = host.connection, job.domain.name, claimer.run
        self.paused = False  # the guests of a batch are resumed once all are created
        self.dom: VirDomain | None = None
        self.made: list[DiskPlan] = []
        self.taken: Metadata | None = None  # the metadata that a dead run left
        self.problems: list[str] = []  # of rolling back

    def do(self, step: Step[CreationFacts]) -> executor.Turns:
        yield from ()
        try:
            _DO[step.kind](self, step)
        except BaseException:
            if not step.irreversible:
                self.undo(step)  # it may be partly done
            raise

    def undo(self, step: Step[CreationFacts]) -> None:
        """Roll ``step`` back. The definition is removed last, as it names the rest; if a part of
        that stays, so does the definition.
        """
        action = _UNDO.get(step.kind)
        if action is None or self.problems:
            return
        try:
            dom = find_domain(self.connection, self.name)
            stored = self._own(dom) if dom is not None else None
            if dom is not None and stored is not None:
                action(self, step, dom, stored)
        except Exception as error:
            self.problems.append(error_message(error))

    def _own(self, dom: VirDomain) -> Metadata | None:
        """The domain's metadata; None if it is not ours to roll back, or complete."""
        if str(dom.UUIDString()) != self.job.uuid:
            return None
        stored = read_metadata(self.connection, dom)
        owner = stored.owner if stored is not None else None
        if stored is None or stored.phase is None or owner is None or owner.run != self.run:
            return None
        return stored if owner.pid == 0 or owner == self.claimer else None

    def finish(self) -> None:
        """Do nothing: libvirt's reply confirms each step."""

    def domain(self) -> VirDomain:
        """The domain that was claimed."""
        if self.dom is None:
            uuid, look = str(self.job.uuid), self.connection.conn.lookupByUUIDString
            self.dom = self.connection.call(f"find {self.name}", look, uuid)
        return self.dom

    def disk(self, step: Step[CreationFacts]) -> DiskPlan:
        """The volume that the step is about."""
        return next(plan for plan in self.job.disks if plan.path == step.payload)


def claim(host: Host, jobs: t.Sequence[ProvisionJob], owner: Owner) -> PlacementEntry | None:
    """Define a claim for every new job; jobs that do not fit fail and leave nothing behind.

    Returns the facts of the host with the claims, None if nothing was claimed.
    """
    for job in jobs:
        job.changed = job.state == "complete"
    _carry_out([CreationWork(host, job, owner) for job in jobs], (CLEAR,))
    from . import read_capacity as creation_capacity  # finishing needs none of it

    facts = None
    with owners.host_lock():  # not held over calls that take long
        claimed = _carry_out([CreationWork(host, job, owner) for job in jobs], (CLAIM,))
        for work in claimed:
            work.job.changed = True
        # withdraw the last claims first: earlier ones may then stay
        while claimed:
            jobs = [work.job for work in claimed]
            last, reason, facts = creation_capacity.exceeding(host, jobs)
            if last is None:
                break
            claimed = [work for work in claimed if work.job is not last]
            _withdraw(host.connection, last.domain.name, owner)
            last.changed = False
            last.fail(reason, refused=True)
    return facts


def finish(host: Host, jobs: t.Sequence[ProvisionJob], run: str) -> None:
    """Create what ``run`` has claimed; a job that fails leaves nothing behind."""
    left = [job for job in jobs if job.state in _OPEN]
    works = [CreationWork(host, job, owners.myself(run)) for job in left]
    starting = sum(step.kind == "start" for job in left for step in job.plan.steps)
    for work in works:
        work.paused = starting > 1
    for work in _carry_out(works, (MAKE, BOOT, RUN)):
        work.job.changed = True


def _carry_out(works: t.Sequence[CreationWork], stages: t.Collection[int]) -> list[CreationWork]:
    """Do the steps of these stages; returns the works that had any and succeeded."""
    works = [work for work in works if work.job.state in _OPEN]
    runs = [
        executor.Run([step for step in work.job.plan.steps if step.stage in stages], work)
        for work in works
    ]
    executor.carry_out(runs)
    for work, run in zip(works, runs):
        if run.problem is not None:
            msg = "; moreover, ".join([error_message(run.problem), *work.problems])
            work.job.fail(msg, refused=isinstance(run.problem, _Outrun))
    return [work for work, run in zip(works, runs) if run.steps and run.problem is None]


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


def _take(work: CreationWork, step: Step[CreationFacts]) -> None:
    from ..engine import effects_lease as lease

    before = work.job.facts.stored if work.job.facts is not None else None
    dom = find_domain(work.connection, work.name)
    if dom is not None and before is not None and before.owner is not None:
        run, phase = str(step.payload), before.phase
        work.taken = lease.take_over(work.connection, dom, phase, before.owner, run)
    if work.taken is None:
        raise _Outrun(f"another run is at work on {work.name!r}; try again")


def _clear(work: CreationWork, _step: Step[CreationFacts]) -> None:
    """Remove the volumes that a dead run created for a VM that never ran."""
    from . import effects_creation_rest as creation_rest

    seed_nocloud.clear(str(work.job.uuid))
    if work.taken is not None:
        creation_rest.remove(work.host, work.domain(), work.taken)


def _forget(work: CreationWork, _step: Step[CreationFacts]) -> None:
    domains.undefine(work.connection, work.domain())
    work.dom = work.job.uuid = None


def _claim(work: CreationWork, _step: Step[CreationFacts]) -> None:
    job = work.job
    if find_domain(work.connection, work.name) is not None:
        raise _Outrun(f"{work.name!r} was defined on this host meanwhile")
    require_bases(job, work.host.settings)
    job.uuid = str(uuids.uuid4())
    definition.define_claim(work.host, job, work.claimer)


def _begin(work: CreationWork, _step: Step[CreationFacts]) -> None:
    """Pass the claim from its run to this process, if it still belongs to that run."""
    me = work.claimer
    with owners.host_lock():
        dom = find_domain(work.connection, work.name)
        stored = read_metadata(work.connection, dom) if dom is not None else None
        owner = stored.owner if stored is not None else None
        if dom is None or stored is None or stored.phase != "creating" or owner is None:
            raise PlanRefused(f"the claim of {work.name!r} is gone; try again")
        if owner.run != work.run or (owner.pid and owner != me):
            raise PlanRefused(f"the claim of {work.name!r} was taken over; try again")
        work.job.uuid = str(dom.UUIDString())
        own = tuple(dataclasses.replace(one, made=BEGUN) for one in stored.volumes)
        claimed = dataclasses.replace(stored, owner=me, volumes=own)
        definition.write_metadata(work.host, dom, claimed, definition.AFFECT_CONFIG)


def _volume(work: CreationWork, step: Step[CreationFacts]) -> None:
    volumes.make(work.host, work.disk(step), work.made)


def _note(work: CreationWork, _step: Step[CreationFacts]) -> None:
    volumes.note(work.host, work.job, work.job.disks)


def _fill(work: CreationWork, step: Step[CreationFacts]) -> None:
    volumes.fill(work.disk(step))


def _seed(work: CreationWork, _step: Step[CreationFacts]) -> None:
    volumes.seed(work.host, work.job, work.made)


def _autostart(work: CreationWork, _step: Step[CreationFacts]) -> None:
    work.connection.call(f"set autostart of {work.name}", work.domain().setAutostart, 1)


def _define(work: CreationWork, _step: Step[CreationFacts]) -> None:
    """Replace the claim, whose volumes are complete, by the VM."""
    starter = work.claimer if work.job.domain.start else None
    work.dom = definition.define_final(work.host, work.job, starter)


def _start(work: CreationWork, _step: Step[CreationFacts]) -> None:
    """Start the domain unless it is active; paused, if others are started with it."""
    connection, dom = work.connection, work.domain()
    flags = DOMAIN_START_PAUSED if work.paused else 0
    try:
        connection.call(f"start {work.name}", dom.createWithFlags, flags, seconds=_START_SECONDS)
    except LibvirtFailure as error:
        running = error.code == ERR_OPERATION_INVALID
        if not running or not connection.call("read the state", dom.isActive):
            raise


def _release(work: CreationWork, _step: Step[CreationFacts]) -> None:
    """Resume it, and record that nothing is left to do."""
    dom, taken = work.domain(), work.taken
    if taken is None:
        stored = definition.metadata_of(work.host, work.job, None, None)
    else:
        stored = dataclasses.replace(taken, phase=None, owner=None)
    state, _reason = work.connection.call("read the state", dom.state, 0)
    if state == DOMAIN_PAUSED:
        work.connection.call(f"resume {work.name}", dom.resume)
    definition.write_metadata(work.host, dom, stored, definition.AFFECT_CONFIG)
    try:
        definition.write_metadata(work.host, dom, stored, definition.AFFECT_LIVE)
    except LibvirtFailure as error:
        if error.code != ERR_OPERATION_INVALID:  # a guest that has shut down meanwhile
            raise


# --- rolling them back ---


def _undefine(
    work: CreationWork, _step: Step[CreationFacts], dom: VirDomain, _stored: Metadata
) -> None:
    domains.undefine(work.connection, dom)


def _unmade(
    work: CreationWork, step: Step[CreationFacts], dom: VirDomain, stored: Metadata
) -> None:
    """Remove what the step has created, if anything."""
    from . import effects_creation_rest as creation_rest  # what ends well needs none of it

    disks = [plan.path for plan in work.job.disks]
    made = [one.path for one in work.made]
    paths = [one for one in made if (one == step.payload if step.payload else one not in disks)]
    if paths:
        creation_rest.undo(work.host, dom, stored, paths)
        work.made = [one for one in work.made if one.path not in paths]


def _stop(
    work: CreationWork, _step: Step[CreationFacts], dom: VirDomain, _stored: Metadata
) -> None:
    if work.connection.call("read the state", dom.isActive):
        work.connection.call(f"stop {work.name}", dom.destroy, seconds=_START_SECONDS)


_DO: t.Mapping[str, t.Callable[[CreationWork, Step[CreationFacts]], None]] = {
    "take": _take,
    "clear": _clear,
    "forget": _forget,
    "claim": _claim,
    "begin": _begin,
    "volume": _volume,
    "note": _note,
    "fill": _fill,
    "seed": _seed,
    "autostart": _autostart,
    "define": _define,
    "start": _start,
    "release": _release,
}
_UNDO: t.Mapping[
    str, t.Callable[[CreationWork, Step[CreationFacts], VirDomain, Metadata], None]
] = {
    "claim": _undefine,
    "begin": _undefine,
    "volume": _unmade,
    "seed": _unmade,
    "start": _stop,
}
