# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Volumes of a VM that moves: made on the destination under a claim, removed where they were.

A claim is a domain of the destination that holds the VM's capacity under another name and UUID and
that libvirt refuses to start. It is defined after no file was found in the way of the volumes it
names, and before the first of them is made: whatever is there under those names is from moving
this VM.

This file is private to the collection.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import typing as t

from .. import _lxml
from .._errors import FleetVirtError, LibvirtFailure, PlanRefused
from .._libvirt import ERR_NO_DOMAIN
from .._model import migration_plan, unstartable, volume_xml
from .._model.metadata import Metadata, Move, Owner, OwnVolume
from .._model.migration_types import CLAIM, NewVolume, Source
from .._units import MIB
from . import lookup, ownership, storage
from .connection import Connection
from .lookup import find_domain, kept_metadata
from .migration_facts import read_defined, read_pools

_UNDEFINE = 1 | 2 | 4 | 16  # managed save, snapshots, NVRAM, checkpoints
_MARKER = "/var/lib/libvirt/images/{name}.fleet-virt-migrating"


def define_claim(
    remote: Connection, source: Source, volumes: t.Sequence[NewVolume], owner: Owner, move: Move
) -> None:
    """Hold the VM's place on the destination."""
    name = source.name + CLAIM
    root = _lxml.new("domain", {"type": source.domain_type})
    _lxml.add(root, "name", text=name)
    _lxml.add(root, "uuid", text=migration_plan.claim_uuid(source.uuid))
    _lxml.add(root, "memory", {"unit": "MiB"}, str(source.memory_mib))
    _lxml.add(root, "vcpu", text=str(source.vcpus))
    system = _lxml.add(root, "os")
    _lxml.add(system, "type", {"arch": source.arch, "machine": source.machine}, "hvm")
    disks = [{"name": one.target, "size": -(-one.capacity // MIB)} for one in volumes]
    kept = Metadata(
        phase="creating",
        owner=owner,
        move=move,
        volumes=tuple(
            OwnVolume(one.pool, one.name, one.path, one.target, "disk") for one in volumes
        ),
        request=json.dumps({"disks": disks}),
    )
    text = unstartable.marked(root, kept, _MARKER.format(name=name))
    remote.call(f"define {name} on {move.destination}", remote.raw.defineXML, text)


def make(remote: Connection, source: Source, volumes: t.Sequence[NewVolume]) -> None:
    """The volumes, thin and with their backing file; what an earlier attempt left goes first."""
    for one in volumes:
        pool = _pool(remote, one.pool)
        if one.again:
            storage.delete_volume(remote, pool, one.name)
        xml = volume_xml.render(one.name, one.capacity, one.format, one.backing)
        try:
            storage.patiently(
                remote, f"create volume {one.name}", functools.partial(pool.raw.createXML, xml, 0)
            )
        except LibvirtFailure:
            _disown(remote, source, one)
            raise


def _disown(remote: Connection, source: Source, volume: NewVolume) -> None:
    """What could not be made is not ours: a file of that name may be somebody's, just come."""
    raw = find_domain(remote, source.name + CLAIM)
    kept = kept_metadata(remote, raw) if raw is not None else None
    if kept is not None:
        rest = tuple(one for one in kept.volumes if one.path != volume.path)
        rest_kept = dataclasses.replace(kept, volumes=rest)
        lookup.write_metadata(remote, raw, rest_kept, lookup.AFFECT_CONFIG)


def _pool(connection: Connection, name: str) -> storage.Pool:
    pool = storage.find_pool(connection, name, None)
    if pool is None:
        raise PlanRefused(f"pool {name} is gone from {connection.uri}; try again")
    return pool


def _refresh(connection: Connection, pool: storage.Pool) -> None:
    action = f"look at pool {pool.name} anew"
    storage.patiently(connection, action, functools.partial(pool.raw.refresh, 0))


def drop_claim(remote: Connection, name: str, uuid: str, *, volumes: bool) -> bool:
    """Take the claim of the VM away, with the volumes it names if asked; whether there was one.

    A volume that any other domain there names stays.
    """
    raw = find_domain(remote, name + CLAIM)
    if raw is None or str(raw.UUIDString()) != migration_plan.claim_uuid(uuid):
        return False
    kept = kept_metadata(remote, raw)
    if volumes and kept is not None:
        if find_domain(remote, name) is not None:
            raise PlanRefused(f"{name!r} is on {remote.uri} too, so its volumes there stay")
        folders = {one.name: one.path for one in read_pools(remote)}
        others = [one for one in read_defined(remote, folders) if one.uuid != str(raw.UUIDString())]
        for volume in kept.volumes:
            pool = storage.find_pool(remote, volume.pool, None)
            if pool is None or any(volume.path in one.files for one in others):
                continue
            _refresh(remote, pool)
            storage.delete_volume(remote, pool, volume.name)
    try:
        remote.call(f"undefine {name + CLAIM}", raw.undefineFlags, _UNDEFINE)
    except LibvirtFailure as error:
        if error.code != ERR_NO_DOMAIN:
            raise
    return True


def remove_old(connection: Connection, uuid: str, volumes: t.Sequence[OwnVolume]) -> list[str]:
    """Remove the VM's volumes here, after it has left; those that stay, and why."""
    stay: list[str] = []
    present = [one for one in volumes if os.path.lexists(one.path)]
    if not present:
        return stay
    references = ownership.read(connection)
    for one in present:
        reason = _why_stays(one, uuid, references)
        if reason is None:
            try:
                pool = _pool(connection, one.pool)
                if not storage.delete_volume(connection, pool, one.name):
                    _refresh(connection, pool)
                    storage.delete_volume(connection, pool, one.name)
            except FleetVirtError as error:
                reason = str(error)
        if reason is None and os.path.lexists(one.path):
            reason = "libvirt has removed it, but it is still there"
        if reason is not None:
            stay.append(f"{one.path}: {reason}")
    return stay


def _why_stays(one: OwnVolume, uuid: str, references: ownership.References) -> str | None:
    pool = references.pools.get(one.pool)
    if pool is None or pool.path is None or f"{pool.path}/{one.name}" != one.path:
        return f"not in the pool {one.pool!r}, where it was made"
    if pool.shared:
        return "on storage that other hypervisors can reach"
    if os.path.islink(one.path) or not os.path.isfile(one.path):
        return "no regular file"
    users = sorted({user.text for user in references.users(one.path) if user.uuid != uuid})
    if users:
        return "; ".join(users)
    with contextlib.suppress(OSError):
        if ownership.is_locked(one.path):
            return "in use (locked) by a program"
        return None
    return "it cannot be read"
