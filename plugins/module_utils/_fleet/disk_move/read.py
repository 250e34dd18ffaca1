# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading a VM's disk, and the pool that it is to be in."""

from __future__ import annotations

import dataclasses
import os
import typing as t

from ... import _lxml
from ..._errors import PlanRefused
from ..._libvirt import DOMAIN_XML_INACTIVE
from ..base import effects_deadline as deadline
from ..base import metadata
from ..base.effects_connection import Connection
from ..base.effects_lookup import is_saved
from ..base.states import state_name
from ..engine import effects_backups as backups
from ..engine import effects_lease_holder as owners
from ..storage import effects_storage as storage
from ..storage import encryption, read_data_files
from ..storage import read_file_users as ownership
from ..storage.read_pools import list_pools
from ..storage.read_shared_pools import SharedPools
from .facts import DiskMoveFacts, DiskMoveRequest, MovedDisk, PoolPlaceFacts

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..._lxml import Element
    from ..storage.read_file_users import References

_AVAILABLE = 3  # of virStoragePoolGetInfo


def facts(
    connection: Connection, dom: VirDomain, wanted: DiskMoveRequest, references: References
) -> DiskMoveFacts:
    """Read the current state of the VM's disk and of the pool. ``references``, which means reading
    every image, may be older: what a disk leaves is looked at again before it is removed."""
    name = str(dom.name())

    def ask() -> tuple[str, str | None, DiskMoveFacts]:
        active, persistent = bool(dom.isActive()), bool(dom.isPersistent())
        inactive = dom.XMLDesc(DOMAIN_XML_INACTIVE if persistent else 0)
        basics = DiskMoveFacts(
            name=name,
            uuid=str(dom.UUIDString()),
            state=state_name(dom.state(0)[0]),
            active=active,
            persistent=persistent,
            stored=None,
            snapshots=tuple(str(one.getName()) for one in dom.listAllSnapshots(0)),
        )
        return inactive, dom.XMLDesc(0) if active else None, basics

    text, live, basics = connection.call(f"read domain {name}", ask)
    root = _lxml.parse(text, f"domain {name}")
    stored = metadata.parse(root)
    basics = dataclasses.replace(
        basics,
        stored=stored,
        holder=owners.holder(stored.owner) if stored is not None else None,
        managed_save=not basics.active and is_saved(connection, dom),
    )
    element = _meant(root, stored, wanted.disk)
    if element is None:
        return dataclasses.replace(basics, problem=_unknown(name, root, stored, wanted.disk))
    pool = _pool(connection, wanted.pool)
    runs = _lxml.parse(live, f"domain {name}") if live is not None else None
    disk = _disk(connection, dom, element, runs, references)
    own = [volume.path for volume in stored.volumes] if stored is not None else []
    there = os.path.join(pool.path, os.path.basename(disk.path))

    def files() -> frozenset[str]:
        return frozenset(path for path in (*own, there) if os.path.lexists(path))

    return dataclasses.replace(
        basics,
        disk=disk,
        pool=pool,
        files=deadline.call(files, seconds=connection.timeout, what=f"look at the files of {name}"),
        blocks=_blocks(disk.path, basics.uuid, references),
        blocks_new=_blocks(there, basics.uuid, references),
    )


def places(connection: Connection, dom: VirDomain, target: str) -> tuple[str, str]:
    """The file of a disk that runs, by the definition and now."""

    def ask() -> tuple[str, str]:
        return dom.XMLDesc(DOMAIN_XML_INACTIVE), dom.XMLDesc(0)

    what = f"domain {dom.name()}"
    defined, live = (_lxml.parse(text, what) for text in connection.call(f"read {what}", ask))
    return _file(_at(defined, target)), _file(_at(live, target))


def mirror_of(live: Element, target: str) -> Element | None:
    """The copy that a block job writes of the disk, if there is one."""
    disk = _at(live, target)
    return disk.find("mirror") if disk is not None else None


def _target(element: Element) -> str:
    target = element.find("target")
    return (target.get("dev") if target is not None else None) or ""


def _file(element: Element | None) -> str:
    source = element.find("source") if element is not None else None
    return (source.get("file") if source is not None else None) or ""


def _at(root: Element | None, target: str) -> Element | None:
    if root is None:
        return None
    return next((one for one in root.iterfind("devices/disk") if _target(one) == target), None)


