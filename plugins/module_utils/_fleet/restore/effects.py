# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Restoring VMs: how each step is done and undone.

Whatever fails, exactly what this call made is removed, the definition last, since it names the
rest; a call that is killed leaves a claim whose owner is dead, which the next run of the same
request removes and restores again.
"""

from __future__ import annotations

import dataclasses
import os
import typing as t
import uuid as uuids
from collections.abc import Mapping

from ... import _lxml
from ..._errors import PlanRefused, error_message
from ..._libvirt import DOMAIN_XML_INACTIVE
from ..._records import dataclass, field
from ..backup import archives
from ..backup.effects_borg import Access
from ..base import effects_definitions as domains
from ..base import effects_lookup as lookup
from ..base import metadata, unstartable
from ..base import read_file_identity as identity
from ..base.effects_connection import Connection
from ..base.effects_lookup import find_domain, read_metadata
from ..base.metadata import BEGUN, NOT_MADE, Metadata, OwnVolume
from ..engine import effects_lease as lease
from ..engine import effects_lease_holder as owners
from ..engine import effects_verb as verb
from ..storage import effects_image_writer as images
from ..storage import effects_own_files as owned
from ..storage import effects_storage as storage
from ..storage import read_file_users as file_users
from . import definition, effects_state, read, read_archives
from . import plan as restore_plan
from .effects_archive import Archive
from .options import RestoreOptions, RestoreWork, SavedVm, skipped
from .plan import (
    CLAIM,
    CLEAR,
    MAKE,
    BeginClaimed,
    ClaimName,
    ClearLeft,
    CreateVolume,
    DefineFinal,
    FillVolume,
    PutState,
    RecordFiles,
    RestoreFacts,
    TakeName,
    UndefineLeft,
)
from .read import Restoring

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain

_MARKER = ".fleet-virt-restoring"
_BORG_FOLDER = "/var/cache/fleet-virt/borg"


@dataclass
class _RestoreJob(verb.Job[RestoreFacts]):
    """One VM."""

    restoring: Restoring
    archive: Archive
    made: list[OwnVolume] = field(default_factory=list, init=False)
    states: list[str] = field(default_factory=list, init=False)
    identities: dict[str, str] = field(default_factory=dict, init=False)
    remaining: list[str] = field(default_factory=list, init=False)

    @property
    def wanted(self) -> restore_plan.RestoreRequest:
        """What is wanted of it."""
        return self.restoring.wanted

    @property
    def steps(self) -> list[str]:
        shown = [step for step in self.done if isinstance(step.action, restore_plan.REPORTED)]
        return [step.text for step in shown]

    def volume(self, path: str) -> OwnVolume:
        """The volume at ``path``."""
        return next(volume for volume in self.wanted.volumes if volume.path == path)

    def stays(self, error: Exception) -> None:
        self.remaining.append(error_message(error))

    def entry(self) -> verb.Shown:
        return {"steps": self.steps, "archive": self.wanted.source}

    def shown(self) -> tuple[verb.Shown, verb.Shown]:
        volumes = [volume.path for volume in self.wanted.volumes]
        after = {"hypervisor": self.wanted.home, "archive": self.wanted.source, "disks": volumes}
        return {}, after


def run(
    connection: Connection,
    options: RestoreOptions,
    work: RestoreWork,
    *,
    check: bool,
) -> Mapping[str, object]:
    """Claim the VMs of ``work``, restore those that were claimed, or find them and do both; the
    module's result."""
    verb.require_local(connection, "its disks are written where they are")
    access = Access(options["passphrase"], _BORG_FOLDER, options["ssh_key"])
    vms = work.vms
    if work.stage == "all" and not vms:
        vms = read_archives.find(access, options, str(uuids.uuid4()))
    read.require_known(vms)

    def jobs() -> list[_RestoreJob]:
        here, made = read.read_here(connection), []
        for vm in vms:
            state = read.read(connection, vm, options, here, observed=not check)
            planned = restore_plan.plan(state.facts, state.wanted)
            archive = Archive(access, options["place"], vm.repository, vm.archive)
            made.append(
                _RestoreJob(connection, vm.name, vm.uuid, state.facts, planned, state, archive)
            )
        return made

    def carry_out(given: t.Sequence[_RestoreJob]) -> None:
        stages = {"claim": ((CLEAR,), (CLAIM,)), "finish": ((MAKE,),)}
        for stage in stages.get(work.stage, ((CLEAR,), (CLAIM,), (MAKE,))):
            _ACTIONS.carry_out([job for job in given if not job.problem], stage)
        for job in given:
            job.problem = "; moreover, ".join(filter(None, [job.problem, *job.remaining]))

    if work.stage == "finish":  # its own claims, which no process has taken up
        return verb.planned(jobs(), carry_out, check=check, together=False)
    names = [vm.name for vm in vms]
    result = verb.run(connection, names, jobs, carry_out, check=check, together=False)
    # The stages of a playbook have found theirs on the controller, which has said it
    return {**result, "warnings": skipped(vms)} if work.stage == "all" else result


