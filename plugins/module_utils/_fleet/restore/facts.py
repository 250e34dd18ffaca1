# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a hypervisor answers when VMs are restored."""

from __future__ import annotations

import typing as t

from ..base import answers
from ..placement.facts import Placing


class RestoreDisk(t.TypedDict):
    """A disk of a VM to restore, as placement asks for it: where it would be, and its size."""

    pool: str
    path: str
    bytes: int


class RestoreEntry(answers.Paged):
    """A VM to restore, as this hypervisor sees it.

    ``state``: nothing is there (``new``), an interrupted run of this request has left something
    (``begun``), it was restored from this archive before (``there``), or another VM has its name
    (``other``). ``problems``: why it cannot be restored here. ``reaches``: what its definition has
    that people should look at before it is started.
    """

    name: answers.VmName
    state: str
    problems: list[str]
    reaches: list[str]
    vcpus: int
    memory_mib: int
    domain_type: str | None
    arch: str | None
    bridges: list[str]
    networks: list[str]
    nwfilters: list[str]
    vsock: bool
    macs: list[str]
    disks: list[RestoreDisk]
    groups: list[str]
    affinity: list[str]
    anti_affinity: list[str]
    tags: list[str]
    zone: str | None


class RestoreLook(Placing, total=False):
    """What a hypervisor would have of the VMs; ``noted`` are readings of machines that do not
    answer, by volume."""

    entries: list[RestoreEntry] | None
    noted: dict[str, str] | None


class RestoredVm(answers.VmResult):
    """What came of it."""

    uuid: str | None
    steps: list[str]
    archive: str


class Restored(answers.Result, total=False):
    """The result of a stage."""

    vms: list[RestoredVm] | None


class DiskLook(answers.Result, total=False):
    """Those of the VMs, of which a disk is to be restored, that a hypervisor has."""

    disks: list[answers.VmIdentity] | None


class RestoredDisk(answers.VmResult):
    """What came of restoring a disk: the volume's file and pool."""

    uuid: str | None
    steps: list[str]
    archive: str
    pool: str
    path: str


class DiskRestored(answers.Result, total=False):
    """The result of restoring a disk beside its VM."""

    vms: list[RestoredDisk] | None


class FileLook(answers.Result, total=False):
    """Whether a hypervisor can read files of guests: the programs that it lacks."""

    lacks: list[str] | None


class RestoredFile(answers.VmResult):
    """What came of restoring a file of a VM: its size in bytes."""

    archive: str
    size: int


class FileRestored(answers.Result, total=False):
    """The result of restoring a file; its content is taken out before anybody sees it."""

    vms: list[RestoredFile] | None
    content: str | None
