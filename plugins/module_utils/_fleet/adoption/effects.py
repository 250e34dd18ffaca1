# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Adopting domains of a hypervisor: reading them, and writing our metadata.

Nothing of a domain is changed but our metadata, which are written in one call.
"""

from __future__ import annotations

import os
import stat
import typing as t
from collections.abc import Mapping

from ... import _lxml
from ..._errors import LibvirtFailure, PlanRefused
from ..._libvirt import DOMAIN_XML_INACTIVE
from ..._records import dataclass
from ..base import effects_deadline as deadline
from ..base import effects_lookup as lookup
from ..base import metadata
from ..base import read_file_identity as identity
from ..base.effects_connection import Connection
from ..base.effects_lookup import read_metadata, require_domains
from ..base.metadata import OwnVolume
from ..base.names import require_named
from ..base.selected import Selected
from ..base.states import reason_name, state_name
from ..engine import effects_lease_holder as owners
from ..engine import effects_verb as verb
from ..hosts import domain_info, host_info
from ..hosts import read_placement_facts as placement_facts
from ..migration.read import job_of
from ..storage import read_file_users as ownership
from ..storage.read_file_users import PoolPlace, References
from . import export as described
from . import plan as adopt_plan
from .facts import AdoptLook
from .plan import Adopt, AdoptionDisk, AdoptionFacts, AdoptionOptions, Kept

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
class _AdoptionJob(verb.Job[AdoptionFacts]):
    """One domain, the disks that become its own, and those that do not."""

    own: list[OwnVolume]
    kept: list[Kept]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not adopt_plan.is_candidate(self.facts.stored):
            self.note = "created by this collection, so there is nothing to adopt"

    def entry(self) -> verb.Shown:
        return {
            "specification": self.facts.description.options,
            "undescribed": list(self.facts.description.left),
            "owned": self._owned(),
            "kept": [dict(vars(disk)) for disk in self.kept],
        }

    def shown(self) -> tuple[verb.Shown, verb.Shown]:
        stored = self.facts.stored
        before = {"managed": stored is not None and stored.made_here, "own disks": self._before()}
        return before, {"managed": True, "own disks": self._owned()}

    def _before(self) -> list[str]:
        stored = self.facts.stored.volumes if self.facts.stored else ()
        return [volume.path for volume in stored if volume.role == "disk"]

    def _owned(self) -> list[str]:
        """The disks that it owns in the end."""
        new = [] if self.plan.refusals else [volume.path for volume in self.own]
        return [*self._before(), *new]


def run(
    connection: Connection,
    names: t.Sequence[str],
    pool: str,
    options: AdoptionOptions,
    *,
    check: bool,
) -> dict[str, object]:
    """Adopt ``names``, or without any all candidates; the module's result."""
    require_named(names)
    _require_local(connection)

    def planned() -> list[_AdoptionJob]:
        host_facts = _host_facts(connection, pool, options)
        return [_plan(connection, dom, host_facts, options) for dom in _meant(connection, names)]

    return verb.run(connection, names, planned, _ACTIONS.carry_out, check=check, together=False)


def look(connection: Connection, names: t.Sequence[str], pool: str) -> AdoptLook:
    """The domains of ``names``, names or patterns, with their specifications, and what other
    hypervisors must know of this one. Changes nothing."""
    _require_local(connection)
    options = AdoptionOptions()
    host_facts = _host_facts(connection, pool, options)
    selected = Selected.of(names)
    known = [dom for dom in _listed(connection) if not names or selected.takes(str(dom.name()))]
    jobs = [
        _plan(connection, dom, host_facts, options)
        for dom in known
        if str(dom.name()) in names or adopt_plan.is_candidate(read_metadata(connection, dom))
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
                # a run that is at work on it is waited for, once this has been decided
                "problems": adopt_plan.lasting_refusals(job.facts),
                "carried": job.facts.description.leftovers.carried,
                "refused": list(job.facts.description.leftovers.refused),
                "left_out": list(job.facts.description.leftovers.left_out),
            }
            for job in jobs
        ],
        "defined": [
            {
                "name": vm["name"],
                "uuid": vm["uuid"],
                "phase": vm["phase"],
                "macs": vm["macs"],
                "leftover": vm.get("leftover"),
            }
            for vm in placement_facts.defined(connection)
        ],
        "pool_ids": sorted(
            place.id for place in ownership.read_pools(connection).values() if place.id is not None
        ),
    }


def _require_local(connection: Connection) -> None:
    verb.require_local(connection, "the owner of a file is known only where it is stored")


def _listed(connection: Connection) -> list[VirDomain]:
    return sorted(lookup.list_domains(connection), key=lambda dom: str(dom.name()))


def _meant(connection: Connection, names: t.Sequence[str]) -> list[VirDomain]:
    if names:
        return list(require_domains(connection, names).values())
    return [
        dom
        for dom in _listed(connection)
        if adopt_plan.is_candidate(read_metadata(connection, dom))
    ]


def _host_facts(connection: Connection, pool: str, options: AdoptionOptions) -> _HostFacts:
    capabilities = host_info.capabilities(
        connection.call("read capabilities", connection.conn.getCapabilities)
    )
    kind = "kvm" if "kvm" in capabilities["domain_types"] else "qemu"
    references = ownership.read(connection) if options.disks else None
    pools = references.pools if references else ownership.read_pools(connection, look=False)
    return _HostFacts(described.Host(str(capabilities["arch"]), kind, pool), pools, references)


def _plan(
    connection: Connection, dom: VirDomain, host_facts: _HostFacts, options: AdoptionOptions
) -> _AdoptionJob:
    facts = _read(connection, dom, host_facts)
    plan, disks = adopt_plan.plan(facts, options), adopt_plan.sort_disks(facts, options)
    return _AdoptionJob(connection, facts.name, facts.uuid, facts, plan, *disks)


def _read(connection: Connection, dom: VirDomain, host_facts: _HostFacts) -> AdoptionFacts:
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
    return AdoptionFacts(
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


def _disks(
    disks: t.Sequence[DiskEntry], uuid: str, references: References
) -> tuple[AdoptionDisk, ...]:
    def look() -> tuple[AdoptionDisk, ...]:
        return tuple(_disk(disk, uuid, references) for disk in disks if disk["source"])

    return deadline.call(look, seconds=_LOOK_SECONDS, what="look at the disks")


def _disk(entry: DiskEntry, uuid: str, references: References) -> AdoptionDisk:
    path = str(entry["source"])
    if entry["type"] != "file" or not path.startswith("/"):
        return AdoptionDisk(str(entry["target"]), None, entry["device"])
    pool = ownership.pool_of(path, references.pools)
    kind, links = _kind(path)
    return AdoptionDisk(
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


def _adopt(job: _AdoptionJob, adopt: Adopt) -> None:
    """Write the planned metadata, if the domain's are still those that the plan was based on."""
    connection, facts = job.connection, job.facts
    with owners.host_lock():
        dom = lookup.find_domain(connection, facts.name)
        if dom is None or str(dom.UUIDString()) != facts.uuid:
            raise PlanRefused(f"{facts.name!r} was removed or replaced meanwhile; try again")
        if read_metadata(connection, dom) != facts.stored:
            raise PlanRefused(f"{facts.name!r} was changed by another run meanwhile; try again")
        active = bool(connection.call(f"read the state of {facts.name}", dom.isActive))
        flags = lookup.AFFECT_CONFIG | (lookup.AFFECT_LIVE if active else 0)
        lookup.write_metadata(connection, dom, adopt.ours, flags)


_ACTIONS = verb.Actions[_AdoptionJob]().on(Adopt, _adopt)
