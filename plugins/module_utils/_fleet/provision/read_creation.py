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

from ..._errors import FleetVirtError, PlanRefused, error_message
from ..base.effects_lookup import find_domain, read_metadata
from ..base.json_values import require_type
from ..base.metadata import Metadata
from ..daemon import consoles as daemon_consoles
from ..engine import effects_lease_holder as owners
from ..placement import demand
from ..seed import effects_nocloud as seed_nocloud
from ..spec.devices import Disk
from ..spec.domain import Domain, machine_problems
from ..storage import effects_storage as storage
from . import effects_creation_definition as creation_definition
from . import plan_creation as creation
from .effects_batch import SEED_SUFFIX, DiskPlan, Host, ProvisionJob

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..base.metadata import Owner
    from .effects_batch import BatchSettings

_QEMU_CONF = "/etc/libvirt/qemu.conf"


def prepare(host: Host, domains: t.Sequence[Domain], *, check: bool = False) -> list[ProvisionJob]:
    """Return a job for each VM; those with problems have failed, with every problem in ``msg``.

    Except in ``check`` mode, wait for other runs that are at work on one of them.
    """
    jobs = [ProvisionJob(domain) for domain in domains]
    busy = [job for job in jobs if _is_busy(host, job, check)]
    if busy:
        from ..engine import effects_lease as lease  # as most names are free

        dead = lease.wait_for_others(
            host.connection,
            [job.domain.name for job in busy],
            observe=host.settings.observe,
        )
        for job in busy:
            _is_busy(host, job, check, dead)
    new = [job for job in jobs if job.state == "new" and job.uuid is None]
    if new:
        # what was claimed before needs no room: finishing it reads and imports less
        from . import read_capacity as creation_capacity

        creation_capacity.place(host, new)
    changes = {job.domain.name: job for job in jobs if job.state == "change"}
    if changes:
        from . import effects_changing as changing

        changed = [require_type(job.change, changing.VmChange) for job in changes.values()]
        for name, reason in changing.require_room(host, changed).items():
            changes[name].fail(f"{name!r} cannot be changed this way: {reason}")
    return jobs


def _is_busy(
    host: Host, job: ProvisionJob, check: bool, dead: t.Mapping[str, Owner] | None = None
) -> bool:
    """Plan one VM; True if a run is at work on it that must be waited for first.

    ``dead`` are owners, by name, that were waited for and are dead.
    """
    try:
        return _read(host, job, check, dead)
    except Exception as error:
        job.fail(error_message(error))
        return False


def _read(host: Host, job: ProvisionJob, check: bool, dead: t.Mapping[str, Owner] | None) -> bool:
    name, settings = job.domain.name, host.settings
    dom = find_domain(host.connection, name)
    if dom is None:
        job.facts = creation.CreationFacts(name)
        _plan(host, job)
        return False
    stored = read_metadata(host.connection, dom)
    facts = _facts(dom, stored, settings, dead or {}, observed=check)
    wanted = creation.CreationRequest(job.domain, settings.run, settings.home, Metadata())
    if dead is None and not check and creation.waits(facts, wanted):
        return True
    job.uuid = facts.uuid
    plan = creation.plan(facts, wanted)
    if plan.refusals:
        raise PlanRefused("; ".join(plan.refusals))
    if not plan.steps and stored is not None:
        _changing(host, job, dom, stored)
        return False
    if stored is not None and plan.steps[0].stage == creation.CLEAR:
        from . import effects_creation_rest as creation_rest  # few runs die

        facts = dataclasses.replace(facts, stays=creation_rest.stays(host, dom, stored))
    job.facts = facts
    _plan(host, job)
    return False


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
        from ..engine import effects_lease as lease

        at_work = owners.is_alive(owner) if observed else lease.may_be_at_work(owner)
    holder = owners.holder(owner) if at_work else None
    return creation.CreationFacts(name, str(dom.UUIDString()), stored, at_work, holder)