def _meant(root: Element, stored: metadata.Metadata | None, name: str) -> Element | None:
    """The disk of that target, or whose volume was made for the disk of that name."""
    volumes = stored.volumes if stored is not None else ()
    paths = {volume.path for volume in volumes if volume.target == name and volume.role != "seed"}
    for element in root.iterfind("devices/disk"):
        if _target(element) == name or (_file(element) and _file(element) in paths):
            return element
    return None


def _unknown(name: str, root: Element, stored: metadata.Metadata | None, disk: str) -> str:
    paths = {volume.path: volume.target for volume in (stored.volumes if stored else ())}
    known = []
    for element in root.iterfind("devices/disk"):
        given, target = paths.get(_file(element)), _target(element)
        known.append(f"{given} ({target})" if given and given != target else target)
    return f"{name!r} has no disk {disk!r}; it has {', '.join(known) or 'none'}"


def _pool(connection: Connection, name: str) -> PoolPlaceFacts:
    pool = storage.find_pool(connection, name, None)
    if pool is None:
        known = sorted(str(handle.name()) for handle in list_pools(connection))
        raise PlanRefused(
            f"this hypervisor has no pool {name!r}; it has {', '.join(known) or 'none'}. Define it"
            " (ansible-playbook fleet.virt.setup_hypervisors with storage_pools), or choose another"
        )
    info = connection.call(f"read pool {name}", pool.existing.info)
    shared = bool(SharedPools(connection).recorded(pool.path))
    return PoolPlaceFacts(pool.name, pool.path, int(info[_AVAILABLE]), shared)


def _disk(
    connection: Connection,
    dom: VirDomain,
    element: Element,
    runs: Element | None,
    references: References,
) -> MovedDisk:
    target, path = _target(element), _file(element)
    live = _at(runs, target)
    mirror = mirror_of(runs, target) if runs is not None else None
    job = (
        connection.call(f"read the job of {target}", dom.blockJobInfo, target, 0)
        if live is not None
        else {}
    )
    if job and mirror is None and connection.local and backups.is_at_work(str(dom.UUIDString())):
        job = {}  # that of a backup, which the move ends
    copied = None
    if job or mirror is not None:
        copied = (mirror.get("file") or _file(mirror)) if mirror is not None else ""
    driver = element.find("driver")
    below = ownership.read_header(path) if path else []
    blockers = list(_blockers(str(dom.name()), target, element, path, references))
    size, allocation = 0, 0
    if path and not blockers:
        size, allocation = connection.call(
            f"read disk {target} of {dom.name()}", dom.blockInfo, target, 0
        )[:2]
    return MovedDisk(
        target=target,
        path=path,
        format=str(driver.get("type") if driver is not None else None),
        capacity=int(size),
        allocation=int(allocation),
        runs_on=_file(live) if live is not None else None,
        backing=(below[0].name, below[0].format or "raw") if below else None,
        data_file=read_data_files.find(connection, element, path),
        blockers=tuple(blockers),
        copied=copied,
        transient=live is not None and live.find("transient") is not None,
    )


def _blockers(
    name: str, target: str, element: Element, path: str, references: References
) -> t.Iterator[str]:
    what = f"disk {target} of {name!r}"
    device = element.get("device") or "disk"
    if device != "disk":
        yield f"{what} is a drive ({device}), whose medium belongs to no VM; change its image"
    elif element.get("type") != "file" or not path:
        yield f"{what} is of type {element.get('type')}; only disks that are files move"
    if element.find("shareable") is not None or element.find("readonly") is not None:
        yield f"{what} is shareable or read-only, so other VMs may use it; detach it there first"
    if encryption.secret_of(element):
        yield f"{what} is encrypted; the copy would not be; add a disk in the other pool instead"
    devices = element.getparent()
    disks = devices.iterfind("disk") if devices is not None else ()
    if {_file(one) for one in disks} & set(references.chains.get(path, ())):
        yield f"{what} is an overlay on another disk of the VM; merge it first (virsh blockcommit)"


def _blocks(path: str, uuid: str, references: References) -> str:
    """Why the file that the disk leaves will stay."""
    pool = ownership.pool_of(path, references.pools)
    if pool is not None and pool.shared:
        return "on storage that other hypervisors can reach, which were not checked"
    users = {user.text for user in references.users(path) if user.uuid != uuid}
    return "; ".join(sorted(users))
