# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a hypervisor answers when VMs are to be removed."""

from __future__ import annotations

import typing as t

from ..base import answers


class PurgeVolume(t.TypedDict):
    """A volume of a VM; ``pool_id`` is the id of its pool, if it has one."""

    path: str
    shared: bool
    pool_id: str | None


class PurgeVm(answers.GroupedVm):
    """A VM to be removed, where it is."""

    volumes: list[PurgeVolume]


class FileUsers(t.TypedDict):
    """Who uses a file of this name."""

    file: str
    users: list[str]


class PurgeLook(answers.Result, total=False):
    """What other hypervisors must know of one."""

    vms: list[PurgeVm] | None
    pool_ids: list[str] | None
    users: list[FileUsers] | None


class RemovedEntry(t.TypedDict):
    """What was removed of a VM."""

    kind: str
    name: str | None
    path: str | None
    size_mib: int | None


class PurgedVm(answers.TriedVm):
    """What came of it: what was removed, and what is kept."""

    uuid: str | None
    removed: list[RemovedEntry]
    kept: list[answers.KeptFile]


class Purged(answers.Result, total=False):
    """The result for the VMs of a hypervisor."""

    vms: list[PurgedVm] | None
