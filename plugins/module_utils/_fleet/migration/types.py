# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is known of both ends of a migration, and what has to be done."""

from __future__ import annotations

import typing as t

from ..._records import dataclass, field
from ..base.metadata import Metadata, Move, OwnVolume
from ..engine.leases import Holder

if t.TYPE_CHECKING:
    from ..base.answers import InPages
    from ..cell.facts import CellView
    from ..storage.host_names import HostName

# What to do about certificates that have expired
RENEW = "renew it with ansible-playbook fleet.virt.renew_keys"
# What to do about certificates that are missing
DEPLOY = (
    "bring them there with ansible-playbook fleet.virt.setup_hypervisors (role"
    " fleet.virt.libvirt_keys)"
)


@dataclass(frozen=True)
class Destination:
    """The hypervisor a VM goes to: its name in the inventory, the name or address at which the
    source reaches it (its certificate has to name that), and its bridges (None: unknown).

    ``listen`` is its IP address as resolved by the source: the destination itself may resolve its
    own name to 127.0.1.1. ``marked``: it may have the maintenance mark. ``expired`` and
    ``missing_certificates`` describe its certificates for incoming VMs. ``incoming`` are paths of
    base images that do not exist there yet, as in check mode, and will; ``needed`` the
    bytes that they will take of pools there, by the pools' folders.
    """

    name: str
    address: str
    bridges: tuple[str, ...] | None = None
    listen: str = ""
    marked: bool = False
    expired: tuple[str, ...] = ()
    missing_certificates: tuple[str, ...] = ()
    incoming: tuple[str, ...] = ()
    needed: t.Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class LostSource:
    """The hypervisor that a VM came from and that is declared lost, and its address."""

    name: str
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True)
class MigrationOptions:
    """How volumes are treated, how the VM is transferred, and limits: MiB/s, milliseconds, seconds
    for each GiB."""

    keep_volumes: bool = False
    eject_media: bool = False
    bandwidth: int | None = None
    max_downtime: int | None = None
    auto_converge: bool = True
    tunnelled: bool = False
    parallel_connections: int | None = None
    seconds_per_gib: int = 800
    on_timeout: str = "abort"


@dataclass(frozen=True)
class MigrationDisk:
    """One disk of the VM, in bytes. ``own`` is its volume, if it was made for this VM.

    ``chain`` are its backing files, nearest first.
    """

    target: str
    device: str
    type: str
    path: str | None
    format: str | None
    capacity: int = 0
    allocation: int = 0
    readonly: bool = False
    shareable: bool = False
    encrypted: bool = False
    secret: str | None = None  # by which it is
    chain: tuple[tuple[str, str], ...] = ()
    own: OwnVolume | None = None
    block_job: bool = False
    transient: bool = False  # what is written to it goes when the VM is shut off
    data_file: str | None = None  # where its data are, if not in its own file

    @property
    def is_drive(self) -> bool:
        """Whether it is a drive, for CDs or floppies."""
        return self.device in ("cdrom", "floppy")


@dataclass(frozen=True)
class SourceSnapshot:
    """A snapshot of the VM: the machine type of the VM in it, its disks' files, and, if it is
    ``external``, those that were written since; ``media`` are what was in the drives and exists."""

    name: str
    external: bool = False
    machines: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    media: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """The VM where it is. ``expired`` and ``missing_certificates`` describe the expired and missing
    certificates there for outgoing VMs. Of its ``snapshots``, parents are first; ``record_bytes``
    are what libvirt's records of them take, packed. ``state_files``: it has UEFI variables or the
    state of a TPM, which are in files that libvirt copies only while the VM runs. ``names`` are
    what it names of its hypervisor, ``immovable`` is why nothing moves it. ``cell`` is what its
    hypervisor says of the cell that restarts it."""

    name: str
    uuid: str
    host: str
    state: str
    active: bool
    persistent: bool
    autostart: bool
    metadata: Metadata | None
    domain_type: str
    arch: str
    machine: str
    memory_mib: int
    vcpus: int
    disks: tuple[MigrationDisk, ...] = ()
    macs: tuple[str, ...] = ()
    bridges: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    portgroups: tuple[tuple[str, str], ...] = ()  # with the network of each
    nwfilters: tuple[str, ...] = ()
    vsock: bool = False
    interfaces: tuple[str, ...] = ()
    hostdevs: tuple[str, ...] = ()
    names: tuple[HostName, ...] = ()
    immovable: tuple[str, ...] = ()
    in_pages: tuple[InPages, ...] = ()
    cpu: str | None = None
    managed_save: bool = False
    snapshots: tuple[SourceSnapshot, ...] = ()
    record_bytes: int = 0
    state_files: bool = False
    checkpoints: tuple[str, ...] = ()
    job: str | None = None
    holder: Holder | None = None
    host_uuid: str = ""
    qemu: int = 0
    expired: tuple[str, ...] = ()
    missing_certificates: tuple[str, ...] = ()
    cell: CellView | None = None


