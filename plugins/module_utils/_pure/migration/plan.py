# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a VM can move, all reasons against it at once, and what has to be done.

This file is private to the collection.
"""

from __future__ import annotations

import dataclasses
import typing as t
import uuid as uuids

from ..base.metadata import Metadata, Owner, metadata_problems
from ..base.names import CLAIM, snapshot_removal
from ..plan import leases
from .plan_disks import is_seed, lacking_space, volume_of
from .types import DEPLOY, RENEW, Defined, Options, Plan, Source, Target

DETACHED = "made for it, but no longer one of its disks"
_FOREIGN = "it is unknown which files belong to it, so it is not moved"
_ENDED_BY = {"creating": " (fleet.virt.provision_vm)", "purging": " (fleet.virt.purge_vm)"}


def plan(source: Source, target: Target, options: Options, *, space: bool = True) -> Plan:
    """What moving ``source`` to ``target`` takes; without ``space``, the free space of the pools
    there is not checked.
    """
    found = Plan()
    found.findings += _vm(source)
    found.findings += _host(source, target)
    if not options.tunnelled:  # that uses libvirt's own connection, which exists already
        found.findings += _keys(source, target)
    claim = next((one for one in target.domains if one.name == source.name + CLAIM), None)
    found.findings += _names(source, target, claim)
    if claim is not None and not _is_ours(claim, source):
        claim = None
    overlay = False
    for disk in source.disks:
        problem, volume = volume_of(disk, source, target, claim)
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
        if own.role == "seed" and not options.keep_volumes:  # ejected, and no longer needed
            found.old.append(own)
        elif own.role != "seed":
            found.kept.append(f"{own.path}: {DETACHED}")
    if space:
        found.findings += lacking_space(found.volumes, target)
    if options.tunnelled and found.volumes:
        disks = ", ".join(volume.target for volume in found.volumes)
        found.findings.append(
            f"tunnelled copies no disks, and {disks} would have to be copied; leave tunnelled out,"
            f" and make two ports of 49152 to 49215 of {target.destination.name} reachable too"
        )
    found.flow = _flow(found, overlay=overlay)
    found.incremental = overlay
    if source.state == "shutoff":
        found.flow = "offline"
    return found


def other_move(
    name: str,
    stored: Metadata | None,
    here: str,
    where: str,
    is_alive: t.Callable[[Owner | None], bool],
) -> str | None:
    """Why the VM on ``here`` cannot go to ``where`` now: it is in a move between other ends."""
    if stored is None or stored.phase != "migrating" or stored.move is None:
        return None
    source, destination = stored.move.source, stored.move.destination
    if (source, destination) == (here, where):
        return None
    if source == here and is_alive(stored.owner):
        return (
            f"{name!r} is being moved from {here} to {destination} by another run, so not to"
            f" {where}; wait for that, then move it from there if still needed"
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
    """The VM as it is once its seed medium is ejected and removed."""
    disks = tuple(
        dataclasses.replace(disk, path=None, own=None) if is_seed(disk) else disk
        for disk in source.disks
    )
    stored = source.metadata
    if stored is not None:
        rest = tuple(own for own in stored.volumes if own.role != "seed")
        stored = dataclasses.replace(stored, volumes=rest)
    return dataclasses.replace(source, disks=disks, metadata=stored)


def _is_ours(claim: Defined, source: Source) -> bool:
    return (
        not claim.active
        and claim.metadata is not None
        and claim.metadata.phase == "creating"
        and claim.uuid == claim_uuid(source.uuid)
    )


def claim_uuid(uuid: str) -> str:
    """The UUID of the claim of the VM ``uuid`` on its destination."""
    return str(uuids.uuid5(uuids.UUID(uuid), "fleet.virt migration"))


def _vm(source: Source) -> list[str]:
    """Reasons against moving this VM anywhere."""
    name, stored = source.name, source.metadata
    found = metadata_problems(name, stored)
    if found:
        return found
    if stored is None or not stored.made_here:
        found.append(f"{name!r} was not made by this collection: {_FOREIGN}")
    if stored is not None and stored.phase not in (None, "migrating"):
        ended = _ENDED_BY.get(str(stored.phase), "")
        found.append(leases.in_phase(name, stored.phase, source.holder, ended))
    elif stored is not None and stored.phase == "migrating" and source.holder is not None:
        found.append(leases.held(name, stored.phase, source.holder))
    if not source.persistent:
        found.append(f"{name!r} is transient and has no definition to move; define it first")
    if source.state not in ("running", "blocked", "shutoff"):
        remedy = {
            "paused": "resume it (virt_state, state running) or shut it off",
            "crashed": "destroy or start it again",
        }.get(source.state, "wait until it runs")
        found.append(f"{name!r} is {source.state}; {remedy}")
    if source.managed_save:
        found.append(
            f"{name!r} has saved memory, which would stay behind; start it, or discard it with"
            f" virsh managedsave-remove {name}"
        )
    if source.snapshots:
        found.append(
            f"{name!r} has snapshots ({', '.join(source.snapshots)}), which would stay behind;"
            f" delete them first ({snapshot_removal(name)})"
        )
    if source.checkpoints:
        found.append(
            f"{name!r} has checkpoints ({', '.join(source.checkpoints)}), which would stay behind;"
            f" remove them first (virsh checkpoint-delete {name} NAME)"
        )
    if source.job is not None:
        found.append(f"{name!r} has a job running ({source.job}); wait for it (virsh domjobinfo)")
    for device in source.hostdevs:
        found.append(f"{name!r} has the host device {device}, which cannot move; detach it")
    return found


def _host(source: Source, target: Target) -> list[str]:
    """Reasons against this destination, whatever is on it."""
    where, found = target.destination.name, []
    if target.host_uuid == source.host_uuid:
        found.append(
            f"{where} is the hypervisor {source.name!r} is on, or has the same host UUID"
            f" ({target.host_uuid}); name another, or set host_uuid in libvirtd.conf"
        )
    if target.maintenance and not target.destination.marked:
        found.append(f"{where} is in maintenance; name another")
    if source.domain_type not in target.domain_types:
        found.append(f"{where} offers no {source.domain_type}, which {source.name!r} needs")
    if source.machine not in target.machines:
        newest = [one for one in target.machines if one.startswith(_family(source.machine))]
        known = ", ".join(newest[-5:]) or "none of that family"
        found.append(
            f"machine type {source.machine} is not on {where} (it has {known}); give the VM one"
            " that both have, at its next start"
        )
    if target.cpu_problem:
        found.append(f"the CPU of {where} lacks what {source.name!r} uses: {target.cpu_problem}")
    bridges = target.destination.bridges if target.bridges is None else target.bridges
    for interface in dict.fromkeys(source.interfaces):
        found.append(
            f"a NIC of {source.name!r} is on the host interface {interface} of {source.host};"
            " give it a bridge or a network"
        )
    for bridge in dict.fromkeys(source.bridges):
        if bridges is not None and bridge not in bridges:
            there = ", ".join(bridges) or "none"
            found.append(f"bridge {bridge} is not on {where}; it has: {there}")
    for network in dict.fromkeys(source.networks):
        if network not in target.networks:
            there = ", ".join(target.networks) or "none"
            found.append(f"network {network} is not active on {where}; active are: {there}")
    for network, portgroup in dict.fromkeys(source.portgroups):
        groups = target.portgroups.get(network)
        if groups is not None and portgroup not in groups:  # libvirt would take none of them
            there = ", ".join(groups) or "none"
            found.append(
                f"network {network} on {where} has no port group {portgroup}, it has: {there}; add"
                f" it there (virsh net-update {network} add portgroup)"
            )
    if target.free_mib is not None and target.free_mib < source.memory_mib:
        found.append(
            f"{where} has {target.free_mib} MiB of memory free, {source.name!r} needs"
            f" {source.memory_mib}"
        )
    return found


def _keys(source: Source, target: Target) -> list[str]:
    """Certificates for memory and disks that QEMU lacks or would not accept."""
    there = target.destination
    found = []
    for where, end in ((source.host, source), (there.name, there)):
        found += [f"{text} on {where}; {DEPLOY}" for text in end.missing_certificates]
        found += [f"{text} on {where}; {RENEW}" for text in end.expired]
    return found


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
            found.append(f"{where} already has a VM {one.name!r} (UUID {one.uuid})")
        elif one.uuid == source.uuid:
            found.append(f"{where} already has a VM with this VM's UUID: {one.name!r}")
        taken = sorted(set(one.macs) & set(source.macs))
        if taken and one.uuid != source.uuid:
            found.append(f"{one.name!r} on {where} has the MAC address {', '.join(taken)}")
    return found
