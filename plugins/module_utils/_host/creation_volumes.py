# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Creating VMs: the volumes of one VM.

This file is private to the collection.
"""

from __future__ import annotations

from .._errors import PlanRefused
from . import owner as owners
from . import seed_nocloud, storage
from .creation_plan import DiskPlan, Host, Job


def build(host: Host, job: Job, made: list[DiskPlan]) -> None:
    """Make all volumes of the job; ``made`` gets each as soon as it is there."""
    connection = host.connection
    for plan in job.disks:
        pool = _ready_pool(host, plan)
        base, disk = plan.base, plan.disk
        if storage.is_taken(connection, pool, plan.volume):
            raise PlanRefused(f"{plan.path} appeared meanwhile; nothing is taken over")
        if base is None:
            storage.create_volume(
                connection, pool, plan.volume, size=plan.size, volume_format=disk.format
            )
        elif disk.overlay:
            storage.create_volume(
                connection,
                pool,
                plan.volume,
                size=plan.size,
                volume_format="qcow2",
                backing=(base.path, base.format),
            )
        else:
            source = storage.find_pool(connection, host.settings.base_pool, None)
            volume = storage.find_volume(connection, source, base.volume) if source else None
            if volume is None:
                raise PlanRefused(f"base image {base.volume} is gone from its pool; try again")
            storage.create_volume(
                connection,
                pool,
                plan.volume,
                size=plan.size,
                volume_format=disk.format,
                copy_of=volume,
            )
        made.append(plan)
        storage.flush(plan.path)
    _seed(host, job, made)


def _seed(host: Host, job: Job, made: list[DiskPlan]) -> None:
    """Write the seed into the VM's disks, or make a medium of it."""
    connection, seed = host.connection, job.domain.seed
    if seed is None:
        return
    name, uuid, nics = job.domain.name, str(job.uuid), job.domain.seeded_nics
    if seed.method != "nocloud":
        from . import seed_offline  # few need it, and what is imported is compiled at every call

        disks = [(plan.path, _format(plan)) for plan in job.disks]
        chosen = seed_offline.seed_disks(seed, name, uuid, nics, disks)
        job.seeded = chosen.shown()
        if chosen.method == "offline":
            job.seed, job.host_key = None, chosen.host_key
    if job.seed is not None:
        pool = _ready_pool(host, job.seed)
        made_here = seed_nocloud.make(seed, name, uuid, nics)
        content, job.host_key = made_here.content, made_here.host_key
        if storage.is_taken(connection, pool, job.seed.volume):
            raise PlanRefused(f"{job.seed.path} appeared meanwhile; nothing is taken over")
        seed_nocloud.store(connection, pool, job.seed.volume, content)
        made.append(job.seed)


def _format(plan: DiskPlan) -> str:
    """The format of the volume that was made: an overlay is qcow2."""
    return "qcow2" if plan.base is not None and plan.disk.overlay else plan.disk.format


def _ready_pool(host: Host, plan: DiskPlan) -> storage.Pool:
    """The pool of the plan, made now if it was not there."""
    pool = host.pool(plan.key)
    if pool.raw is not None:
        return pool
    with owners.host_lock():
        found = storage.find_pool(host.connection, pool.name, pool.path)
        pool = found or storage.make_pool(host.connection, pool.name, pool.path)
    host.pools[plan.key] = pool
    return pool
