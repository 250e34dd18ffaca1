# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The steps to set up a directory pool, which is found by its directory, whatever its name."""

from __future__ import annotations

import typing as t

from ..._errors import PlanRefused, Problem, SpecError
from ..._records import dataclass
from ..storage import nfs_options
from ..storage.nfs_options import NfsSource

FOLDER_TYPES = ("dir", "fs", "netfs")
DEFINE, START, AUTOSTART, IDENTIFY = "define", "start", "set to start at boot", "give an id"
RECORD = "record that it is shared"


class NfsOption(t.TypedDict):
    """What an NFS pool mounts, as Ansible's validation leaves it."""

    server: str
    export: str
    version: str
    options: list[str]


class _OptionMore(t.TypedDict, total=False):
    nfs: NfsOption | None
    shared: bool


class Option(_OptionMore):
    """An entry of ``pools``, as Ansible's validation leaves it."""

    name: str
    path: str


@dataclass(frozen=True)
class RequestedPool:
    """A requested pool; one with ``nfs`` is mounted by libvirt, and shared."""

    name: str
    path: str
    nfs: NfsSource | None = None
    shared: bool = False


@dataclass(frozen=True)
class PoolFolder:
    """What is at the path of a requested pool: the ``id`` there, the ids ``recorded`` for it,
    whether a file system is ``mounted`` there that others may have too, and why it is ``absent``,
    if it is."""

    id: str | None = None
    recorded: tuple[str, ...] = ()
    mounted: bool = False
    absent: str | None = None


@dataclass(frozen=True)
class ExistingPool:
    """An existing pool."""

    name: str
    type: str
    path: str | None
    active: bool
    autostart: bool
    source: str | None = None  # what an NFS pool mounts, as SERVER:EXPORT


def validate(pools: t.Sequence[Option]) -> list[RequestedPool]:
    """The requested pools; raises SpecError with every problem."""
    problems = []
    wanted: list[RequestedPool] = []
    for index, pool in enumerate(pools):
        path = pool["path"].rstrip("/")
        where = f"pools[{index}]"
        if not path.startswith("/") or ".." in path.split("/"):
            problems.append(
                Problem(f"{where}.path", f"{pool['path']!r} is not an absolute path of a directory")
            )
        if not pool["name"] or "/" in pool["name"] or "\n" in pool["name"]:
            problems.append(Problem(f"{where}.name", f"{pool['name']!r} is not a pool name"))
        for earlier in wanted:
            if path == earlier.path:
                problems.append(Problem(f"{where}.path", f"{path} is given twice"))
            if pool["name"] == earlier.name:
                problems.append(Problem(f"{where}.name", f"{pool['name']} is given twice"))
        source = _nfs(pool.get("nfs"))
        if source is not None:
            problems += [Problem(f"{where}.nfs", text) for text in nfs_options.problems(source)]
        shared = bool(pool.get("shared")) or source is not None
        wanted.append(RequestedPool(pool["name"], path, source, shared))
    if problems:
        raise SpecError(problems)
    return wanted


def _nfs(given: NfsOption | None) -> NfsSource | None:
    if given is None:
        return None
    options = tuple(given.get("options") or ())
    return NfsSource(given["server"], given["export"], given["version"], options)


def plan(
    wanted: RequestedPool, pools: t.Sequence[ExistingPool], folder: PoolFolder
) -> tuple[str, list[str]]:
    """The pool's name, and the steps; raises PlanRefused if another pool is in the way, or if what
    is to be shared is not mounted."""
    at_path = next((pool for pool in pools if pool.path == wanted.path), None)
    of_name = next((pool for pool in pools if pool.name == wanted.name), None)
    if at_path is not None:
        if at_path.type not in FOLDER_TYPES:
            raise PlanRefused(
                f"pool {at_path.name} at {wanted.path} is of type {at_path.type}; VM disks and"
                f" images are stored in file-based pools ({', '.join(FOLDER_TYPES)})"
            )
        source = wanted.nfs and f"{wanted.nfs.server}:{wanted.nfs.export}"
        if source and at_path.source not in (None, source):
            raise PlanRefused(
                f"pool {at_path.name} at {wanted.path} mounts {at_path.source}, not {source};"
                " request it with that server and export, or give the new pool another path"
            )
        steps = [] if at_path.active else [START]
        steps += [] if at_path.autostart else [AUTOSTART]
        return at_path.name, [*steps, *_last(wanted, folder, is_mounted_by_start(wanted, pools))]
    if of_name is not None:
        raise PlanRefused(
            f"pool {wanted.name} is at {of_name.path}, not at {wanted.path}; request it there, or"
            " give the new pool another name"
        )
    steps = _last(wanted, folder, is_mounted_by_start(wanted, pools))
    return wanted.name, [DEFINE, START, AUTOSTART, *steps]


def is_mounted_by_start(wanted: RequestedPool, pools: t.Sequence[ExistingPool]) -> bool:
    """Whether libvirt mounts the folder when it starts the pool, so what is there now is below."""
    at_path = next((pool for pool in pools if pool.path == wanted.path), None)
    if at_path is None:
        return wanted.nfs is not None
    return at_path.type in ("fs", "netfs") and not at_path.active


def _last(wanted: RequestedPool, folder: PoolFolder, starts: bool) -> list[str]:
    """The steps for the id. Only what is mounted gets one: the next hypervisor would give the same
    storage another, and this one would take an empty folder for the pool."""
    if not starts:
        if folder.absent is not None:
            raise PlanRefused(folder.absent)
        if wanted.shared and not folder.mounted:
            raise PlanRefused(
                f"pool {wanted.name} is declared shared, and nothing is mounted at {wanted.path};"
                " mount the shared storage there first, or request the pool without shared"
            )
    own = None if starts else folder.id
    identify = [] if own or folder.recorded else [IDENTIFY]
    # a pool that is mounted here and was recorded has one of the recorded ids
    record = [RECORD] if wanted.shared and not folder.recorded else []
    return [*identify, *record]
