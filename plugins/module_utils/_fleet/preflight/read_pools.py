# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Preflight facts of the pools of files: how their folders are mounted."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ..base.effects_connection import Connection
from ..storage import read_file_systems as file_systems
from ..storage import storage_info
from ..storage.read_file_users import FOLDER_TYPES
from ..storage.read_pools import list_pools
from ..storage.read_shared_pools import SharedPools, read_id

if t.TYPE_CHECKING:
    from .facts import FolderPool

# Whether the client takes a lock again that another may have had meanwhile
_RECOVER = Path("/sys/module/nfs/parameters/recover_lost_locks")


def folder_pools(connection: Connection) -> list[FolderPool]:
    """All pools of files, active or not."""
    pools: list[FolderPool] = []
    declared = SharedPools(connection)
    for handle in list_pools(connection):
        name = str(handle.name())
        xml = connection.call(f"read pool {name}", handle.XMLDesc, 0)
        info = storage_info.pool(xml, f"pool {name}")
        if info["type"] not in FOLDER_TYPES or not info["path"]:
            continue
        path = str(info["path"]).rstrip("/")
        options = connection.call(f"look at {path}", file_systems.nfs_options, path)
        mounted = None if options is None else list(options)
        defined = storage_info.nfs_options(xml, f"pool {name}")
        pools.append(
            {
                "name": name,
                "path": path,
                "id": connection.call(f"look at {path}", read_id, path),
                "shared": bool(declared.recorded(path)),
                "absent": declared.absent(name, path),
                "defined": defined,
                "mounted": mounted,
            }
        )
    return pools


def recovers_locks() -> bool:
    """Whether the NFS client takes locks again that it had lost."""
    try:
        return _RECOVER.read_text(encoding="ascii").strip() not in ("N", "0")
    except OSError:
        return False
