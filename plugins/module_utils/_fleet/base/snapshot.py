# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The single representation of a hypervisor and everything on it, in sections.

Readers fill it, results show it unchanged (``RETURN`` of ``virt_query`` and ``virt_host_info``
documents each key), placement and planners use it. Every key is always present; unknown values are
None. Keys that only some readers add are in a class of their own, ``total=False``.
"""

from __future__ import annotations

import typing as t

from . import answers

# --- a cell --------------------------------------------------------------------------------------


class CellEntry(t.TypedDict):
    """The cell of a hypervisor, as Pacemaker says there if it is ``running``: whether it is
    ``quorate``, its ``members``, those that are ``online``, and those that may be anything, since
    they are gone and not proven off, ``unclean``; whether its quorum ``device`` votes there, None
    without one."""

    name: str
    members: list[str]
    running: bool
    quorate: bool
    online: list[str]
    unclean: list[str]
    device: bool | None


class DomainCell(t.TypedDict):
    """A VM of a cell. ``managed``: the cell may start and stop it; else a run holds it, or was
    killed while it did, of the hypervisor ``held_by``. ``failed``: it should run, and ``reason``
    is why it does not. ``defined``: a hypervisor has its definition, not only storage its card."""

    name: str
    managed: bool
    held_by: str | None
    failed: bool
    reason: str | None
    defined: bool


# --- a domain ------------------------------------------------------------------------------------


class DiskEntry(t.TypedDict):
    """A disk; sizes, and pool and volume if known, come from the storage."""

    target: str | None
    bus: str | None
    device: str
    type: str
    source: str | None
    pool: str | None
    volume: str | None
    format: str | None
    backing: str | None
    backing_known: bool
    readonly: bool
    shareable: bool
    size_mib: int | None
    allocation_mib: int | None


class NicEntry(t.TypedDict):
    """A NIC; ``addresses`` are the guest's, empty unless requested."""

    mac: str | None
    type: str | None
    source: str | None
    model: str | None
    link: str | None
    target: str | None
    vlan: list[int]
    addresses: list[str]


class GraphicsEntry(t.TypedDict):
    """A graphical console."""

    type: str | None
    listen: str | None
    port: int | None
    tls_port: int | None
    socket: str | None


class ConsoleEntry(t.TypedDict):
    """A serial line or a console."""

    type: str | None
    path: str | None
    target: str | None
    log: str | None


class HostdevEntry(t.TypedDict):
    """A device of the hypervisor that is passed through to the guest."""

    type: str | None
    source: str | None


class FirmwareEntry(t.TypedDict):
    """``bios`` or ``efi``, with the paths of its image and of its variables."""

    type: str | None
    loader: str | None
    nvram: str | None


class OwnerEntry(t.TypedDict):
    """The process that is working on the domain."""

    boot_id: str
    pid: int
    start_time: int
    run: str


class ImageEntry(t.TypedDict):
    """The image that the domain was created from."""

    name: str
    digest: str
    format: str


class OwnVolumeEntry(t.TypedDict):
    """A volume that was created for the domain."""

    pool: str
    name: str
    path: str
    target: str
    role: str


class MoveEntry(t.TypedDict):
    """The move of the domain."""

    source: str
    destination: str
    run: str
    autostart: str
    state: str


class MetadataEntry(t.TypedDict):
    """What the collection stores with a domain, without internal values."""

    managed: bool
    phase: str | None
    owner: OwnerEntry | None
    home: str | None
    image: ImageEntry | None
    groups: list[str]
    affinity: list[str]
    anti_affinity: list[str]
    tags: list[str]
    zone: str | None
    user: str | None
    host_key: str | None
    volumes: list[OwnVolumeEntry]
    addresses: list[str]
    evacuated_from: list[str]
    move: MoveEntry | None
    first_boot: str | None
    start_order: int | None
    start_delay: int | None
    ha: bool
    problem: str | None


class DomainDescription(answers.Paged):
    """What a domain's XML says, except its metadata."""

    title: str | None
    description: str | None
    domain_type: str | None
    arch: str | None
    machine: str | None
    firmware: FirmwareEntry
    cpu_mode: str | None
    cpu_model: str | None
    vcpus: int | None
    vcpus_max: int | None
    memory_mib: int | None
    memory_max_mib: int | None
    disks: list[DiskEntry]
    nics: list[NicEntry]
    graphics: list[GraphicsEntry]
    consoles: list[ConsoleEntry]
    hostdevs: list[HostdevEntry]
    metadata: MetadataEntry


class DomainInfo(DomainDescription):
    """What a domain's XML says."""

    name: str | None
    uuid: str | None
    agent: bool


class SnapshotInfo(t.TypedDict):
    """What the XML of a domain's snapshot says."""

    name: str | None
    created: int | None
    state: str | None


