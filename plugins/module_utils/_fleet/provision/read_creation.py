# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Creating VMs, first half: the steps to do on this hypervisor, and what prevents them.

Nothing is changed here. Every problem of every VM of a batch is found before the first is changed.
"""

from __future__ import annotations

import dataclasses
import typing as t
import uuid as uuids

from ... import _lxml
from ..._errors import FleetVirtError, PlanRefused, error_message
from ..base import effects_config_files as config_files
from ..base.effects_lookup import find_domain, read_metadata
from ..base.metadata import Metadata
from ..cards import read_vms as cards
from ..daemon import consoles as daemon_consoles
from ..engine import effects_lease as lease
from ..engine import effects_lease_holder as owners
from ..engine.steps import Plan
from ..hosts import read_host_names
from ..hosts import read_secrets as secrets
from ..placement import demand
from ..seed import effects_nocloud as seed_nocloud
from ..spec.devices import Disk
from ..spec.domain import Domain, machine_problems
from ..storage import effects_storage as storage
from ..storage import host_names
from ..storage.host_names import HostName, HostNames
from . import effects_creation_definition as creation_definition
from . import plan_creation as creation
from . import read_fleet_cpu as fleet_cpu
from . import read_schema as schema
from .effects_batch import SEED_SUFFIX, AnyJob, CreationJob, DiskPlan, Draft, Host, ProvisionJob

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..base.metadata import Owner
    from .effects_batch import BatchSettings

_QEMU = "QEMU"
_QEMU_CONF = "/etc/libvirt/qemu.conf"


def prepare(host: Host, domains: t.Sequence[Domain], *, check: bool = False) -> list[AnyJob]:
    """Return a job for each VM; those with problems have failed, with every problem in ``msg``.

    Except in ``check`` mode, wait for other runs that are at work on one of them.
    """
    planned = [_planned(host, domain, check) for domain in domains]
    busy = [domain.name for domain, job in zip(domains, planned) if job is None]
    if busy:
        observe = host.settings.observe
        dead = lease.wait_for_others(host.connection, busy, observe=observe)
        planned = [
            job or _planned(host, domain, check, dead) for domain, job in zip(domains, planned)
        ]
    jobs = [job for job in planned if job is not None]
    left = [job for job in jobs if not job.problem]
    _require_distinct([job for job in left if isinstance(job, CreationJob)])
    left = [job for job in left if not job.problem]
    new = [job for job in left if isinstance(job, CreationJob) and job.uuid is None]
    if new:
        # what was claimed before needs no room: finishing it reads and imports less
        from . import read_capacity as creation_capacity

        creation_capacity.place(host, new)
    if any(job.existed and job.has_work for job in left):
        from . import effects_changing as changing

        changes = [job for job in left if isinstance(job, changing.ChangeJob) and job.has_work]
        no_room = changing.require_room(host, changes)
        for job in changes:
            if job.name in no_room:
                job.fail(f"{job.name!r} cannot be changed this way: {no_room[job.name]}")
    return jobs


def _planned(
    host: Host, domain: Domain, check: bool, dead: t.Mapping[str, Owner] | None = None
) -> AnyJob | None:
    """Plan one VM; None if a run is at work on it that must be waited for first.

    ``dead`` are owners, by name, that were waited for and are dead.
    """
    job = ProvisionJob[None](host.connection, domain.name, None, None, Plan(), host, domain)
    try:
        return _read(job, check, dead)
    except Exception as error:
        job.fail(error_message(error))
        return job


def _read(
    job: ProvisionJob[None], check: bool, dead: t.Mapping[str, Owner] | None
) -> AnyJob | None:
    host, settings = job.host, job.host.settings
    new = fleet_cpu.given(host, job.domain)
    dom = find_domain(host.connection, job.name)
    if dom is None:
        return _creation(job, new, creation.CreationFacts(job.name))
    stored = read_metadata(host.connection, dom)
    facts = _facts(dom, stored, settings, dead or {}, observed=check)
    wanted = creation.CreationRequest(new, settings.run, settings.home, Metadata())
    if dead is None and not check and creation.waits(facts, wanted):
        return None
    job.uuid = facts.uuid
    plan = creation.plan(facts, wanted)
    if plan.refusals:
        raise PlanRefused("; ".join(plan.refusals))
    if not plan.steps and stored is not None:
        job.existed = True
        return _changing(job, dom, stored)
    if stored is not None and plan.steps[0].stage == creation.CLEAR:
        from . import effects_creation_rest as creation_rest  # few runs die

        facts = dataclasses.replace(facts, stays=creation_rest.stays(host, dom, stored))
    return _creation(job, new, facts)


def _facts(
    dom: VirDomain,
    stored: Metadata | None,
    settings: BatchSettings,
    dead: t.Mapping[str, Owner],
    *,
    observed: bool,
) -> creation.CreationFacts:
    """The current domain; ``observed``: a claim that no process holds counts as a dead run's."""
    name = str(dom.name())
    owner = stored.owner if stored is not None else None
    own = stored is not None and creation.is_own(stored, settings.run)
    at_work = False
    if owner is not None and not own and dead.get(name) != owner:
        at_work = owners.is_alive(owner) if observed else lease.may_be_at_work(owner)
    holder = owners.holder(owner) if at_work else None
    return creation.CreationFacts(name, str(dom.UUIDString()), stored, at_work, holder)


