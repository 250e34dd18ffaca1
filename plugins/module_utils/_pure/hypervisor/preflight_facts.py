# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The facts of one hypervisor that preflight judges, as they come in its answer.

This file is private to the collection.
"""

from __future__ import annotations

import typing as t

from ..domain.cpu_xml import GuestCpu
from ..machine.snapshot import PoolEntry


class Hypervisor(t.TypedDict):
    """What libvirt tells of itself and of its host."""

    uuid: str | None
    arch: str | None
    domain_types: list[str]
    machines: list[str]
    libvirt_version: str | None
    hypervisor_version: str | None


class Cpu(GuestCpu):
    """The CPU that guests of ``type`` are given, and what emulates them."""

    type: str


class Pool(PoolEntry):
    """A pool, and whether it starts with the host."""

    autostart: bool | None


class AbsentPool(t.TypedDict):
    """A pool that is not there: it has no state."""

    name: str
    state: None
    error: None
    path: None
    capacity_mib: None
    available_mib: None
    autostart: None


class Trial(t.TypedDict):
    """Whether a guest was tried, and the problem there was."""

    tried: bool
    problem: str | None


class Device(Trial):
    """Whether /dev/kvm is there, and what came of it."""

    device: bool


class Kvm(Device):
    """The same, and whether libvirt offers KVM; None where that is not known."""

    offered: bool | None


class Port(t.TypedDict):
    """What is in a bridge; a tap is a guest's."""

    name: str
    guest: bool
    active: bool


class Bridge(t.TypedDict):
    """A bridge that was asked for."""

    name: str
    exists: bool
    up: bool
    ports: list[Port]


class Socket(t.TypedDict):
    """A TCP socket that listens, with the name of the process that has it."""

    address: str
    port: int
    process: str


class Peer(t.TypedDict):
    """Another hypervisor of the fleet."""

    name: str
    address: str


class TriedPeer(Peer):
    """The same, and why it cannot be reached; None if it can."""

    error: str | None


class Tls(t.TypedDict):
    """Control keys that are not there, what came of each peer, and who is let in here."""

    missing: list[str]
    peers: list[TriedPeer]
    anonymous: bool


class PrivateKey(t.TypedDict):
    """A private key and its mode."""

    path: str
    kind: t.Literal["key"]
    mode: int


class Validity(t.TypedDict):
    """A certificate or a list of revocations; ``until`` is the end, ``days`` its whole life."""

    path: str
    kind: t.Literal["cert", "crl"]
    subject: str
    until: int
    days: float


class Clock(t.TypedDict):
    """Its time less the controller's, each way uncertain by some seconds."""

    offset: float
    uncertainty: float


class Baseline(t.TypedDict):
    """The CPU of all hypervisors as one libvirt makes it, and whether that one has it."""

    model: str | None
    xml: str | None
    runs: bool | None
    error: str | None


class _Read(t.TypedDict, total=False):
    """What the hypervisor tells; a check that could not be made has an entry in ``errors``."""

    uuid: str | None
    arch: str | None
    domain_types: list[str]
    machines: list[str]
    libvirt_version: str | None
    hypervisor_version: str | None
    cpu: Cpu
    pools: list[Pool | AbsentPool]
    kvm: Kvm
    iommu: bool
    bridges: list[Bridge]
    bridge_filter: list[str]
    listeners: list[Socket]
    tls: Tls
    keys: list[PrivateKey | Validity]


class _Compared(t.TypedDict, total=False):
    """What the controller adds."""

    clock: Clock | None
    baseline: Baseline | None
    not_compared: str


class Facts(_Read, _Compared):
    """All of it."""

    errors: dict[str, str]
    time: float