@dataclass(frozen=True)
class Volume:
    """A volume of the destination, in bytes."""

    name: str
    path: str
    capacity: int
    backing: str | None = None


@dataclass(frozen=True)
class DestinationPool:
    """A pool of files of the destination; ``available`` bytes. ``absent`` says why its shared
    storage is not mounted there."""

    name: str
    path: str
    active: bool
    available: int = 0
    volumes: t.Mapping[str, Volume] = field(default_factory=dict)  # by path
    absent: str | None = None


@dataclass(frozen=True)
class DestinationDomain:
    """A domain of the destination; ``files`` are all it refers to, including our metadata."""

    name: str
    uuid: str
    active: bool
    state: str
    macs: tuple[str, ...] = ()
    files: frozenset[str] = frozenset()
    metadata: Metadata | None = None


@dataclass(frozen=True)
class Target:
    """The destination as the source sees it over TLS.

    ``lacking`` is what is not there of what the VM names.
    ``shared`` are the disks in a pool that both have, by path: empty for one that is proven to be
    the same file, else the reason why not.
    """

    destination: Destination
    host_uuid: str
    machines: tuple[str, ...]
    domain_types: tuple[str, ...]
    qemu: int = 0
    free_mib: int | None = None
    domains: tuple[DestinationDomain, ...] = ()
    pools: tuple[DestinationPool, ...] = ()
    networks: tuple[str, ...] = ()
    portgroups: t.Mapping[str, t.Sequence[str]] = field(default_factory=dict)
    nwfilters: tuple[str, ...] | None = None
    bridges: tuple[str, ...] | None = None
    maintenance: bool = False
    cpu_problem: str | None = None
    lacking: tuple[str, ...] = ()
    shared: t.Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class NewVolume:
    """A volume to be created on the destination; ``again``: an earlier attempt left one.

    ``whole``: the file itself is copied, with the snapshots in it, before the VM moves.
    """

    target: str
    pool: str
    name: str
    path: str
    format: str
    capacity: int
    allocation: int
    backing: tuple[str, str] | None = None
    again: bool = False
    whole: bool = False


@dataclass
class MigrationPlan:
    """What moving the VM takes; with ``findings`` nothing is done at all."""

    flow: str = "copy"
    incremental: bool = False  # a disk has a base image, which is not copied
    volumes: list[NewVolume] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)  # paths of disks that stay in place
    ejected: list[MigrationDisk] = field(default_factory=list)  # drives that are emptied first
    old: list[OwnVolume] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Whether files are copied as they are, so that only the definition is left to move."""
        return any(volume.whole for volume in self.volumes)

    @property
    def bytes_to_copy(self) -> int:
        """Bytes of disks that have to be copied."""
        return sum(volume.allocation for volume in self.volumes)


__all__ = [
    "DEPLOY",
    "RENEW",
    "Destination",
    "DestinationDomain",
    "DestinationPool",
    "LostSource",
    "MigrationDisk",
    "MigrationOptions",
    "MigrationPlan",
    "Move",
    "NewVolume",
    "Source",
    "SourceSnapshot",
    "Target",
    "Volume",
]
