# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a hypervisor answers when VMs of another one are restarted elsewhere."""

from __future__ import annotations

import typing as t

from ..base import answers
from ..notes.silent import Told
from ..placement.facts import Placing


class CardDisk(t.TypedDict):
    """A disk of a VM, as placement asks for it; its space is taken already."""

    path: str
    bytes: int


class CardEntry(answers.Paged):
    """A VM whose card names the hypervisor that is off, as this one sees it.

    ``problems``: why it cannot run here; ``locked``: its disks that a process has open for writing.
    ``lockless``: why the locks of its storage promise nothing, as it is mounted here.
    ``defined``: this hypervisor has a VM of its UUID that is no leftover of it. ``path`` and
    ``identity`` are those of the card's file: what takes the VM over takes exactly that.
    """

    name: answers.VmName
    uuid: str
    path: str
    identity: str
    hosts: list[str]
    running: bool
    defined: bool
    problems: list[str]
    locked: list[str]
    lockless: list[str]
    vcpus: int
    memory_mib: int
    domain_type: str | None
    arch: str | None
    bridges: list[str]
    networks: list[str]
    nwfilters: list[str]
    vsock: bool
    disks: list[CardDisk]
    groups: list[str]
    macs: list[str]
    affinity: list[str]
    anti_affinity: list[str]
    tags: list[str]
    zone: str | None


class CellCard(t.TypedDict):
    """A VM that a cell restarts. ``cell`` is what its resource is in, with its ``quorate`` half, if
    this hypervisor is a member of that, and the VM was named; ``unclean`` are members that are not
    proven off."""

    name: answers.VmName
    cell: str | None
    quorate: bool
    unclean: list[str]


class RestartLook(Placing, total=False):
    """The cards that a hypervisor sees; ``sign`` is how the one that should be off answers it,
    ``signs`` the same for each of its addresses, of which silence means something for ``audible``,
    ``unread`` are cards that cannot be read, with the reasons, ``in_cells`` VMs of cells, whose
    cards name no hypervisor, ``noted`` what it noted of the one that should be off."""

    cards: list[CardEntry] | None
    sign: str | None
    signs: dict[str, str] | None
    audible: list[str] | None
    unread: list[str] | None
    in_cells: list[CellCard] | None
    noted: Told | None


class RestartedVm(answers.VmResult):
    """What came of it; ``running``: it is to be started, ``waits``: and then to respond."""

    uuid: str | None
    steps: list[str]
    running: bool
    waits: bool


class Restarted(answers.Result, total=False):
    """The result of a stage."""

    vms: list[RestartedVm] | None
