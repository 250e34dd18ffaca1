# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a VM can move, all reasons against it at once, and what has to be done."""

from __future__ import annotations

import dataclasses
import typing as t
import uuid as uuids

from ..base.metadata import Metadata, Owner, metadata_problems
from ..base.names import CLAIM, playbook_command
from ..cell import hold
from ..engine import leases
from ..storage import huge_pages
from ..storage.host_names import DEFINE_NWFILTER
from . import plan_snapshots
from .plan_disks import ejects, is_seed, lacking_space, volume_of
from .types import DEPLOY, RENEW, DestinationDomain, MigrationOptions, MigrationPlan, Source, Target

DETACHED = "made for it, but no longer one of its disks"
_FOREIGN = "it is unknown which files belong to it, so it is not moved"
_GIB = 1024**3
_MIB = 1024**2
_STAGES = 6  # of the downtime, each twice the one before
_LEAST_MS = 10


def plan(
    source: Source, target: Target, options: MigrationOptions, *, space: bool = True
) -> MigrationPlan:
    """What moving ``source`` to ``target`` takes; without ``space``, the free space of the pools
    there is not checked.
    """
    move_plan = MigrationPlan()
    move_plan.findings += _vm(source)
    move_plan.findings += _host(source, target)
    move_plan.findings += _cell(source, target)
    if not options.tunnelled:  # that uses libvirt's own connection, which exists already
        move_plan.findings += _keys(source, target)
    claim = next((domain for domain in target.domains if domain.name == source.name + CLAIM), None)
    move_plan.findings += _names(source, target, claim)
    if claim is not None and not _is_ours(claim, source):
        claim = None
    overlay = False
    for disk in source.disks:
        if options.eject_media and ejects(disk, source):
            move_plan.ejected.append(disk)
            continue
        problem, volume = volume_of(disk, source, target, claim)
        if problem:
            move_plan.findings.append(problem)
        elif not disk.is_drive and disk.path is not None and disk.path in target.shared:
            move_plan.shared.append(disk.path)
        if volume is None:
            continue
        move_plan.volumes.append(volume)
        if source.cell is not None:
            move_plan.findings.append(
                f"disk {disk.target} would be copied to {target.destination.name}, and"
                f" {source.name!r} is a VM of a cell (ha), whose disks are on storage that its"
                " members share; mount that there"
            )
        overlay = overlay or volume.backing is not None
        if disk.own is None:
            move_plan.kept.append(f"{disk.path}: not made for {source.name!r}")
        elif options.keep_volumes:
            move_plan.kept.append(f"{disk.path}: asked for with keep_volumes")
        else:
            move_plan.old.append(disk.own)
    attached = {disk.path for disk in source.disks} | plan_snapshots.below(source)
    move_plan.findings += plan_snapshots.problems(source, target)
    for own in source.metadata.volumes if source.metadata else ():
        if own.path in attached:
            continue
        if own.role == "seed" and not options.keep_volumes:  # ejected, and no longer needed
            move_plan.old.append(own)
        elif own.role != "seed":
            move_plan.kept.append(f"{own.path}: {DETACHED}")
    move_plan.kept += [
        f"checkpoint {checkpoint}: libvirt does not move its record, so the next backup is a full"
        " one; its bitmap goes along in the disks"
        for checkpoint in source.checkpoints
    ]
    if space:
        move_plan.findings += lacking_space(move_plan.volumes, target)
    if options.tunnelled and move_plan.volumes:
        disks = ", ".join(volume.target for volume in move_plan.volumes)
        move_plan.findings.append(
            f"tunnelled copies no disks, and {disks} would have to be copied; leave tunnelled out,"
            f" and make two ports of 49152 to 49215 of {target.destination.name} reachable too"
        )
    move_plan.flow = _flow(move_plan, overlay=overlay)
    move_plan.incremental = overlay
    if source.state == "shutoff":
        move_plan.flow = "offline"
    return move_plan


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
        f" {here} to {where}; end that first with"
        f" {playbook_command('repair_vms', vm_name=name)}"
    )


