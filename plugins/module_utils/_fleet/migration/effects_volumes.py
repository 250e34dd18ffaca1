# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Volumes of a VM that moves: created on the destination under a claim, and removed with it.

A claim is a domain on the destination that reserves the VM's capacity under another name and UUID
and that libvirt refuses to start. It is defined once no file is found in the way of its volumes,
and before the first of them is created: whatever has those names comes from moving this VM.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import typing as t

from ... import _lxml
from ..._errors import LibvirtFailure, PlanRefused
from ..._units import MIB
from ..base import effects_definitions as domains
from ..base import effects_lookup as lookup
from ..base import unstartable
from ..base.effects_connection import Connection
from ..base.effects_lookup import find_domain, read_metadata
from ..base.metadata import BEGUN, MADE, NOT_MADE, Metadata, Move, Owner, OwnVolume
from ..base.names import CLAIM
from ..storage import effects_own_files as owned
from ..storage import effects_remote_volumes as owned_elsewhere
from ..storage import effects_storage as storage
from ..storage import read_file_users as ownership
from ..storage import volume_xml
from ..storage.effects_own_files import Stays
from ..storage.file_references import RAW
from ..storage.read_file_users import References
from . import effects_whole as whole
from . import plan as migration_plan
from .types import NewVolume, Source

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain

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
    disks = [
        {
            "name": volume.target,
            "size": -(-volume.capacity // MIB),
            # a file that is copied is one of plain bytes until it is complete
            "format": RAW if volume.whole else volume.format,
        }
        for volume in volumes
    ]
    stored = Metadata(
        phase="creating",
        owner=owner,
        move=move,
        volumes=tuple(
            OwnVolume(
                *(volume.pool, volume.name, volume.path, volume.target, "disk"),
                earlier.get(volume.path, BEGUN),
            )
            for volume in volumes
        ),
        request=json.dumps({"disks": disks}),
    )
    text = unstartable.marked(root, stored, _MARKER.format(name=name))
    domains.define(remote, f"define {name} on {move.destination}", text)


def make(remote: Connection, source: Source, volumes: t.Sequence[NewVolume]) -> None:
    """Create thin volumes with their backing files; remove an earlier attempt's first."""
    for volume in volumes:
        pool = _pool(remote, volume.pool)
        if volume.again:
            _remove_earlier(remote, source.name, volume)
            _note(remote, source.name, volume.path, BEGUN)
        xml = volume_xml.render(volume.name, volume.capacity, volume.format, volume.backing)
        if volume.whole:
            xml = volume_xml.render(volume.name, whole.size_of(volume.path), RAW)
        try:
            storage.patiently(
                remote,
                f"create volume {volume.name}",
                functools.partial(pool.existing.createXML, xml, 0),
            )
        except LibvirtFailure:
            # a volume that was not created is not ours: its name may just have been taken
            _note(remote, source.name, volume.path, NOT_MADE)
            raise
        _note(remote, source.name, volume.path, MADE)
        if volume.whole:
            whole.copy(remote, pool, volume)


def _remove_earlier(remote: Connection, name: str, volume: NewVolume) -> None:
    """Remove the volume that an earlier attempt created; PlanRefused if it may not be that."""
    dom = find_domain(remote, name + CLAIM)
    if dom is None:
        raise PlanRefused(f"{name + CLAIM} is gone from {remote.uri}; run this again")
    made = _noted(remote, name).get(volume.path, NOT_MADE)
    own = OwnVolume(volume.pool, volume.name, volume.path, volume.target, "disk", made)
    made_as = RAW if volume.whole else volume.format
    stays = _remove(remote, own, str(dom.UUIDString()), _references(remote), made_as)
    if stays is not None:
        raise PlanRefused(
            f"refusing to remove {stays.path} on {remote.uri}: {stays.reason}; find out who owns"
            " it, and move it away"
        )


def _noted(remote: Connection, name: str) -> dict[str, str]:
    """How far the creation of the claim's volumes came, by their paths."""
    dom = find_domain(remote, name + CLAIM)
    stored = read_metadata(remote, dom) if dom is not None else None
    return {volume.path: volume.made for volume in stored.volumes} if stored is not None else {}


def _note(remote: Connection, name: str, path: str, made: str) -> None:
    """Record in the claim how far the volume's creation came."""
    dom = find_domain(remote, name + CLAIM)
    stored = read_metadata(remote, dom) if dom is not None else None
    if dom is not None and stored is not None:
        volumes = tuple(
            dataclasses.replace(volume, made=made) if volume.path == path else volume
            for volume in stored.volumes
        )
        noted = dataclasses.replace(stored, volumes=volumes)
        lookup.write_metadata(remote, dom, noted, lookup.AFFECT_CONFIG)


def _remove(
    connection: Connection,
    volume: OwnVolume,
    uuid: str,
    references: References,
    volume_format: str | None,
) -> Stays | None:
    """Remove a volume of the claim ``uuid`` if that is safe; else return why it stays."""
    if connection.local:
        return owned.remove(connection, volume, uuid, references)
    return owned_elsewhere.remove(connection, volume, uuid, references, volume_format)


def _formats(claim: Metadata) -> dict[str, str]:
    """The formats of the claim's volumes by their targets; none if an older version wrote it."""
    with contextlib.suppress(ValueError, LookupError, TypeError):
        return {disk["name"]: disk["format"] for disk in json.loads(claim.request or "")["disks"]}
    return {}


def _references(connection: Connection) -> References:
    read = ownership.read if connection.local else ownership.read_elsewhere
    return read(connection)


def written(connection: Connection, claim: Metadata) -> list[tuple[str, int]]:
    """The claim's volumes that have content, with the bytes they occupy."""
    sizes = []
    for own in claim.volumes:
        if own.made == NOT_MADE:
            continue  # a file of that name does not belong to the move
        pool = _pool(connection, own.pool)
        _refresh(connection, pool)
        volume = storage.find_volume(connection, pool, own.name)
        if volume is None:
            continue
        action = f"read volume {own.name}"
        if not connection.call(action, owned_elsewhere.is_blank, connection, volume):
            sizes.append((own.path, int(connection.call(action, volume.info)[2])))
    return sizes


def _pool(connection: Connection, name: str) -> storage.Pool:
    pool = storage.find_pool(connection, name, None)
    if pool is None:
        raise PlanRefused(f"pool {name} is gone from {connection.uri}; try again")
    return pool


def _refresh(connection: Connection, pool: storage.Pool) -> None:
    action = f"refresh pool {pool.name}"
    storage.patiently(connection, action, functools.partial(pool.existing.refresh, 0))


def drop_claim(remote: Connection, name: str, uuid: str, *, volumes: bool) -> list[Stays]:
    """Remove the claim of the VM, with its ``volumes`` if asked; those that stay.

    A volume stays unless it is proven that it was created for the claim, and that nothing uses it.
    """
    dom = find_domain(remote, name + CLAIM)
    if dom is None or str(dom.UUIDString()) != migration_plan.claim_uuid(uuid):
        return []
    return drop(remote, name, dom, volumes=volumes)


def drop(remote: Connection, name: str, dom: VirDomain, *, volumes: bool) -> list[Stays]:
    """Remove the claim ``dom`` of the VM ``name``, as :func:`drop_claim` does."""
    stored = read_metadata(remote, dom)
    stay: list[Stays] = []
    if volumes and stored is not None and find_domain(remote, name) is not None:
        raise PlanRefused(f"{name!r} exists on {remote.uri} too, so its volumes there stay")
    if volumes and stored is not None and stored.volumes:
        references, uuid = _references(remote), str(dom.UUIDString())
        formats = _formats(stored)
        for volume in stored.volumes:
            stays = _remove(remote, volume, uuid, references, formats.get(volume.target))
            stay += [] if stays is None else [stays]
    domains.undefine(remote, dom)
    return stay
