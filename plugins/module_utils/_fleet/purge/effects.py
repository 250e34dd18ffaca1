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
import os
import typing as t
import uuid as uuids

from ... import _lxml
from ..._errors import FleetVirtError, LibvirtFailure, PlanRefused, error_message
from ..._libvirt import DOMAIN_XML_INACTIVE, DOMAIN_XML_SECURE, ERR_OPERATION_INVALID
from ..._records import dataclass, field
from ..base import effects_definitions as domains
from ..base import effects_lookup as lookup
from ..base import unstartable
from ..base.effects_connection import Connection
from ..base.effects_lookup import find_domain, read_metadata, selected_domains
from ..base.metadata import Metadata, Owner, OwnVolume
from ..base.names import require_named
from ..base.selected import Selected
from ..cards import read_leftovers
from ..cell import read_nowhere
from ..engine import effects_lease_holder as owners
from ..engine import effects_verb as verb
from ..engine.steps import Plan, Step
from ..storage import effects_storage as storage
from ..storage import read_file_users as ownership
from ..storage.read_file_users import References
from . import plan as purge_plan
from . import read as belongings
from .facts import FileUsers, PurgeLook, PurgeVm, PurgeVolume
from .plan import (
    Belongings,
    Destroy,
    DomainFacts,
    ForgetMemory,
    LookAgain,
    Mark,
    PurgeOptions,
    Removal,
    Removals,
    RemoveLog,
    RemoveVolume,
    Removing,
    Undefine,
    VolumeFacts,
)

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain

_WHOLE = DOMAIN_XML_SECURE | DOMAIN_XML_INACTIVE  # passwords survive being defined again
_DESTROY_SECONDS = 300.0
_MARKER = ".fleet-virt-purging"
_MARKER_FOLDER = "/var/lib/libvirt/images"


@dataclass(frozen=True)
class PurgeSettings:
    """``asked``: paths of volumes on shared storage that no other hypervisor uses."""

    options: PurgeOptions
    asked: tuple[str, ...] = ()


@dataclass
class _PurgeJob(verb.Job[Belongings]):
    """One domain and its result; ``removals`` is what its plan is made of."""

    settings: PurgeSettings
    dom: VirDomain | None = None
    removals: Removals = field(default_factory=Removals)
    destroyed: bool = field(default=False, init=False)
    me: Owner | None = field(default=None, init=False)
    original: str = field(default="", init=False)  # the definition before it was marked

    def __post_init__(self) -> None:
        super().__post_init__()
        self.note = "not there" if self.dom is None else None

    def require_dom(self) -> VirDomain:
        """The domain; raises PlanRefused if it does not exist."""
        if self.dom is None:
            raise PlanRefused(f"{self.name!r} is not on this hypervisor")
        return self.dom

    @property
    def removed(self) -> list[Removal]:
        """What was removed."""
        removing = [step.action for step in self.done if isinstance(step.action, Removing)]
        return [item for action in removing for item in action.removed]

    @property
    def changed(self) -> bool:
        return bool(self.removed) or self.destroyed

    def entry(self) -> verb.Shown:
        return {**self._shown(self.removed), "not_tried": self.not_tried}

    def shown(self) -> tuple[verb.Shown, verb.Shown]:
        return self._shown(self.removed), self._shown([])

    def _shown(self, removed: t.Iterable[Removal]) -> dict[str, object]:
        kept = [dict(vars(item)) for item in self.removals.kept]
        return {"kept": kept, "removed": [dict(vars(item)) for item in removed]}


def run(
    connection: Connection, names: t.Sequence[str], settings: PurgeSettings, *, check: bool
) -> dict[str, object]:
    """Remove the domains ``names``; the module's result. Unless all can go, none is changed."""
    require_named(names)
    _require_local(connection)
    names = list(dict.fromkeys(names))

    def planned() -> list[_PurgeJob]:
        domains = {name: find_domain(connection, name) for name in names}
        references = ownership.read(connection) if any(domains.values()) else References({})
        return [_plan(connection, *item, settings, references) for item in domains.items()]

    return verb.run(connection, names, planned, _carry_out, check=check)


def _plan(
    connection: Connection,
    name: str,
    dom: VirDomain | None,
    settings: PurgeSettings,
    references: References,
) -> _PurgeJob:
    if dom is None:
        return _PurgeJob(connection, name, None, Belongings(None), Plan(), settings)
    domain, removals = None, Removals()
    steps: tuple[Step[Belongings], ...] = ()
    try:
        domain, removals = _look(connection, dom, settings, references)
        steps = purge_plan.steps(removals, domain)
    except Exception as error:
        removals.problems.append(f"{name!r}: {error_message(error)}")
    plan = Plan(() if removals.problems else steps, tuple(removals.problems))
    facts, uuid = Belongings(domain), domain.uuid if domain else None
    return _PurgeJob(connection, name, uuid, facts, plan, settings, dom, removals)


def _carry_out(jobs: t.Sequence[_PurgeJob]) -> None:
    _ACTIONS.carry_out(jobs)
    for job in jobs:
        if job.problem and job.irreversible:
            job.problem += (
                f"; {job.name!r} is partly removed and can no longer be started. Fix the cause,"
                " then remove it again to finish"
            )