def _flow(move_plan: MigrationPlan, *, overlay: bool) -> str:
    if overlay:
        return "overlay"
    if move_plan.volumes:
        return "copy"
    return "shared" if move_plan.shared else "memory"


def without_seed_medium(source: Source) -> Source:
    """The VM as it is once its seed medium is ejected and removed."""
    disks = tuple(
        dataclasses.replace(disk, path=None, own=None) if is_seed(disk) else disk
        for disk in source.disks
    )
    stored = source.metadata
    seeds: set[str] = set()
    if stored is not None:
        seeds = {own.path for own in stored.volumes if own.role == "seed"}
        rest = tuple(own for own in stored.volumes if own.role != "seed")
        stored = dataclasses.replace(stored, volumes=rest)
    snapshots = tuple(
        dataclasses.replace(
            snapshot, media=tuple(path for path in snapshot.media if path not in seeds)
        )
        for snapshot in source.snapshots
    )
    return dataclasses.replace(source, disks=disks, metadata=stored, snapshots=snapshots)


def _is_ours(claim: DestinationDomain, source: Source) -> bool:
    return (
        not claim.active
        and claim.metadata is not None
        and claim.metadata.phase == "creating"
        and claim.uuid == claim_uuid(source.uuid)
    )


def claim_uuid(uuid: str) -> str:
    """The UUID of the claim of the VM ``uuid`` on its destination."""
    return str(uuids.uuid5(uuids.UUID(uuid), "fleet.virt migration"))


def _ended_by(name: str, phase: str | None) -> str:
    """The command, in brackets, that was interrupted in this phase; empty if that is unknown."""
    if phase == "creating":
        return f" ({playbook_command('provision_vm', vm_name=name)})"
    return f" ({playbook_command('purge_vm', vm_name=name)})" if phase == "purging" else ""


def _vm(source: Source) -> list[str]:
    """Reasons against moving this VM anywhere."""
    name, stored = source.name, source.metadata
    problems = metadata_problems(name, stored)
    if problems:
        return problems
    if stored is None or not stored.made_here:
        problems.append(f"{name!r} was not made by this collection: {_FOREIGN}")
    if stored is not None and stored.phase not in (None, "migrating"):
        ended = _ended_by(name, stored.phase)
        problems.append(leases.in_phase(name, stored.phase, source.holder, ended))
    elif stored is not None and stored.phase == "migrating" and source.holder is not None:
        problems.append(leases.held(name, stored.phase, source.holder))
    if not source.persistent:
        problems.append(f"{name!r} is transient and has no definition to move; define it first")
    if source.state not in ("running", "blocked", "shutoff"):
        remedy = {
            "paused": f"resume it ({playbook_command('state', vm_name=name, vm_state='running')})"
            " or shut it off",
            "crashed": "destroy or start it again",
        }.get(source.state, "wait until it runs")
        problems.append(f"{name!r} is {source.state}; {remedy}")
    if source.managed_save:
        problems.append(
            f"{name!r} has saved memory, which would stay behind; start it, or discard it with"
            f" virsh managedsave-remove {name}"
        )
    if source.job is not None:
        problems.append(
            f"{name!r} has a job running ({source.job}); wait for it (virsh domjobinfo)"
        )
    for device in source.hostdevs:
        problems.append(f"{name!r} has the host device {device}, which cannot move; detach it")
    problems += [f"{name!r} cannot move: {reason}" for reason in source.immovable]
    return problems


