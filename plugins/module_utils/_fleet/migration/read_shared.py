# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a disk is one file that both hypervisors can reach, proven and not assumed.

The pools have the same id in a file. A folder that was copied or restored has that too, so an empty
file with a random name is created in the destination's pool, and must show up on the source. Check
mode creates nothing and relies on the id.
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
from ..base import effects_deadline as deadline
from ..base.effects_connection import Connection
from ..storage.read_shared_pools import POOL_ID_FILE, SharedPools, fetch, read_id, text_of
from .types import DestinationPool, Source

if t.TYPE_CHECKING:
    from ..._libvirt import VirStorageVol

_SECONDS = 5.0  # in which a file created on the destination must show up here
_POLL = 0.1
_PROBE = "fleet-virt.probe-"
_VOLUME = (
    "<volume><name>{}</name><capacity>0</capacity><target><format type='raw'/></target></volume>"
)


def proofs(
    here: Connection,
    there: Connection,
    source: Source,
    pools: t.Sequence[DestinationPool],
    *,
    check: bool,
) -> dict[str, str]:
    """The disks in pools that have the same id on source and destination, with the files below them
    and those that snapshots need, by path: why a file is not proven to be the same on both, empty
    if it is.

    ``pools`` are the destination's, refreshed unless in check mode. In check mode, a disk that is
    not listed is assumed to be unknown to libvirt only.
    """
    folders: dict[str, str | None] = {}
    problems = {}
    paths = [
        path
        for disk in source.disks
        if disk.type == "file" and disk.path
        for path in (disk.path, *(lower for lower, _format in disk.chain))
    ]
    for snapshot in source.snapshots:
        paths += [*snapshot.files, *snapshot.media]
    for path in dict.fromkeys(path for path in paths if path.startswith("/")):
        folder = posixpath.dirname(path)
        if folder not in folders:
            folders[folder] = _folder(here, there, source.uuid, folder, pools, check=check)
        problem = folders[folder]
        if problem is not None:
            problems[path] = problem or _file(here, there, path, check=check)
    return problems


def _folder(
    here: Connection,
    there: Connection,
    uuid: str,
    folder: str,
    pools: t.Sequence[DestinationPool],
    *,
    check: bool,
) -> str | None:
    """None if source and destination have different pools; else why they may not be the same."""
    pool = next((pool for pool in pools if pool.path == folder and pool.active), None)
    if pool is None:
        return None
    path = f"{folder}/{POOL_ID_FILE}"
    own = _local(here, f"read {path}", lambda: read_id(folder))
    other = text_of(fetch(there, path))
    if other is None and SharedPools(here).recorded(folder):
        return (
            f"the pool is declared shared on the source and not mounted there (no {POOL_ID_FILE})"
        )
    if not own or own != other:
        return None
    if check:
        return ""
    with _probe(there, pool.name, f"{_PROBE}{uuid}-") as name:
        limit = time.monotonic() + _SECONDS
        while not _local(here, f"look into {folder}", lambda: os.path.lexists(f"{folder}/{name}")):
            if time.monotonic() > limit:
                return (
                    "both pools have the same id, but a file created on the destination is not"
                    " visible on the source"
                )
            time.sleep(_POLL)
    return ""


@contextmanager
def _probe(there: Connection, pool: str, prefix: str) -> Iterator[str]:
    """An empty volume on the destination; those of earlier runs that were killed are removed."""
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
    # it is empty, and the next run for this VM removes it
    with suppress(FleetVirtError):
        there.call(f"remove volume {volume.name()}", volume.delete, 0)


def _file(here: Connection, there: Connection, path: str, *, check: bool) -> str:
    """Why the disk is not the file of that name in the common pool; empty if it is."""
    if _local(here, f"look at {path}", lambda: os.path.islink(path)):
        return "it is a symbolic link, which may point to another file on the destination"
    if not check and _volume(there, path) is None:
        return "the pool is the same, but the file is missing on the destination"
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
    """Do ``ask`` with a time limit: network storage may hang."""
    return deadline.call(ask, seconds=here.timeout, what=what)
