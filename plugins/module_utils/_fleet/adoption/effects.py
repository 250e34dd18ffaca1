# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Adopting domains of a hypervisor: reading them, and writing our metadata.

Nothing of a domain is changed but our metadata, which are written in one call.
"""

from __future__ import annotations

import json
import os
import stat
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field

from ... import _lxml
from ..._errors import LibvirtFailure, PlanRefused, error_message
from ..._libvirt import DOMAIN_XML_INACTIVE
from ..base import effects_deadline as deadline
from ..base import effects_lookup as lookup
from ..base import metadata
from ..base import read_file_identity as identity
from ..base.effects_connection import Connection
from ..base.effects_lookup import read_metadata, require_domains
from ..base.metadata import Metadata, OwnVolume
from ..base.names import require_named
from ..base.states import reason_name, state_name
from ..engine import effects_executor as executor
from ..engine import effects_lease as lease
from ..engine import effects_lease_holder as owners
from ..engine.effects_executor import Turns
from ..engine.steps import Plan, Step
from ..hosts import domain_info, host_info
from ..hosts import read_placement_facts as placement_facts
from ..migration.read import job_of
from ..storage import read_file_users as ownership
from ..storage.read_file_users import PoolPlace, References
from . import export as described
from . import plan as adopt_plan
from .plan import Disk, Facts, Kept, Options

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..base.snapshot import DiskEntry

_LOOK_SECONDS = 60.0


@dataclass(frozen=True)
class _HostFacts:
    """What is read once for all domains of the hypervisor."""

    host: described.Host
    pools: Mapping[str, PoolPlace]
    references: References | None


@dataclass
class _Job:
    """One domain and its result."""

    connection: Connection
    dom: VirDomain
    facts: Facts
    options: Options
    plan: Plan[Facts]
    done: bool = False
    msg: str | None = None
    own: list[OwnVolume] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)

    def do(self, step: Step[Facts]) -> Turns:
        yield from ()
        _mark(self, step)
        self.done = True

    def undo(self, step: Step[Facts]) -> None:
        """Do nothing: the only step is the last."""

    def finish(self) -> None:
        """Do nothing: libvirt has confirmed the write."""


def run(
    connection: Connection, names: t.Sequence[str], pool: str, options: Options, *, check: bool
) -> dict[str, object]:
    """Adopt ``names``, or without any all candidates; the module's result."""
    require_named(names)
    _require_local(connection)
    if not check:
        lease.wait_for_others(connection, names)
    jobs = [
        _plan(connection, dom, host_facts, options)
        for host_facts in [_host_facts(connection, pool, options)]
        for dom in _meant(connection, names)
    ]
    if check:
        for job in jobs:
            job.done = bool(job.plan.steps)
    else:
        runs = [executor.Run(job.plan.steps, job) for job in jobs]
        executor.carry_out(runs)
        for job, done in zip(jobs, runs):
            job.msg = error_message(done.problem) if done.problem is not None else job.msg
    return _result(jobs)


def look(connection: Connection, names: t.Sequence[str], pool: str) -> dict[str, object]:
    """The selected domains with their specifications, and what other hypervisors must know of this
    one. Changes nothing."""
    _require_local(connection)
    options = Options()
    host_facts = _host_facts(connection, pool, options)
    known = [dom for dom in _listed(connection) if not names or str(dom.name()) in names]
    jobs = [
        _plan(connection, dom, host_facts, options)
        for dom in known
        if names or adopt_plan.is_candidate(read_metadata(connection, dom))
    ]
    return {
        "changed": False,
        "vms": [
            {
                "name": job.facts.name,
                "uuid": job.facts.uuid,
                "phase": job.facts.stored.phase if job.facts.stored else None,
                "candidate": adopt_plan.is_candidate(job.facts.stored),
                "specification": job.facts.description.options,
                "problems": list(job.plan.refusals),
                "carried": job.facts.description.leftovers.carried,
                "refused": list(job.facts.description.leftovers.refused),
            }
            for job in jobs
        ],
        "defined": [
            {key: vm[key] for key in ("name", "uuid", "macs", "phase")}
            for vm in placement_facts.defined(connection)
        ],
        "pool_ids": sorted(
            place.id for place in ownership.read_pools(connection).values() if place.id is not None
        ),
    }


