# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pools and volumes through libvirt's storage API: finding, creating, filling, removing."""

from __future__ import annotations

import os
import time
import typing as t

from ..._errors import LibvirtFailure, PlanRefused
from ..._libvirt import ERR_NO_STORAGE_POOL, ERR_NO_STORAGE_VOL, STORAGE_POOL_CREATE_WITH_BUILD
from ..._records import dataclass
from ..base import effects_files as files
from ..base import effects_programs as programs
from ..base.effects_connection import Connection
from ..base.effects_deadline import Value
from . import pool_xml, storage_info, volume_xml
from . import read_paths as paths
from .read_pools import is_half_made, is_ours, list_pools, pool_named
from .read_shared_pools import SharedPools

if t.TYPE_CHECKING:
    from ..._libvirt import VirStoragePool, VirStorageVol
    from ..base.snapshot import PoolInfo
    from .nfs_options import NfsSource

# Errors with which libvirt fails, having done nothing, and which may pass a moment later
_PASSING = (
    "asynchronous jobs running",  # another volume of the pool is being built
    # QEMU 7.2 derives keys to measure its speed, and gives up if that took no clock tick
    "Unable to get accurate CPU usage",
)
_PATIENCE = 120.0  # seconds of retries
_COPY = 6 * 3600.0  # seconds that copying an image may take
CHANGE_SECONDS = 300.0  # seconds for what copies nothing, while others may wait for a lock
_SHORT = 120.0
_CHUNK = 256 * 1024
_FOLDER_TYPES = ("dir", "fs", "netfs")


@dataclass(frozen=True)
class Pool:
    """A pool of files: its name in libvirt, the folder, libvirt's object (None: not created)."""

    name: str
    path: str
    handle: VirStoragePool | None = None

    @property
    def existing(self) -> VirStoragePool:
        """libvirt's object. Raises PlanRefused for a pool that was not created."""
        if self.handle is None:
            raise PlanRefused(
                f"pool {self.name} at {self.path} does not exist; define and start it, or run"
                " ansible-playbook fleet.virt.setup_hypervisors"
            )
        return self.handle

    def volume_path(self, name: str) -> str:
        """The file that the volume ``name`` is, or will be."""
        return f"{self.path}/{name}"


def find_pool(
    connection: Connection, name: str, path: str | None, *, to_make: bool = False
) -> Pool | None:
    """The active pool ``name``, or the one with ``path`` as its target; None if there is none.

    Raises PlanRefused for a pool that exists but cannot be used. ``to_make``: :func:`ensure_pool`
    makes it, so one that a kill left half made counts as none.
    """
    by_name = by_path = None
    for handle in list_pools(connection):
        description = connection.call(f"read pool {handle.name()}", handle.XMLDesc, 0)
        info = storage_info.pool(description)
        if info["name"] == name:
            by_name = (handle, info)
        if path is not None and str(info["path"] or "").rstrip("/") == path.rstrip("/"):
            by_path = (handle, info)
    match = by_name or by_path
    if match is None:
        return None
    handle, info = match
    if info["type"] not in _FOLDER_TYPES:
        raise PlanRefused(
            f"pool {info['name']} is of type {info['type']}; disks are created in pools of files"
            f" ({', '.join(_FOLDER_TYPES)})"
        )
    absent = SharedPools(connection).absent(str(info["name"]), str(info["path"]))
    if absent is not None:
        raise PlanRefused(absent)
    if not connection.call(f"read pool {info['name']}", handle.isActive):
        makes = to_make and path is not None and info["name"] == name and _is_made_at(info, path)
        if makes and is_half_made(connection, handle, name, str(path)):
            return None
        raise PlanRefused(
            f"pool {info['name']} is inactive; start it with virsh pool-start {info['name']}"
        )
    return Pool(str(info["name"]), str(info["path"]).rstrip("/"), handle)


def pool_at(connection: Connection, folder: str) -> str | None:
    """The name of the pool of files whose target is ``folder``, active or not."""
    for handle in list_pools(connection):
        info = storage_info.pool(connection.call(f"read pool {handle.name()}", handle.XMLDesc, 0))
        if str(info["path"] or "").rstrip("/") == folder and info["type"] in _FOLDER_TYPES:
            return str(info["name"])
    return None


