# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""External snapshots, of the disks only.

The old file stays as it is, and the VM continues in a new overlay of it. Deleting a snapshot merges
that overlay into its backing file, which libvirt can do for running VMs and those that are off
since 9.0. From the first byte on, the snapshot's contents are no longer usable; that is recorded in
it first, so that no run reverts to it.
"""

from __future__ import annotations

import dataclasses
import posixpath
import typing as t

from ..base.metadata import Metadata, OwnVolume
from ..engine.steps import Step
from .facts import (
    ALWAYS,
    EXTERNAL,
    INTERNAL,
    NEVER,
    Mark,
    Snapshot,
    SnapshotDisk,
    SnapshotFacts,
    SnapshotRequest,
    TakeFiles,
)

CAN_REVERT = 9_009_000  # the first version of libvirt that reverts to them
_LONGEST = 255  # bytes of a file name


def path_of(facts: SnapshotFacts, disk: SnapshotDisk, snapshot: str) -> str:
    """The file in which the VM continues with ``disk``, named after the lowest backing file."""
    path = disk.source
    for external in facts.of_kind(EXTERNAL)[:1]:
        path = {each.target: each.source for each in external.disks}.get(disk.target, path)
    return f"{posixpath.splitext(path)[0]}.{snapshot}.qcow2"


def create_blockers(facts: SnapshotFacts, wanted: SnapshotRequest) -> list[str]:
    """Reasons against taking a disk-only snapshot."""
    name, disks = facts.name, [disk for disk in facts.disks if disk.taken]
    blockers = list(facts.snapshot_blockers)
    within = facts.of_kind(INTERNAL)
    if within:
        blockers.append(
            f"{name!r} has internal snapshots ({_names(within)}), and libvirt deletes neither kind"
            " if both exist; delete them first, or leave disk_only out"
        )
    for disk in disks:
        if disk.type != "file" or not disk.source.startswith("/"):
            blockers.append(
                f"disk {disk.target} of {name!r} is of type {disk.type}, and a disk-only snapshot"
                " needs disks that are files; leave disk_only out"
            )
        elif disk.format is None:
            blockers.append(
                f"the definition of {name!r} does not give the format of its disk {disk.target},"
                f" and guessing it is dangerous; add it there (virsh edit {name})"
            )
        elif disk.snapshot in ("no", "manual"):
            blockers.append(
                f"the definition of {name!r} has snapshot='{disk.snapshot}' for its disk"
                f" {disk.target}, which would be left out; remove that (virsh edit {name})"
            )
        else:
            blockers += _unnameable(facts, path_of(facts, disk, wanted.snapshot))
    if not disks:
        blockers.append(f"{name!r} has no writable disk; there is nothing to snapshot")
    if facts.active and wanted.quiesce == ALWAYS and not facts.agent:
        blockers.append(
            f"the guest agent of {name!r} does not respond, so the file systems cannot be frozen;"
            " install and start qemu-guest-agent in the guest, or leave quiesce at auto"
        )
    return blockers


def _unnameable(facts: SnapshotFacts, path: str) -> t.Iterator[str]:
    if len(posixpath.basename(path).encode()) > _LONGEST:
        yield f"{path} is too long for a file name; give the snapshot a shorter one"
    if path in facts.there:
        yield (
            f"{path} already exists and does not belong to this VM; find its owner and move it"
            " away, or give the snapshot another name"
        )


def create(facts: SnapshotFacts, wanted: SnapshotRequest, made: Snapshot) -> Step[SnapshotFacts]:
    """The step that takes ``made``, a disk-only snapshot."""
    name, taken = wanted.snapshot, {disk.target: disk for disk in facts.disks if disk.taken}
    files = {target: path_of(facts, disk, name) for target, disk in taken.items()}
    state = "disk-snapshot" if facts.active else "shutoff"
    made = dataclasses.replace(made, kind=EXTERNAL, state=state, files=tuple(files.items()))

    def created(before: SnapshotFacts) -> SnapshotFacts:
        disks = tuple(
            dataclasses.replace(disk, source=files[disk.target], format="qcow2")
            if disk.target in files
            else disk
            for disk in before.disks
        )
        snapshots = (*before.snapshots, made)
        return dataclasses.replace(before, snapshots=snapshots, current=name, disks=disks)

    freeze = facts.state == "running" and facts.agent and wanted.quiesce != NEVER
    how = ", its file systems frozen" if freeze else ""
    text = f"take disk-only snapshot {name}{how}"
    return Step(TakeFiles(name, files, freeze), text, created)


def merge_blockers(facts: SnapshotFacts, going: t.Sequence[Snapshot]) -> list[str]:
    """Reasons against deleting ``going`` in this order."""
    name, blockers = facts.name, []
    outside, within = facts.of_kind(EXTERNAL), facts.of_kind(INTERNAL)
    if going and outside and within:
        return [
            f"{name!r} has internal snapshots ({_names(within)}) and external ones"
            f" ({_names(outside)}); libvirt deletes none of them then. Merge the files (virsh"
            f" blockcommit {name} TARGET --active --pivot) and remove the metadata of their"
            f" snapshots (virsh snapshot-delete {name} NAME --metadata) first"
        ]
    left = {snapshot.name: snapshot for snapshot in facts.snapshots}
    current = facts.current
    for snapshot in going:
        del left[snapshot.name]
        if snapshot.kind == INTERNAL:
            continue
        if not snapshot.ours:
            blockers.append(
                f"snapshot {snapshot.name} of {name!r} is an external one made by other means and"
                f" is not merged here; use virsh snapshot-delete {name} {snapshot.name}"
            )
        if snapshot.name in facts.used:
            blockers.append(facts.used[snapshot.name])
        above = [other.name for other in left.values() if other.parent == snapshot.name]
        if len(above) > 1 or (above and current == snapshot.name):
            more = " and the VM itself" if current == snapshot.name else ""
            blockers.append(
                f"{', '.join(above)}{more} are based on snapshot {snapshot.name} of {name!r}, whose"
                " files can be merged only into a single one; delete the others first"
            )
        parent = snapshot.parent
        left = {
            key: dataclasses.replace(other, parent=parent)
            if other.parent == snapshot.name
            else other
            for key, other in left.items()
        }
        current = parent if current == snapshot.name else current
    return blockers


def mark(snapshot: Snapshot) -> Step[SnapshotFacts]:
    """Record in the snapshot that it is being merged."""

    def marked(before: SnapshotFacts) -> SnapshotFacts:
        snapshots = tuple(
            dataclasses.replace(other, merging=True) if other.name == snapshot.name else other
            for other in before.snapshots
        )
        return dataclasses.replace(before, snapshots=snapshots)

    action = Mark(snapshot.name)
    return Step(action, action.text, marked, irreversible=True)


def lowered(facts: SnapshotFacts, snapshot: Snapshot) -> SnapshotFacts:
    """``facts`` once the files of ``snapshot`` are merged into their backing files."""
    lower = {disk.target: disk for disk in snapshot.disks}
    merged = {path: lower[target] for target, path in snapshot.files if target in lower}

    def disks(above: tuple[SnapshotDisk, ...]) -> tuple[SnapshotDisk, ...]:
        return tuple(
            dataclasses.replace(
                disk, source=merged[disk.source].source, format=merged[disk.source].format
            )
            if disk.source in merged
            else disk
            for disk in above
        )

    snapshots = tuple(
        dataclasses.replace(other, disks=disks(other.disks)) for other in facts.snapshots
    )
    return dataclasses.replace(facts, disks=disks(facts.disks), snapshots=snapshots)


def chain(facts: SnapshotFacts, disk: SnapshotDisk) -> list[SnapshotDisk]:
    """The backing files of ``disk`` by the VM's snapshots, the uppermost first."""
    made = {
        path: (snapshot, target) for snapshot in facts.snapshots for target, path in snapshot.files
    }
    backing: list[SnapshotDisk] = []
    while disk.source in made:
        snapshot, target = made.pop(disk.source)
        below = [each for each in snapshot.disks if each.target == target]
        if not below:
            break
        disk = below[0]
        backing.append(disk)
    return backing


