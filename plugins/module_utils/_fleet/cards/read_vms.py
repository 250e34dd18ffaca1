# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading VMs, shared pools and the cards in them, as far as cards need it."""

from __future__ import annotations

import dataclasses
import os
import typing as t

from ... import _lxml
from ..._errors import LibvirtFailure
from ..._libvirt import DOMAIN_SNAPSHOT_LIST_TOPOLOGICAL, DOMAIN_XML_INACTIVE, ERR_NO_DOMAIN
from ..base import read_caller as caller
from ..base.effects_connection import Connection
from ..storage import read_file_systems as file_systems
from ..storage import read_shared_pools as shared_pools
from ..storage.read_file_users import FOLDER_TYPES, read_pools
from . import keep, read_cards
from .card import CardFile, disk_files, is_uuid
from .keep import ReadVm

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..._lxml import Element


def concerns(connection: Connection) -> bool:
    """Whether VMs of this hypervisor may have cards: it has shared storage, and the caller says
    what the inventory calls it."""
    return bool(caller.host()) and connection.local and _has_shared()


def _has_shared() -> bool:
    """Whether this hypervisor has shared storage, declared or not; asks neither libvirt nor any
    file system that could hang."""
    return file_systems.has_shared() or bool(shared_pools.recorded_here())


def this_host(connection: Connection) -> keep.Self:
    """This hypervisor, as its caller's inventory calls it."""
    return host_of(connection, caller.host())


def host_of(connection: Connection, name: str) -> keep.Self:
    """The hypervisor of that name behind the connection."""
    uuid = machine_uuid(connection)
    return keep.Self(name, uuid if is_uuid(uuid) else None)


def machine_uuid(connection: Connection) -> str | None:
    """libvirt's UUID of the machine."""
    text = connection.call("read capabilities", connection.conn.getCapabilities)
    return _lxml.parse(str(text), "capabilities").findtext("host/uuid")


def root(vm: ReadVm) -> Element:
    """The VM's definition."""
    return _lxml.parse(vm.definition, f"domain {vm.name}")


def may_have_card(connection: Connection, vm: ReadVm) -> bool:
    """Whether a disk is on shared storage; asks neither libvirt nor other storage."""
    folders = keep.folders_of(root(vm))
    return connection.call(f"look at the folders of {vm.name}", _any_shared, folders)


def present_disks(connection: Connection, vm: ReadVm) -> list[str]:
    """Those of the VM's disks that exist."""
    paths = [path for path in disk_files(root(vm)) or () if path]

    def look() -> list[str]:
        return [path for path in paths if os.path.lexists(path)]

    return connection.call(f"look for the disks of {vm.name}", look)


def _any_shared(folders: t.Iterable[str]) -> bool:
    recorded = shared_pools.recorded_here()
    return any(_is_shared(folder, recorded) for folder in folders)


def _is_shared(folder: str, recorded: t.Collection[str]) -> bool:
    declared = {folder, os.path.realpath(folder)} if recorded else set()
    if any(shared_pools.recorded_in(recorded, name) for name in declared):
        return True
    return file_systems.is_shared(folder)


def shared_folders(connection: Connection) -> dict[str, str]:
    """The folders of the shared pools that are mounted, each under both of its names if it is a
    link."""
    pools = [
        pool.path
        for pool in read_pools(connection).values()
        if pool.type in FOLDER_TYPES and pool.active and pool.shared and not pool.absent
        if pool.path
    ]

    def names() -> dict[str, str]:
        return {name: path for path in pools for name in (path, os.path.realpath(path))}

    return connection.call("look at the shared pools", names)


def cards_named(connection: Connection, folders: t.Iterable[str], name: str) -> list[CardFile]:
    """All cards of VMs of that name."""

    def look() -> list[CardFile]:
        return [
            file
            for folder in read_cards.distinct(folders)
            for file in read_cards.load_all(folder, lambda at: at.name == name)
        ]

    return connection.call(f"look for cards of {name}", look)


def vm_of(connection: Connection, dom: VirDomain) -> ReadVm | None:
    """The VM without its snapshots; None if it is gone, or has no definition."""

    def read() -> ReadVm | None:
        if not dom.isPersistent():
            return None
        return ReadVm(
            name=str(dom.name()),
            uuid=str(dom.UUIDString()),
            definition=str(dom.XMLDesc(DOMAIN_XML_INACTIVE)),
            active=bool(dom.isActive()),
            autostart=bool(dom.autostart()),
        )

    try:
        return connection.call(f"read domain {dom.name()}", read)
    except LibvirtFailure as error:
        if error.code != ERR_NO_DOMAIN:
            raise
        return None


def with_snapshots(connection: Connection, dom: VirDomain, vm: ReadVm) -> ReadVm:
    """The VM with its snapshots."""

    def read() -> tuple[tuple[str, ...], str | None]:
        listed = dom.listAllSnapshots(DOMAIN_SNAPSHOT_LIST_TOPOLOGICAL)
        texts = tuple(str(snapshot.getXMLDesc(0)) for snapshot in listed)
        has_current = bool(texts) and dom.hasCurrentSnapshot(0)
        return texts, str(dom.snapshotCurrent(0).getName()) if has_current else None

    texts, current = connection.call(f"read the snapshots of {vm.name}", read)
    return dataclasses.replace(vm, snapshots=texts, current=current)


def taken(
    connection: Connection, folders: t.Iterable[str | None], name: str, uuid: str | None = None
) -> list[str]:
    """Why no VM with disks in these folders may get that name: another VM than ``uuid`` has it by
    its card, on a hypervisor that may not answer, or on its way to this one."""
    if not connection.local or not _has_shared():
        return []

    def look() -> list[CardFile]:
        recorded = shared_pools.recorded_here()
        shared = [folder for folder in folders if folder and _is_shared(folder, recorded)]
        return [
            file
            for folder in dict.fromkeys(shared)
            if os.path.isdir(folder)
            for file in read_cards.load_all(folder, lambda at: at.name == name)
        ]

    return [
        f"{file.path}: {' or '.join(file.at.hosts) or 'a cell'} has a VM {name!r} with its disks"
        " there; choose another name or, if no hypervisor has that VM any more, remove that file"
        for file in connection.call(f"look for cards of {name}", look)
        if uuid is None or file.card is None or file.card.uuid != uuid
    ]
