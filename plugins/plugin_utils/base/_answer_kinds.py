# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Types of hypervisors' results, as the actions on the controller read them.

A result is checked for the shape of its kind (:mod:`answer_shapes`) before it gets one of these
types; a unit test compares both. Any top-level key may be missing or None; values of type
``object`` are not checked.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass


class BaseResult(t.TypedDict, total=False):
    """Keys that Ansible or any module may return."""

    changed: bool
    failed: bool
    unreachable: bool
    msg: object


A = t.TypeVar("A", bound=t.Mapping[str, object])


@dataclass(frozen=True)
class AnswerKind(t.Generic[A]):
    """A kind of result: the name of its shape, and its type once checked."""

    name: str
    answer: type[A]


class Endpoints(t.TypedDict):
    """The hypervisors that a VM moves between."""

    source: str
    destination: str


class MadeVm(t.TypedDict):
    """The result for a requested VM."""

    name: str
    changed: bool | None
    failed: bool | None
    msg: str | None


class Made(BaseResult, total=False):
    vms: list[MadeVm] | None


class ClaimedVm(MadeVm):
    """The result of its claim; ``refused``: for a reason that may be temporary."""

    refused: bool | None


class DefinedVmMore(t.TypedDict, total=False):
    uuid: str | None
    seeded: bool | None
    groups: list[str] | None
    anti_affinity: list[str] | None
    disks: list[str] | None
    targets: list[str] | None


class DefinedVm(DefinedVmMore):
    """A VM of a hypervisor, as placement sees it."""

    name: str
    macs: list[str]
    active: bool | None
    phase: str | None


class SeenNetwork(t.TypedDict, total=False):
    name: str | None
    active: bool | None
    bridge: str | None


class SeenPoolMore(t.TypedDict, total=False):
    path: str | None


class SeenPool(SeenPoolMore):
    name: str


class SeenHostMore(t.TypedDict, total=False):
    uuid: str | None
    machines: list[str] | None
    images: list[str] | None
    bridges: list[str] | None
    networks: list[SeenNetwork] | None
    pools: list[SeenPool] | None


class SeenHost(SeenHostMore):
    """A hypervisor as far as its shape is checked; placement checks the rest itself."""

    vms: list[DefinedVm]


class Placing(BaseResult, total=False):
    host: SeenHost | None


class Claims(Placing, total=False):
    finished: object
    vms: list[ClaimedVm] | None


class MovingDisk(t.TypedDict):
    path: str | None
    bytes: int
    backing: str | None


class ThereVm(t.TypedDict):
    """A VM that may be moved; one that could not be read has an ``error`` and no disks."""

    name: str
    uuid: str
    phase: str | None
    move: Endpoints | None
    memory_mib: int
    zone: str | None
    groups: list[str]
    anti_affinity: list[str]
    tags: list[str]
    evacuated_from: list[str]
    error: str | None
    disks: list[MovingDisk]


class IncompleteMove(Endpoints):
    """A claim on a destination."""

    name: str


class MigrateLook(Placing, total=False):
    vms: list[ThereVm] | None
    claims: list[IncompleteMove] | None
    expired: list[str] | None
    missing_certificates: list[str] | None


class NamedVmMore(t.TypedDict, total=False):
    address: str | None


class NamedVm(NamedVmMore):
    name: str


class NamedEntry(BaseResult, total=False):
    vms: list[NamedVm] | None


class WaitingVmMore(t.TypedDict, total=False):
    first_boot: str | None


class WaitingVm(WaitingVmMore):
    """The progress of a VM that is waited for."""

    name: str
    address: str | None
    source: str | None
    seconds: int | float | None
    answered: bool | None
    changed: bool | None
    msg: str | None
    console: list[str]


class Wait(BaseResult, total=False):
    vms: list[WaitingVm] | None
    waiting: list[str] | None


class KindOfKeys(t.TypedDict):
    """A hypervisor's files of one kind of keys: PEM texts, empty if there is none."""

    ca: str
    crl: str
    certificate: str
    key_id: str | None


class KindsOfKeys(t.TypedDict):
    control: KindOfKeys
    data: KindOfKeys


class Keys(BaseResult, total=False):
    kinds: KindsOfKeys | None
    faults: list[str] | None
    daemons: list[str] | None


class SeenCpu(t.TypedDict, total=False):
    model: str | None
    xml: str | None


class FactsMore(t.TypedDict, total=False):
    uuid: str | None
    arch: str | None
    libvirt_version: str | None
    hypervisor_version: str | None
    machines: list[str] | None
    cpu: SeenCpu | None


class SeenFacts(FactsMore):
    """The facts by which hosts are compared."""

    errors: dict[str, str]
    time: int | float


class FactsAnswer(BaseResult, total=False):
    facts: SeenFacts | None


class Baseline(t.TypedDict):
    """Whether the fleet's common CPU model runs there."""

    error: str | None
    runs: bool | None
    model: str | None


class Compared(BaseResult, total=False):
    baseline: Baseline | None


MADE = AnswerKind("made", Made)
PLACING = AnswerKind("placing", Placing)
CLAIMS = AnswerKind("claims", Claims)
MIGRATE_LOOK = AnswerKind("migrate_look", MigrateLook)
NAMED = AnswerKind("named", NamedEntry)
WAIT = AnswerKind("wait", Wait)
KEYS = AnswerKind("keys", Keys)
FACTS = AnswerKind("facts", FactsAnswer)
BASELINE = AnswerKind("baseline", Compared)