def _changing(job: ProvisionJob[None], dom: VirDomain, stored: Metadata) -> AnyJob:
    """Plan the changes of a VM that exists."""
    from . import effects_changing as changing  # a VM that is new needs none of it

    change = changing.look(job.host, dom, stored, job.domain)
    change.waits = change.waiting()
    exists = f"{job.name!r} exists on {job.host.settings.home} and"
    if change.plan.refusals:
        change.fail(f"{exists} cannot be changed this way: {'; '.join(change.plan.refusals)}")
    elif change.power.refusals:
        reasons = "; ".join(change.power.refusals)
        change.fail(f"{exists} cannot be started, as its request says: {reasons}")
    elif change.has_work and not job.host.settings.converge:
        differences = [*change.differences, *filter(None, [change.power.text])]
        change.fail(
            f"{exists} differs: {'; '.join(differences)}. It is left as it is, because"
            " virt_converge is false"
        )
    return change


def _open_screen(domain: Domain) -> list[str]:
    """Problems of a screen that other machines could reach."""
    console = domain.console
    if not daemon_consoles.is_open(console.type, console.listen):
        return []
    try:
        text = config_files.read(_QEMU_CONF) or ""
        daemon_consoles.require_tls(console.type, console.listen, text)
    except PlanRefused as error:
        return [str(error)]
    return []


def _creation(
    job: ProvisionJob[None], domain: Domain, facts: creation.CreationFacts
) -> CreationJob:
    """Plan the volumes of ``domain`` and the steps to create it here."""
    host, draft = job.host, Draft(domain)
    settings = host.settings
    problems: list[str] = []
    sizes, wrong = demand.disk_sizes(domain, settings.facts)
    problems += [str(problem) for problem in wrong]
    for disk in domain.disks:
        if disk.device != "disk" or disk.exists:
            continue
        try:
            pool = host.pool(disk.pool)
        except FleetVirtError as error:
            problems.append(f"disk {disk.name!r}: {error}")
            continue
        base = settings.images.get(disk.image.value) if disk.image else None
        name = domain.volume_name(disk)
        draft.disks.append(DiskPlan(disk, disk.pool, pool, name, sizes[disk.name], base))
    written = domain.seed is not None and domain.seed.method == "offline"
    if written:
        from ..seed import effects_guest_disk as guest_disk

        guest_disk.require()
        seed_nocloud.require_keys()
    elif domain.seed is not None and draft.disks:
        medium = Disk(name="seed", format="raw", device="cdrom", bus="scsi", readonly=True)
        first = draft.disks[0]
        name = f"{domain.name}{SEED_SUFFIX}"
        draft.seed = DiskPlan(medium, first.key, first.pool, name, 0, None)
        seed_nocloud.require_programs()
    problems += _sources(host, draft, job.uuid)
    machine = host.machine(domain)
    if machine is None:
        problems.append(
            f"QEMU on {settings.home} does not support machine type {domain.machine!r}"
            if domain.machine
            else f"QEMU on {settings.home} has none of the usual machine types"
        )
    else:
        unsupported = machine_problems(domain, machine=machine, arch=host.arch)
        problems += [str(problem) for problem in unsupported]
    if facts.uuid is None:
        taken = [
            volume
            for volume in draft.volumes
            if storage.is_taken(host.connection, volume.pool, volume.volume)
        ]
        facts = dataclasses.replace(facts, taken=tuple(volume.path for volume in taken))
        folders = [volume.pool.path for volume in draft.volumes]
        problems += cards.taken(host.connection, folders, domain.name)
    wanted = _wanted(host, draft)
    plan = creation.plan(facts, wanted)
    problems += plan.refusals
    if problems:
        raise PlanRefused("; ".join(problems))
    _require_valid(host, draft, job.uuid)
    if domain.seed is not None and draft.disks:
        draft.seeded = {**seed_nocloud.CHOSEN, "method": domain.seed.method}
    created = CreationJob(job.connection, job.name, job.uuid, facts, plan, host, domain, draft)
    created.texts = creation.texts(facts, wanted)
    created.cpu = f"CPU {wanted.fleet_cpu} of virt_cpu" if wanted.fleet_cpu else None
    return created


