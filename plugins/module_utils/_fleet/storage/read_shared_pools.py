# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pools that were declared shared, and whether the shared storage is at their folder.

The folder of a file system that is not mounted looks like an empty pool. So the set-up records, in
the pool of notes, which id each shared folder has: the name of an empty volume,
``pool.FOLDER.ID``, with a digest of the folder's path. A pool whose folder has no file with that id
is absent. libvirt's API tells that of any hypervisor, by any transport.
"""

from __future__ import annotations

import hashlib
import os
import re
import typing as t

from ..._errors import LibvirtFailure
from ..._libvirt import ERR_NO_STORAGE_POOL, ERR_NO_SUPPORT
from ..base.effects_connection import Connection
from ..base.names import NOTES
from . import storage_info

NOTES_PATH = "/var/lib/libvirt/fleet-notes"
# A file in a pool with the pool's id, whatever the pool's name where it is mounted
POOL_ID_FILE = "fleet-virt.pool-id"

_ID_BYTES = 128
_RECORD = re.compile(r"pool\.([0-9a-f]{16})\.([A-Za-z0-9_-]{1,64})")


def record_name(folder: str, pool_id: str) -> str | None:
    """The volume that records the id of a shared folder; None if that is no id."""
    name = f"pool.{_digest(folder)}.{pool_id}"
    return name if _RECORD.fullmatch(name) else None


def _digest(folder: str) -> str:
    return hashlib.sha256(os.fsencode(folder.rstrip("/"))).hexdigest()[:16]


def recorded_in(volumes: t.Iterable[str], folder: str) -> tuple[str, ...]:
    """The ids that the folder is to have, by the names of these volumes."""
    matches = [match for volume in volumes if (match := _RECORD.fullmatch(volume))]
    return tuple(sorted(match[2] for match in matches if match[1] == _digest(folder)))


def recorded_here() -> list[str]:
    """What this machine has recorded of shared folders, without libvirt: the names of volumes for
    :func:`recorded_in`."""
    try:
        return [name for name in os.listdir(NOTES_PATH) if _RECORD.fullmatch(name)]
    except OSError:  # no notes yet, or another user's
        return []


class SharedPools:
    """What a hypervisor has recorded of its shared pools, read once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._volumes = volumes_of_notes(connection)

    def recorded(self, folder: str) -> tuple[str, ...]:
        """The ids that the folder is to have; none if it was not declared shared."""
        return recorded_in(self._volumes, folder)

    def absent(self, name: str, folder: str) -> str | None:
        """Why the shared storage of the pool is not there; None if it is, or is not shared."""
        expected = self.recorded(folder)
        if not expected:
            return None
        call = self._connection.call
        path = f"{folder.rstrip('/')}/{POOL_ID_FILE}"
        if self._connection.local:
            own = call(f"read {path}", _read, path)
        else:
            own = fetch(self._connection, path)
        actual = text_of(own)
        if actual in expected:
            return None
        host = call("read the host's name", self._connection.conn.getHostname)
        return absent_text(name, str(host), folder, expected[0], actual)


def absent_text(name: str, host: str, folder: str, expected: str, actual: str | None) -> str:
    """Why a pool that was declared shared is absent, and what to do."""
    if actual is None:
        return (
            f"pool {name} is not mounted on {host}: it is declared shared, and {folder} has no file"
            f" {POOL_ID_FILE}; mount it there (virsh pool-destroy {name}; virsh pool-start {name},"
            f" where libvirt mounts it). If only that file was lost, write it again:"
            f" echo {expected} > {folder}/{POOL_ID_FILE}"
        )
    return (
        f"pool {name} is not mounted on {host}: at {folder} is storage with the id {actual}, not"
        f" {expected}; mount the right one there. If it was replaced for good: virsh vol-delete"
        f" --pool {NOTES} {record_name(folder, expected)}, then run ansible-playbook"
        " fleet.virt.setup_hypervisors"
    )


def read_id(folder: str) -> str | None:
    """The id of the pool in a folder of this machine."""
    try:
        with open(os.path.join(folder, POOL_ID_FILE), "rb") as file:
            return text_of(file.read(_ID_BYTES))
    except (FileNotFoundError, NotADirectoryError):
        return None


def text_of(content: bytes) -> str | None:
    """The id in a file with this content."""
    return content.decode("ascii", "replace").strip() or None


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_ID_BYTES)
    except OSError:  # also of a mount that has become stale
        return b""


def fetch(connection: Connection, path: str) -> bytes:
    """The first bytes of a volume on another hypervisor; none of one that is not there."""

    def download() -> bytes:
        volume = connection.conn.storageVolLookupByPath(path)
        stream = connection.conn.newStream(0)
        volume.download(stream, 0, _ID_BYTES, 0)
        content = b""
        while piece := stream.recv(_ID_BYTES):
            content += piece
        stream.finish()
        return content

    try:
        return connection.call(f"read {path}", download)
    except LibvirtFailure:  # libvirt may list a file that is gone; one that cannot be read is none
        return b""


def volumes_of_notes(connection: Connection) -> list[str]:
    """The names of all volumes in the pool of notes, whether it runs or not."""
    action = "look for records of shared pools"
    try:
        pool = connection.call(action, connection.conn.storagePoolLookupByName, NOTES)
    except LibvirtFailure as error:
        if error.code in (ERR_NO_STORAGE_POOL, ERR_NO_SUPPORT):
            return []
        raise
    if connection.call(action, pool.isActive):
        return [str(name) for name in connection.call(action, pool.listVolumes)]
    path = storage_info.pool(connection.call(action, pool.XMLDesc, 0))["path"]
    return os.listdir(path) if connection.local and path and os.path.isdir(path) else []
