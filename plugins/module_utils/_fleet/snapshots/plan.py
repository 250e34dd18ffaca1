# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan a VM's snapshots: reasons to refuse, and the steps.

Snapshots are internal unless they are disk-only: in the qcow2 files of the disks, which libvirt
creates, reverts to and deletes in one call each, in every supported version. Those of a running VM
include its memory. No file is created for them, so whatever removes the VM's disks removes them.
External ones are in ``files``.

No step writes into the VM's definition: what is in it while a snapshot is taken would return with a
revert. A step is one call to libvirt; a kill leaves the state before it or after it.
"""

from __future__ import annotations

import dataclasses
import shlex
import typing as t

from ..base.metadata import Metadata, metadata_problems
from ..base.names import playbook_command
from ..engine import leases
from ..engine.steps import Plan, Step
from . import external as files
from .facts import (
    ABSENT,
    EXTERNAL,
    REVERTED,
    Delete,
    Record,
    Revert,
    Snapshot,
    SnapshotFacts,
    SnapshotRequest,
    Take,
    below,
    ordered,
)

_SPARE_MIB = 64


def plan(facts: SnapshotFacts, wanted: SnapshotRequest) -> Plan[SnapshotFacts]:
    """The steps from what exists to what is wanted."""
    snapshot = facts.find(wanted.snapshot)
    if wanted.state == ABSENT:
        return _refused(facts) or _absent(facts, snapshot, children=wanted.children)
    in_cell = _in_cell(facts)
    if wanted.state == REVERTED:
        return in_cell or _refused(facts) or _reverted(facts, wanted.snapshot, snapshot)
    steps: list[Step[SnapshotFacts]] = []
    after = facts
    if snapshot is None:
        if in_cell is not None:
            return in_cell
        against = (
            files.create_blockers(facts, wanted) if wanted.disk_only else _create_blockers(facts)
        )
        problems = [*_refusals(facts), *against]
        if problems:
            return Plan(refusals=tuple(problems))
        steps.append(_create(facts, wanted))
        after = steps[0].effect(facts)
    elif snapshot.merging:
        return Plan(refusals=(_merging(facts, snapshot),))
    surplus = _surplus(after, wanted)
    problems = [*_refusals(facts), *files.merge_blockers(after, surplus)] if surplus else []
    if problems:
        return Plan(refusals=tuple(problems))
    return Plan((*steps, *_deletions(surplus, wanted.keep)))


def _merging(facts: SnapshotFacts, snapshot: Snapshot) -> str:
    return (
        f"the files of snapshot {snapshot.name} of {facts.name!r} have begun to be merged into its"
        " disks, so it is no longer usable; delete it, and take another"
    )


def _in_cell(facts: SnapshotFacts) -> Plan[SnapshotFacts] | None:
    """The refusal of a VM that its cell may start on another hypervisor."""
    if facts.stored is None or not facts.stored.in_cell:
        return None
    backup = playbook_command("backup", vm_name=facts.name)
    return Plan(
        refusals=(
            f"{facts.name!r} is a VM of a cell (ha), and snapshots are of one hypervisor alone:"
            f" save it instead ({backup}), or take it out of its cell first (ha: false)",
        )
    )


def _refused(facts: SnapshotFacts) -> Plan[SnapshotFacts] | None:
    problems = _refusals(facts)
    return Plan(refusals=tuple(problems)) if problems else None


def _refusals(facts: SnapshotFacts) -> list[str]:
    """Reasons against any change."""
    name, stored = facts.name, facts.stored
    problems = metadata_problems(name, stored)
    if stored is not None and stored.phase is not None and not problems:
        problems.append(leases.in_phase(name, stored.phase, facts.holder))
    if not facts.persistent:
        problems.append(f"{name!r} is transient and has no definition; define it first")
    if facts.managed_save:
        problems.append(
            f"{name!r} has saved memory, which fits its disks only as they are now; start it"
            f" ({playbook_command('state', vm_name=name, vm_state='running')}), or discard it with"
            f" virsh managedsave-remove {shlex.quote(name)}"
        )
    if facts.state not in ("running", "paused", "shutoff", "blocked"):
        problems.append(
            f"{name!r} is {facts.state}; wait until it runs or is off, or bring it there"
        )
    return problems


def _create_blockers(facts: SnapshotFacts) -> list[str]:
    """Reasons against taking a snapshot of it."""
    name, disks = facts.name, [disk for disk in facts.disks if disk.taken]
    blockers = [*facts.snapshot_blockers, *facts.memory_blockers]
    for disk in disks:
        if disk.format != "qcow2":
            blockers.append(
                f"disk {disk.target} of {name!r} is {disk.format or 'of an unknown format'}, and"
                " only qcow2 stores snapshots; create the VM with disks of format qcow2"
            )
        elif disk.snapshot in ("no", "manual", EXTERNAL):
            blockers.append(
                f"the definition of {name!r} has snapshot='{disk.snapshot}' for its disk"
                f" {disk.target}, which would be left out; remove that (virsh edit {name})"
            )
    if not disks:
        blockers.append(f"{name!r} has no writable disk; there is nothing to snapshot")
    outside = ", ".join(snapshot.name for snapshot in facts.of_kind(EXTERNAL))
    if outside:
        blockers.append(
            f"{name!r} has external snapshots ({outside}), which libvirt could no longer merge"
            " after an internal one: delete them first (those made by other means: virsh"
            f" snapshot-delete {name} NAME), or take a disk-only one (disk_only)"
        )
    need = facts.memory_mib + _SPARE_MIB
    if facts.active and facts.free_mib is not None and facts.free_mib < need:
        blockers.append(
            f"its memory is stored in its first disk, whose file system has {facts.free_mib} MiB"
            f" left; up to {need} MiB may be needed: make room there, or shut {name!r} down"
        )
    return blockers


def _create(facts: SnapshotFacts, wanted: SnapshotRequest) -> Step[SnapshotFacts]:
    name = wanted.snapshot
    state = {"blocked": "running"}.get(facts.state, facts.state)
    parent = facts.current
    made = Snapshot(name, parent, _latest(facts) + 1, state, ours=True, disks=facts.disks)
    made = dataclasses.replace(made, stored=facts.stored)
    if wanted.disk_only:
        return files.create(facts, wanted, made)

    def created(before: SnapshotFacts) -> SnapshotFacts:
        snapshots = (*before.snapshots, made)
        return dataclasses.replace(before, snapshots=snapshots, current=name)

    what = "with its memory" if facts.active else "of its disks"
    return Step(Take(name), f"take snapshot {name} {what}", created)


def _latest(facts: SnapshotFacts) -> int:
    return max((one.created for one in facts.snapshots), default=0)


def _surplus(facts: SnapshotFacts, wanted: SnapshotRequest) -> list[Snapshot]:
    """Those of ours that are too many, the oldest first; never the requested one."""
    if wanted.keep is None:
        return []
    ours = [one for one in ordered(facts.snapshots) if one.ours]
    others = [one for one in ours if one.name != wanted.snapshot]
    kept = wanted.keep - (len(ours) - len(others))
    return others[: max(0, len(others) - kept)]


def _deletions(
    going: t.Iterable[Snapshot], keep: int | None = None
) -> t.Iterator[Step[SnapshotFacts]]:
    for snapshot in going:
        if snapshot.kind == EXTERNAL and not snapshot.merging:
            yield files.mark(snapshot)
        yield _delete(snapshot, keep)


def _delete(snapshot: Snapshot, keep: int | None = None) -> Step[SnapshotFacts]:
    def deleted(before: SnapshotFacts) -> SnapshotFacts:
        parent = _parent(before, snapshot.name)  # as it is by then
        if snapshot.kind == EXTERNAL:
            before = files.lowered(before, before.find(snapshot.name) or snapshot)
        snapshots = tuple(
            dataclasses.replace(other, parent=parent) if other.parent == snapshot.name else other
            for other in before.snapshots
            if other.name != snapshot.name
        )
        current = parent if before.current == snapshot.name else before.current
        return dataclasses.replace(before, snapshots=snapshots, current=current)

    why = f", the oldest beyond {keep}" if keep is not None else ""
    how = ", merging its files" if snapshot.kind == EXTERNAL else ""
    text = f"delete snapshot {snapshot.name}{how}{why}"
    return Step(Delete(snapshot.name), text, deleted, irreversible=True)


def _parent(facts: SnapshotFacts, name: str) -> str | None:
    snapshot = facts.find(name)
    return snapshot.parent if snapshot is not None else None


def _absent(
    facts: SnapshotFacts, snapshot: Snapshot | None, *, children: bool
) -> Plan[SnapshotFacts]:
    if snapshot is None:
        return Plan()
    going = [*reversed(below(facts, snapshot.name)), snapshot] if children else [snapshot]
    problems = files.merge_blockers(facts, going)
    if problems:
        return Plan(refusals=tuple(problems))
    # from the leaves on: wherever a kill interrupts, the rest is still a tree
    return Plan(tuple(_deletions(going)))


def _reverted(facts: SnapshotFacts, name: str, snapshot: Snapshot | None) -> Plan[SnapshotFacts]:
    if snapshot is None:
        there = ", ".join(other.name for other in facts.snapshots) or "none"
        return Plan(refusals=(f"{facts.name!r} has no snapshot {name!r}; there are: {there}",))
    problems = files.unrevertable(facts, snapshot) if snapshot.kind == EXTERNAL else []
    problems = problems or _other_disks(facts, snapshot)
    if problems:
        return Plan(refusals=tuple(problems))
    steps: list[Step[SnapshotFacts]] = []
    kept = stored_after(facts.stored, snapshot.stored)
    if kept is not None and kept != snapshot.stored:
        steps.append(_redefine(snapshot, kept))

    state = "shutoff" if snapshot.kind == EXTERNAL else snapshot.state

    def reverted(before: SnapshotFacts) -> SnapshotFacts:
        active = state in ("running", "paused")
        return dataclasses.replace(
            before,
            current=name,
            state=state,
            active=active,
            stored=kept,
            disks=snapshot.disks,
            reverted=before.reverted + 1,
        )

    text = f"revert to snapshot {name} ({state})"
    steps.append(Step(Revert(name), text, reverted, irreversible=True))
    return Plan(tuple(steps))


def _redefine(snapshot: Snapshot, stored: Metadata) -> Step[SnapshotFacts]:
    def noted(before: SnapshotFacts) -> SnapshotFacts:
        snapshots = tuple(
            dataclasses.replace(other, stored=stored) if other.name == snapshot.name else other
            for other in before.snapshots
        )
        return dataclasses.replace(before, snapshots=snapshots)

    action = Record(snapshot.name, stored)
    return Step(action, action.text, noted)


def stored_after(now: Metadata | None, then: Metadata | None) -> Metadata | None:
    """Our metadata after a revert: from that moment, except what is not on the disks, which stays
    as it is now: the VM's owner, its volumes, where it has been."""
    if now is None:
        return then
    if then is None or not then.made_here:
        return dataclasses.replace(now, phase=None, owner=None, move=None)
    return dataclasses.replace(
        then,
        phase=None,
        owner=None,
        move=None,
        volumes=now.volumes,
        home=now.home,
        evacuated_from=now.evacuated_from,
        adopted=now.adopted,
        renamed_from=now.renamed_from,
    )


def _other_disks(facts: SnapshotFacts, snapshot: Snapshot) -> list[str]:
    """Disks added or removed since: a revert would drop them, or refer to missing ones."""
    now = {disk.target: disk.source for disk in facts.disks if disk.taken}
    then = {disk.target: disk.source for disk in snapshot.disks if disk.taken}
    if snapshot.kind == EXTERNAL:  # the VM continues in other files by design
        now, then = dict.fromkeys(now, ""), dict.fromkeys(then, "")
    new = sorted(target for target in now if now[target] != then.get(target))
    gone = sorted(target for target in then if then[target] != now.get(target))
    problems = []
    if new:
        problems.append(
            f"{facts.name!r} has disks that snapshot {snapshot.name} does not contain"
            f" ({', '.join(new)}); remove them first, or copy what is needed"
        )
    if gone:
        problems.append(
            f"snapshot {snapshot.name} of {facts.name!r} has disks that the VM no longer has"
            f" ({', '.join(gone)}); it can only be deleted"
        )
    return problems