def withdraw(connection: Connection, vms: t.Sequence[SavedVm]) -> dict[str, object]:
    """Withdraw the claims of this run that it has not begun to carry out."""
    with owners.host_lock():
        withdrawn = [vm.name for vm in vms if _withdraw(connection, vm)]
    return {"changed": bool(withdrawn), "vms": []}


def _withdraw(connection: Connection, vm: SavedVm) -> bool:
    dom = find_domain(connection, vm.name)
    stored = read_metadata(connection, dom) if dom is not None else None
    if dom is None or stored is None or not restore_plan.is_own(stored, vm.claimer):
        return False
    domains.undefine(connection, dom)
    return True


# --- what an interrupted run left ---


def _take(job: _RestoreJob, _step: TakeName) -> None:
    before, dom = job.facts.stored, find_domain(job.connection, job.name)
    taken = None
    if dom is not None and before is not None:
        run = job.wanted.run
        taken = lease.take_over(job.connection, dom, before.phase, before.owner, run)
    if taken is None:
        raise PlanRefused(f"another run is at work on {job.name!r}; try again")


def _clear(job: _RestoreJob, _step: ClearLeft) -> None:
    stored = job.facts.stored
    references = file_users.read(job.connection)
    uuid = str(job.facts.uuid)
    volumes = [] if stored is None else list(reversed(stored.volumes))
    left = [owned.remove(job.connection, volume, uuid, references) for volume in volumes]
    if any(left):
        raise PlanRefused("; ".join(str(one) for one in left if one is not None))


def _undefine_left(job: _RestoreJob, _step: UndefineLeft) -> None:
    """The definition goes last: as long as it is there, what is left is known to be its own."""
    effects_state.remove([path for path in job.wanted.states if path in job.facts.states])
    dom = find_domain(job.connection, job.name)
    if dom is not None:
        domains.undefine(job.connection, dom)


# --- the claim ---


def _claim(job: _RestoreJob, _step: ClaimName) -> None:
    wanted = job.wanted
    with owners.host_lock():
        if find_domain(job.connection, job.name) is not None:
            raise PlanRefused(f"{job.name!r} was defined on this host meanwhile; try again")
        stored = restore_plan.claim_metadata(wanted, owners.reserved(wanted.run), NOT_MADE)
        folder = os.path.dirname(wanted.volumes[0].path) if wanted.volumes else "/var/lib/libvirt"
        text = unstartable.marked(job.restoring.root, stored, f"{folder}/{job.name}{_MARKER}")
        dom = domains.define(job.connection, f"claim {job.name}", text)
        got = str(job.connection.call(f"read {job.name}", dom.XMLDesc, DOMAIN_XML_INACTIVE))
    # libvirt's schema would refuse what a newer libvirt writes of itself, and without it libvirt
    # leaves out what it does not know
    missing = definition.missing_devices(job.restoring.root, _lxml.parse(got, job.name))
    if missing:
        raise PlanRefused(
            f"its libvirt does not know {', '.join(missing)} of {job.name!r}; restore to a newer"
            " hypervisor (vm_host)"
        )


def _begin(job: _RestoreJob, _step: BeginClaimed) -> None:
    with owners.host_lock():
        own = _own(job)
        if own is None:
            raise PlanRefused(f"the claim of {job.name!r} is gone; run this again")
        dom, stored = own
        volumes = tuple(dataclasses.replace(one, made=BEGUN) for one in stored.volumes)
        claimed = dataclasses.replace(stored, owner=owners.myself(job.wanted.run), volumes=volumes)
        lookup.write_metadata(job.connection, dom, claimed, lookup.AFFECT_CONFIG)


