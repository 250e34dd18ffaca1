# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The maintenance mark of a hypervisor: an empty volume in its pool of notes, which it shares with
none.

libvirt stores it, so that every reader of the hypervisor sees it, by any transport. An earlier
version had it in the pool of base images, where a shared one marked all; there it is still removed.
"""

from __future__ import annotations

import os
import typing as t

from ..._errors import PlanRefused
from ..base.effects_connection import Connection
from ..base.names import NOTES
from ..notes import effects as notes
from ..notes import read as read_notes
from ..storage import effects_storage as storage
from ..storage.read_pools import pool_named
from ..storage.read_shared_pools import NOTES_PATH
from .host_info import capabilities
from .read_host import MAINTENANCE_VOLUME


def mark(
    connection: Connection,
    wanted: bool,
    base_pool: str,
    base_path: str,
    *,
    check: bool,
    noted: bool = False,
) -> dict[str, object]:
    """Set or remove the mark; the result of ``virt_maintenance``. ``noted``: others are told of it
    afterwards."""
    if not base_path.startswith("/"):
        raise PlanRefused(
            f"base_path: {base_path!r} is not an absolute path; give a folder's path that begins"
            " with /"
        )
    handle = pool_named(connection, NOTES)
    own = storage.Pool(NOTES, NOTES_PATH, handle) if handle is not None else None
    if own is not None and not check:  # what it has while it does not run nobody sees
        notes.pool_of(connection)
    pools = [own, storage.find_pool(connection, base_pool, base_path, to_make=True)]
    marked = [pool for pool in pools if pool is not None and _is_there(connection, pool)]
    changed = bool(marked) != wanted
    if changed and not check:
        if wanted:
            _make(connection, notes.pool_of(connection))
        for pool in marked:
            storage.delete_volume(connection, pool, MAINTENANCE_VOLUME)
    result: dict[str, object] = {"changed": changed, "maintenance": wanted}
    if noted:
        text = connection.call("read capabilities", connection.conn.getCapabilities)
        result["machine"] = capabilities(text, "capabilities")["uuid"]
        result["at"] = read_notes.now()
    if changed:
        made = "" if own else f"pool {NOTES} at {NOTES_PATH}\n"
        before = "".join(f"volume {pool.name}/{MAINTENANCE_VOLUME}\n" for pool in marked)
        after = f"{made}volume {NOTES}/{MAINTENANCE_VOLUME}\n" if wanted else ""
        result["diff"] = {"before": before, "after": after}
    return result


def note(connection: Connection, marks: t.Sequence[str], *, check: bool) -> dict[str, object]:
    """Note the marks of others, by their volumes' names; the result of ``virt_maintenance``."""
    if not check:
        notes.mark(connection, marks)
    return {"changed": False}


def _is_there(connection: Connection, pool: storage.Pool) -> bool:
    if not connection.call(f"read pool {pool.name}", pool.existing.isActive):  # in check mode
        return connection.local and os.path.lexists(pool.volume_path(MAINTENANCE_VOLUME))
    return storage.find_volume(connection, pool, MAINTENANCE_VOLUME) is not None


def _make(connection: Connection, pool: storage.Pool) -> None:
    if connection.local and os.path.lexists(pool.volume_path(MAINTENANCE_VOLUME)):
        # a call was killed between creating the file and libvirt listing it
        storage.patiently(connection, f"refresh pool {pool.name}", lambda: pool.existing.refresh(0))
        if _is_there(connection, pool):
            return
    storage.create_volume(connection, pool, MAINTENANCE_VOLUME, size=0, volume_format="raw")
    if connection.local:
        storage.flush(pool.volume_path(MAINTENANCE_VOLUME))