def _host(source: Source, target: Target) -> list[str]:
    """Reasons against this destination, whatever is on it."""
    where, problems = target.destination.name, []
    if target.host_uuid == source.host_uuid:
        problems.append(
            f"{where} is the hypervisor {source.name!r} is on, or has the same host UUID"
            f" ({target.host_uuid}); name another, or set host_uuid in libvirtd.conf"
        )
    if target.maintenance and not target.destination.marked:
        problems.append(f"{where} is in maintenance; name another")
    if source.domain_type not in target.domain_types:
        problems.append(f"{where} offers no {source.domain_type}, which {source.name!r} needs")
    if source.machine not in target.machines:
        newest = [
            machine_type
            for machine_type in target.machines
            if machine_type.startswith(_family(source.machine))
        ]
        known = ", ".join(newest[-5:]) or "none of that family"
        problems.append(
            f"machine type {source.machine} is not on {where} (it has {known}); give the VM one"
            " that both have, at its next start"
        )
    if target.cpu_problem:
        problems.append(f"the CPU of {where} lacks what {source.name!r} uses: {target.cpu_problem}")
    bridges = target.destination.bridges if target.bridges is None else target.bridges
    for interface in dict.fromkeys(source.interfaces):
        problems.append(
            f"a NIC of {source.name!r} is on the host interface {interface} of {source.host};"
            " give it a bridge or a network"
        )
    for bridge in dict.fromkeys(source.bridges):
        if bridges is not None and bridge not in bridges:
            available = ", ".join(bridges) or "none"
            problems.append(f"bridge {bridge} is not on {where}; it has: {available}")
    for network in dict.fromkeys(source.networks):
        if network not in target.networks:
            available = ", ".join(target.networks) or "none"
            problems.append(f"network {network} is not active on {where}; active are: {available}")
    for network, portgroup in dict.fromkeys(source.portgroups):
        groups = target.portgroups.get(network)
        if groups is not None and portgroup not in groups:  # libvirt would take none of them
            available = ", ".join(groups) or "none"
            problems.append(
                f"network {network} on {where} has no port group {portgroup}, it has: {available};"
                f" add it there (virsh net-update {network} add portgroup)"
            )
    for name in source.nwfilters:
        if target.nwfilters is not None and name not in target.nwfilters:
            problems.append(f"{where} has no network filter {name}; {DEFINE_NWFILTER}")
    problems += [f"{where} lacks what {source.name!r} names: {one}" for one in target.lacking]
    memory = huge_pages.ordinary_mib(source.memory_mib, source.in_pages)
    if target.free_mib is not None and target.free_mib < memory:
        problems.append(
            f"{where} has {target.free_mib} MiB of memory free, {source.name!r} needs {memory}"
        )
    return problems


def _cell(source: Source, target: Target) -> list[str]:
    """Why the cell that restarts the VM would not do so there, or may run it elsewhere."""
    view, where = source.cell, target.destination.name
    if view is None:
        return []
    hindrance = hold.refusal(source.name, source.host, view, source.uuid)
    if hindrance is not None:
        return [hindrance]
    if where not in view.members:
        members = ", ".join(name for name in view.members if name != source.host)
        return [
            f"{where} is no member of the cell {view.cell!r}, which restarts {source.name!r}; name"
            f" one of {members}, or take the VM out of its cell first (ha: false)"
        ]
    if where not in view.online:
        return [
            f"{where} is not online in the cell {view.cell!r}, which would not restart"
            f" {source.name!r} there; start pacemaker there, or name another"
        ]
    return []


def _keys(source: Source, target: Target) -> list[str]:
    """Certificates for memory and disks that QEMU lacks or would not accept."""
    destination = target.destination
    problems = []
    for where, end in ((source.host, source), (destination.name, destination)):
        problems += [f"{text} on {where}; {DEPLOY}" for text in end.missing_certificates]
        problems += [f"{text} on {where}; {RENEW}" for text in end.expired]
    return problems


def _family(machine: str) -> str:
    return machine.rpartition("-")[0] or machine


