# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The steps to set up a directory pool, which is found by its directory, whatever its name."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..._errors import PlanRefused, Problem, SpecError
from ..storage import nfs_options
from ..storage.nfs_options import NfsSource

FOLDER_TYPES = ("dir", "fs", "netfs")
DEFINE, START, AUTOSTART, IDENTIFY = "define", "start", "set to start at boot", "give an id"


class NfsOption(t.TypedDict):
    """What an NFS pool mounts, as Ansible's validation leaves it."""

    server: str
    export: str
    version: str
    options: list[str]


class _OptionMore(t.TypedDict, total=False):
    nfs: NfsOption | None


class Option(_OptionMore):
    """An entry of ``pools``, as Ansible's validation leaves it."""

    name: str
    path: str


@dataclass(frozen=True)
class RequestedPool:
    """A requested pool; one with ``nfs`` is mounted by libvirt."""

    name: str
    path: str
    nfs: NfsSource | None = None


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
        wanted.append(RequestedPool(pool["name"], path, source))
    if problems:
        raise SpecError(problems)
    return wanted


def _nfs(given: NfsOption | None) -> NfsSource | None:
    if given is None:
        return None
    options = tuple(given.get("options") or ())
    return NfsSource(given["server"], given["export"], given["version"], options)


def plan(
    wanted: RequestedPool, pools: t.Sequence[ExistingPool], identified: bool
) -> tuple[str, list[str]]:
    """The pool's name, and the steps; raises PlanRefused if another pool is in the way."""
    at_path = next((pool for pool in pools if pool.path == wanted.path), None)
    of_name = next((pool for pool in pools if pool.name == wanted.name), None)
    last = [] if identified else [IDENTIFY]
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
        return at_path.name, [*steps, *last]
    if of_name is not None:
        raise PlanRefused(
            f"pool {wanted.name} is at {of_name.path}, not at {wanted.path}; request it there, or"
            " give the new pool another name"
        )
    return wanted.name, [DEFINE, START, AUTOSTART, *last]