def _own(job: _RestoreJob) -> tuple[VirDomain, Metadata] | None:
    """The claim and its metadata, None if it is not ours, or no claim any more."""
    dom = find_domain(job.connection, job.name)
    if dom is None or str(dom.UUIDString()) != job.wanted.uuid:
        return None
    stored = read_metadata(job.connection, dom)
    owner = stored.owner if stored is not None else None
    if stored is None or stored.phase != restore_plan.CREATING or owner is None:
        return None
    mine = owner.pid == 0 or owner == owners.myself(job.wanted.run)
    return (dom, stored) if owner.run == job.wanted.run and mine else None


def _unclaim(job: _RestoreJob, _step: ClaimName | BeginClaimed) -> None:
    own = None if job.remaining else _own(job)
    if own is not None:
        domains.undefine(job.connection, own[0])


# --- its content ---


def _create(job: _RestoreJob, step: CreateVolume) -> None:
    volume = job.volume(step.path)
    folder = os.path.dirname(step.path)
    with owners.host_lock():
        pool = storage.find_pool(job.connection, volume.pool, folder)
        pool = pool or storage.make_pool(job.connection, volume.pool, folder)
    if not os.path.lexists(step.path):  # a file that was removed by hand is listed by libvirt still
        storage.patiently(
            job.connection, f"refresh pool {pool.name}", lambda: pool.existing.refresh(0)
        )
    if storage.is_taken(job.connection, pool, volume.name):
        raise PlanRefused(f"{step.path} appeared meanwhile; refusing to overwrite it")
    saved = _saved(job, step.path)
    job.made.append(volume)  # libvirt may create it and not answer
    storage.create_volume(
        job.connection, pool, volume.name, size=saved.size, volume_format=saved.format
    )


def _saved(job: _RestoreJob, path: str) -> archives.SavedDisk:
    target = next(dev for dev, one in job.restoring.volumes.items() if one.path == path)
    disks = job.restoring.manifest.backup.disks
    return next(disk for disk in disks if disk.target == target)


def _remove_created(job: _RestoreJob, step: CreateVolume) -> None:
    own = _own(job)
    volumes = [] if own is None else [one for one in own[1].volumes if one.path == step.path]
    if step.path not in [volume.path for volume in job.made]:
        return
    references = file_users.read(job.connection)
    for volume in volumes:
        left = owned.remove(job.connection, volume, job.wanted.uuid, references, asked=True)
        if left is not None:
            raise PlanRefused(str(left))


def _record(job: _RestoreJob, _step: RecordFiles) -> None:
    own = _own(job)
    if own is None:
        raise PlanRefused(f"the claim of {job.name!r} is gone; run this again")
    dom, stored = own
    job.identities = {one.path: identity.of_file(one.path) for one in stored.volumes}
    volumes = tuple(
        dataclasses.replace(one, made=job.identities[one.path]) for one in stored.volumes
    )
    noted = dataclasses.replace(stored, volumes=volumes)
    lookup.write_metadata(job.connection, dom, noted, lookup.AFFECT_CONFIG)


def _fill(job: _RestoreJob, step: FillVolume) -> None:
    saved = _saved(job, step.path)
    file = job.restoring.manifest.file(saved.path)
    if file is None:
        raise PlanRefused(f"{job.wanted.source} has no {saved.path}")
    with images.opened(step.path, saved.format) as image:
        if image.size < saved.size:
            raise PlanRefused(f"{step.path} has {image.size} bytes, fewer than {saved.size}")
        job.archive.pour(file, image.write)
    storage.flush(step.path)


def _put_state(job: _RestoreJob, step: PutState) -> None:
    job.states.append(step.path)
    effects_state.put(job.archive, job.restoring.manifest, step.path)


def _remove_state(job: _RestoreJob, step: PutState) -> None:
    if step.path in job.states:
        effects_state.remove([step.path])


def _define(job: _RestoreJob, _step: DefineFinal) -> None:
    root = job.restoring.root
    metadata.put(root, restore_plan.final_metadata(job.wanted, job.identities))
    domains.define(job.connection, f"define {job.name}", _lxml.tostring(root))


_ACTIONS = (
    verb.Actions[_RestoreJob](undo_failed=True)
    .on(TakeName, _take)
    .on(ClearLeft, _clear)
    .on(UndefineLeft, _undefine_left)
    .on(ClaimName, _claim, _unclaim)
    .on(BeginClaimed, _begin, _unclaim)
    .on(CreateVolume, _create, _remove_created)
    .on(RecordFiles, _record)
    .on(FillVolume, _fill)
    .on(PutState, _put_state, _remove_state)
    .on(DefineFinal, _define)
)
