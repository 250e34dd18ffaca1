# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a disk is one file that both hypervisors reach, proven and not assumed.

The pools have the same id in a file. A folder that was copied or restored has that too, so the
destination makes an empty file with a random name in its pool and it is seen here. Check mode
makes nothing and goes by the id.

This file is private to the collection.
"""

from __future__ import annotations

import os
import posixpath
import secrets
import time
import typing as t
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ..._errors import FleetVirtError, LibvirtFailure
from ..._libvirt import ERR_NO_STORAGE_VOL
from ..._pure.migration.types import Pool, Source
from ..base import deadline
from ..base.connection import Connection
from ..machine.ownership import POOL_ID_FILE

if t.TYPE_CHECKING:
    from ..._libvirt import VirStorageVol

_SECONDS = 5.0  # that a file system may take to show here what was made there
_POLL = 0.1
_ID_BYTES = 128
_PROBE = "fleet-virt.probe-"
_VOLUME = (
    "<volume><name>{}</name><capacity>0</capacity><target><format type='raw'/></target></volume>"
)


def proofs(
    here: Connection, there: Connection, source: Source, pools: t.Sequence[Pool], *, check: bool
) -> dict[str, str]:
    """The disks in pools that have one id on both ends, by path: why a disk is not known to be the
    same file there, empty if it is.

    ``pools`` are the destination's, read anew unless in check mode. There a disk that is not listed
    is taken for one that was made behind libvirt's back.
    """
    folders: dict[str, str | None] = {}
    found = {}
    for disk in source.disks:
        if disk.device != "disk" or disk.type != "file" or not disk.path:
            continue
        folder = posixpath.dirname(disk.path)
        if folder not in folders:
            folders[folder] = _folder(here, there, source.uuid, folder, pools, check=check)
        problem = folders[folder]
        if problem is not None:
            found[disk.path] = problem or _file(here, there, disk.path, check=check)
    return found


def _folder(
    here: Connection,
    there: Connection,
    uuid: str,
    folder: str,
    pools: t.Sequence[Pool],
    *,
    check: bool,
) -> str | None:
    """None if the pools there and here are two; else why they are not proven to be one."""
    pool = next((pool for pool in pools if pool.path == folder and pool.active), None)
    if pool is None:
        return None
    path = f"{folder}/{POOL_ID_FILE}"
    own = _local(here, f"read {path}", lambda: _read(path))
    if not own or own != _fetch(there, path):
        return None
    if check:
        return ""
    with _probe(there, pool.name, f"{_PROBE}{uuid}-") as name:
        limit = time.monotonic() + _SECONDS
        while not _local(here, f"look into {folder}", lambda: os.path.lexists(f"{folder}/{name}")):
            if time.monotonic() > limit:
                return "the pool has the id of the one here, but what is made there is not here"
            time.sleep(_POLL)
    return ""


@contextmanager
def _probe(there: Connection, pool: str, prefix: str) -> Iterator[str]:
    """An empty volume of the destination, and none of an earlier run that was killed."""
    handle = there.call(f"look for pool {pool}", there.conn.storagePoolLookupByName, pool)
    for left in there.call(f"list pool {pool}", handle.listAllVolumes, 0):
        if left.name().startswith(prefix):
            _remove(there, left)
    name = prefix + secrets.token_hex(8)
    volume = there.call(f"make volume {name}", handle.createXML, _VOLUME.format(name), 0)
    try:
        yield name
    finally:
        _remove(there, volume)


def _remove(there: Connection, volume: VirStorageVol) -> None:
    # It is empty, and the next run for this VM looks for it
    with suppress(FleetVirtError):
        there.call(f"remove volume {volume.name()}", volume.delete, 0)


def _file(here: Connection, there: Connection, path: str, *, check: bool) -> str:
    """Why the disk is not the file of that name in the pool that both have; empty if it is."""
    if _local(here, f"look at {path}", lambda: os.path.islink(path)):
        return "it is a link, which may lead to another file there"
    if not check and _volume(there, path) is None:
        return "the pool is the same, but the file is not there"
    return ""


def _volume(there: Connection, path: str) -> VirStorageVol | None:
    try:
        return there.call(f"look for volume {path}", there.conn.storageVolLookupByPath, path)
    except LibvirtFailure as error:
        if error.code != ERR_NO_STORAGE_VOL:
            raise
        return None


_T = t.TypeVar("_T")


def _local(here: Connection, what: str, ask: t.Callable[[], _T]) -> _T:
    """Storage of others may not answer."""
    return deadline.call(ask, seconds=here.timeout, what=what)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_ID_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return b""


def _fetch(there: Connection, path: str) -> bytes:
    """The beginning of a file of the destination."""
    volume = _volume(there, path)
    if volume is None:
        return b""

    def fetch() -> bytes:
        stream = there.conn.newStream(0)
        volume.download(stream, 0, _ID_BYTES, 0)
        found = b""
        while piece := stream.recv(_ID_BYTES):
            found += piece
        stream.finish()
        return found

    return there.call(f"read {path}", fetch)
