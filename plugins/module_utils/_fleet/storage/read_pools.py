# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading storage pools: one listing per pool, never a refresh."""

from __future__ import annotations

import os
import typing as t

from ..._errors import FleetVirtError, LibvirtFailure
from ..._libvirt import CONNECT_LIST_STORAGE_POOLS_ACTIVE, ERR_NO_STORAGE_POOL, ERR_NO_SUPPORT
from ..._records import dataclass
from ..base.effects_connection import Connection
from ..base.effects_deadline import Failed
from ..base.names import NOTES, is_card_file
from ..base.states import pool_state_name
from . import pool_xml, storage_info
from .read_shared_pools import SharedPools

if t.TYPE_CHECKING:
    from ..._libvirt import VirStoragePool, VirStorageVol
    from ..base.snapshot import PoolEntry, VolumeInfo


@dataclass(frozen=True)
class VolumeHandle:
    """A volume as a pool lists it; ``handle`` is libvirt's ``virStorageVol``."""

    pool: str
    name: str
    path: str
    handle: VirStorageVol


def list_pools(connection: Connection, *, active_only: bool = False) -> list[VirStoragePool]:
    """``virStoragePool`` objects, sorted by name; none if the driver does not support storage.

    The pool of notes is not among them: nothing of a VM is there.
    """
    try:
        pools = connection.call(
            "list storage pools",
            connection.conn.listAllStoragePools,
            CONNECT_LIST_STORAGE_POOLS_ACTIVE if active_only else 0,
        )
    except LibvirtFailure as error:
        if error.code == ERR_NO_SUPPORT:
            return []
        raise
    shown = [pool for pool in pools if str(pool.name()) != NOTES]
    return sorted(shown, key=lambda pool: str(pool.name()))


def pool_named(connection: Connection, name: str) -> VirStoragePool | None:
    """libvirt's object for the pool of that name, active or not; None if there is none."""
    try:
        return connection.call(
            f"look for pool {name}", connection.conn.storagePoolLookupByName, name
        )
    except LibvirtFailure as error:
        if error.code != ERR_NO_STORAGE_POOL:
            raise
        return None


def is_half_made(connection: Connection, handle: VirStoragePool, name: str, path: str) -> bool:
    """Whether a kill may have left an inactive pool before its first start.

    What starts at boot was finished: if that is inactive its storage may be missing, or somebody
    has stopped it. So may a pool that others made, if its folder is empty: what was put there would
    be hidden by what is mounted over it later. An earlier version made pools like others'.
    """
    if connection.call(f"read pool {name}", handle.autostart):
        return False
    if is_ours(connection, handle, name, path):
        return True
    return connection.local and connection.call(f"look at {path}", _is_no_bare_mount_point, path)


def is_ours(connection: Connection, handle: VirStoragePool, name: str, path: str) -> bool:
    """Whether the pool was made here, by this version or a later one."""
    identity = str(connection.call(f"read pool {name}", handle.UUIDString))
    return identity == pool_xml.uuid_of(name, path)


def _is_no_bare_mount_point(path: str) -> bool:
    try:
        return bool(os.listdir(path))
    except FileNotFoundError:
        return True
    except OSError:
        return False


def pool_entries(connection: Connection) -> list[PoolEntry]:
    """One entry per pool as ``virt_host_info`` returns it; a broken pool has ``error``, and so has
    one whose shared storage is not mounted."""

    def read(pool: VirStoragePool) -> PoolEntry:
        info = storage_info.pool(pool.XMLDesc(0))
        return {
            "name": str(pool.name()),
            "type": info["type"],
            "state": pool_state_name(pool.info()[0]),
            "path": info["path"],
            "capacity_mib": info["capacity_mib"],
            "allocation_mib": info["allocation_mib"],
            "available_mib": info["available_mib"],
            "error": None,
        }

    pools = list_pools(connection)
    outcomes = connection.each(read, pools, lambda pool: f"read pool {pool.name()}")
    entries = [
        _unread(str(pool.name()), str(outcome.error))
        if isinstance(outcome, Failed)
        else outcome.value
        for pool, outcome in zip(pools, outcomes)
    ]
    shared = SharedPools(connection) if entries else None
    for entry in entries:
        if shared is not None and entry["path"] is not None:
            try:
                entry["error"] = shared.absent(entry["name"], entry["path"])
            except FleetVirtError as error:
                entry["error"] = str(error)
    return entries


def _unread(name: str, error: str) -> PoolEntry:
    return {
        "name": name,
        "type": None,
        "state": None,
        "path": None,
        "capacity_mib": None,
        "allocation_mib": None,
        "available_mib": None,
        "error": error,
    }


def list_handles(pool: VirStoragePool) -> dict[str, VolumeHandle]:
    """The volumes of a ``virStoragePool`` by path, in one call (virStoragePoolListAllVolumes), but
    for the cards of VMs, which nothing uses as a disk."""
    name = str(pool.name())
    target: str | None = None
    handles = {}
    for volume in pool.listAllVolumes(0):
        path, own = str(volume.key()), str(volume.name())
        if is_card_file(own):
            continue
        if not path.startswith("/"):  # the key is a path in directory pools only
            if target is None:
                target = str(storage_info.pool(pool.XMLDesc(0))["path"] or "")
            path = f"{target}/{own}" if target else f"{name}/{own}"
        handles[path] = VolumeHandle(name, own, path, volume)
    return handles


class Volumes:
    """Finds volumes by path or name in the listings of all active pools, made once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._by_path: dict[str, VolumeHandle] = {}
        self._by_name: dict[tuple[str, str], VolumeHandle] = {}
        self.active: set[str] = set()  # names of pools
        self.errors: list[str] = []
        try:
            pools = list_pools(connection, active_only=True)
        except FleetVirtError as error:
            self.errors.append(str(error))
            return
        outcomes = connection.each(list_handles, pools, lambda pool: f"list pool {pool.name()}")
        for pool, outcome in zip(pools, outcomes):
            self.active.add(str(pool.name()))
            if isinstance(outcome, Failed):
                self.errors.append(str(outcome.error))
                continue
            for path, handle in outcome.value.items():
                self._by_path[path] = handle
                self._by_name[handle.pool, handle.name] = handle

    def at_path(self, path: str | None) -> VolumeHandle | None:
        """The volume whose file or device is ``path``."""
        return self._by_path.get(path) if path else None

    def named(self, pool: str, name: str) -> VolumeHandle | None:
        """The volume ``name`` of ``pool``."""
        return self._by_name.get((pool, name))


def describe_volume(handle: VolumeHandle) -> VolumeInfo:
    """``storage_info.volume`` of one volume: opens it (virStorageVolGetXMLDesc reads its header).

    To be called inside :meth:`Connection.each`: the file may be on a mount that hangs.
    """
    return storage_info.volume(handle.handle.XMLDesc(0))