def _wanted(host: Host, draft: Draft) -> creation.CreationRequest:
    final = creation_definition.metadata_of(host, draft, None, None)
    own = {volume.path: volume for volume in final.volumes}
    return creation.CreationRequest(
        draft.domain,
        host.settings.run,
        host.settings.home,
        final,
        tuple(own[plan.path] for plan in draft.disks),
        own[draft.seed.path] if draft.seed else None,
        fleet_cpu.told(host, draft.domain),
    )


def _sources(host: Host, draft: Draft, uuid: str | None) -> list[str]:
    """Problems of its screen and CPU, of encrypted disks, and of existing disks that the VM does
    not own."""
    problems, disks = _open_screen(draft.domain), draft.domain.disks
    if fleet_cpu.told(host, draft.domain):
        problems += fleet_cpu.problems(host, draft.domain)
    if any(disk.encryption_secret for disk in disks):
        problems += secrets.problems(host.connection, host.settings.home, disks)
    if any(disk.exists for disk in disks):
        from . import read_sources as sources  # few VMs have one

        problems += sources.problems(host, disks, uuid)
    return problems


def _require_cell(host: Host, draft: Draft, uuid: str | None) -> None:
    from ..cell import read_requirements as cell_requirements  # few VMs are of a cell

    text = creation_definition.final_xml(host, draft, uuid or str(uuids.uuid4()), None)
    bases = [plan.base.path for plan in draft.disks if plan.base and plan.disk.overlay]
    name = draft.domain.name
    problem = cell_requirements.problem(host.connection, name, text, bases=bases)
    if problem is not None:
        raise PlanRefused(problem)


def _require_names(host: Host, draft: Draft, uuid: str | None) -> None:
    """Raise PlanRefused for what the definition names of this hypervisor and is not there. Its
    disks, networks and what placement asks for have been looked at."""
    if host.connection.conn.getType() != _QEMU:
        return
    text = creation_definition.final_xml(host, draft, uuid or str(uuids.uuid4()), None)
    named = host_names.of_definition(_lxml.parse(text, f"domain {draft.domain.name}")).beside()
    if not draft.domain.start:  # a port is taken when it starts
        named = tuple(name for name in named if name.kind != host_names.PORT)
    kinds = (host_names.PORT, *([host_names.VSOCK_ID] if draft.domain.start else []))
    draft.fixed = tuple(name for name in named if name.kind in kinds)
    missing = read_host_names.missing(host.connection, HostNames(named))
    if missing:
        raise PlanRefused(
            f"{draft.domain.name!r} names what {host.settings.home} lacks: {'; '.join(missing)}"
        )


def _require_distinct(jobs: t.Sequence[CreationJob]) -> None:
    """Have those fail that are to run with the fixed port or ID of another of the batch: none of
    them runs yet, so nothing else sees it."""
    taken: list[tuple[str, HostName]] = []
    for job in jobs:
        for name in job.draft.fixed:
            other = next((vm for vm, theirs in taken if host_names.collide(name, theirs)), None)
            if other is not None and not job.problem:
                job.fail(
                    f"{job.name!r} would have {name.kind} {name.value.rpartition(':')[2]} of"
                    f" {name.use}, which {other!r} has that is made with it on"
                    f" {job.host.settings.home}; give it another, or let libvirt choose"
                )
        if not job.problem:
            taken += [(job.name, name) for name in job.draft.fixed]


def _require_valid(host: Host, draft: Draft, uuid: str | None) -> None:
    _require_names(host, draft, uuid)
    if draft.domain.ha:
        _require_cell(host, draft, uuid)
    leftovers = host.settings.leftovers
    if draft.domain.xml is None and leftovers is None:
        return
    whose = f"the fragment xml of {draft.domain.name!r}"
    if leftovers is not None:
        whose = f"what {draft.domain.name!r} has of {host.settings.clone_of!r} beside its settings"
    uuid = uuid or str(uuids.uuid4())
    schema.require_valid(whose, creation_definition.final_xml(host, draft, uuid, None))