class SnapshotEntry(SnapshotInfo):
    """A snapshot; ``current``: the domain continues from this one."""

    current: bool


class CpuStats(t.TypedDict):
    """Time spent."""

    time_ns: int | None
    user_ns: int | None
    system_ns: int | None


class MemoryStats(t.TypedDict):
    """Memory as seen by balloon, guest and process."""

    actual_mib: int | None
    unused_mib: int | None
    available_mib: int | None
    usable_mib: int | None
    rss_mib: int | None


class NicStats(t.TypedDict):
    """Counters of a NIC by the name of its interface on the hypervisor."""

    target: str
    receive_bytes: int | None
    receive_packets: int | None
    receive_errors: int | None
    receive_dropped: int | None
    transmit_bytes: int | None
    transmit_packets: int | None
    transmit_errors: int | None
    transmit_dropped: int | None


class DiskStats(t.TypedDict):
    """Counters of a disk."""

    target: str
    read_bytes: int | None
    read_requests: int | None
    write_bytes: int | None
    write_requests: int | None
    flush_requests: int | None
    errors: int | None


class Stats(t.TypedDict):
    """Counters since the domain started."""

    cpu: CpuStats
    memory: MemoryStats
    nics: list[NicStats]
    disks: list[DiskStats]


class DomainEntry(DomainDescription):
    """A domain of a hypervisor; ``error`` says what could not be read."""

    name: answers.VmName
    uuid: str
    agent: bool | None
    state: str | None
    reason: str | None
    autostart: bool | None
    persistent: bool | None
    managed_save: bool | None
    snapshots: list[SnapshotEntry]
    stats: Stats | None
    cell: DomainCell | None
    error: str | None


# --- storage -------------------------------------------------------------------------------------


class PoolSource(t.TypedDict):
    """Where a pool's space comes from."""

    name: str | None
    format: str | None
    dir: str | None
    hosts: list[str]
    devices: list[str]


class PoolInfo(t.TypedDict):
    """What a pool's XML says."""

    name: str | None
    uuid: str | None
    type: str | None
    path: str | None
    capacity_mib: int | None
    allocation_mib: int | None
    available_mib: int | None
    source: PoolSource


class VolumeInfo(t.TypedDict):
    """What a volume's XML says."""

    name: str | None
    key: str | None
    type: str | None
    path: str | None
    format: str | None
    capacity_bytes: int | None
    allocation_bytes: int | None
    capacity_mib: int | None
    allocation_mib: int | None
    backing: str | None
    backing_format: str | None


class PoolPromises(t.TypedDict, total=False):
    """What placement needs to know about a pool as well.

    ``promised_mib`` is the sum of virtual sizes, ``claimed_mib`` that of the disks of VMs being
    created, whose volumes may not exist yet, ``volume_allocation_mib`` the space the volumes take.
    ``half_made``: a pool of files that is defined, and was never started (``is_half_made``).
    """

    promised_mib: int
    claimed_mib: int
    volume_allocation_mib: int
    half_made: bool


class PoolEntry(PoolPromises):
    """A pool of a hypervisor; ``error`` says what could not be read."""

    name: str
    type: str | None
    state: str | None
    path: str | None
    capacity_mib: int | None
    allocation_mib: int | None
    available_mib: int | None
    error: str | None


# --- networks ------------------------------------------------------------------------------------


class NetworkInfo(t.TypedDict):
    """What a virtual network's XML says; ``tags``: libvirt sets the VLAN tags of its NICs."""

    name: str | None
    uuid: str | None
    bridge: str | None
    forward: str | None
    devices: list[str]
    portgroups: list[str]
    addresses: list[str]
    tags: bool
    dhcp: bool


class InterfaceInfo(t.TypedDict):
    """What the XML of a host interface says."""

    name: str | None
    type: str | None
    mac: str | None
    members: list[str]


class NetworkEntry(t.TypedDict):
    """A virtual network of a hypervisor; ``error`` says why the rest is unknown."""

    name: str
    bridge: str | None
    forward: str | None
    active: bool | None
    autostart: bool | None
    error: str | None


# --- a hypervisor --------------------------------------------------------------------------------


class Topology(t.TypedDict):
    """Sockets of a host, cores of a socket, threads of a core."""

    sockets: int | None
    cores: int | None
    threads: int | None


class Hugepages(t.TypedDict):
    """Pages of one size, and how many there are."""

    size_kib: int
    total: int | None


class NumaEntry(t.TypedDict):
    """A NUMA node."""

    id: int | None
    memory_mib: int | None
    cpus: int
    free_mib: int | None
    hugepages: list[Hugepages]


class Capabilities(t.TypedDict):
    """The host's capabilities according to libvirt."""

    uuid: str | None
    arch: str | None
    domain_types: list[str]
    machines: list[str]
    cpu_model: str | None
    cpu_vendor: str | None
    topology: Topology
    numa: list[NumaEntry]
    iommu: bool | None
    migration_transports: list[str]


