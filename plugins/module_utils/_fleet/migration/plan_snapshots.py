# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a VM's snapshots can move with it, and the reasons against that.

libvirt refuses their records only, which are kept and restored (:mod:`.records`). Their contents
are in the disks: on storage that both ends share they stay in place. Elsewhere libvirt would copy
what the guest sees of a disk and not the snapshots in it, so the file itself is copied, which takes
a VM that is off. An external snapshot is several files, of which only the last one is a disk.
"""

from __future__ import annotations

import typing as t

from ..base.names import playbook_command, snapshot_removal
from .records import MOST_BYTES
from .types import Source, SourceSnapshot, Target


def copied_whole(source: Source) -> bool:
    """Whether disks that are copied are copied as files, with the snapshots in them."""
    return bool(source.snapshots) and not source.active


def problems(source: Source, target: Target) -> list[str]:
    """The reasons against moving the VM with its snapshots."""
    if not source.snapshots:
        return []
    name, reasons = source.name, []
    local = [
        disk.target
        for disk in source.disks
        if not disk.is_drive and disk.path is not None and disk.path not in target.shared
    ]
    external = [snapshot.name for snapshot in source.snapshots if snapshot.external]
    copied = f"{', '.join(local)} would be copied from hypervisor to hypervisor"
    if local and external:
        reasons.append(
            f"{name!r} has external snapshots ({', '.join(external)}), and {copied}, without the"
            f" files of these; delete them first ({snapshot_removal(name)})"
        )
    elif local and source.active:
        off = playbook_command("state", vm_name=name, vm_state="shutoff")
        reasons.append(
            f"{name!r} runs and has snapshots ({', '.join(_names(source.snapshots))}), and {copied}"
            f" without what is in them; shut it off first ({off}), or delete them"
            f" ({snapshot_removal(name)})"
        )
    elif local and source.state_files:
        reasons.append(
            f"{name!r} has snapshots, so its files are copied while it is off, and libvirt copies"
            f" UEFI variables and the state of a TPM only while it runs; delete the snapshots"
            f" ({snapshot_removal(name)})"
        )
    else:
        reasons += _files(source, target)
    if source.record_bytes > MOST_BYTES:
        reasons.append(
            f"the records of the snapshots of {name!r} take {source.record_bytes} bytes, and a move"
            f" keeps {MOST_BYTES} at most; delete some ({snapshot_removal(name)})"
        )
    reasons += _machines(source, target)
    return reasons


def _names(snapshots: t.Iterable[SourceSnapshot]) -> list[str]:
    return [snapshot.name for snapshot in snapshots]


def _machines(source: Source, target: Target) -> t.Iterator[str]:
    """Snapshots of a machine type that the destination lacks: none could be reverted to there."""
    for snapshot in source.snapshots:
        for machine in snapshot.machines:
            if machine not in target.machines and machine != source.machine:
                yield (
                    f"snapshot {snapshot.name} of {source.name!r} has the machine type {machine},"
                    f" which is not on {target.destination.name}; delete it"
                    f" ({snapshot_removal(source.name)})"
                )


def _files(source: Source, target: Target) -> t.Iterator[str]:
    """Files that a snapshot needs and that would not be on the destination."""
    where = target.destination.name
    disks = {disk.path for disk in source.disks if not disk.is_drive}
    listed = {path for pool in target.pools if pool.active for path in pool.volumes}
    there = {*listed, *target.destination.incoming}
    for snapshot in source.snapshots:
        for path in snapshot.files:
            reason = target.shared.get(path)
            if reason == "" or (reason is None and path in disks and copied_whole(source)):
                continue
            why = reason or f"no disk of {source.name!r}, and not on storage that {where} shares"
            yield (
                f"snapshot {snapshot.name} of {source.name!r} needs {path}: {why}; delete the"
                f" snapshot ({snapshot_removal(source.name)})"
            )
        for path in snapshot.media:
            if path in there or target.shared.get(path) == "":
                continue
            yield (
                f"snapshot {snapshot.name} of {source.name!r} has {path} in a drive, which is not"
                f" on {where}; delete the snapshot ({snapshot_removal(source.name)})"
            )


def below(source: Source) -> frozenset[str]:
    """The files that external snapshots of the VM have below its disks, and beside them."""
    return frozenset(
        path for snapshot in source.snapshots if snapshot.external for path in snapshot.files
    )