def look(
    connection: Connection,
    names: t.Sequence[str],
    files: t.Sequence[str],
    groups: t.Sequence[str] = (),
) -> PurgeLook:
    """What other hypervisors must know: which domains of ``names``, names or patterns, and of
    ``groups`` are here, with their volumes, and which use files called ``files``. Changes nothing.
    """
    _require_local(connection)
    pools = ownership.read_pools(connection)
    vms: list[PurgeVm] = []
    for dom, known in selected_domains(connection, Selected.of(names, groups)):
        stored = known or Metadata()
        owned = (*stored.volumes, *belongings.own_files(connection, dom))
        vms.append(
            {
                **verb.of_domain(dom, known),
                "volumes": [_seen_from_elsewhere(own, pools) for own in owned],
            }
        )
    vms += [
        {**read_nowhere.entry(*seen), "volumes": []}
        for seen in read_nowhere.vms(connection, Selected.of(names, groups))
    ]
    users: list[FileUsers] = []
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
        "warnings": read_leftovers.mark(connection, vms),
    }


def _seen_from_elsewhere(own: OwnVolume, pools: t.Mapping[str, ownership.PoolPlace]) -> PurgeVolume:
    pool = pools.get(own.pool)
    return {
        "path": f"{pool.path}/{own.name}" if pool and pool.path else own.path,
        "shared": bool(pool and pool.shared),
        "pool_id": pool.id if pool else None,
    }


def _require_local(connection: Connection) -> None:
    verb.require_local(connection, "the owner of a file is known only where it is stored")


def _look(
    connection: Connection,
    dom: VirDomain,
    settings: PurgeSettings,
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


def _mark(job: _PurgeJob, _step: Mark) -> None:
    """Mark the domain as being removed by this process, and store its original definition."""
    connection = job.connection
    job.me = owners.myself(str(uuids.uuid4()))
    with owners.host_lock():
        dom = find_domain(connection, job.name)
        domain = job.facts.domain
        if dom is None or domain is None or str(dom.UUIDString()) != domain.uuid:
            raise PlanRefused(f"{job.name!r} was removed or replaced meanwhile; try again")
        stored = read_metadata(connection, dom)
        if stored is None or stored != domain.metadata:
            raise PlanRefused(f"{job.name!r} was changed by another run meanwhile; try again")
        original = str(connection.call("read the definition", dom.XMLDesc, _WHOLE))
        own = tuple(volume for volume in stored.volumes if volume not in job.removals.foreign)
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


def _unmark(job: _PurgeJob, _step: Mark) -> None:
    """Restore the definition, as nothing was removed. Best effort: the first error counts."""
    before = job.facts.domain.metadata if job.facts.domain else None
    if before is None or before.phase is not None:
        return  # leftovers of an earlier run stay marked
    with contextlib.suppress(FleetVirtError):
        domains.define(job.connection, f"define {job.name}", job.original)


def _destroy(job: _PurgeJob, _step: Destroy) -> None:
    try:
        job.connection.call(
            f"destroy {job.name}", job.require_dom().destroy, seconds=_DESTROY_SECONDS
        )
    except LibvirtFailure as error:
        if error.code != ERR_OPERATION_INVALID:  # it shut down by itself meanwhile
            raise
    job.destroyed = True


def _look_again(job: _PurgeJob, _step: LookAgain) -> None:
    """Plan again, now that the domain cannot be started; raise PlanRefused if that differs."""
    stopped = dataclasses.replace(
        job.settings, options=dataclasses.replace(job.settings.options, force=False)
    )
    references = ownership.read(job.connection)
    _domain, removals = _look(job.connection, job.require_dom(), stopped, references, job.me)
    if removals.problems:
        raise PlanRefused("; ".join(removals.problems))
    if (removals.removed, removals.kept) != (job.removals.removed, job.removals.kept):
        raise PlanRefused(f"what belongs to {job.name!r} changed meanwhile; try again")
    job.removals = removals
    # before its disks: a card without a VM would take its name, one with it is written again
    job.keep_cards()


def _forget_memory(job: _PurgeJob, _step: ForgetMemory) -> None:
    what = f"remove {job.name}'s saved memory"
    job.connection.call(what, job.require_dom().managedSaveRemove, 0)


def _remove_log(_job: _PurgeJob, step: RemoveLog) -> None:
    for item in step.removed:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(str(item.path))


def _remove_volume(job: _PurgeJob, step: RemoveVolume) -> None:
    volumes = {volume.path: volume for volume in job.removals.volumes}
    for item in step.removed:
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


def _undefine(job: _PurgeJob, step: Undefine) -> None:
    connection = job.connection
    own_nvram = any(item.kind == "nvram" for item in step.removed)
    domains.undefine(connection, job.require_dom(), keep_nvram=not own_nvram)
    if find_domain(connection, job.name) is not None:
        raise PlanRefused(f"{job.name!r} still exists, although libvirt has undefined it")


_ACTIONS = (
    verb.Actions[_PurgeJob]()
    .on(Mark, _mark, _unmark)
    .on(Destroy, _destroy)
    .on(LookAgain, _look_again)
    .on(ForgetMemory, _forget_memory)
    .on(RemoveVolume, _remove_volume)
    .on(RemoveLog, _remove_log)
    .on(Undefine, _undefine)
)
