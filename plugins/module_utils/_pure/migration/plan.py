# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a VM can move, everything that speaks against it at once, and what has to be done.

This file is private to the collection.
"""

from __future__ import annotations

import dataclasses
import posixpath
import typing as t
import uuid as uuids

from ..base.metadata import NOT_MADE, Metadata, Owner, OwnVolume
from ..base.names import CLAIM
from ..machine import base_name
from .types import RENEW, Defined, Disk, NewVolume, Options, Plan, Pool, Source, Target

_MIB = 1024**2
# Space that stays free in a pool, and memory that stays free on a hypervisor
_FLOOR = 64 * _MIB
DETACHED = "made for it, but not among its disks any more"
_FOREIGN = "its files are not known to be its own, so it is not moved"
_ENDED_BY = {"creating": " (fleet.virt.provision_vm)", "purging": " (fleet.virt.purge_vm)"}


def plan(source: Source, target: Target, options: Options, *, space: bool = True) -> Plan:
    """What moving ``source`` to ``target`` means; without ``space``, whether the pools there have
    room is left open.
    """
    found = Plan()
    found.findings += _vm(source)
    found.findings += _host(source, target)
    if not options.tunnelled:  # which is libvirt's own connection, made already
        found.findings += _keys(source, target)
    claim = next((one for one in target.domains if one.name == source.name + CLAIM), None)
    found.findings += _names(source, target, claim)
    if claim is not None and not _is_ours(claim, source):
        claim = None
    overlay = False
    for disk in source.disks:
        problem, volume = _disk(disk, source, target, claim)
        if problem:
            found.findings.append(problem)
        elif disk.path is not None and disk.path in target.shared:
            found.shared.append(disk.path)
        if volume is None:
            continue
        found.volumes.append(volume)
        overlay = overlay or volume.backing is not None
        if disk.own is None:
            found.kept.append(f"{disk.path}: not made for {source.name!r}")
        elif options.keep_volumes:
            found.kept.append(f"{disk.path}: asked for with keep_volumes")
        else:
            found.old.append(disk.own)
    attached = {disk.path for disk in source.disks}
    for own in source.metadata.volumes if source.metadata else ():
        if own.path in attached:
            continue
        if own.role == "seed" and not options.keep_volumes:  # ejected, and of no use any more
            found.old.append(own)
        elif own.role != "seed":
            found.kept.append(f"{own.path}: {DETACHED}")
    if space:
        found.findings += _space(found.volumes, target)
    if options.tunnelled and found.volumes:
        disks = ", ".join(volume.target for volume in found.volumes)
        found.findings.append(
            f"tunnelled takes no disks along, and {disks} would have to go; leave tunnelled out,"
            f" and let {target.destination.name} be reached at two ports of 49152 to 49215 too"
        )
    found.flow = _flow(found, overlay=overlay)
    found.incremental = overlay
    if source.state == "shutoff":
        found.flow = "offline"
    return found


def other_move(
    name: str,
    kept: Metadata | None,
    here: str,
    where: str,
    is_alive: t.Callable[[Owner | None], bool],
) -> str | None:
    """Why the VM on ``here`` does not go to ``where`` now: it is in a move between other ends."""
    if kept is None or kept.phase != "migrating" or kept.move is None:
        return None
    source, destination = kept.move.source, kept.move.destination
    if (source, destination) == (here, where):
        return None
    if source == here and is_alive(kept.owner):
        return (
            f"{name!r} is being moved from {here} to {destination} by another run, so not to"
            f" {where}; wait for that, and move it from there if it is still to go"
        )
    return (
        f"{name!r} has an unfinished move from {source} to {destination}, so it does not go from"
        f" {here} to {where}; end that first with fleet.virt.repair_vms"
    )


def _flow(found: Plan, *, overlay: bool) -> str:
    if overlay:
        return "overlay"
    if found.volumes:
        return "copy"
    return "shared" if found.shared else "memory"


def without_seed_medium(source: Source) -> Source:
    """The VM as it is when its seed medium was ejected and removed."""
    disks = tuple(
        dataclasses.replace(disk, path=None, own=None) if _is_seed(disk) else disk
        for disk in source.disks
    )
    kept = source.metadata
    if kept is not None:
        rest = tuple(own for own in kept.volumes if own.role != "seed")
        kept = dataclasses.replace(kept, volumes=rest)
    return dataclasses.replace(source, disks=disks, metadata=kept)


def _is_seed(disk: Disk) -> bool:
    return disk.own is not None and disk.own.role == "seed"


def _is_ours(claim: Defined, source: Source) -> bool:
    return (
        not claim.active
        and claim.metadata is not None
        and claim.metadata.phase == "creating"
        and claim.uuid == claim_uuid(source.uuid)
    )


def claim_uuid(uuid: str) -> str:
    """The UUID of the claim that keeps the place of the VM ``uuid`` on its destination."""
    return str(uuids.uuid5(uuids.UUID(uuid), "fleet.virt migration"))


def _vm(source: Source) -> list[str]:
    """What speaks against moving this VM anywhere."""
    name, found = source.name, []
    kept = source.metadata
    if kept is None or not kept.made_here:
        found.append(f"{name!r} was not made by this collection: {_FOREIGN}")
    if kept is not None and kept.phase not in (None, "migrating"):
        found.append(
            f"{name!r} is in phase {kept.phase}: another run is at work on it, or died at it; let"
            f" that end, or run it again to finish it{_ENDED_BY.get(kept.phase, '')}"
        )
    elif kept is not None and kept.phase == "migrating" and source.owner_alive:
        pid = f" (process {kept.owner.pid})" if kept.owner else ""
        found.append(f"{name!r} is being moved by a run on {source.host}{pid}; wait for it")
    if not source.persistent:
        found.append(f"{name!r} is transient and has no definition that could go along; define it")
    if source.state not in ("running", "blocked", "shutoff"):
        remedy = {
            "paused": "resume it (virt_state, state running) or shut it off",
            "crashed": "destroy or start it again",
        }.get(source.state, "wait until it runs")
        found.append(f"{name!r} is {source.state}; {remedy}")
    if source.managed_save:
        found.append(
            f"{name!r} has saved memory, which would stay behind; start it, or drop it with virsh"
            f" managedsave-remove {name}"
        )
    if source.snapshots:
        found.append(
            f"{name!r} has snapshots ({', '.join(source.snapshots)}), which would stay behind;"
            f" remove them first (virsh snapshot-delete {name} NAME)"
        )
    if source.checkpoints:
        found.append(
            f"{name!r} has checkpoints ({', '.join(source.checkpoints)}), which would stay behind;"
            f" remove them first (virsh checkpoint-delete {name} NAME)"
        )
    if source.job is not None:
        found.append(f"{name!r} has a job running ({source.job}); wait for it (virsh domjobinfo)")
    for device in source.hostdevs:
        found.append(f"{name!r} has the host's device {device}, which cannot move; detach it")
    return found


def _is_in_other_work(source: Source) -> bool:
    """Whether what is attached to it is for now, as the drive is that keeps it from starting."""
    return source.metadata is not None and source.metadata.phase not in (None, "migrating")


def _host(source: Source, target: Target) -> list[str]:
    """What speaks against this destination, whatever is on it."""
    where, found = target.destination.name, []
    if target.host_uuid == source.host_uuid:
        found.append(
            f"{where} is the hypervisor {source.name!r} is on, or has the same host UUID"
            f" ({target.host_uuid}); name another, or set host_uuid in libvirtd.conf"
        )
    if target.maintenance and not target.destination.marked:
        found.append(f"{where} is in maintenance; name another")
    if source.domain_type not in target.domain_types:
        found.append(f"{where} offers no {source.domain_type}, which {source.name!r} runs by")
    if source.machine not in target.machines:
        newest = [one for one in target.machines if one.startswith(_family(source.machine))]
        known = ", ".join(newest[-5:]) or "none of that family"
        found.append(
            f"machine type {source.machine} is not on {where} (it has {known}); give the VM one"
            " that both have, at its next start"
        )
    if target.cpu_problem:
        found.append(
            f"the CPU of {where} cannot do what {source.name!r} uses: {target.cpu_problem}"
        )
    bridges = target.destination.bridges if target.bridges is None else target.bridges
    for bridge in dict.fromkeys(source.bridges):
        if bridges is not None and bridge not in bridges:
            there = ", ".join(bridges) or "none"
            found.append(f"bridge {bridge} is not on {where}; it has: {there}")
    for network in dict.fromkeys(source.networks):
        if network not in target.networks:
            there = ", ".join(target.networks) or "none"
            found.append(f"network {network} is not active on {where}; active are: {there}")
    if target.free_mib is not None and target.free_mib < source.memory_mib:
        found.append(
            f"{where} has {target.free_mib} MiB of memory free, {source.name!r} needs"
            f" {source.memory_mib}"
        )
    return found


def _keys(source: Source, target: Target) -> list[str]:
    """Certificates for memory and disks that QEMU would not take."""
    ends = ((source.host, source.expired), (target.destination.name, target.destination.expired))
    return [f"{text} on {where}; {RENEW}" for where, expired in ends for text in expired]


def _family(machine: str) -> str:
    return machine.rpartition("-")[0] or machine


def _names(source: Source, target: Target, claim: Defined | None) -> list[str]:
    """Another VM of that name, UUID or MAC address on the destination."""
    where, found = target.destination.name, []
    for one in target.domains:
        if one is claim:
            if not _is_ours(one, source):
                found.append(f"{where} has a domain {one.name!r} that is not from moving this VM")
            continue
        if one.name == source.name:
            found.append(f"{where} has a VM {one.name!r} already (uuid {one.uuid})")
        elif one.uuid == source.uuid:
            found.append(f"{where} has a VM with this VM's uuid already: {one.name!r}")
        taken = sorted(set(one.macs) & set(source.macs))
        if taken and one.uuid != source.uuid:
            found.append(f"{one.name!r} on {where} has the MAC address {', '.join(taken)}")
    return found


def _disk(
    disk: Disk, source: Source, target: Target, claim: Defined | None
) -> tuple[str | None, NewVolume | None]:
    """What speaks against moving one disk, and the volume it becomes."""
    what, where = f"disk {disk.target}", target.destination.name
    if disk.device != "disk":
        if disk.path is None or _is_in_other_work(source):
            return None, None
        if _is_seed(disk):
            return (
                f"the seed medium {disk.path} is still in the drive {disk.target}: let the first"
                f" boot end and eject it (virsh change-media {source.name} {disk.target} --eject"
                " --live --config)"
            ), None
        return (
            f"a medium is in the drive {disk.target} ({disk.path}), which {where} has not; eject it"
            f" (virsh change-media {source.name} {disk.target} --eject --live --config)"
        ), None
    if disk.type != "file" or disk.path is None:
        return f"{what} is of type {disk.type}; only disks that are files are moved", None
    if disk.shareable or disk.readonly:
        kind = "shareable" if disk.shareable else "read-only"
        return f"{what} ({disk.path}) is {kind}, so it may be others' too; detach it", None
    if disk.encrypted:
        return f"{what} ({disk.path}) is encrypted by QEMU, whose secret does not travel", None
    if disk.block_job:
        return f"{what} ({disk.path}) has a block job running; wait for it (virsh blockjob)", None
    if disk.format not in ("qcow2", "raw") or not disk.capacity:
        return f"{what} ({disk.path}) is of format {disk.format}; moved are qcow2 and raw", None
    folder, name = posixpath.split(disk.path)
    pool = next((one for one in target.pools if one.path == folder), None)
    if pool is None:
        return f"{where} has no pool at {folder}, where {what} lies; define one there", None
    if not pool.active:
        return f"pool {pool.name} of {where} is inactive; virsh pool-start {pool.name}", None
    problem, backing = _backing(disk, target)
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
    )


def _backing(disk: Disk, target: Target) -> tuple[str | None, tuple[str, str] | None]:
    """The base image of an overlay, proven to be the same on the destination."""
    if not disk.chain:
        return None, None
    where, (path, kind) = target.destination.name, disk.chain[0]
    name = posixpath.basename(path)
    if len(disk.chain) > 1 or base_name.parts(name) is None:
        below = ", ".join(one for one, _kind in disk.chain)
        return (
            f"disk {disk.target} lies on {below}, which is no base image by its digest, so whether"
            f" {where} has the same is not known; flatten it (virsh blockpull)"
        ), None
    there = any(path in pool.volumes for pool in target.pools if pool.active)
    if there or name in target.destination.coming:
        return None, (path, kind)
    digest = name.partition("-")[0]
    return (
        f"base image {digest} of disk {disk.target} is not on {where} as {path}; bring it there"
        " (fleet.virt.images, or virt_image on it), then move the VM"
    ), None


def _shared(path: str, target: Target) -> str | None:
    """Why a disk in a pool that both have does not stay where it is."""
    where, reason = target.destination.name, target.shared[path]
    if reason:
        return f"{path} on {where}: {reason}; see that both have the same storage there"
    users = [one.name for one in target.domains if path in one.files]
    return f"{path} is used by {', '.join(users)} on {where}" if users else None


def _left_over(path: str, target: Target, claim: Defined | None) -> str | None:
    """Why the file that is in the way may not be made anew."""
    where = target.destination.name
    named = claim is not None and claim.metadata is not None
    if not named or path not in [one.path for one in _claimed(claim) if one.made != NOT_MADE]:
        return (
            f"{path} is on {where} already, and not from moving this VM: it may be somebody's, or"
            " the storage is shared; look whose it is (virt_query), and move it away"
        )
    users = [one.name for one in target.domains if one is not claim and path in one.files]
    users += [
        volume.name
        for pool in target.pools
        for volume in pool.volumes.values()
        if volume.backing == path
    ]
    if users:
        return f"{path} is on {where} already, and used by {', '.join(users)}"
    return None


def _claimed(claim: Defined | None) -> tuple[OwnVolume, ...]:
    return claim.metadata.volumes if claim is not None and claim.metadata is not None else ()


def _space(volumes: t.Sequence[NewVolume], target: Target) -> list[str]:
    """Pools of the destination that have not the room for what really travels."""
    found = []
    for pool in target.pools:
        wanted = sum(one.allocation for one in volumes if one.pool == pool.name)
        if wanted and wanted + _FLOOR > pool.available:
            found.append(
                f"pool {pool.name} of {target.destination.name} has {pool.available // _MIB} MiB"
                f" free, the disks take {wanted // _MIB} MiB and {_FLOOR // _MIB} MiB stay free"
            )
    return found


def pools_of(volumes: t.Sequence[NewVolume], pools: t.Sequence[Pool]) -> list[Pool]:
    """The pools that ``volumes`` are made in, each once."""
    names = {volume.pool for volume in volumes}
    return [pool for pool in pools if pool.name in names]


def steps(source: Source, found: Plan, where: str) -> list[str]:
    """In words, what the move does, in order."""
    name = source.name
    done = ["autostart off"] if source.autostart else []
    done.append(f"hold the place of {name} on {where}")
    for volume in found.volumes:
        base = f" over {volume.backing[0]}" if volume.backing else ""
        word = "make anew" if volume.again else "make"
        done.append(f"{word} {volume.path} on {where}{base}")
    done += [f"leave {path} where it is, which both have" for path in found.shared]
    if source.active:
        done.append(f"move {name} to {where}, {found.flow}")
    else:
        done += [f"start {name} paused", f"move {name} to {where}", f"shut {name} off"]
    done += [f"remove {own.path} here" for own in found.old]
    return [*done, "autostart on"] if source.autostart else done
