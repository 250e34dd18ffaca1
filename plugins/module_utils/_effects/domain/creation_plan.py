# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Creating VMs, first half: what is to be done on this hypervisor, and what speaks against it.

Nothing is changed here. Every problem of every VM of a batch is found before the first is touched.

This file is private to the collection.
"""

from __future__ import annotations

import dataclasses
import typing as t
import uuid as uuids

from ..._errors import FleetVirtError, PlanRefused, told
from ..._pure.domain import request
from ..._pure.domain.devices import Disk
from ..._pure.domain.domain import Domain, machine_problems
from ..._pure.hypervisor import daemon_consoles
from ..._pure.placement import demand
from ..base import config_files
from ..base import owner as owners
from ..base.lookup import find_domain, kept_metadata
from ..machine import storage
from ..plan import lease
from ..seed import nocloud as seed_nocloud
from .creation_types import SEED_SUFFIX, DiskPlan, Host, Job

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..._pure.base.metadata import Metadata
    from . import changing

_QEMU_CONF = "/etc/libvirt/qemu.conf"


def prepare(host: Host, domains: t.Sequence[Domain], *, check: bool = False) -> list[Job]:
    """A job for each VM; those with problems are failed, with every problem in ``msg``.

    Unless only ``check`` is asked for, a run that is changing one of them is waited for.
    """
    jobs = [Job(domain) for domain in domains]
    for job in jobs:
        try:
            _existing(host, job, check)
            if job.state == "new":
                _plan(host, job)
        except Exception as error:
            job.fail(told(error))
    new = [job for job in jobs if job.state == "new"]
    if new:
        # what was claimed before needs no room: finishing it reads and imports less
        from . import creation_capacity

        creation_capacity.place(host, new)
    changes = {job.domain.name: job for job in jobs if job.state == "change"}
    if changes:
        from . import changing

        found = [t.cast("changing.Change", job.change) for job in changes.values()]
        for name, reason in changing.require_room(host, found).items():
            changes[name].fail(f"{name!r} cannot be changed so: {reason}")
    return jobs


def _existing(host: Host, job: Job, check: bool) -> None:
    """Compare with a VM of that name that is defined here already."""
    raw = find_domain(host.connection, job.domain.name)
    if raw is None:
        return
    job.uuid = str(raw.UUIDString())
    kept = kept_metadata(host.connection, raw)
    if kept is None or kept.request is None:
        raise PlanRefused(
            f"a domain {job.domain.name!r} is defined on {host.settings.home} already and was not"
            " made by this collection; choose another name"
        )
    if kept.phase == "changing" and owners.is_alive(kept.owner) and not check:
        lease.wait_for_others(host.connection, [job.domain.name])
        kept = kept_metadata(host.connection, raw) or kept
    if kept.phase not in (None, "changing"):
        different = request.differences(kept.request, job.domain)
        if kept.phase not in ("creating", "starting"):
            raise PlanRefused(f"{job.domain.name!r} is in phase {kept.phase}; finish that first")
        if different:
            raise PlanRefused(
                f"{job.domain.name!r} is being created by another request"
                f" ({'; '.join(different)}); if that run is dead, remove the rest with virt_purge"
            )
        mine = kept.owner is not None and kept.owner.run == host.settings.run
        job.state = "mine" if mine else "half"
        job.whole = kept.phase == "starting"
        _plan(host, job, taken_ok=True)
        if job.whole:
            job.steps = ["start"]
        return
    if kept.phase is not None and owners.is_alive(kept.owner):
        pid = kept.owner.pid if kept.owner else 0
        raise PlanRefused(
            f"{job.domain.name!r} is being changed by a run on this host (process {pid}); wait for"
            " it and try again"
        )
    _changing(host, job, raw, kept)


def _changing(host: Host, job: Job, raw: VirDomain, kept: Metadata) -> None:
    """What is to be changed of a VM that is there."""
    from . import changing  # a VM that is new needs none of it

    name = job.domain.name
    job.existed = True
    change = changing.look(host, raw, kept, job.domain)
    job.waits = change.waits
    if change.converged.plan.refusals:
        raise PlanRefused(
            f"{name!r} exists on {host.settings.home} and cannot be changed so:"
            f" {'; '.join(change.converged.plan.refusals)}"
        )
    if not change.converged.plan.steps:
        job.state = "same"
        return
    if not host.settings.converge:
        raise PlanRefused(
            f"{name!r} exists on {host.settings.home} and differs: {'; '.join(change.texts)}. It is"
            " left as it is, because virt_converge is false"
        )
    job.state, job.change, job.steps = "change", change, change.texts


def _open_screen(domain: Domain) -> list[str]:
    """What speaks against a screen that others than this hypervisor could reach."""
    console = domain.console
    if not daemon_consoles.is_open(console.type, console.listen):
        return []
    try:
        text = config_files.read(_QEMU_CONF) or ""
        daemon_consoles.require_tls(console.type, console.listen, text)
    except PlanRefused as error:
        return [str(error)]
    return []


def _plan(host: Host, job: Job, taken_ok: bool = False) -> None:
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
        from ..seed import guest_disk

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
            f"machine type {domain.machine!r} is not known to qemu on {settings.home}"
            if domain.machine
            else f"{settings.home} has no machine type of the usual families"
        )
    else:
        found = machine_problems(domain, machine=machine, arch=host.arch)
        problems += [str(problem) for problem in found]
    for plan in [] if taken_ok else job.volumes:
        if storage.is_taken(host.connection, plan.pool, plan.volume):
            problems.append(
                f"{plan.path} is there already and is nobody's that this request knows;"
                " nothing is taken over: remove or rename it, or choose another name"
            )
    if problems:
        raise PlanRefused("; ".join(problems))
    _require_valid(host, job)
    if domain.seed is not None and job.disks:
        job.seeded = {**seed_nocloud.CHOSEN, "method": domain.seed.method}
    job.steps = [f"define {domain.name}"]
    for plan in job.volumes:
        if plan is job.seed and domain.seed is not None and domain.seed.method == "auto":
            job.steps.append(f"seed {domain.name}")  # which way, its disk tells
        else:
            job.steps.append(f"create {plan.pool.name}/{plan.volume}")
    if written:
        job.steps.append(f"write the seed into {domain.name}")
    if domain.autostart:
        job.steps.append("set autostart")
    if domain.start:
        job.steps.append("start")


def _sources(host: Host, job: Job) -> list[str]:
    """What speaks against the disks that exist and are not the VM's own."""
    if not any(disk.exists for disk in job.domain.disks):
        return []
    from . import sources  # few VMs have one

    return sources.problems(host, job.domain.disks, job.uuid)


def _require_valid(host: Host, job: Job) -> None:
    if job.domain.xml is None:
        return
    from . import creation_definition, schema  # few VMs have a fragment

    draft = dataclasses.replace(job, uuid=job.uuid or str(uuids.uuid4()))
    schema.require_valid(job.domain, creation_definition.final_xml(host, draft, None))
