# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The facts about a VM and its snapshots, the request, and what a hypervisor answers."""

from __future__ import annotations

import typing as t

from ..._records import dataclass, field
from ..base import answers
from ..base.metadata import Metadata
from ..engine.leases import Holder
from ..engine.steps import Action

PRESENT, REVERTED, ABSENT = "present", "reverted", "absent"
INTERNAL, EXTERNAL = "internal", "external"
AUTO, ALWAYS, NEVER = "auto", "always", "never"  # whether a guest's file systems are frozen
MADE_BY = "made by fleet.virt"  # the description of our snapshots, which identifies them
MERGING = "; being merged"  # after it: its contents are no longer usable


@dataclass(frozen=True)
class SnapshotRequest:
    """``snapshot`` and its ``state``, with its ``children`` if removed; ``keep`` of ours."""

    snapshot: str
    state: str = PRESENT
    children: bool = False
    keep: int | None = None
    disk_only: bool = False
    quiesce: str = AUTO


@dataclass(frozen=True)
class SnapshotDisk:
    """A disk of a definition; ``source`` is its file or volume, ``type`` libvirt's type of it."""

    target: str
    source: str
    format: str | None = "qcow2"
    device: str = "disk"
    readonly: bool = False
    snapshot: str | None = None  # the snapshot attribute in the definition
    type: str = "file"

    @property
    def taken(self) -> bool:
        """Whether its contents change, so that a snapshot must include it."""
        return self.device not in ("cdrom", "floppy") and not self.readonly


@dataclass(frozen=True)
class Snapshot:
    """A snapshot; ``state`` is the VM's at that moment, ``stored`` our metadata at that moment.

    ``disks`` are those that it contains. An external one has ``files``, by target, to which the VM
    has written since. ``merging``: merging these into the disks has at least begun.
    """

    name: str
    parent: str | None = None
    created: int = 0
    state: str = "shutoff"
    kind: str = INTERNAL
    ours: bool = False
    disks: tuple[SnapshotDisk, ...] = ()
    stored: Metadata | None = None
    files: tuple[tuple[str, str], ...] = ()
    merging: bool = False


@dataclass(frozen=True)
class SnapshotFacts:
    """The VM and its snapshots.

    ``snapshot_blockers`` are parts of it that no snapshot can contain, ``memory_blockers`` those
    with which its memory cannot be stored, with the remedy. ``free_mib`` is the free space on the
    file system of its first disk, None if unknown. ``agent``: the guest agent has opened its
    channel. ``libvirt`` is the version, as libvirt counts. ``there`` are existing files in the way
    of new ones. ``used`` says by name why the files of a snapshot must not be merged: who else
    needs them.
    """

    name: str
    uuid: str
    state: str = "shutoff"
    active: bool = False
    persistent: bool = True
    managed_save: bool = False
    memory_mib: int = 0
    free_mib: int | None = None
    disks: tuple[SnapshotDisk, ...] = ()
    snapshot_blockers: tuple[str, ...] = ()
    memory_blockers: tuple[str, ...] = ()
    agent: bool = False
    libvirt: int = 0
    there: frozenset[str] = frozenset()
    used: t.Mapping[str, str] = field(default_factory=dict)
    stored: Metadata | None = None
    holder: Holder | None = None  # of the lease, if it is alive
    snapshots: tuple[Snapshot, ...] = ()
    current: str | None = None
    reverted: int = 0  # how often it was reverted; only in predictions

    def find(self, name: str) -> Snapshot | None:
        """The snapshot ``name``, None if there is none."""
        return next((one for one in self.snapshots if one.name == name), None)

    def of_kind(self, kind: str) -> list[Snapshot]:
        """Its snapshots of one kind, the oldest first."""
        return [one for one in ordered(self.snapshots) if one.kind == kind]


@dataclass(frozen=True)
class Take(Action):
    """Take an internal snapshot."""

    name: str


@dataclass(frozen=True)
class TakeFiles(Action):
    """Take a snapshot of the disks, after which the VM goes on in ``paths``, by target; ``freeze``
    the guest's file systems meanwhile."""

    moves_disks = True

    name: str
    paths: t.Mapping[str, str]
    freeze: bool


@dataclass(frozen=True)
class Mark(Action):
    """Note in a snapshot that it is being merged."""

    name: str

    @property
    def text(self) -> str:
        """What is done."""
        return f"mark snapshot {self.name} as being merged"


@dataclass(frozen=True)
class Revert(Action):
    """Revert to a snapshot."""

    moves_disks = True

    name: str


@dataclass(frozen=True)
class Delete(Action):
    """Delete a snapshot."""

    moves_disks = True

    name: str


@dataclass(frozen=True)
class Record(Action):
    """Record in a snapshot our metadata as they are now."""

    name: str
    stored: Metadata

    @property
    def text(self) -> str:
        """What is done."""
        return f"record in snapshot {self.name} what the VM owns now"


def ordered(snapshots: t.Iterable[Snapshot]) -> tuple[Snapshot, ...]:
    """The oldest first. libvirt stores whole seconds; within one second, a child is newer than its
    parent."""
    by_name = {snapshot.name: snapshot for snapshot in snapshots}
    depths: dict[str | None, int] = {}
    for snapshot in by_name.values():
        unknown = []  # up to the first of which the depth is known; each is visited once
        name: str | None = snapshot.name
        while name in by_name and name not in depths:
            unknown.append(name)
            depths[name] = 0  # also ends a circle, which no libvirt has
            name = by_name[name].parent
        above = depths.get(name, -1)
        for child in reversed(unknown):
            above = depths[child] = above + 1
    return tuple(
        sorted(
            by_name.values(),
            key=lambda snapshot: (snapshot.created, depths[snapshot.name], snapshot.name),
        )
    )


def below(facts: SnapshotFacts, name: str) -> list[Snapshot]:
    """The descendants of the snapshot ``name``, the nearest first."""
    children: dict[str | None, list[Snapshot]] = {}
    for snapshot in facts.snapshots:
        if snapshot.name != name:
            children.setdefault(snapshot.parent, []).append(snapshot)
    descendants = children.pop(name, [])
    for snapshot in descendants:  # which grows meanwhile
        descendants += children.pop(snapshot.name, [])
    return descendants


class ListedSnapshot(t.TypedDict):
    """What is shown of a snapshot; ``managed``: this collection made it."""

    name: str
    parent: str | None
    current: bool
    created: int | None
    state: str | None
    kind: str
    managed: bool


class SnapshotVm(answers.GroupedVm):
    """A VM and its snapshots."""

    snapshots: list[ListedSnapshot]


class SnapshotLook(answers.Result, total=False):
    """Those of the VMs that were asked for that a hypervisor has."""

    vms: list[SnapshotVm] | None


class SnapshottedVm(answers.TriedVm):
    """What came of it for a VM, and its snapshots afterwards."""

    uuid: str | None
    steps: list[str]
    snapshots: list[str]
    current: str | None


class Snapshotted(answers.Result, total=False):
    """The result for the VMs of a hypervisor."""

    vms: list[SnapshottedVm] | None
