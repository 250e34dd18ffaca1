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
import typing as t

from ..._errors import LibvirtFailure
from ..._libvirt import ERR_NO_STORAGE_VOL
from ..base import effects_deadline as deadline
from ..base.effects_connection import Connection
from ..storage.effects_probe import appears, probe
from ..storage.read_shared_pools import POOL_ID_FILE, SharedPools, fetch, read_id, text_of
from .types import DestinationPool, Source

if t.TYPE_CHECKING:
    from ..._libvirt import VirStorageVol


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
    with probe(there, pool.name, uuid) as (name, _handle):
        if not appears(f"{folder}/{name}", here.timeout):
            return (
                "both pools have the same id, but a file created on the destination is not visible"
                " on the source"
            )
    return ""


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