def _require_local(connection: Connection) -> None:
    if not connection.local:
        raise PlanRefused(
            f"{connection.uri} is not this machine's hypervisor, and the owner of a file is known"
            " only where it is stored: run this on the hypervisor itself, with uri qemu:///system"
        )


def _listed(connection: Connection) -> list[VirDomain]:
    domains = connection.call("list domains", connection.conn.listAllDomains, 0)
    return sorted(domains, key=lambda dom: str(dom.name()))


def _meant(connection: Connection, names: t.Sequence[str]) -> list[VirDomain]:
    if names:
        return list(require_domains(connection, names).values())
    return [
        dom
        for dom in _listed(connection)
        if adopt_plan.is_candidate(read_metadata(connection, dom))
    ]


def _host_facts(connection: Connection, pool: str, options: Options) -> _HostFacts:
    capabilities = host_info.capabilities(
        connection.call("read capabilities", connection.conn.getCapabilities)
    )
    kind = "kvm" if "kvm" in capabilities["domain_types"] else "qemu"
    references = ownership.read(connection) if options.disks else None
    pools = references.pools if references else ownership.read_pools(connection, look=False)
    return _HostFacts(described.Host(str(capabilities["arch"]), kind, pool), pools, references)


def _plan(connection: Connection, dom: VirDomain, host_facts: _HostFacts, options: Options) -> _Job:
    facts = _read(connection, dom, host_facts)
    job = _Job(connection, dom, facts, options, adopt_plan.plan(facts, options))
    job.msg = "; ".join(job.plan.refusals) or None
    job.own, job.kept = adopt_plan.sort_disks(facts, options)
    return job


def _read(connection: Connection, dom: VirDomain, host_facts: _HostFacts) -> Facts:
    name = str(dom.name())

    def ask() -> tuple[str, str, bool, bool, int, int]:
        active, persistent = bool(dom.isActive()), bool(dom.isPersistent())
        number, reason = dom.state(0)[:2]
        return (
            dom.XMLDesc(DOMAIN_XML_INACTIVE),
            dom.XMLDesc(0) if active else "",
            active,
            persistent,
            number,
            reason,
        )

    text, live, active, persistent, number, reason = connection.call(f"read domain {name}", ask)
    state = state_name(number)
    stored = metadata.parse(_lxml.parse(text, f"domain {name}"))
    disks = domain_info.parse(text, f"domain {name}")["disks"]
    definition = described.DefinedDomain(
        name=name,
        xml=text,
        active=active,
        autostart=persistent and bool(connection.call("read autostart", dom.autostart)),
        groups=stored.groups if stored else (),
        sizes=_sizes(connection, dom, disks),
        pools=_pools(disks, host_facts.pools),
    )
    uuid = str(dom.UUIDString())
    return Facts(
        name=name,
        uuid=uuid,
        persistent=persistent,
        active=active,
        state=state,
        reason=str(reason_name(state, reason)),
        stored=stored,
        live=metadata.parse(_lxml.parse(live, f"domain {name}")) if live else None,
        description=described.describe(definition, host_facts.host),
        holder=owners.holder(stored.owner) if stored is not None else None,
        job=job_of(connection, dom) if active else None,
        disks=_disks(disks, uuid, host_facts.references) if host_facts.references else (),
    )


def _sizes(connection: Connection, dom: VirDomain, disks: t.Sequence[DiskEntry]) -> dict[str, int]:
    """Bytes by target; without disks whose file does not exist."""
    sizes_mib = {}
    for disk in disks:
        target, source = disk["target"], disk["source"]
        if target is None or source is None or disk["device"] != "disk":
            continue
        try:
            sizes = connection.call(f"read disk {target} of {dom.name()}", dom.blockInfo, source, 0)
        except LibvirtFailure:
            continue  # so the disk is reported as not described
        sizes_mib[target] = int(sizes[0])
    return sizes_mib


def _pools(disks: t.Sequence[DiskEntry], pools: Mapping[str, PoolPlace]) -> dict[str, str]:
    def look() -> dict[str, str]:
        names = {}
        for disk in disks:
            pool = ownership.pool_of(str(disk["source"]), pools) if disk["source"] else None
            if pool is not None and disk["target"] is not None:
                names[disk["target"]] = pool.name
        return names

    return deadline.call(look, seconds=_LOOK_SECONDS, what="look for the disks' pools")


