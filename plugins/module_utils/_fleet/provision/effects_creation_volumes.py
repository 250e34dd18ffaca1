# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Creating VMs: the volumes of one VM."""

from __future__ import annotations

import contextlib
import dataclasses
import typing as t

from ..._errors import DeadlineExceeded, PlanRefused
from ..base import effects_lookup as lookup
from ..base import read_file_identity as identity
from ..engine import effects_lease_holder as owners
from ..seed import effects_nocloud as seed_nocloud
from ..storage import effects_storage as storage
from .effects_batch import DiskPlan, Draft, Host


def add(host: Host, plan: DiskPlan, noted: t.Callable[[str], None]) -> None:
    """Create the volume of an additional disk; ``noted`` is called with the identity of its file
    before it is filled.
    """
    make(host, plan, [])
    noted(identity.of_file(plan.path))
    fill(plan)


def fill(plan: DiskPlan) -> None:
    """Fill the volume, and sync it to disk."""
    if plan.base is not None and not plan.disk.overlay:
        storage.copy(plan.base.path, plan.base.format, plan.path, plan.disk.format)
    storage.flush(plan.path)


def make(host: Host, plan: DiskPlan, made: list[DiskPlan]) -> None:
    """Create the plan's volume, empty; ``made`` gets it as soon as it exists."""
    pool, base = _ready_pool(host, plan), plan.base
    if storage.is_taken(host.connection, pool, plan.volume):
        raise PlanRefused(f"{plan.path} appeared meanwhile; refusing to overwrite it")
    if plan.disk.image is not None and base is None:
        raise PlanRefused(f"disk {plan.disk.name!r} has no base image; try again")
    overlay = base is not None and plan.disk.overlay
    with _made_or_lost(plan, made):
        storage.create_volume(
            host.connection,
            pool,
            plan.volume,
            size=plan.size,
            volume_format=_format(plan),
            backing=(base.path, base.format) if base is not None and overlay else None,
            secret=plan.disk.encryption_secret,
        )
        made.append(plan)


@contextlib.contextmanager
def _made_or_lost(plan: DiskPlan, made: list[DiskPlan]) -> t.Iterator[None]:
    """Count the volume as created if libvirt did not reply: it may have created it."""
    try:
        yield
    except DeadlineExceeded:
        if plan not in made:
            made.append(plan)
        raise


def note(host: Host, draft: Draft, uuid: str, plans: t.Sequence[DiskPlan]) -> None:
    """Record in the claim which files were created."""
    draft.made.update((plan.path, identity.of_file(plan.path)) for plan in plans)
    dom = host.connection.call(
        f"find the claim of {draft.domain.name}",
        host.connection.conn.lookupByUUIDString,
        uuid,
    )
    stored = lookup.read_metadata(host.connection, dom)
    if stored is None or stored.phase != "creating":
        raise PlanRefused(f"the claim of {draft.domain.name!r} is gone; try again")
    volumes = tuple(
        dataclasses.replace(volume, made=draft.made.get(volume.path, volume.made))
        for volume in stored.volumes
    )
    stored = dataclasses.replace(stored, volumes=volumes)
    lookup.write_metadata(host.connection, dom, stored, lookup.AFFECT_CONFIG)


def seed(host: Host, draft: Draft, uuid: str, made: list[DiskPlan]) -> None:
    """Write the seed into the VM's disks, or create a medium with it."""
    connection, wanted = host.connection, draft.domain.seed
    if wanted is None:
        return
    name, nics = draft.domain.name, draft.domain.seeded_nics
    encrypted = any(plan.disk.encryption_secret for plan in draft.disks)
    if wanted.method != "nocloud" and not encrypted:  # only libvirt can read those
        from ..seed import effects_offline as seed_offline  # few need it

        disks = [(plan.path, _format(plan)) for plan in draft.disks]
        chosen = seed_offline.seed_disks(wanted, name, uuid, nics, disks)
        draft.seeded = chosen.shown()
        if chosen.method == "offline":
            draft.seed, draft.host_key = None, chosen.host_key
    if draft.seed is not None:
        pool = _ready_pool(host, draft.seed)
        made_here = seed_nocloud.make(wanted, name, uuid, nics)
        content, draft.host_key = made_here.content, made_here.host_key
        if storage.is_taken(connection, pool, draft.seed.volume):
            raise PlanRefused(f"{draft.seed.path} appeared meanwhile; refusing to overwrite it")
        medium = draft.seed

        def noted() -> None:
            made.append(medium)
            note(host, draft, uuid, [medium])

        with _made_or_lost(medium, made):
            seed_nocloud.store(connection, pool, medium.volume, content, noted)


def _format(plan: DiskPlan) -> str:
    """The format of the volume: an overlay is qcow2."""
    return "qcow2" if plan.base is not None and plan.disk.overlay else plan.disk.format


def _ready_pool(host: Host, plan: DiskPlan) -> storage.Pool:
    """The pool of the plan, created now if it does not exist, and finished if a kill ended that."""
    pool = host.pool(plan.key)
    if pool.handle is None:
        with owners.host_lock():
            pool = storage.ensure_pool(host.connection, pool.name, pool.path)
        host.pools[plan.key] = pool
    elif host.settings.pool_paths.get(pool.name) == pool.path:
        storage.finish_own_pool(host.connection, pool)
    return pool
