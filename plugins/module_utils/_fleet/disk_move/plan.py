# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the move of a disk to another pool of its hypervisor.

The VM is marked, the volume created, the disk copied into it, and the VM switched to it: of a
running VM by libvirt's block copy, which mirrors what the guest writes meanwhile. Until it is
switched the VM is on the file it had, and a failure removes the new one; from then on only what it
left is removed, and a run that was killed is finished by the next.
"""

from __future__ import annotations

import dataclasses
import posixpath
import shlex

from ..base.metadata import BEGUN, Metadata, OwnVolume, metadata_problems
from ..base.names import playbook_command
from ..engine import leases
from ..engine.steps import Effect, Plan, Step
from ..spec.request import in_pool
from ..storage import data_files, transient
from .facts import (
    PHASE,
    CopyDisk,
    CreateVolume,
    DiscardVolume,
    DiskMoveFacts,
    DiskMoveRequest,
    EndCopy,
    EndMoving,
    MarkMoving,
    MovedDisk,
    PoolPlaceFacts,
    RecordVolumes,
    RemoveLeft,
    SwitchDisk,
)

_MIB = 1024**2
# Space that must stay free in a pool, as for moves between hypervisors
_FLOOR = 64 * _MIB
_FORMATS = ("qcow2", "raw")


def plan(facts: DiskMoveFacts) -> Plan[DiskMoveFacts]:
    """The steps to where the disk is in the pool."""
    problems = _refusals(facts)
    disk, pool = facts.disk, facts.pool
    if problems or disk is None or pool is None:
        return Plan(refusals=tuple(problems or [facts.problem]))
    now = own_of(facts, disk.path)
    if now is None:
        return Plan(refusals=(_not_own(facts, disk),))
    if posixpath.dirname(disk.path) == pool.path:
        return Plan(_rest(facts, now))
    new = OwnVolume(
        pool.name, now.name, posixpath.join(pool.path, now.name), now.target, "new", BEGUN
    )
    blockers = _blockers(facts, disk, pool, new)
    if blockers:
        return Plan(refusals=tuple(blockers))
    return Plan(_steps(facts, disk, now, new))


def own_of(facts: DiskMoveFacts, path: str) -> OwnVolume | None:
    """The VM's own volume that is the file ``path``."""
    return next((volume for volume in facts.volumes if volume.path == path), None)


def left_of(facts: DiskMoveFacts, now: OwnVolume) -> list[OwnVolume]:
    """The volumes that the disk ``now`` has left, or that were to become it."""
    return [
        volume
        for volume in facts.volumes
        if volume.target == now.target and volume.path != now.path and volume.role != "seed"
    ]


def begun(stored: Metadata) -> DiskMoveRequest | None:
    """The move of a disk that a run has begun and not ended; None if the metadata tell of none. Of
    the two volumes that the disk has meanwhile, the later one is where it goes."""
    for new in stored.volumes if stored.phase == PHASE else ():
        both = [one for one in stored.volumes if one.target == new.target and one.role != "seed"]
        if new.role == "new" and len(both) > 1:
            return DiskMoveRequest(new.target, both[-1].pool)
    return None


def _refusals(facts: DiskMoveFacts) -> list[str]:
    """Reasons against any change."""
    name, stored = facts.name, facts.stored
    problems = metadata_problems(name, stored)
    if problems:
        return problems
    if stored is None or not stored.made_here:
        adopt = playbook_command("adopt", vm_name=name, vm_adopt_disks="true")
        return [
            f"{name!r} was neither made nor adopted by this collection, so it is unknown which"
            f" files belong to it; adopt it first, with its disks: {adopt}"
        ]
    if stored.phase is not None and not _is_ours(facts):
        return [leases.in_phase(name, stored.phase, facts.holder)]
    if not facts.persistent:
        problems.append(f"{name!r} is transient and has no definition; define it first")
    if facts.managed_save:
        start = playbook_command("state", vm_name=name, vm_state="running")
        problems.append(
            f"{name!r} has saved memory, which names the files of its disks; start it ({start}), or"
            f" discard it with virsh managedsave-remove {shlex.quote(name)}"
        )
    if facts.state not in ("running", "paused", "shutoff", "blocked"):
        problems.append(
            f"{name!r} is {facts.state}; wait until it runs or is off, or bring it there"
        )
    return problems


