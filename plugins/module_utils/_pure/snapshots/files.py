# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Snapshots in files of their own (libvirt: external): of the disks alone.

The disk as it was stays as it is, and the VM goes on in a new file that lies on it. Deleting one
merges that file into the one below, which libvirt does of VMs that run and that are off, as early
as 9.0. From the first byte on, what the snapshot held is of no moment any more; that is noted in it
before, so that nobody goes back to it.

This file is private to the collection.
"""

from __future__ import annotations

import dataclasses
import posixpath
import typing as t

from ..base.metadata import Metadata, OwnVolume
from ..plan.steps import Step
from .facts import ALWAYS, EXTERNAL, INTERNAL, NEVER, Disk, Facts, Snapshot, Wanted

CAN_REVERT = 9_009_000  # libvirt's version from which on it goes back to them
_LONGEST = 255  # bytes that a file's name may have


def path_of(facts: Facts, disk: Disk, snapshot: str) -> str:
    """The file in which the VM goes on with ``disk``, named after what lies lowest of it."""
    found = disk.source
    for one in facts.of_kind(EXTERNAL)[:1]:
        found = {each.target: each.source for each in one.disks}.get(disk.target, found)
    return f"{posixpath.splitext(found)[0]}.{snapshot}.qcow2"


def untakeable(facts: Facts, wanted: Wanted) -> list[str]:
    """What speaks against taking one of the disks alone."""
    name, disks = facts.name, [disk for disk in facts.disks if disk.taken]
    found = list(facts.unfit)
    within = facts.of_kind(INTERNAL)
    if within:
        found.append(
            f"{name!r} has snapshots within its disks ({_names(within)}), and libvirt deletes"
            " neither those nor this one where both are; delete them first, or leave disk_only out"
        )
    for disk in disks:
        if disk.type != "file" or not disk.source.startswith("/"):
            found.append(
                f"disk {disk.target} of {name!r} is of type {disk.type}, and only beside one that"
                " is a file can a file be made for what comes; leave disk_only out"
            )
        elif disk.format is None:
            found.append(
                f"the definition of {name!r} does not say the format of its disk {disk.target}, and"
                f" guessing it is dangerous; say it there (virsh edit {name})"
            )
        elif disk.snapshot in ("no", "manual"):
            found.append(
                f"the definition of {name!r} says snapshot='{disk.snapshot}' of its disk"
                f" {disk.target}, which would be left out; remove that (virsh edit {name})"
            )
        else:
            found += _unnameable(facts, path_of(facts, disk, wanted.snapshot))
    if not disks:
        found.append(f"{name!r} has no disk that could be written to; there is nothing to keep")
    if facts.active and wanted.quiesce == ALWAYS and not facts.agent:
        found.append(
            f"the guest of {name!r} has no agent that answers, so its file systems cannot be"
            " frozen; install and start qemu-guest-agent in it, or leave quiesce at auto"
        )
    return found


def _unnameable(facts: Facts, path: str) -> t.Iterator[str]:
    if len(posixpath.basename(path).encode()) > _LONGEST:
        yield f"{path} is too long for a file's name; give the snapshot a shorter one"
    if path in facts.there:
        yield (
            f"{path} is there already, and is not known here; look whose it is, and move it away,"
            " or give the snapshot another name"
        )


def create(facts: Facts, wanted: Wanted, made: Snapshot) -> Step[Facts]:
    """The step that takes ``made``, which is of the disks alone."""
    name, taken = wanted.snapshot, {disk.target: disk for disk in facts.disks if disk.taken}
    files = {target: path_of(facts, disk, name) for target, disk in taken.items()}
    state = "disk-snapshot" if facts.active else "shutoff"
    made = dataclasses.replace(made, kind=EXTERNAL, state=state, files=tuple(files.items()))

    def created(before: Facts) -> Facts:
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
    text = f"take snapshot {name} of its disks alone{how}"
    return Step("create_files", text, created, about=(name, files, freeze))


def unmergeable(facts: Facts, going: t.Sequence[Snapshot]) -> list[str]:
    """What speaks against deleting ``going`` in this order."""
    name, found = facts.name, []
    outside, within = facts.of_kind(EXTERNAL), facts.of_kind(INTERNAL)
    if going and outside and within:
        return [
            f"{name!r} has snapshots within its disks ({_names(within)}) and in files of their own"
            f" ({_names(outside)}); libvirt deletes none of them then. Merge the files (virsh"
            f" blockcommit {name} TARGET --active --pivot) and forget their snapshots (virsh"
            f" snapshot-delete {name} NAME --metadata) first"
        ]
    left = {one.name: one for one in facts.snapshots}
    current = facts.current
    for one in going:
        del left[one.name]
        if one.kind == INTERNAL:
            continue
        if not one.ours:
            found.append(
                f"snapshot {one.name} of {name!r} is in files of its own, which others made, and is"
                f" not merged here; do it with virsh snapshot-delete {name} {one.name}"
            )
        if one.name in facts.used:
            found.append(facts.used[one.name])
        above = [other.name for other in left.values() if other.parent == one.name]
        if len(above) > 1 or (above and current == one.name):
            more = " and the VM itself" if current == one.name else ""
            found.append(
                f"{', '.join(above)}{more} come from snapshot {one.name} of {name!r}, whose files"
                " can only be merged where it is one; delete the others first"
            )
        parent = one.parent
        left = {
            key: dataclasses.replace(other, parent=parent) if other.parent == one.name else other
            for key, other in left.items()
        }
        current = parent if current == one.name else current
    return found


def mark(one: Snapshot) -> Step[Facts]:
    """Note in the snapshot that it is being merged."""

    def marked(before: Facts) -> Facts:
        snapshots = tuple(
            dataclasses.replace(other, merging=True) if other.name == one.name else other
            for other in before.snapshots
        )
        return dataclasses.replace(before, snapshots=snapshots)

    text = f"note that snapshot {one.name} is being merged"
    return Step("mark", text, marked, about=one.name, forward=True)


def lowered(facts: Facts, one: Snapshot) -> Facts:
    """``facts`` once the files of ``one`` are in those below."""
    lower = {disk.target: disk for disk in one.disks}
    merged = {path: lower[target] for target, path in one.files if target in lower}

    def disks(above: tuple[Disk, ...]) -> tuple[Disk, ...]:
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


def chain(facts: Facts, disk: Disk) -> list[Disk]:
    """What ``disk`` lies on by the VM's snapshots, the uppermost first."""
    made = {path: (one, target) for one in facts.snapshots for target, path in one.files}
    found: list[Disk] = []
    while disk.source in made:
        one, target = made.pop(disk.source)
        below = [each for each in one.disks if each.target == target]
        if not below:
            break
        disk = below[0]
        found.append(disk)
    return found


