# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a move does with a VM's disks: which volumes are created for them, and reasons to refuse."""

from __future__ import annotations

import posixpath
import typing as t

from ..base.metadata import NOT_MADE, OwnVolume
from ..base.names import playbook_command
from ..storage import data_files, transient
from ..storage.base_name import BaseName
from .plan_snapshots import below, copied_whole
from .types import DestinationDomain, MigrationDisk, NewVolume, Source, Target

_MIB = 1024**2
# Space that must stay free in a pool
_FLOOR = 64 * _MIB


def volume_of(
    disk: MigrationDisk, source: Source, target: Target, claim: DestinationDomain | None
) -> tuple[str | None, NewVolume | None]:
    """The reason against moving one disk, and the volume it becomes."""
    what, where = f"disk {disk.target}", target.destination.name
    if disk.is_drive:
        return _medium(disk, source, target), None
    if disk.type != "file" or disk.path is None:
        return f"{what} is of type {disk.type}; only disks that are files are moved", None
    if disk.transient:
        # before its file, which is libvirt's overlay while it runs: no block job takes that away
        return transient.refusal(f"{what} ({disk.path})", source.name), None
    if disk.shareable or disk.readonly:
        kind = "shareable" if disk.shareable else "read-only"
        return f"{what} ({disk.path}) is {kind}, so other VMs may use it; detach it", None
    if disk.encrypted:
        return (
            f"{what} ({disk.path}) is encrypted with the secret {disk.secret or 'of libvirt'} of"
            f" {source.host}, which is not copied to {where}; VMs with such disks are not moved"
        ), None
    if disk.data_file is not None and not _stays_with_data(disk.path, disk.data_file, target):
        return data_files.refusal(what, disk.path, disk.data_file, source.name), None
    if disk.block_job:
        return f"{what} ({disk.path}) has a block job running; wait for it (virsh blockjob)", None
    if disk.format not in ("qcow2", "raw") or not disk.capacity:
        return f"{what} ({disk.path}) is of format {disk.format}; only qcow2 and raw move", None
    folder, name = posixpath.split(disk.path)
    pool = next((one for one in target.pools if one.path == folder), None)
    if pool is None:
        return f"{where} has no pool at {folder}, where {what} is; define one there", None
    if pool.absent is not None:
        return pool.absent, None
    if not pool.active:
        return f"pool {pool.name} of {where} is inactive; virsh pool-start {pool.name}", None
    problem, backing = _backing(disk, source, target)
    if problem:
        return problem, None
    if disk.path in target.shared:
        return _shared(disk.path, target), None
    there = pool.volumes.get(disk.path)
    if there is not None:
        problem = _left_over(disk.path, target, claim)
        if problem:
            return problem, None
    return None, NewVolume(
        disk.target,
        pool.name,
        name,
        disk.path,
        disk.format,
        disk.capacity,
        disk.allocation,
        backing,
        there is not None,
        whole=copied_whole(source),
    )


def _stays_with_data(path: str, data: str, target: Target) -> bool:
    """Whether both files of a disk are in one folder that the destination has too."""
    return path in target.shared and posixpath.dirname(path) == posixpath.dirname(data)


def _medium(disk: MigrationDisk, source: Source, target: Target) -> str | None:
    """The reason against moving a VM with what is in this drive, which goes along."""
    if disk.path is None or _is_in_other_work(source):
        return None
    if is_seed(disk):
        return (
            f"the seed medium {disk.path} is still in the drive {disk.target}: wait for the end"
            f" of the first boot and eject it (virsh change-media {source.name} {disk.target}"
            " --eject --live --config)"
        )
    shared = target.shared.get(disk.path)
    if shared is not None:
        return _other_storage(disk.path, target, shared) if shared else None
    base = BaseName.at(disk.path)
    if base is not None:
        return _base_image(disk, disk.path, base, source.name, target)
    where = target.destination.name
    return (
        f"the medium in the drive {disk.target} ({disk.path}) is no base image named by its digest,"
        f" so it is unknown whether {where} has the same; insert it as the image of its drive"
        f" ({playbook_command('provision_vm')}), or have the move eject it"
        f" ({playbook_command('migrate_vm', vm_name=source.name, virt_eject_media='true')})"
    )


def ejects(disk: MigrationDisk, source: Source) -> bool:
    """Whether a move that ejects media empties this drive first."""
    has_medium = disk.is_drive and disk.path is not None and not is_seed(disk)
    return has_medium and not _is_in_other_work(source)


def is_seed(disk: MigrationDisk) -> bool:
    """Whether it is the seed medium of the VM's first boot."""
    return disk.own is not None and disk.own.role == "seed"


