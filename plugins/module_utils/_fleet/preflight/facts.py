# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The facts of one hypervisor that preflight checks, as in its answer."""

from __future__ import annotations

import typing as t

from ..base import answers
from ..base.snapshot import PoolEntry
from ..hosts.cpu_xml import GuestCpu


class Hypervisor(t.TypedDict):
    """What libvirt reports about itself and its host."""

    uuid: str | None
    arch: str | None
    domain_types: list[str]
    machines: list[str]
    libvirt_version: str | None
    hypervisor_version: str | None


class PreflightCpu(GuestCpu):
    """The CPU that guests of ``type`` get, and the emulator."""

    type: str


class PreflightPool(PoolEntry):
    """A pool, and whether it starts with the host."""

    autostart: bool | None


class AbsentPool(t.TypedDict):
    """A missing pool: it has no state."""

    name: str
    state: None
    error: None
    path: None
    capacity_mib: None
    available_mib: None
    autostart: None


class FolderPool(t.TypedDict):
    """A pool of files and how it is mounted: the options of NFS in its definition and of its mount,
    None where it is no NFS. ``shared``: it was declared so; ``absent`` says why it is not mounted.
    """

    name: str
    path: str
    id: str | None
    shared: bool
    absent: str | None
    defined: list[str] | None
    mounted: list[str] | None


class Trial(t.TypedDict):
    """Whether a guest was tried, and the problem found."""

    tried: bool
    problem: str | None


class Device(Trial):
    """Whether /dev/kvm exists, and the result of the trial."""

    device: bool


class Kvm(Device):
    """The same, and whether libvirt offers KVM; None where that is not known."""

    offered: bool | None


class Port(t.TypedDict):
    """A port of a bridge; a tap belongs to a guest."""

    name: str
    guest: bool
    active: bool


class BridgeState(t.TypedDict):
    """A bridge of this machine."""

    name: str
    exists: bool
    up: bool
    ports: list[Port]


class PreflightBridge(BridgeState):
    """A bridge that is to be there, and whether it was requested by name or a VM here is on it;
    None where that is not known."""

    needed: bool | None


class Socket(t.TypedDict):
    """A listening TCP socket, with the name of its process."""

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
    """Missing control keys, the result for each peer, and who is accepted here."""

    missing: list[str]
    peers: list[TriedPeer]
    anonymous: bool


class PrivateKey(t.TypedDict):
    """A private key and its mode."""

    path: str
    kind: t.Literal["key"]
    mode: int


class Validity(t.TypedDict):
    """A certificate or CRL; ``until`` is its expiry, ``days`` its total validity."""

    path: str
    kind: t.Literal["cert", "crl"]
    subject: str
    until: int
    days: float


class LockTrial(t.TypedDict):
    """Whether ``peer`` saw the lock that this hypervisor held in a pool: ``held``, ``unseen``,
    ``invisible`` if the file of one does not appear on the other, ``untried`` with the error."""

    pool: str
    peer: str
    outcome: str
    error: str | None


class ClockOffset(t.TypedDict):
    """Its time minus the controller's, plus or minus some seconds of uncertainty."""

    offset: float
    uncertainty: float


class Baseline(t.TypedDict):
    """The CPU model common to all hypervisors by one libvirt, and whether it runs there."""

    model: str | None
    xml: str | None
    runs: bool | None
    error: str | None


class _Read(t.TypedDict, total=False):
    """What the hypervisor reports; a check that could not be made has an entry in ``errors``.
    ``uuid_lasts``: whether libvirt has the same UUID after its next start; None if unknown."""

    uuid: str | None
    uuid_lasts: bool | None
    arch: str | None
    domain_types: list[str]
    machines: list[str]
    libvirt_version: str | None
    hypervisor_version: str | None
    cpu: PreflightCpu
    pools: list[PreflightPool | AbsentPool]
    folder_pools: list[FolderPool]
    recovers_locks: bool
    marks: list[str]
    kvm: Kvm
    iommu: bool
    bridges: list[PreflightBridge]
    bridge_filter: list[str]
    listeners: list[Socket]
    tls: Tls
    keys: list[PrivateKey | Validity]


class _Compared(t.TypedDict, total=False):
    """What the controller adds."""

    clock: ClockOffset | None
    baseline: Baseline | None
    not_compared: str
    locks: list[LockTrial] | None


class PreflightFacts(_Read, _Compared):
    """All of it."""

    errors: dict[str, str]
    time: float


class _CpuMore(t.TypedDict, total=False):
    model: str | None
    xml: str | None


class _ComparableMore(t.TypedDict, total=False):
    uuid: str | None
    arch: str | None
    libvirt_version: str | None
    hypervisor_version: str | None
    machines: list[str] | None
    cpu: _CpuMore | None
    folder_pools: list[_ComparableFolder] | None
    marks: list[str] | None


class _ComparableFolder(t.TypedDict):
    name: str
    path: str
    id: str | None
    shared: bool
    absent: str | None


class ComparableFacts(_ComparableMore):
    """The facts by which hosts are compared; the rest is read for each host."""

    errors: dict[str, str]
    time: int | float


class Preflight(answers.Result, total=False):
    """What a hypervisor reports of itself."""

    facts: ComparableFacts | None


class CommonCpu(answers.Result, total=False):
    """Whether the fleet's common CPU model runs there, and what trials of locks showed."""

    baseline: Baseline | None
    locks: list[LockTrial] | None