def unrevertable(facts: Facts, found: Snapshot) -> list[str]:
    """What speaks against going back to one in files of its own."""
    name, problems = facts.name, []
    if not found.ours:
        problems.append(
            f"snapshot {found.name} of {name!r} is in files of its own, which others made, and is"
            f" not gone back to here; do it with virsh snapshot-revert {name} {found.name}, which"
            " libvirt can from 9.9 on"
        )
    elif found.merging:
        problems.append(
            f"the files of snapshot {found.name} of {name!r} have begun to be merged into its"
            " disks, so it is of no moment any more; delete it"
        )
    elif facts.libvirt < CAN_REVERT:
        had = f"{facts.libvirt // 10**6}.{facts.libvirt // 1000 % 1000}"
        problems.append(
            f"snapshot {found.name} of {name!r} is of its disks alone, and going back to such ones"
            f" needs libvirt 9.9 on its hypervisor, which has {had}; a copy of the VM as it was can"
            " be made of its files by hand (qemu-img convert)"
        )
    return problems


def own_files(
    stored: Metadata | None, disks: t.Iterable[Disk], snapshots: t.Collection[Snapshot]
) -> tuple[OwnVolume, ...]:
    """The files that snapshots of ours have made for the VM, of which none has a note of its own.

    They are named by the definition or by a snapshot, and after the volume that lies lowest.
    """
    outside = [one for one in snapshots if one.kind == EXTERNAL]
    if stored is None or not stored.made_here or not all(one.ours for one in outside):
        return ()
    if not outside:
        return ()
    named = [disk.source for disk in disks]
    for one in outside:
        named += [path for _target, path in one.files]
        named += [disk.source for disk in one.disks]
    known = {own.path for own in stored.volumes}
    stems = {posixpath.splitext(own.path)[0]: own for own in stored.volumes if own.role != "seed"}
    found = {}
    for path in named:
        fits = [
            stem
            for stem in stems
            if path.startswith(f"{stem}.") and "/" not in path[len(stem) :] and path not in known
        ]
        if fits:
            own = stems[max(fits, key=len)]
            found[path] = OwnVolume(own.pool, posixpath.basename(path), path, own.target, "disk")
    return tuple(found.values())


def _names(snapshots: t.Iterable[Snapshot]) -> str:
    return ", ".join(one.name for one in snapshots)
