# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a hypervisor answers when the doctor looks at it."""

from __future__ import annotations

import typing as t

from ..base import answers
from ..base.snapshot import CellEntry, GuestCpuEntry
from ..migration.facts import MigrateLook
from ..preflight.facts import ClockOffset


class BegunDiskMove(t.TypedDict):
    """The disk that a run which was interrupted was moving, and the pool to which."""

    disk: str
    pool: str


class ExaminedVm(answers.VmIdentity):
    """A VM; ``holder`` is the living process that works on it, ``broken`` why its metadata cannot
    be used, ``ha`` whether it is to be one of a cell's."""

    active: bool
    managed: bool
    holder: str | None
    broken: str | None
    ha: bool
    disk_move: BegunDiskMove | None
    nic_macs: list[str]


class UnusedVolume(t.TypedDict):
    """A volume that nothing on its hypervisor uses; ``id`` is that of a shared pool."""

    pool: str
    name: str
    path: str
    mib: int
    shared: bool
    id: str | None


class Expiry(t.TypedDict):
    """A certificate or revocation list: ``until`` when it is valid, and how many days in all."""

    path: str
    kind: str
    subject: str
    until: int
    days: float


class ExaminedCellVm(t.TypedDict):
    """A VM of the hypervisor's cell, as Pacemaker says there: which ``resource`` it is, whether the
    cell manages it or a run on ``held_by`` holds it, and whether it ``failed``, for which
    ``reason``. ``name`` is that of its card, of one that is defined nowhere."""

    uuid: str
    name: str | None
    resource: str
    managed: bool
    held_by: str | None
    failed: bool
    reason: str | None


class Checkup(t.TypedDict):
    """What no other answer says. ``used`` are the names of files that something there refers to,
    ``setup`` digests of what the set-up wrote, by file, ``noted`` the last note of another
    hypervisor with its content, by volume, ``rolling`` the marks of rolling work for which it is in
    maintenance, ``cell`` the one that it is a member of, ``errors`` checks that could not be made.
    """

    arch: str | None
    libvirt: str | None
    qemu: str | None
    kernel: str
    cpu: GuestCpuEntry | None
    setup: dict[str, str]
    keys: list[Expiry]
    vms: list[ExaminedVm]
    unused: list[UnusedVolume] | None
    used: list[str]
    noted: dict[str, str]
    rolling: list[str]
    cell: CellEntry | None
    cell_vms: list[ExaminedCellVm]
    errors: dict[str, str]


class Examined(MigrateLook, total=False):
    """The answer of a hypervisor; the controller adds ``clock``."""

    checkup: Checkup | None
    clock: ClockOffset | None