def _names(source: Source, target: Target, claim: DestinationDomain | None) -> list[str]:
    """Another VM of that name, UUID or MAC address on the destination."""
    where, problems = target.destination.name, []
    for domain in target.domains:
        if domain is claim:
            if not _is_ours(domain, source):
                problems.append(
                    f"{where} has a domain {domain.name!r} that is not from moving this VM"
                )
            continue
        if domain.name == source.name:
            problems.append(f"{where} already has a VM {domain.name!r} (UUID {domain.uuid})")
        elif domain.uuid == source.uuid:
            problems.append(f"{where} already has a VM with this VM's UUID: {domain.name!r}")
        taken = sorted(set(domain.macs) & set(source.macs))
        if taken and domain.uuid != source.uuid:
            problems.append(f"{domain.name!r} on {where} has the MAC address {', '.join(taken)}")
    return problems


# --- the command that makes libvirt move a VM, and the time it may take ---


def seconds(plan: MigrationPlan, memory_mib: int, options: MigrationOptions) -> float:
    """The most seconds that the move may take; never less than for two GiB."""
    size = plan.bytes_to_copy + memory_mib * _MIB
    return max(2.0, size / _GIB) * options.seconds_per_gib


def downtimes(most: int, limit: float) -> list[tuple[float, int]]:
    """After how many seconds which maximum downtime, in milliseconds, applies.

    It starts short and is doubled until it reaches ``most`` at half of the time ``limit``: a guest
    that can be moved with a short downtime is, and one that dirties its memory faster gets the
    longest early enough.
    """
    stages = [max(_LEAST_MS, most >> (_STAGES - 1 - stage)) for stage in range(_STAGES - 1)]
    schedule = [(limit / 2 * at / (_STAGES - 1), min(ms, most)) for at, ms in enumerate(stages)]
    return [*schedule, (limit / 2, most)]


def url_host(address: str) -> str:
    """An address as it is written in a URI."""
    return f"[{address}]" if ":" in address else address


def command(
    source: Source, target: Target, plan: MigrationPlan, options: MigrationOptions, uri: str
) -> list[str]:
    """The migration command of libvirt's own program: native, encrypted, peer to peer."""
    address = target.destination.address
    listen = target.destination.listen or address
    argv = ["virsh", "--connect", uri, "--quiet", "migrate"]
    if plan.whole:  # its files are there already: the definition alone is left
        argv += ["--offline", "--p2p", "--persistent", "--undefinesource"]
        # nothing of QEMU's is sent, but where qemu.conf forces TLS, libvirt wants the flag here too
        argv += ["--tls", "--tls-destination", address]
        return [*argv, "--domain", source.uuid, "--desturi", destination_uri(address)]
    argv += ["--live", "--p2p", "--persistent", "--undefinesource", "--abort-on-error"]
    if options.tunnelled:  # inside libvirt's own connection, whose TLS is verified
        argv.append("--tunnelled")
    else:
        argv += ["--tls", "--tls-destination", address, "--listen-address", listen]
    if options.parallel_connections is not None:
        argv += ["--parallel", "--parallel-connections", str(options.parallel_connections)]
    if plan.volumes:
        argv.append("--copy-storage-inc" if plan.incremental else "--copy-storage-all")
        argv += ["--migrate-disks", ",".join(volume.target for volume in plan.volumes)]
    if plan.shared:
        # libvirt recognises few file systems as shared; this one was proven to be. QEMU drops its
        # cache of a disk before the other end uses it (file-posix, drop-cache)
        argv.append("--unsafe")
    if options.bandwidth is not None:
        argv += ["--bandwidth", str(options.bandwidth)]
    if options.auto_converge:
        argv.append("--auto-converge")
    argv += ["--domain", source.uuid]
    argv += ["--desturi", destination_uri(address)]
    return argv if options.tunnelled else [*argv, "--migrateuri", f"tcp://{url_host(listen)}"]


def destination_uri(address: str) -> str:
    """libvirt on the destination, reached with verified TLS."""
    return f"qemu+tls://{url_host(address)}/system"
