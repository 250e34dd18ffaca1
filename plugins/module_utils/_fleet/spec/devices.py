# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The devices of a VM specification: disks, NICs, console, CPU."""

from __future__ import annotations

import math
import typing as t

from ..._records import dataclass, field
from ..base.settings import specification
from ..images.source import ImageSource
from . import settings_sources as sources
from . import settings_tuning as tuning

NicType = t.Literal["bridge", "network", "direct"]


@specification
@dataclass(frozen=True)
class Disk(sources.DiskSourceSettings, tuning.DiskTuning):
    """A disk, or a drive for CDs or floppies; ``size`` in MiB, None for the image's own size.

    ``overlay``: copy-on-write with the image as backing file, rather than a full copy of it.
    """

    name: str
    size: int | None = None
    format: str = "qcow2"
    bus: str = "virtio"
    device: str = "disk"
    cache: str = "none"
    io: str | None = None
    pool: str = "default"
    image: ImageSource | None = None
    overlay: bool = False
    readonly: bool = False

    @property
    def exists(self) -> bool:
        """Whether the disk already exists: it is attached, never created or removed."""
        return sources.source(self) is not None


@specification
@dataclass(frozen=True)
class Nic(tuning.NicTuning):
    """A network interface on a host's bridge or interface, or on a libvirt network."""

    name: str
    type: NicType = "bridge"
    source: str = "br0"
    mac: str = ""

    @property
    def bridge(self) -> str | None:
        """The bridge that it is attached to."""
        return self.source if self.type == "bridge" else None

    @property
    def network(self) -> str | None:
        """The network that it is attached to."""
        return self.source if self.type == "network" else None


@specification
@dataclass(frozen=True)
class Console(tuning.ConsoleTuning):
    """The graphical console; the serial one is always there."""

    type: str = "none"
    listen: str = "127.0.0.1"
    password: str | None = field(default=None, repr=False)


@specification
@dataclass(frozen=True)
class Cpu(tuning.CpuTuning):
    """CPU mode and model; without a mode the fleet's choice."""

    mode: str | None = None
    model: str | None = None

    @property
    def topology(self) -> int:
        """The number of vCPUs by sockets, dies, cores and threads; 0 if none of them is given."""
        parts = (self.sockets, self.dies, self.cores, self.threads)
        return math.prod(part or 1 for part in parts) if any(parts) else 0
