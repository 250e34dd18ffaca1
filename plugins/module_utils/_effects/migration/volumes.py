# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Volumes of a VM that moves: created on the destination under a claim, and removed with it.

A claim is a domain on the destination that reserves the VM's capacity under another name and UUID
and that libvirt refuses to start. It is defined once no file is found in the way of its volumes,
and before the first of them is created: whatever has those names comes from moving this VM.

This file is private to the collection.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import typing as t

from ... import _lxml
from ..._errors import LibvirtFailure, PlanRefused
from ..._pure.base.metadata import BEGUN, MADE, NOT_MADE, Metadata, Move, Owner, OwnVolume
from ..._pure.base.names import CLAIM
from ..._pure.domain import unstartable
from ..._pure.machine import blank_image, volume_xml
from ..._pure.migration import plan as migration_plan
from ..._pure.migration.types import NewVolume, Source
from ..._units import MIB
from ..base import domains, lookup
from ..base.connection import Connection
from ..base.lookup import find_domain, read_metadata
from ..machine import storage
from .facts import read_defined, read_pools

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain, VirStorageVol

_MARKER = "/var/lib/libvirt/images/{name}.fleet-virt-migrating"


def define_claim(
    remote: Connection, source: Source, volumes: t.Sequence[NewVolume], owner: Owner, move: Move
) -> None:
    """Define the claim, which reserves the VM's capacity on the destination."""
    name = source.name + CLAIM
    earlier = _noted(remote, source.name)
    root = _lxml.new("domain", {"type": source.domain_type})
    _lxml.add(root, "name", text=name)
    _lxml.add(root, "uuid", text=migration_plan.claim_uuid(source.uuid))
    _lxml.add(root, "memory", {"unit": "MiB"}, str(source.memory_mib))
    _lxml.add(root, "vcpu", text=str(source.vcpus))
    system = _lxml.add(root, "os")
    _lxml.add(system, "type", {"arch": source.arch, "machine": source.machine}, "hvm")
    disks = [{"name": one.target, "size": -(-one.capacity // MIB)} for one in volumes]
    stored = Metadata(
        phase="creating",
        owner=owner,
        move=move,
        volumes=tuple(
            OwnVolume(
                *(one.pool, one.name, one.path, one.target, "disk"), earlier.get(one.path, BEGUN)
            )
            for one in volumes
        ),
        request=json.dumps({"disks": disks}),
    )
    text = unstartable.marked(root, stored, _MARKER.format(name=name))
    domains.define(remote, f"define {name} on {move.destination}", text)


def make(remote: Connection, source: Source, volumes: t.Sequence[NewVolume]) -> None:
    """Create thin volumes with their backing files; remove an earlier attempt's first."""
    for one in volumes:
        pool = _pool(remote, one.pool)
        if one.again:
            problem = _foreign(remote, pool, one.name, _noted(remote, source.name).get(one.path))
            if problem:
                raise PlanRefused(f"refusing to remove {one.path} on {remote.uri}: {problem}")
            storage.delete_volume(remote, pool, one.name)
            _note(remote, source.name, one.path, BEGUN)
        xml = volume_xml.render(one.name, one.capacity, one.format, one.backing)
        try:
            storage.patiently(
                remote,
                f"create volume {one.name}",
                functools.partial(pool.existing.createXML, xml, 0),
            )
        except LibvirtFailure:
            # a volume that was not created is not ours: its name may just have been taken
            _note(remote, source.name, one.path, NOT_MADE)
            raise
        _note(remote, source.name, one.path, MADE)


def _noted(remote: Connection, name: str) -> dict[str, str]:
    """How far the creation of the claim's volumes came, by their paths."""
    dom = find_domain(remote, name + CLAIM)
    stored = read_metadata(remote, dom) if dom is not None else None
    return {one.path: one.made for one in stored.volumes} if stored is not None else {}


def _note(remote: Connection, name: str, path: str, made: str) -> None:
    """Record in the claim how far the volume's creation came."""
    dom = find_domain(remote, name + CLAIM)
    stored = read_metadata(remote, dom) if dom is not None else None
    if dom is not None and stored is not None:
        volumes = tuple(
            dataclasses.replace(one, made=made) if one.path == path else one
            for one in stored.volumes
        )
        noted = dataclasses.replace(stored, volumes=volumes)
        lookup.write_metadata(remote, dom, noted, lookup.AFFECT_CONFIG)


def _foreign(remote: Connection, pool: storage.Pool, name: str, made: str | None) -> str | None:
    """Why the volume is not known to belong to this move; None if it does, or does not exist."""
    if made == MADE:
        return None
    volume = storage.find_volume(remote, pool, name)
    if volume is None:
        return None
    if made in (None, NOT_MADE):
        return "no volume was created there for this VM"
    if remote.call(f"read volume {name}", _is_blank, remote, volume):
        return None
    return (
        "it has content, and may not have been created for this VM; find out who owns it, and"
        " move it away"
    )


def _is_blank(remote: Connection, volume: VirStorageVol) -> bool:
    """Whether the volume was never written to."""

    def read(offset: int, length: int) -> bytes:
        stream = remote.conn.newStream(0)
        volume.download(stream, offset, length, 0)
        found = b""
        while piece := stream.recv(length):
            found += piece
        stream.finish()
        return found

    allocation = volume.info()[2]
    return blank_image.is_blank(read, hollow=not allocation) if allocation else True


def written(connection: Connection, claim: Metadata) -> list[tuple[str, int]]:
    """The claim's volumes that have content, with the bytes they occupy."""
    found = []
    for one in claim.volumes:
        if one.made == NOT_MADE:
            continue  # a file of that name does not belong to the move
        pool = _pool(connection, one.pool)
        _refresh(connection, pool)
        volume = storage.find_volume(connection, pool, one.name)
        if volume is None:
            continue
        action = f"read volume {one.name}"
        if not connection.call(action, _is_blank, connection, volume):
            found.append((one.path, int(connection.call(action, volume.info)[2])))
    return found


def _pool(connection: Connection, name: str) -> storage.Pool:
    pool = storage.find_pool(connection, name, None)
    if pool is None:
        raise PlanRefused(f"pool {name} is gone from {connection.uri}; try again")
    return pool


def _refresh(connection: Connection, pool: storage.Pool) -> None:
    action = f"refresh pool {pool.name}"
    storage.patiently(connection, action, functools.partial(pool.existing.refresh, 0))


def drop_claim(remote: Connection, name: str, uuid: str, *, volumes: bool) -> bool:
    """Remove the claim of the VM, with its ``volumes`` if asked; whether there was one.

    A volume that another domain references stays, and one that was not created for the claim.
    """
    dom = find_domain(remote, name + CLAIM)
    if dom is None or str(dom.UUIDString()) != migration_plan.claim_uuid(uuid):
        return False
    drop(remote, name, dom, volumes=volumes)
    return True


def drop(remote: Connection, name: str, dom: VirDomain, *, volumes: bool) -> None:
    """Remove the claim ``dom`` of the VM ``name``, as :func:`drop_claim` does."""
    stored = read_metadata(remote, dom)
    if volumes and stored is not None:
        if find_domain(remote, name) is not None:
            raise PlanRefused(f"{name!r} exists on {remote.uri} too, so its volumes there stay")
        folders = {one.name: one.path for one in read_pools(remote)}
        others = [one for one in read_defined(remote, folders) if one.uuid != str(dom.UUIDString())]
        for volume in stored.volumes:
            pool = storage.find_pool(remote, volume.pool, None)
            if pool is None or any(volume.path in one.files for one in others):
                continue
            _refresh(remote, pool)
            if _foreign(remote, pool, volume.name, volume.made) is None:
                storage.delete_volume(remote, pool, volume.name)
    domains.undefine(remote, dom)