def pool_of(connection: Connection, folder: str, name: str) -> str | None:
    """The name of the pool of files that a disk in ``folder``, or in the pool called ``name``,
    would be in; None without such a pool here."""
    if folder:
        return pool_at(connection, folder)
    for handle in list_pools(connection) if name else ():
        info = storage_info.pool(connection.call(f"read pool {name}", handle.XMLDesc, 0))
        if info["name"] == name and info["type"] in _FOLDER_TYPES:
            return name
    return None


def volume_at(connection: Connection, path: str) -> VirStorageVol:
    """libvirt's object for the volume whose file is ``path``.

    libvirt compares names of folders; a pool whose target is a symbolic link, or has one above it,
    is found here. Raises LibvirtFailure (ERR_NO_STORAGE_VOL) if no active pool lists the file.
    """
    try:
        return connection.call(f"find {path}", connection.conn.storageVolLookupByPath, path)
    except LibvirtFailure as error:
        if error.code != ERR_NO_STORAGE_VOL or not connection.local:
            raise
        for handle in list_pools(connection, active_only=True):
            name = str(handle.name())
            info = storage_info.pool(connection.call(f"read pool {name}", handle.XMLDesc, 0))
            folder = str(info["path"] or "") or None
            if info["type"] in _FOLDER_TYPES and connection.call(
                f"look at {folder}", paths.is_in, path, folder
            ):
                pool = Pool(name, str(folder), handle)
                volume = find_volume(connection, pool, os.path.basename(path))
                if volume is not None:
                    return volume
        raise


def _is_made_at(info: PoolInfo, path: str) -> bool:
    """Whether it is what :func:`make_pool` defines without an NFS source."""
    return info["type"] == "dir" and str(info["path"] or "").rstrip("/") == path.rstrip("/")


def ensure_pool(connection: Connection, name: str, path: str) -> Pool:
    """The pool, made if there is none, and finished if a kill ended that; by one call at a time."""
    existing = find_pool(connection, name, path, to_make=True)
    if existing is None:
        return make_pool(connection, name, path)
    if existing.name == name and existing.path == path.rstrip("/"):
        finish_own_pool(connection, existing)
    return existing


def finish_own_pool(connection: Connection, pool: Pool) -> None:
    """Have a pool that runs start at boot if it was made here; others have decided of theirs."""
    if is_ours(connection, pool.existing, pool.name, pool.path):
        start_at_boot(connection, pool)


def make_pool(connection: Connection, name: str, path: str, nfs: NfsSource | None = None) -> Pool:
    """Define a directory pool, or one where libvirt mounts ``nfs``; create its folder, start it and
    set it to start at boot.

    A kill leaves it inactive, or running and not set to start at boot; both are finished here.
    Others may make the same one at the same time: each of its calls may find that it is done.
    """
    handle = pool_named(connection, name)
    if handle is None:
        xml = pool_xml.render(name, path, nfs)
        define = connection.conn.storagePoolDefineXML
        try:
            handle = connection.call(f"define pool {name}", define, xml, 0)
        except LibvirtFailure:
            handle = pool_named(connection, name)
            if handle is None:
                raise
    actual = storage_info.pool(connection.call(f"read pool {name}", handle.XMLDesc, 0))["path"]
    if str(actual or "").rstrip("/") != path.rstrip("/"):
        raise PlanRefused(
            f"pool {name} is at {actual}, not at {path}; rename the one that is there, or give this"
            " one another name"
        )
    return finish_pool(connection, Pool(name, path.rstrip("/"), handle))


def finish_pool(connection: Connection, pool: Pool) -> Pool:
    """Start a pool that is defined, if it is inactive, and set it to start at boot."""
    handle = pool.existing
    if not connection.call(f"read pool {pool.name}", handle.isActive):
        try:
            connection.call(
                f"start pool {pool.name}", handle.create, STORAGE_POOL_CREATE_WITH_BUILD
            )
        except LibvirtFailure:
            if not connection.call(f"read pool {pool.name}", handle.isActive):
                raise
    start_at_boot(connection, pool)
    return pool


