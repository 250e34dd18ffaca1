# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What there is to know of a VM and its snapshots, and what is asked for.

This file is private to the collection.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..base.metadata import Metadata

PRESENT, REVERTED, ABSENT = "present", "reverted", "absent"
INTERNAL, EXTERNAL = "internal", "external"
AUTO, ALWAYS, NEVER = "auto", "always", "never"  # whether a guest's file systems are frozen
MADE_BY = "made by fleet.virt"  # the description of ours, by which they are told from others'
MERGING = "; being merged"  # after it: what it holds is of no moment any more


@dataclass(frozen=True)
class Wanted:
    """``snapshot`` is to be in ``state``, with its ``children`` if it goes; ``keep`` of ours."""

    snapshot: str
    state: str = PRESENT
    children: bool = False
    keep: int | None = None
    disk_only: bool = False
    quiesce: str = AUTO


@dataclass(frozen=True)
class Disk:
    """A disk of a definition; ``source`` is its file or volume, ``type`` libvirt's word for it."""

    target: str
    source: str
    format: str | None = "qcow2"
    device: str = "disk"
    readonly: bool = False
    snapshot: str | None = None  # what the definition says of snapshots of it
    type: str = "file"

    @property
    def taken(self) -> bool:
        """Whether what is in it changes, and has to come along."""
        return self.device not in ("cdrom", "floppy") and not self.readonly


@dataclass(frozen=True)
class Snapshot:
    """A snapshot; ``state`` is the VM's of that moment, ``stored`` our metadata of that moment.

    ``disks`` are those that it holds. One in files of its own has ``files``, by target, to which
    the VM has written since. ``merging``: that these go into the disks has begun at least.
    """

    name: str
    parent: str | None = None
    created: int = 0
    state: str = "shutoff"
    kind: str = INTERNAL
    ours: bool = False
    disks: tuple[Disk, ...] = ()
    stored: Metadata | None = None
    files: tuple[tuple[str, str], ...] = ()
    merging: bool = False


@dataclass(frozen=True)
class Facts:
    """The VM and its snapshots.

    ``unfit`` are parts of it that no snapshot holds, ``forgetful`` those with which its memory
    cannot be kept, with the remedy. ``free_mib`` is what the file system of its first disk has
    left, None if that is not known. ``agent``: the guest's has opened its channel. ``libvirt`` is
    the version, as libvirt counts. ``there`` are files in the way of those that would be made.
    ``used`` says by name why the files of a snapshot may not be merged: who else needs them.
    """

    name: str
    uuid: str
    state: str = "shutoff"
    active: bool = False
    persistent: bool = True
    managed_save: bool = False
    memory_mib: int = 0
    free_mib: int | None = None
    disks: tuple[Disk, ...] = ()
    unfit: tuple[str, ...] = ()
    forgetful: tuple[str, ...] = ()
    agent: bool = False
    libvirt: int = 0
    there: frozenset[str] = frozenset()
    used: t.Mapping[str, str] = field(default_factory=dict)
    stored: Metadata | None = None
    snapshots: tuple[Snapshot, ...] = ()
    current: str | None = None
    reverted: int = 0  # how often it was taken back; of the prediction alone

    def find(self, name: str) -> Snapshot | None:
        """The snapshot ``name``, None if there is none."""
        return next((one for one in self.snapshots if one.name == name), None)

    def of_kind(self, kind: str) -> list[Snapshot]:
        """Its snapshots of one kind, the oldest first."""
        return [one for one in ordered(self.snapshots) if one.kind == kind]


def ordered(snapshots: t.Iterable[Snapshot]) -> tuple[Snapshot, ...]:
    """The oldest first. libvirt keeps whole seconds; within one, what comes from another is
    newer."""
    by_name = {one.name: one for one in snapshots}

    def depth(one: Snapshot) -> int:
        found, seen = 0, {one.name}
        while one.parent in by_name and one.parent not in seen:
            one = by_name[one.parent]
            seen.add(one.name)
            found += 1
        return found

    return tuple(sorted(by_name.values(), key=lambda one: (one.created, depth(one), one.name)))


def below(facts: Facts, name: str) -> list[Snapshot]:
    """The snapshots that come from ``name``, those nearest to it first."""
    found = [one for one in facts.snapshots if one.parent == name]
    for one in list(found):
        found += below(facts, one.name)
    return found
