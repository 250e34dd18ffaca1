# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ensuring pools of files on this machine, each with an id that identifies it."""

from __future__ import annotations

import contextlib
import os
import typing as t
import uuid

from ..._errors import HostUnreachable, PlanRefused
from ..._libvirt import LIBVIRT_IMPORT_ERROR, STORAGE_POOL_CREATE_WITH_BUILD
from ..base import effects_deadline as deadline
from ..base import effects_files as files
from ..base.effects_connection import Connection, connect
from ..base.results import GENERATED
from ..notes import effects as notes
from ..storage import effects_storage as storage
from ..storage import read_file_systems as file_systems
from ..storage import storage_info
from ..storage.read_pools import list_pools
from ..storage.read_shared_pools import POOL_ID_FILE, SharedPools, read_id, record_name
from . import plan as pool_plan
from .plan import AUTOSTART, IDENTIFY, RECORD, START, ExistingPool, PoolFolder, RequestedPool

if t.TYPE_CHECKING:
    from ..._libvirt import VirStoragePool
    from ..base.results import Diff
    from ..base.snapshot import PoolInfo

_FOLDER_MODE = 0o711  # as libvirt creates it: QEMU's user opens files in it, but cannot list it


class EnsuredPool(t.TypedDict):
    """A pool and its steps, done or planned."""

    name: str
    path: str
    id: str | None
    steps: list[str]


class PoolsResult(t.TypedDict):
    """The module's result."""

    changed: bool
    pools: list[EnsuredPool]
    diff: list[Diff]


def ensure(
    uri: str, timeout: float, pools: t.Sequence[pool_plan.Option], check: bool
) -> PoolsResult:
    """Ensure that the pools exist; everything is checked before anything is changed.

    In check mode, a machine without libvirt has no pools: it may be about to be installed.
    """
    wanted = pool_plan.validate(pools)
    with contextlib.ExitStack() as stack:
        connection: Connection | None = None
        if not check:
            connection = stack.enter_context(connect(uri, timeout))
        elif LIBVIRT_IMPORT_ERROR is None:
            with contextlib.suppress(HostUnreachable):
                connection = stack.enter_context(connect(uri, timeout))
        existing, raws = _read(connection)
        declared = SharedPools(connection) if connection is not None else None
        plans = [
            (option, *pool_plan.plan(option, existing, _folder(option, declared, timeout)))
            for option in wanted
        ]
        entries: list[EnsuredPool] = []
        for option, name, steps in plans:
            if connection is not None and not check:
                _carry_out(connection, option, raws.get(name), steps)
            identity = GENERATED if check and IDENTIFY in steps else read_id(option.path)
            entries.append({"name": name, "path": option.path, "id": identity, "steps": steps})
    diff: list[Diff] = [
        {
            "before_header": entry["path"],
            "before": "",
            "after_header": entry["path"],
            "after": "".join(f"pool {entry['name']}: {step}\n" for step in entry["steps"]),
        }
        for entry in entries
        if entry["steps"]
    ]
    return {"changed": bool(diff), "pools": entries, "diff": diff}


def _read(connection: Connection | None) -> tuple[list[ExistingPool], dict[str, VirStoragePool]]:
    if connection is None:
        return [], {}
    pools = []
    raws = {}
    for handle in list_pools(connection):
        name = str(handle.name())
        info = storage_info.pool(connection.call(f"read pool {name}", handle.XMLDesc, 0))
        pools.append(
            ExistingPool(
                name,
                str(info["type"]),
                str(info["path"]).rstrip("/") if info["path"] else None,
                bool(connection.call(f"read pool {name}", handle.isActive)),
                bool(connection.call(f"read pool {name}", handle.autostart)),
                _source(info),
            )
        )
        raws[name] = handle
    return pools, raws


def _folder(wanted: RequestedPool, declared: SharedPools | None, timeout: float) -> PoolFolder:
    """What is at the path now, which may hang."""

    def look() -> tuple[str | None, bool]:
        real = os.path.realpath(wanted.path)
        if not os.path.isdir(real):
            return None, False
        mount = file_systems.mount(real)
        at_folder = mount is not None and mount.point == real
        return read_id(real), at_folder or file_systems.is_shared(real)

    pool_id, mounted = deadline.call(look, seconds=timeout, what=f"look at {wanted.path}")
    if declared is None:
        return PoolFolder(pool_id, (), mounted)
    recorded = declared.recorded(wanted.path)
    return PoolFolder(pool_id, recorded, mounted, declared.absent(wanted.name, wanted.path))


def _source(info: PoolInfo) -> str | None:
    """What a pool of libvirt's type ``netfs`` mounts."""
    source = info["source"]
    if info["type"] != "netfs" or not source["hosts"]:
        return None
    return f"{source['hosts'][0]}:{source['dir']}"


def _carry_out(
    connection: Connection,
    wanted: RequestedPool,
    there: VirStoragePool | None,
    steps: t.Sequence[str],
) -> None:
    if there is None:
        # The folder first: a pool whose folder is missing may be on a file system not mounted
        os.makedirs(wanted.path, mode=_FOLDER_MODE, exist_ok=True)
        handle = storage.make_pool(connection, wanted.name, wanted.path, wanted.nfs).existing
    else:
        handle = there
        if START in steps:
            # Half made, its folder may not be there yet; that of one that starts at boot was, and
            # may be on a file system that is not mounted
            flags = STORAGE_POOL_CREATE_WITH_BUILD if AUTOSTART in steps else 0
            connection.call(f"start the pool at {wanted.path}", handle.create, flags)
        if AUTOSTART in steps:
            connection.call(
                f"set the pool at {wanted.path} to start at boot", handle.setAutostart, 1
            )
    absent = SharedPools(connection).absent(wanted.name, wanted.path)
    if absent is not None:  # what start has mounted is something else
        raise PlanRefused(absent)
    if IDENTIFY in steps:
        _write_id(wanted.path)
    if RECORD in steps:
        _record(connection, wanted.path)
    if IDENTIFY in steps or RECORD in steps:
        # so that other hypervisors see the id through libvirt
        action = f"refresh the pool at {wanted.path}"
        storage.patiently(connection, action, lambda: handle.refresh(0))


def _record(connection: Connection, folder: str) -> None:
    pool_id = read_id(folder)
    name = record_name(folder, pool_id or "")
    if name is None:
        raise PlanRefused(
            f"{folder}/{POOL_ID_FILE} has {pool_id!r}, which is no id; with no other hypervisor"
            " using the pool, remove the file and run this again"
        )
    notes.keep(connection, name)


def _write_id(folder: str) -> None:
    """Write a new id, unless another hypervisor that shares the folder was first."""
    path = os.path.join(folder, POOL_ID_FILE)
    data = f"{uuid.uuid4()}\n".encode("ascii")
    try:
        if not files.publish(path, data, mode=0o644) and read_id(folder) is None:  # an empty file
            files.write(path, data, mode=0o644)
        storage.flush(path)
    except PermissionError as error:
        raise PlanRefused(
            f"{path}: {error.strerror}; libvirt makes disks there as root, so an NFS server must"
            " export it with no_root_squash"
        ) from None