def unrevertable(facts: SnapshotFacts, snapshot: Snapshot) -> list[str]:
    """Reasons against reverting to an external snapshot."""
    name, problems = facts.name, []
    if not snapshot.ours:
        problems.append(
            f"snapshot {snapshot.name} of {name!r} is an external one made by other means and is"
            f" not reverted to here; use virsh snapshot-revert {name} {snapshot.name}, which needs"
            " libvirt 9.9"
        )
    elif snapshot.merging:
        problems.append(
            f"the files of snapshot {snapshot.name} of {name!r} have begun to be merged into its"
            " disks, so it is no longer usable; delete it"
        )
    elif facts.libvirt < CAN_REVERT:
        had = f"{facts.libvirt // 10**6}.{facts.libvirt // 1000 % 1000}"
        problems.append(
            f"snapshot {snapshot.name} of {name!r} is disk-only, and reverting to it needs libvirt"
            f" 9.9 on its hypervisor, which has {had}; a copy of the VM as it was can be made from"
            " the files by hand (qemu-img convert)"
        )
    return problems


def own_files(
    stored: Metadata | None, disks: t.Iterable[SnapshotDisk], snapshots: t.Collection[Snapshot]
) -> tuple[OwnVolume, ...]:
    """The files that our snapshots have created for the VM, which are recorded nowhere else.

    The definition or a snapshot refers to them, and they are named after the lowest volume.
    """
    outside = [snapshot for snapshot in snapshots if snapshot.kind == EXTERNAL]
    if stored is None or not stored.made_here or not all(snapshot.ours for snapshot in outside):
        return ()
    if not outside:
        return ()
    named = [disk.source for disk in disks]
    for snapshot in outside:
        named += [path for _target, path in snapshot.files]
        named += [disk.source for disk in snapshot.disks]
    known = {own.path for own in stored.volumes}
    stems = {posixpath.splitext(own.path)[0]: own for own in stored.volumes if own.role != "seed"}
    volumes = {}
    for path in named:
        fits = [
            stem
            for stem in stems
            if path.startswith(f"{stem}.") and "/" not in path[len(stem) :] and path not in known
        ]
        if fits:
            own = stems[max(fits, key=len)]
            volumes[path] = OwnVolume(own.pool, posixpath.basename(path), path, own.target, "disk")
    return tuple(volumes.values())


def _names(snapshots: t.Iterable[Snapshot]) -> str:
    return ", ".join(one.name for one in snapshots)