def _disks(disks: t.Sequence[DiskEntry], uuid: str, references: References) -> tuple[Disk, ...]:
    def look() -> tuple[Disk, ...]:
        return tuple(_disk(disk, uuid, references) for disk in disks if disk["source"])

    return deadline.call(look, seconds=_LOOK_SECONDS, what="look at the disks")


def _disk(entry: DiskEntry, uuid: str, references: References) -> Disk:
    path = str(entry["source"])
    if entry["type"] != "file" or not path.startswith("/"):
        return Disk(str(entry["target"]), None, entry["device"])
    pool = ownership.pool_of(path, references.pools)
    kind, links = _kind(path)
    return Disk(
        target=str(entry["target"]),
        path=path,
        device=entry["device"],
        readonly=entry["readonly"],
        shareable=entry["shareable"],
        pool=pool.name if pool else None,
        pool_id=pool.id if pool else None,
        name=os.path.basename(path),
        shared=pool.shared if pool else False,
        kind=kind,
        links=links,
        users=tuple(sorted({user.text for user in references.users(path) if user.uuid != uuid})),
        locked=kind == "file" and ownership.is_locked(path),
        made=identity.of_file(path) if kind == "file" else "",
    )


def _kind(path: str) -> tuple[str, int]:
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return "absent", 0
    if stat.S_ISLNK(status.st_mode):
        return "link", status.st_nlink
    return "file" if stat.S_ISREG(status.st_mode) else "other", status.st_nlink


def _mark(job: _Job, step: Step[Facts]) -> None:
    """Write the planned metadata, if the domain's are still those that the plan was based on."""
    connection, facts = job.connection, job.facts
    ours: Metadata = t.cast("Metadata", step.payload)
    with owners.host_lock():
        dom = lookup.find_domain(connection, facts.name)
        if dom is None or str(dom.UUIDString()) != facts.uuid:
            raise PlanRefused(f"{facts.name!r} was removed or replaced meanwhile; try again")
        if read_metadata(connection, dom) != facts.stored:
            raise PlanRefused(f"{facts.name!r} was changed by another run meanwhile; try again")
        active = bool(connection.call(f"read the state of {facts.name}", dom.isActive))
        flags = lookup.AFFECT_CONFIG | (lookup.AFFECT_LIVE if active else 0)
        lookup.write_metadata(connection, dom, ours, flags)


def _result(jobs: t.Sequence[_Job]) -> dict[str, object]:
    failed = [job for job in jobs if job.msg is not None]
    vms = [
        {
            "name": job.facts.name,
            "uuid": job.facts.uuid,
            "specification": job.facts.description.options,
            "undescribed": list(job.facts.description.left),
            "owned": _owned(job),
            "kept": [dict(vars(disk)) for disk in job.kept],
            "changed": job.done,
            "failed": job.msg is not None,
            "msg": job.msg if job.msg is not None else _note(job),
        }
        for job in jobs
    ]
    result: dict[str, object] = {
        "changed": any(job.done for job in jobs),
        "vms": vms,
        "diff": [_diff(job) for job in jobs if job.done],
    }
    if failed:
        result["failed"] = True
        result["msg"] = "; ".join(str(job.msg) for job in failed)
    return result


def _owned(job: _Job) -> list[str]:
    """The disks that it owns in the end."""
    stored = job.facts.stored.volumes if job.facts.stored else ()
    before = [volume.path for volume in stored if volume.role == "disk"]
    return before if job.plan.refusals else [*before, *(volume.path for volume in job.own)]


def _note(job: _Job) -> str | None:
    if adopt_plan.is_candidate(job.facts.stored):
        return None
    return "created by this collection, so there is nothing to adopt"


def _diff(job: _Job) -> dict[str, str]:
    stored = job.facts.stored
    before = {
        "managed": stored is not None and stored.made_here,
        "own disks": [volume.path for volume in stored.volumes if volume.role == "disk"]
        if stored
        else [],
    }
    after = {"managed": True, "own disks": _owned(job)}
    return {
        "before_header": job.facts.name,
        "after_header": job.facts.name,
        "before": json.dumps(before, indent=1) + "\n",
        "after": json.dumps(after, indent=1) + "\n",
    }
