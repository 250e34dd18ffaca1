# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The facts about a disk that moves to another pool of its hypervisor, and what is answered."""

from __future__ import annotations

from ..._records import dataclass
from ..base import answers
from ..base.metadata import Metadata, OwnVolume
from ..engine.leases import Holder
from ..engine.steps import Action

PHASE = "changing"


@dataclass(frozen=True)
class DiskMoveRequest:
    """``disk`` is the name of the VM's disk or its target, ``pool`` the pool it is to be in."""

    disk: str
    pool: str


@dataclass(frozen=True)
class MovedDisk:
    """The disk: ``path`` is its file in the definition, ``runs_on`` that of the running VM.

    ``capacity`` and ``allocation``, what it occupies, are in bytes. ``backing`` is the file below
    it and its format. ``blockers`` are reasons against copying it. ``copied`` is the file to which
    a block copy runs, empty if another block job runs, None without one.
    ``transient``: the running VM's is an overlay that goes when it is shut off.
    ``data_file``: where its data are, if not in its own file.
    """

    target: str
    path: str
    format: str
    capacity: int
    allocation: int = 0
    runs_on: str | None = None
    backing: tuple[str, str] | None = None
    blockers: tuple[str, ...] = ()
    copied: str | None = None
    transient: bool = False
    data_file: str | None = None


@dataclass(frozen=True)
class PoolPlaceFacts:
    """The pool it is to be in: its folder, and free bytes. ``shared``: other hypervisors have it,
    too."""

    name: str
    path: str
    free: int
    shared: bool = False


@dataclass(frozen=True)
class DiskMoveFacts:
    """The VM, the disk that is meant (None: ``problem`` says why), and the pool.

    ``files`` are those of the disk's own volumes, here and there, that exist.
    """

    name: str
    uuid: str
    state: str
    active: bool
    persistent: bool
    stored: Metadata | None
    holder: Holder | None = None
    managed_save: bool = False
    snapshots: tuple[str, ...] = ()
    disk: MovedDisk | None = None
    pool: PoolPlaceFacts | None = None
    problem: str = ""
    files: frozenset[str] = frozenset()
    blocks: str = ""  # why the file that it leaves stays
    blocks_new: str = ""  # why a file that has its name in the pool stays

    @property
    def volumes(self) -> tuple[OwnVolume, ...]:
        """What our metadata names."""
        return self.stored.volumes if self.stored is not None else ()


@dataclass(frozen=True)
class MarkMoving(Action):
    """Mark the VM, with the volume that is to be created."""

    volume: OwnVolume


@dataclass(frozen=True)
class EndCopy(Action):
    """End a copy that a run which died has left running."""


@dataclass(frozen=True)
class DiscardVolume(Action):
    """Remove what a run that died has created."""

    volume: OwnVolume


@dataclass(frozen=True)
class CreateVolume(Action):
    """Create the volume, empty."""

    volume: OwnVolume


@dataclass(frozen=True)
class CopyDisk(Action):
    """Copy the disk into the volume; of a running VM, until both are the same."""

    volume: OwnVolume


@dataclass(frozen=True)
class SwitchDisk(Action):
    """Have the VM use the volume."""

    volume: OwnVolume


@dataclass(frozen=True)
class RecordVolumes(Action):
    """Record that the volume is the disk, and the one that it left is not."""

    moves_disks = True


@dataclass(frozen=True)
class RemoveLeft(Action):
    """Remove the volume that it left."""

    volume: OwnVolume


@dataclass(frozen=True)
class EndMoving(Action):
    """Release the VM."""


class DiskMovedVm(answers.TriedVm):
    """What came of it for a VM; ``path`` is where the disk is, ``kept`` is the file it left."""

    uuid: str | None
    steps: list[str]
    path: str | None
    kept: answers.KeptFile | None


class DiskMoved(answers.Result, total=False):
    """The result for the VMs of a hypervisor."""

    vms: list[DiskMovedVm] | None
