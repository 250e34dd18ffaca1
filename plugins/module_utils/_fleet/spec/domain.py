# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The specification of a VM: what stands between the playbook's variables and libvirt's XML.

:mod:`.options` reads it. What a host decides (paths, machine type, CPU baseline, UUID) is not here:
``domain_xml`` takes it as arguments.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..._errors import Problem
from ..._records import dataclass, field
from ..base.names import volume_name
from ..base.options import join
from ..base.settings import specification
from ..seed.types import Seed, SeededNic
from . import settings
from .devices import Console, Cpu, Disk, Nic
from .settings_machine import (
    Cell,
    ClockSettings,
    Cputune,
    Features,
    Hyperv,
    MemoryBacking,
    Memtune,
    Numatune,
)
from .settings_peripherals import (
    Channel,
    Filesystem,
    Hostdev,
    Iommu,
    Panic,
    Serial,
    Sound,
    Tpm,
    Video,
    Watchdog,
)

if t.TYPE_CHECKING:
    from ..images.source import ImageSource


@dataclass(frozen=True)
class Placement:
    """Where the VM may run: a given host, a zone, hosts with tags, beside VMs of some groups, away
    from those of others."""

    host: str | None = None
    zone: str | None = None
    tags: tuple[str, ...] = ()
    affinity: tuple[str, ...] = ()
    anti_affinity: tuple[str, ...] = ()


@specification
@dataclass(frozen=True)
class Domain(settings.Rows):
    """The specification of one VM; memory in MiB, ``written`` as of :func:`written.options`."""

    name: str
    disks: tuple[Disk, ...] = ()
    nics: tuple[Nic, ...] = ()
    absent_disks: tuple[str, ...] = ()
    absent_nics: tuple[str, ...] = ()
    console: Console = field(default_factory=Console)
    cpu: Cpu = field(default_factory=Cpu)
    boot: tuple[str, ...] = ()
    watchdog: Watchdog | None = None
    tpm: Tpm | None = None
    memory_backing: MemoryBacking | None = None
    numatune: Numatune | None = None
    numa: tuple[Cell, ...] = ()
    cputune: Cputune | None = None
    memtune: Memtune | None = None
    clock: ClockSettings | None = None
    features: Features | None = None
    hyperv: Hyperv | None = None
    video: Video | None = None
    sound: Sound | None = None
    panic: Panic | None = None
    iommu: Iommu | None = None
    filesystems: tuple[Filesystem, ...] = ()
    hostdevs: tuple[Hostdev, ...] = ()
    serials: tuple[Serial, ...] = ()
    channels: tuple[Channel, ...] = ()
    seed: Seed | None = None
    placement: Placement = field(default_factory=Placement)
    description: str | None = None
    written: frozenset[str] = field(default=frozenset(), compare=False, repr=False)

    @property
    def image(self) -> ImageSource | None:
        """The image of the first disk that has one, else that of the first CD."""
        disks = sorted((d for d in self.disks if d.image), key=lambda disk: disk.device != "disk")
        return disks[0].image if disks else None

    def volume_name(self, disk: Disk) -> str:
        """The name of the volume that is this disk's own."""
        return volume_name(self.name, disk.name, disk.format)

    def without_secrets(self) -> Domain:
        """The same VM without secrets, for output."""
        console = dataclasses.replace(self.console, password=None)
        seed = self.seed.without_secrets(self.name) if self.seed else None
        return dataclasses.replace(self, console=console, seed=seed)

    @property
    def seeded_nics(self) -> list[SeededNic]:
        """Its NICs as its seed describes them."""
        return [SeededNic(nic.name, nic.mac) for nic in self.nics]


def machine_problems(domain: Domain, *, machine: str, arch: str, path: str = "") -> list[Problem]:
    """What the machine type that was chosen for the VM does not support."""
    problems: list[Problem] = []
    modern = "q35" in machine or machine == "microvm" or arch not in ("x86_64", "i686")
    for index, disk in enumerate(domain.disks):
        if disk.bus == "ide" and modern:
            problems.append(
                Problem(
                    f"{join(path, 'disks')}[{index}].bus",
                    f"machine type {machine} has no 'ide'; use virtio, scsi or sata, or machine pc",
                )
            )
    return problems