def start_at_boot(connection: Connection, pool: Pool) -> None:
    """Set it to start at boot, unless it is, or runs without a definition that could say so."""
    handle = pool.existing
    if not connection.call(f"read pool {pool.name}", handle.isPersistent):
        return
    if not connection.call(f"read pool {pool.name}", handle.autostart):
        connection.call(f"set pool {pool.name} to start at boot", handle.setAutostart, 1)


def patiently(
    connection: Connection,
    action: str,
    function: t.Callable[[], Value],
    seconds: float = CHANGE_SECONDS,
) -> Value:
    """Call within ``seconds``; while libvirt fails with an error that passes, wait and retry."""
    limit = time.monotonic() + _PATIENCE
    while True:
        try:
            return connection.call(action, function, seconds=seconds)
        except LibvirtFailure as error:
            passing = any(text in str(error) for text in _PASSING)
            if not passing or time.monotonic() > limit:
                raise
            time.sleep(0.1)


def find_volume(connection: Connection, pool: Pool, name: str) -> VirStorageVol | None:
    """libvirt's object for the volume ``name``, None if the pool does not list it."""
    if pool.handle is None:
        return None
    try:
        return connection.call(f"look for volume {name}", pool.handle.storageVolLookupByName, name)
    except LibvirtFailure as error:
        if error.code in (ERR_NO_STORAGE_VOL, ERR_NO_STORAGE_POOL):
            return None
        raise


def is_taken(connection: Connection, pool: Pool, name: str) -> bool:
    """Whether a volume of that name exists, or a file that libvirt does not know.

    What another hypervisor has removed from shared storage libvirt lists until the pool is
    refreshed, and would refuse to create until then.
    """
    if os.path.lexists(pool.volume_path(name)):
        return True
    if find_volume(connection, pool, name) is None:
        return False
    patiently(connection, f"refresh pool {pool.name}", lambda: pool.existing.refresh(0))
    return find_volume(connection, pool, name) is not None


def create_volume(
    connection: Connection,
    pool: Pool,
    name: str,
    *,
    size: int,
    volume_format: str,
    backing: tuple[str, str] | None = None,
    mode: str | None = None,
    secret: str | None = None,
) -> VirStorageVol:
    """Create a thin volume of ``size`` bytes: empty, or over ``backing``; ``secret`` encrypts it.

    libvirt refuses a name that is taken, as a volume or as a file.
    """
    permissions = volume_xml.Permissions(mode=mode) if mode else None
    xml = volume_xml.render(name, size, volume_format, backing, permissions, secret)
    return patiently(connection, f"create volume {name}", lambda: pool.existing.createXML(xml, 0))


def copy(source: str, source_format: str, target: str, target_format: str) -> None:
    """Fill the new, empty image ``target`` with the content of ``source``; holes stay holes.

    The copying ends with this process.
    """
    done = programs.attempt(
        programs.bound(
            [
                *("qemu-img", "convert", "-n", "--target-is-zero"),
                *("-f", source_format, "-O", target_format, source, target),
            ]
        ),
        seconds=_COPY,
    )
    if done is None or done.status:
        reason = done.error_text[-500:] if done else "setpriv (package util-linux) is not installed"
        raise PlanRefused(f"{source} could not be copied to {target}: {reason}")


def upload(connection: Connection, volume: VirStorageVol, name: str, content: bytes) -> None:
    """Fill a raw volume through libvirt (virStorageVolUpload)."""

    def send() -> None:
        stream = connection.conn.newStream(0)
        try:
            volume.upload(stream, 0, len(content), 0)
            for start in range(0, len(content), _CHUNK):
                rest = content[start : start + _CHUNK]
                while rest:
                    rest = rest[stream.send(rest) :]
            stream.finish()
        except BaseException:
            stream.abort()
            raise

    connection.call(f"fill volume {name}", send, seconds=_SHORT)


def delete_volume(connection: Connection, pool: Pool, name: str) -> bool:
    """Remove the volume; whether there was one."""
    volume = find_volume(connection, pool, name)
    if volume is None:
        return False
    patiently(connection, f"remove volume {name}", lambda: volume.delete(0))
    return True


def flush(path: str) -> None:
    """Sync the file and its directory entry to disk (fsync(2))."""
    for target in (path, os.path.dirname(path)):
        files.flush(target)