def _is_ours(facts: DiskMoveFacts) -> bool:
    """Whether it is in the middle of a move of this disk whose run has died: another change that
    died has volumes of other disks, or none."""
    stored, disk = facts.stored, facts.disk
    if stored is None or stored.phase != PHASE or facts.holder is not None or disk is None:
        return False
    now = own_of(facts, disk.path)
    begun = {volume.target for volume in facts.volumes if volume.role == "new"}
    two = now is not None and bool(left_of(facts, now))
    return now is not None and two and begun == {now.target}


def _not_own(facts: DiskMoveFacts, disk: MovedDisk) -> str:
    adopt = playbook_command("adopt", vm_name=facts.name, vm_adopt_disks="true")
    return (
        f"disk {disk.target} of {facts.name!r} ({disk.path}) was not made for it, so it may be"
        f" others' too; adopt the VM with its disks ({adopt}), or move the file by hand"
    )


def _blockers(
    facts: DiskMoveFacts, disk: MovedDisk, pool: PoolPlaceFacts, new: OwnVolume
) -> list[str]:
    """Reasons against moving this disk there."""
    name, what = facts.name, f"disk {disk.target} of {facts.name!r}"
    problems = list(disk.blockers)
    if facts.stored is not None and facts.stored.in_cell and not pool.shared:
        problems.append(
            f"{name!r} is a VM of a cell (ha), and pool {pool.name} is no storage that its members"
            " share; choose one that is (shared: true of storage_pools), or take the VM out of its"
            " cell first (ha: false)"
        )
    if facts.snapshots:
        delete = playbook_command(
            "snapshot",
            vm_name=name,
            virt_snapshot=facts.snapshots[-1],
            virt_snapshot_state="absent",
        )
        problems.append(
            f"{name!r} has snapshots ({', '.join(facts.snapshots)}), which name the files of its"
            f" disks; delete them first ({delete})"
        )
    if disk.format not in _FORMATS or not disk.capacity:
        problems.append(f"{what} is of format {disk.format}; only {' and '.join(_FORMATS)} move")
    if disk.data_file is not None:
        problems.append(data_files.refusal(f"disk {disk.target}", disk.path, disk.data_file, name))
    if disk.transient:
        problems.append(transient.refusal(what, name))
    elif facts.active and disk.runs_on != disk.path:
        problems.append(
            f"{what} is {disk.path} in its definition, but it runs with {disk.runs_on or 'none'};"
            " shut it down and start it, so that both are the same"
        )
    if disk.copied is not None and (disk.copied != new.path or not _is_begun(facts, new)):
        problems.append(
            f"{what} has a block job running; wait for it (virsh blockjob {shlex.quote(name)}"
            f" {disk.target})"
        )
    if new.path in facts.files and not _is_begun(facts, new):
        problems.append(
            f"{new.path} already exists and does not belong to {name!r}; remove or rename it"
        )
    elif new.path in facts.files and facts.blocks_new:
        job = f"virsh blockjob {shlex.quote(name)} {disk.target} --abort"
        first = f"end the copy ({job}), and " if disk.copied is not None else ""
        problems.append(
            f"{new.path}, which a run that died has left, is not removed: {facts.blocks_new};"
            f" {first}once no hypervisor uses it, remove it by hand, and run this again"
        )
    if disk.allocation + _FLOOR > pool.free and new.path not in facts.files:
        problems.append(
            f"{what} occupies {-(-disk.allocation // _MIB)} MiB, and pool {pool.name} has"
            f" {max(pool.free, 0) // _MIB} MiB free, of which {_FLOOR // _MIB} stay free; choose"
            " another pool, or make room"
        )
    return problems


def _is_begun(facts: DiskMoveFacts, new: OwnVolume) -> bool:
    """Whether a run that died has created the volume, or was about to."""
    known = own_of(facts, new.path)
    return known is not None and known.role == "new" and known.target == new.target


