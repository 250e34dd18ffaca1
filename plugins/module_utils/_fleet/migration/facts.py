# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a hypervisor answers before VMs move, and what came of their moves."""

from __future__ import annotations

import typing as t

from ..base import answers
from ..cards.facts import CardEntry
from ..cell.facts import UnmanagedVm
from ..placement.facts import Placing

Figure = t.Union[int, float, str, None]  # text in check mode


class Endpoints(t.TypedDict):
    """The hypervisors that a VM moves between."""

    source: str
    destination: str


class MovingDisk(t.TypedDict):
    """A disk that is copied; ``backing`` is its backing file."""

    path: str | None
    bytes: int
    backing: str | None


class NameEntry(t.TypedDict):
    """What a VM names of its hypervisor, and which part of it does."""

    kind: str
    value: str
    use: str


class MovingDemand(t.TypedDict):
    """What a VM needs on its new hypervisor; nothing is known of one that could not be read.

    ``media`` are the paths of what is in its drives, ``names`` what only the other machine itself
    can say whether it has it.
    """

    active: bool
    vcpus: int
    memory_mib: int
    domain_type: str | None
    arch: str | None
    bridges: list[str]
    networks: list[str]
    nwfilters: list[str]
    vsock: bool
    disks: list[MovingDisk]
    media: list[str]
    names: list[NameEntry]


class _Unsound(t.TypedDict, total=False):
    unsound: str
    lacking: dict[str, str]
    foreign: bool


class MovingVm(MovingDemand, _Unsound, answers.Paged, answers.LeftBehind):
    """A VM that may move; ``error`` says why its demand is not known.

    ``ha``: a cell restarts it. ``unsound``: so is whether it is in a move, since its hypervisor's
    answer is not as declared. ``lacking`` is what other hypervisors lack of what it names, noted on
    the controller. ``foreign``: it was not made by this collection, so it is not moved.
    """

    name: answers.VmName
    uuid: str
    persistent: bool
    phase: str | None
    move: Endpoints | None
    zone: str | None
    groups: list[str]
    affinity: list[str]
    anti_affinity: list[str]
    tags: list[str]
    evacuated_from: list[str]
    ha: bool
    error: str | None


class ClaimEntry(Endpoints):
    """A VM with a claim, and the hypervisors between which it moves."""

    name: answers.VmName


class MigrateLook(Placing, total=False):
    """What a hypervisor answers before moves; ``expired`` and ``missing_certificates`` describe its
    expired and missing certificates for incoming VMs, ``cards`` those of its VMs that are not as
    they should be, ``unmanaged`` VMs that their cell does not manage."""

    vms: list[MovingVm] | None
    claims: list[ClaimEntry] | None
    expired: list[str] | None
    missing_certificates: list[str] | None
    cards: list[CardEntry] | None
    unmanaged: list[UnmanagedVm] | None


class _MovedMore(t.TypedDict, total=False):
    source: str
    steps: list[str]
    findings: list[str]
    kept: list[str]
    note: str | None


class MovedVm(_MovedMore, answers.VmResult):
    """What came of a move."""

    destination: str | None
    flow: str | None
    progress: list[str]
    bytes_to_copy: Figure
    bytes: Figure
    seconds: Figure
    downtime_ms: Figure


class Moved(answers.Result, total=False):
    """The result for the VMs of a hypervisor; ``cards`` are those that it was to write,
    ``unmanaged`` the VMs that it was to have their cell manage."""

    vms: list[MovedVm] | None
    cards: list[CardEntry] | None
    unmanaged: list[UnmanagedVm] | None


class Compared(answers.Result, total=False):
    """What a hypervisor lacks of what VMs name, by VM."""

    lacking: dict[str, list[str]] | None


class Based(answers.Result, total=False):
    """The base images that a destination has now, by path; ``needed``: bytes that check mode would
    copy, by pool."""

    bases: list[str] | None
    needed: dict[str, int] | None