def _changing(host: Host, job: ProvisionJob, dom: VirDomain, stored: Metadata) -> None:
    """Plan the changes of a VM that exists."""
    from . import effects_changing as changing  # a VM that is new needs none of it

    name = job.domain.name
    job.existed = True
    change = changing.look(host, dom, stored, job.domain)
    job.waits = change.waits
    if change.converged.plan.refusals:
        raise PlanRefused(
            f"{name!r} exists on {host.settings.home} and cannot be changed this way:"
            f" {'; '.join(change.converged.plan.refusals)}"
        )
    job.power = change.power
    if change.power.refusals:
        raise PlanRefused(
            f"{name!r} exists on {host.settings.home} and cannot be started, as its request says:"
            f" {'; '.join(change.power.refusals)}"
        )
    texts = [*change.texts, *change.power.steps]
    if not texts:
        job.state = "same"
        return
    if not host.settings.converge:
        raise PlanRefused(
            f"{name!r} exists on {host.settings.home} and differs:"
            f" {'; '.join([*change.texts, *filter(None, [change.power.text])])}. It is"
            " left as it is, because virt_converge is false"
        )
    job.state, job.change, job.steps = "change", change, texts


def _open_screen(domain: Domain) -> list[str]:
    """Problems of a screen that other machines could reach."""
    console = domain.console
    if not daemon_consoles.is_open(console.type, console.listen):
        return []
    from ..base import effects_config_files as config_files

    try:
        text = config_files.read(_QEMU_CONF) or ""
        daemon_consoles.require_tls(console.type, console.listen, text)
    except PlanRefused as error:
        return [str(error)]
    return []


def _plan(host: Host, job: ProvisionJob) -> None:
    """Plan the VM's volumes and the steps to create it here."""
    facts = job.facts
    if facts is None:
        return
    domain, settings = job.domain, host.settings
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
        job.disks.append(DiskPlan(disk, disk.pool, pool, name, sizes[disk.name], base))
    written = domain.seed is not None and domain.seed.method == "offline"
    if written:
        from ..seed import effects_guest_disk as guest_disk

        guest_disk.require()
        seed_nocloud.require_keys()
    elif domain.seed is not None and job.disks:
        medium = Disk(name="seed", format="raw", device="cdrom", bus="scsi", readonly=True)
        first = job.disks[0]
        name = f"{domain.name}{SEED_SUFFIX}"
        job.seed = DiskPlan(medium, first.key, first.pool, name, 0, None)
        seed_nocloud.require_programs()
    problems += _open_screen(domain) + _sources(host, job)
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
            for volume in job.volumes
            if storage.is_taken(host.connection, volume.pool, volume.volume)
        ]
        facts = dataclasses.replace(facts, taken=tuple(volume.path for volume in taken))
    wanted = _wanted(host, job)
    job.plan = creation.plan(facts, wanted)
    problems += job.plan.refusals
    if problems:
        raise PlanRefused("; ".join(problems))
    _require_valid(host, job)
    if domain.seed is not None and job.disks:
        job.seeded = {**seed_nocloud.CHOSEN, "method": domain.seed.method}
    job.facts, job.steps = facts, creation.texts(facts, wanted)
    if facts.stored is not None and facts.stored.phase == creation.STARTING:
        job.state = "complete"


def _wanted(host: Host, job: ProvisionJob) -> creation.CreationRequest:
    final = creation_definition.metadata_of(host, job, None, None)
    own = {volume.path: volume for volume in final.volumes}
    return creation.CreationRequest(
        job.domain,
        host.settings.run,
        host.settings.home,
        final,
        tuple(own[plan.path] for plan in job.disks),
        own[job.seed.path] if job.seed else None,
    )


def _sources(host: Host, job: ProvisionJob) -> list[str]:
    """Problems of encrypted disks, and of existing disks that the VM does not own."""
    problems, disks = [], job.domain.disks
    if any(disk.encryption_secret for disk in disks):
        from ..hosts import read_secrets as secrets  # few VMs have one

        problems = secrets.problems(host.connection, host.settings.home, disks)
    if any(disk.exists for disk in disks):
        from . import read_sources as sources  # few VMs have one

        problems += sources.problems(host, disks, job.uuid)
    return problems


def _require_valid(host: Host, job: ProvisionJob) -> None:
    leftovers = host.settings.leftovers
    if job.domain.xml is None and leftovers is None:
        return
    from . import read_schema as schema  # few VMs have a fragment, or are copies

    draft = dataclasses.replace(job, uuid=job.uuid or str(uuids.uuid4()))
    whose = f"the fragment xml of {job.domain.name!r}"
    if leftovers is not None:
        whose = f"what {job.domain.name!r} has of {host.settings.clone_of!r} beside its settings"
    schema.require_valid(whose, creation_definition.final_xml(host, draft, None))
