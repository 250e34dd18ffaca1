# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The maintenance mark of a hypervisor: an empty volume in the pool of base images.

libvirt stores it, so that every reader of the hypervisor sees it, by any transport.
"""

from __future__ import annotations

import os

from ..._errors import PlanRefused
from ..base.effects_connection import Connection
from ..engine import effects_lease_holder as owner
from ..storage import effects_storage as storage
from .read_host import MAINTENANCE_VOLUME


def mark(
    connection: Connection, wanted: bool, base_pool: str, base_path: str, *, check: bool
) -> dict[str, object]:
    """Set or remove the mark; the result of ``virt_maintenance``."""
    if not base_path.startswith("/"):
        raise PlanRefused(
            f"base_path: {base_path!r} is not an absolute path; give a folder's path that begins"
            " with /"
        )
    pool = storage.find_pool(connection, base_pool, base_path)
    there = pool is not None and _is_there(connection, pool)
    if there != wanted and not check:
        if wanted:
            _make(connection, pool or _pool(connection, base_pool, base_path))
        elif pool is not None:
            storage.delete_volume(connection, pool, MAINTENANCE_VOLUME)
    result: dict[str, object] = {"changed": there != wanted, "maintenance": wanted}
    if there != wanted:
        name = pool.name if pool else base_pool
        made = "" if pool else f"pool {base_pool} at {base_path.rstrip('/')}\n"
        line = f"volume {name}/{MAINTENANCE_VOLUME}\n"
        result["diff"] = {"before": line if there else "", "after": made + line if wanted else ""}
    return result


def _is_there(connection: Connection, pool: storage.Pool) -> bool:
    return storage.find_volume(connection, pool, MAINTENANCE_VOLUME) is not None


def _pool(connection: Connection, name: str, path: str) -> storage.Pool:
    with owner.host_lock():
        existing = storage.find_pool(connection, name, path)
        return existing or storage.make_pool(connection, name, path)


def _make(connection: Connection, pool: storage.Pool) -> None:
    if connection.local and os.path.lexists(pool.volume_path(MAINTENANCE_VOLUME)):
        # a call was killed between creating the file and libvirt listing it
        storage.patiently(connection, f"refresh pool {pool.name}", lambda: pool.existing.refresh(0))
        if _is_there(connection, pool):
            return
    storage.create_volume(connection, pool, MAINTENANCE_VOLUME, size=0, volume_format="raw")
    if connection.local:
        storage.flush(pool.volume_path(MAINTENANCE_VOLUME))