def _steps(
    facts: DiskMoveFacts, disk: MovedDisk, now: OwnVolume, new: OwnVolume
) -> tuple[Step[DiskMoveFacts], ...]:
    steps = [_mark(facts, new)]
    if disk.copied is not None:  # of a run that died: simpler to begin again than to take over
        steps.append(Step(EndCopy(), f"end the copy of {disk.target}", _copied(None)))
    if new.path in facts.files:
        begun = own_of(facts, new.path) or new
        steps.append(Step(DiscardVolume(begun), f"remove {new.path}", _without(new.path)))
    copying = _copied(new.path if facts.active else None)
    steps += [
        Step(CreateVolume(new), f"create {new.pool}/{new.name}", _with_file(new.path)),
        Step(CopyDisk(new), f"copy {disk.path} to {new.path}", copying),
        Step(
            SwitchDisk(new),
            f"switch {disk.target} to {new.path}",
            _switched(new.path, active=facts.active),
            irreversible=True,
        ),
    ]
    return (*steps, *_after(facts, now, new))


def _after(
    facts: DiskMoveFacts, left: OwnVolume, now: OwnVolume
) -> tuple[Step[DiskMoveFacts], ...]:
    """What follows once the VM is on the volume ``now``."""
    steps = [
        Step(
            RecordVolumes(),
            f"record {now.pool}/{now.name} as the disk",
            _recorded(now, left.path),
            irreversible=True,
        )
    ]
    if not facts.blocks:
        effect = _without(left.path)
        steps.append(Step(RemoveLeft(left), f"remove {left.path}", effect, irreversible=True))
    return (*steps, _end(facts))


def _rest(facts: DiskMoveFacts, now: OwnVolume) -> tuple[Step[DiskMoveFacts], ...]:
    """What a run that died after the switch has left to do."""
    left = left_of(facts, now)
    if facts.stored is None or facts.stored.phase is None:
        return ()
    return (_mark(facts, now), *(_after(facts, left[0], now) if left else (_end(facts),)))


def _mark(facts: DiskMoveFacts, volume: OwnVolume) -> Step[DiskMoveFacts]:
    def effect(before: DiskMoveFacts) -> DiskMoveFacts:
        known = own_of(before, volume.path) is not None
        volumes = before.volumes if known else (*before.volumes, volume)
        return _stored(before, volumes, PHASE)

    return Step(MarkMoving(volume), f"mark {facts.name} as being changed", effect)


def _end(facts: DiskMoveFacts) -> Step[DiskMoveFacts]:
    def effect(before: DiskMoveFacts) -> DiskMoveFacts:
        # a file that could not be removed is recorded no longer, but named
        volumes = tuple(volume for volume in before.volumes if volume.role != "new")
        return _stored(before, volumes, None)

    return Step(EndMoving(), f"{facts.name} is changed", effect, irreversible=True)


def _stored(
    facts: DiskMoveFacts, volumes: tuple[OwnVolume, ...], phase: str | None
) -> DiskMoveFacts:
    if facts.stored is None:
        return facts
    stored = dataclasses.replace(facts.stored, volumes=volumes, phase=phase, owner=None)
    return dataclasses.replace(facts, stored=stored)


def _with_file(path: str) -> Effect[DiskMoveFacts]:
    return lambda before: dataclasses.replace(before, files=before.files | {path})


def _without(path: str) -> Effect[DiskMoveFacts]:
    return lambda before: dataclasses.replace(before, files=before.files - {path})


def _disk(change: Effect[MovedDisk]) -> Effect[DiskMoveFacts]:
    """The effect that changes the disk."""

    def effect(before: DiskMoveFacts) -> DiskMoveFacts:
        if before.disk is None:
            return before
        return dataclasses.replace(before, disk=change(before.disk))

    return effect


def _copied(path: str | None) -> Effect[DiskMoveFacts]:
    return _disk(lambda disk: dataclasses.replace(disk, copied=path))


def _switched(path: str, *, active: bool) -> Effect[DiskMoveFacts]:
    runs_on = path if active else None
    return _disk(lambda disk: dataclasses.replace(disk, path=path, runs_on=runs_on, copied=None))


def _recorded(now: OwnVolume, left: str) -> Effect[DiskMoveFacts]:
    """The volume ``now`` is the disk, also to a request; the one at ``left`` is to be removed."""

    def effect(before: DiskMoveFacts) -> DiskMoveFacts:
        roles = {left: "new", now.path: "disk"}
        volumes = tuple(
            dataclasses.replace(volume, role=roles.get(volume.path, volume.role))
            for volume in before.volumes
        )
        after = _stored(before, volumes, PHASE)
        if after.stored is None:
            return after
        asked = in_pool(after.stored.request, now.target, now.pool)
        return dataclasses.replace(after, stored=dataclasses.replace(after.stored, request=asked))

    return effect
