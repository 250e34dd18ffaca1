# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The facts about a VM that is to be backed up, the request, and what a hypervisor answers."""

from __future__ import annotations

from ..._records import dataclass, field
from ..base import answers
from ..base.metadata import Metadata
from ..engine.leases import Holder
from ..engine.steps import Action
from ..snapshots.facts import AUTO
from .archives import LeftOut, OneFile

# What a run that was killed may leave of its backup on the hypervisor
JOB, FILES = "job", "files"


@dataclass(frozen=True)
class BackupRequest:
    """Where to, and how. ``scratch`` is the folder for what the guest overwrites meanwhile,
    ``scratch_mib`` the most that may be in it."""

    to: str
    passphrase: str = field(default="", repr=False)
    ssh_key: str | None = None
    quiesce: str = AUTO
    scratch: str = ""
    scratch_mib: int | None = None


@dataclass(frozen=True)
class BackupDisk:
    """A disk that is saved; ``source`` is its file or block device, ``size`` what the guest sees
    in bytes. ``written``: the VM that runs writes to it. ``data`` is the file of its data, if that
    is another."""

    target: str
    source: str
    format: str
    size: int
    block: bool = False
    written: bool = False
    data: str | None = None


@dataclass(frozen=True)
class BackupFacts:
    """The VM, and what its backup needs.

    ``blockers`` are parts of it that cannot be saved, or that are missing here, with the remedy.
    ``job`` is what libvirt is doing with it, ``own_unit``: a backup of it is at work. ``left`` is
    what a backup that was killed has left. ``scratch_mib`` is the room for what the guest
    overwrites meanwhile. ``domain`` is the definition for the archive, and ``left_out`` the disks
    that are not in it. ``saved``: how many backups this run has made; only in predictions.
    """

    name: str
    uuid: str
    state: str = "shutoff"
    active: bool = False
    persistent: bool = True
    managed_save: bool = False
    agent: bool = False
    disks: tuple[BackupDisk, ...] = ()
    domain: str = ""
    left_out: tuple[LeftOut, ...] = ()
    blockers: tuple[str, ...] = ()
    job: str | None = None
    own_unit: bool = False
    left: frozenset[str] = frozenset()
    scratch_mib: int = 0
    stored: Metadata | None = None
    holder: Holder | None = None
    saved: int = 0

    @property
    def one_file(self) -> tuple[OneFile, ...]:
        """The disks that are not in one file here, as they are in the archive."""
        return tuple(OneFile(disk.target, disk.data) for disk in self.disks if disk.data)


@dataclass(frozen=True)
class Clear(Action):
    """Remove what a backup that was killed has left."""


@dataclass(frozen=True)
class Save(Action):
    """Save the VM."""


class BackedUpVm(answers.TriedVm):
    """What came of it for a VM: the archive, if one was made, how consistent it is, the size of
    what was saved and how much of it was new, in bytes. ``left_out`` says which disks are not in
    it, and why, ``one_file`` which have their data in another file here. ``gave_way``: none
    was, since something else that was done to the VM wins; it can be tried again."""

    uuid: str | None
    steps: list[str]
    archive: str | None
    consistency: str | None
    size: int | None
    added: int | None
    left_out: list[str]
    one_file: list[str]
    gave_way: bool


class BackedUp(answers.Result, total=False):
    """The result for the VMs of a hypervisor."""

    vms: list[BackedUpVm] | None