def _is_in_other_work(source: Source) -> bool:
    """Whether devices are attached temporarily, such as the drive that keeps it from starting."""
    return source.metadata is not None and source.metadata.phase not in (None, "migrating")


def _backing(
    disk: MigrationDisk, source: Source, target: Target
) -> tuple[str | None, tuple[str, str] | None]:
    """The base image of an overlay, if it is proven to be the same on the destination."""
    chain = list(disk.chain)
    if disk.path in target.shared:
        # what a snapshot left below it stays in place like the disk; a base image may be elsewhere
        while chain and chain[0][0] in target.shared:
            shared, _kind = chain.pop(0)
            if target.shared[shared]:
                return _other_storage(shared, target, target.shared[shared]), None
    elif any(path in below(source) for path, _kind in chain):
        return None, None  # the reason against the snapshot is told instead
    if not chain:
        return None, None
    where, (path, kind) = target.destination.name, chain[0]
    base = BaseName.at(path)
    if len(chain) > 1 or base is None:
        lower = ", ".join(one for one, _kind in chain)
        return (
            f"disk {disk.target} is an overlay of {lower}, which is no base image named by its"
            f" digest, so it is unknown whether {where} has the same; flatten it while the VM runs"
            f" (virsh blockpull DOMAIN {disk.target} --wait)"
        ), None
    problem = _base_image(disk, path, base, source.name, target)
    return problem, None if problem else (path, kind)


def _base_image(
    disk: MigrationDisk, path: str, base: BaseName, vm: str, target: Target
) -> str | None:
    """Why the base image of a disk or drive is not proven to be the same on the destination."""
    where = target.destination.name
    kind = "drive" if disk.is_drive else "disk"
    there = [*(one for pool in target.pools if pool.active for one in pool.volumes)]
    there += target.destination.incoming
    if path in there:
        return None
    other = next((file for file in there if BaseName.at(file) == base), None)
    if other is not None:
        return (
            f"base image {base.digest} of {kind} {disk.target} is on {where} as {other}, and the"
            f" {kind} names {path}; give {where} the same folder of base images (virt_base_path)"
        )
    return (
        f"base image {base.digest} of {kind} {disk.target} is not on {where} as {path}; the"
        " playbooks that move VMs bring it there and report what prevents that: run"
        f" {playbook_command('migrate_vm', vm_name=vm)}"
    )


def _shared(path: str, target: Target) -> str | None:
    """Why a disk in a pool that both share cannot stay in place."""
    where, reason = target.destination.name, target.shared[path]
    if reason:
        return _other_storage(path, target, reason)
    users = [one.name for one in target.domains if path in one.files]
    return f"{path} is used by {', '.join(users)} on {where}" if users else None


def _other_storage(path: str, target: Target, reason: str) -> str:
    where = target.destination.name
    return f"{path} on {where}: {reason}; make sure both have the same storage there"


def _left_over(path: str, target: Target, claim: DestinationDomain | None) -> str | None:
    """Why a file that is in the way must not be recreated."""
    where = target.destination.name
    named = claim is not None and claim.metadata is not None
    if not named or path not in [one.path for one in _claimed(claim) if one.made != NOT_MADE]:
        return (
            f"{path} already exists on {where}, not from moving this VM: it may belong to another"
            " VM, or the storage is shared; find its owner (virt_query), and move it away"
        )
    users = [one.name for one in target.domains if one is not claim and path in one.files]
    users += [
        volume.name
        for pool in target.pools
        for volume in pool.volumes.values()
        if volume.backing == path
    ]
    if users:
        return f"{path} already exists on {where}, and is used by {', '.join(users)}"
    return None


def _claimed(claim: DestinationDomain | None) -> tuple[OwnVolume, ...]:
    return claim.metadata.volumes if claim is not None and claim.metadata is not None else ()


def lacking_space(volumes: t.Sequence[NewVolume], target: Target) -> list[str]:
    """Pools of the destination without enough space for what is actually copied."""
    problems = []
    for pool in target.pools:
        wanted = sum(volume.allocation for volume in volumes if volume.pool == pool.name)
        incoming = target.destination.needed.get(pool.path, 0)
        if wanted and wanted + incoming + _FLOOR > pool.available:
            bases = f", their base images {incoming // _MIB} MiB" if incoming else ""
            problems.append(
                f"pool {pool.name} of {target.destination.name} has {pool.available // _MIB} MiB"
                f" free, the disks need {wanted // _MIB} MiB{bases} and {_FLOOR // _MIB} MiB stay"
                " free"
            )
    return problems