class CpuEntry(t.TypedDict):
    """Processors; ``running`` and ``defined`` are the vCPUs of domains."""

    model: str
    sockets: int
    cores: int
    threads: int
    total: int
    running: int
    defined: int


class PagesEntry(t.TypedDict):
    """Memory in huge pages of one size, MiB; ``running`` and ``defined`` are that of domains."""

    size_kib: int
    total: int
    running: int
    defined: int


class _MemoryMore(t.TypedDict, total=False):
    hugepages: list[PagesEntry]


class MemoryEntry(_MemoryMore):
    """Memory in MiB; ``running`` and ``defined`` are that of domains, without what is in huge
    pages, the default size of which is the first of ``hugepages``."""

    total: int
    free: int | None
    running: int
    defined: int


class HostEntry(t.TypedDict):
    """A hypervisor; ``domains`` are numbers by state, ``maintenance`` is None if unknown."""

    name: str
    uri: str
    uuid: str | None
    libvirt_version: str | None
    hypervisor_version: str | None
    domain_types: list[str]
    arch: str | None
    cpu: CpuEntry
    memory_mib: MemoryEntry
    numa: list[NumaEntry]
    pools: list[PoolEntry]
    networks: list[NetworkEntry]
    bridges: list[str] | None
    domains: dict[str, int]
    maintenance: bool | None
    cell: CellEntry | None
    errors: list[str]


# --- what placement needs ------------------------------------------------------------------------


class DefinedEntry(answers.LeftBehind):
    """A domain as far as it matters to the placement of another. ``seeded``: it was given a host
    key, which it presents once it responds."""

    name: str
    uuid: str
    managed: bool
    seeded: bool
    phase: str | None
    run: str | None
    groups: list[str]
    anti_affinity: list[str]
    macs: list[str]


class PlacedEntry(DefinedEntry):
    """The same, whether it runs, and which disks its definition has: ``disks`` are the names of
    its own, ``targets`` those of the others, which a request names by their places. ``addresses``
    are the static ones that it was seeded with, ``segments`` where its NICs are."""

    active: bool
    addresses: list[str]
    segments: list[str]
    disks: list[str]
    targets: list[str]


class HugepagesEntry(t.TypedDict):
    """Huge pages of one size, by their number."""

    size_kib: int
    total: int
    free: int


class GuestCpuEntry(t.TypedDict):
    """The CPU that a VM with mode host-model gets there."""

    vendor: str | None
    features: list[str]


class OffersEntry(t.TypedDict):
    """What not every hypervisor has; None if unknown. ``volumes`` are names by pool,
    ``absent_files`` those that it was asked for and does not have, ``files`` its emulators and
    firmware. ``cell`` is that of which it is
    a member, None if that has no quorum there."""

    volumes: dict[str, list[str]]
    absent_files: list[str]
    files: list[str]
    devices: list[str] | None
    interfaces: list[str] | None
    openvswitch: list[str] | None
    portgroups: dict[str, list[str]]
    nwfilters: list[str] | None
    hugepages: list[HugepagesEntry] | None
    virtiofs: bool | None
    vsock: bool | None
    secure_boot: bool | None
    secrets: list[str] | None
    cell: str | None
    cpu: GuestCpuEntry | None


class PlacementEntry(HostEntry):
    """A hypervisor with all that placement needs; ``images`` are names in the base pool,
    ``cell_vms`` those of VMs of its cell that run nowhere, ``addresses`` its own, None from
    elsewhere. ``at`` is when it was read, by its own clock, in
    milliseconds since 1970; ``notes`` are the names of the notes that it holds."""

    at: int
    notes: list[str]
    vms: list[PlacedEntry]
    cell_vms: list[str]
    machines: list[str]
    firmwares: list[str] | None
    tpms: list[str] | None
    tagging_bridges: list[str]
    tagging_networks: list[str]
    offers: OffersEntry
    images: list[str]
    addresses: list[str] | None


# --- what a hypervisor answers -------------------------------------------------------------------


class Domains(answers.Result, total=False):
    """Its domains, and its cell."""

    domains: list[DomainEntry] | None
    cell: CellEntry | None


class HostInfo(answers.Result, total=False):
    """Its properties."""

    host: HostEntry | None


# --- what all hypervisors answered ---------------------------------------------------------------


class Answered(t.TypedDict):
    """A hypervisor by its inventory name; ``error`` says why it did not answer."""

    name: str
    answered: bool
    error: str | None


class DomainsAnswer(Answered):
    """With its domains, none if it did not answer."""

    domains: list[DomainEntry]


class HostAnswer(Answered):
    """With its properties, None if it did not answer."""

    host: HostEntry | None
