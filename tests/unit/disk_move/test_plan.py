# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Moves of a disk to another pool: what is refused, and what a kill anywhere leaves."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import (
    Metadata,
    OwnVolume,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.disk_move.facts import (
    DiscardVolume,
    DiskMoveFacts,
    DiskMoveRequest,
    EndCopy,
    MovedDisk,
    PoolPlaceFacts,
    RemoveLeft,
    SwitchDisk,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.disk_move.plan import begun, plan
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.leases import Holder
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.steps import (
    interrupted,
    predict,
)

GIB = 1024**3
OLD, NEW = "/slow/web1_system.qcow2", "/fast/web1_system.qcow2"
SYSTEM = OwnVolume("slow", "web1_system.qcow2", OLD, "system", "disk", "17")
DATA = OwnVolume("slow", "web1_data.raw", "/slow/web1_data.raw", "data", "disk", "18")
SEED = OwnVolume("slow", "web1.seed.iso", "/slow/web1.seed.iso", "system", "seed", "19")
DISK = MovedDisk("vda", OLD, "qcow2", 10 * GIB, GIB, backing=("/base/b.qcow2", "qcow2"))
REQUEST = '{"disks":[{"name":"system","pool":"slow"},{"name":"data","pool":"slow"}]}'
OFF = DiskMoveFacts(
    "web1",
    "u",
    "shutoff",
    active=False,
    persistent=True,
    stored=Metadata(request=REQUEST, volumes=(SYSTEM, DATA, SEED)),
    disk=DISK,
    pool=PoolPlaceFacts("fast", "/fast", 20 * GIB),
    files=frozenset({OLD, DATA.path, SEED.path}),
)
RUNNING = dataclasses.replace(
    OFF, state="running", active=True, disk=dataclasses.replace(DISK, runs_on=OLD)
)
BOTH = pytest.mark.parametrize("facts", [OFF, RUNNING], ids=["off", "running"])


def disk(facts: DiskMoveFacts, **changes: object) -> DiskMoveFacts:
    assert facts.disk is not None
    return dataclasses.replace(facts, disk=dataclasses.replace(facts.disk, **changes))


def stored(facts: DiskMoveFacts, **changes: object) -> DiskMoveFacts:
    assert facts.stored is not None
    return dataclasses.replace(facts, stored=dataclasses.replace(facts.stored, **changes))


def require_moved(facts: DiskMoveFacts) -> None:
    """It is in the pool, nothing else of it is left, and its other volumes are as they were."""
    assert facts.disk is not None
    assert facts.stored is not None
    assert facts.disk.path == NEW
    assert facts.disk.runs_on in (NEW, None)
    assert facts.disk.copied is None
    assert facts.files == {NEW, DATA.path, SEED.path}
    assert facts.stored.phase is None
    assert facts.stored.request == REQUEST.replace("slow", "fast", 1)
    moved = {one.path: one.role for one in facts.stored.volumes}
    assert moved == {NEW: "disk", DATA.path: "disk", SEED.path: "seed"}


@BOTH
def test_disk_is_moved_to_another_pool_once(
    facts: DiskMoveFacts,
) -> None:
    planned = plan(facts)
    assert not planned.refusals
    after = predict(facts, planned.steps)
    require_moved(after)
    assert plan(after) == plan(after).__class__()


@BOTH
def test_run_killed_anywhere_is_finished_by_the_next(facts: DiskMoveFacts) -> None:
    seen = 0
    for moment, left in interrupted(facts, plan(facts).steps):
        seen += 1
        # the disk that the VM is on exists at every moment
        assert left.disk is not None
        assert left.disk.path in left.files, moment
        again = plan(left)
        assert not again.refusals, (moment, again.refusals)
        require_moved(predict(left, again.steps))
    assert seen == 2 * len(plan(facts).steps)


@BOTH
def test_metadata_say_where_an_interrupted_move_was_going(facts: DiskMoveFacts) -> None:
    marked = []
    for moment, left in interrupted(facts, plan(facts).steps):
        assert left.stored is not None
        wanted = DiskMoveRequest("system", "fast") if left.stored.phase is not None else None
        assert begun(left.stored) == wanted, moment
        marked.append(wanted)
    assert None in marked
    assert marked.count(None) < len(marked) / 2


def test_change_of_another_kind_is_no_move_of_a_disk() -> None:
    added = dataclasses.replace(DATA, role="new")
    assert begun(Metadata(phase="changing", volumes=(SYSTEM, added, SEED))) is None


def test_copy_of_killed_run_is_aborted_and_begun_again() -> None:
    steps = plan(RUNNING).steps
    copying = [
        left for moment, left in interrupted(RUNNING, steps) if moment.startswith("after: copy")
    ]
    kinds = [type(step.action) for step in plan(copying[0]).steps]
    assert kinds.index(EndCopy) < kinds.index(DiscardVolume) < kinds.index(SwitchDisk)


@BOTH
def test_copy_on_shared_storage_is_refused_until_it_is_removed(facts: DiskMoveFacts) -> None:
    """No other hypervisor is asked whether it uses what a killed run has left."""
    shared = "on storage that others reach"
    copies = set()
    for moment, left in interrupted(facts, plan(facts).steps):
        if NEW not in left.files or left.disk is None or left.disk.path != OLD:
            continue
        copies.add(left.disk.copied)
        (said,) = plan(dataclasses.replace(left, blocks_new=shared)).refusals
        job = "end the copy (virsh blockjob web1 vda --abort), and " if left.disk.copied else ""
        assert said == (
            f"{NEW}, which a run that died has left, is not removed: {shared}; {job}once no"
            " hypervisor uses it, remove it by hand, and run this again"
        ), moment
        removed = disk(dataclasses.replace(left, files=left.files - {NEW}), copied=None)
        require_moved(predict(removed, plan(removed).steps))
    assert copies == ({None, NEW} if facts.active else {None})


def test_copy_of_killed_run_is_begun_again_after_shutdown() -> None:
    steps = plan(RUNNING).steps
    (left,) = [
        left for moment, left in interrupted(RUNNING, steps) if moment.startswith("after: copy")
    ]
    off = disk(dataclasses.replace(left, state="shutoff", active=False), runs_on=None, copied=None)
    require_moved(predict(off, plan(off).steps))


@BOTH
def test_old_file_is_removed_after_the_switch_only(facts: DiskMoveFacts) -> None:
    kinds = [type(step.action) for step in plan(facts).steps]
    assert kinds.index(SwitchDisk) < kinds.index(RemoveLeft)
    assert all(step.irreversible for step in plan(facts).steps[kinds.index(SwitchDisk) :])
    assert not any(step.irreversible for step in plan(facts).steps[: kinds.index(SwitchDisk)])


def test_old_file_on_shared_storage_stays() -> None:
    facts = dataclasses.replace(RUNNING, blocks="on storage that others can reach")
    steps = plan(facts).steps
    assert RemoveLeft not in [type(step.action) for step in steps]
    assert OLD in predict(facts, steps).files


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (stored(OFF, request=None), "was neither made nor adopted by this collection"),
        (stored(OFF, phase="migrating"), "is in phase migrating"),
        (stored(OFF, phase="changing"), "is in phase changing"),
        (
            stored(OFF, phase="changing", volumes=(SYSTEM, dataclasses.replace(DATA, role="new"))),
            "is in phase changing",
        ),
        (dataclasses.replace(OFF, persistent=False), "is transient"),
        (dataclasses.replace(OFF, managed_save=True), "has saved memory"),
        (dataclasses.replace(OFF, state="crashed"), "is crashed"),
        (dataclasses.replace(OFF, snapshots=("a", "b")), "has snapshots (a, b)"),
        (dataclasses.replace(OFF, disk=None, problem="no disk x"), "no disk x"),
        (stored(OFF, volumes=(DATA,)), "was not made for it"),
        (disk(OFF, format="vmdk"), "of format vmdk"),
        (disk(OFF, blockers=("is shareable",)), "is shareable"),
        (disk(RUNNING, runs_on="/slow/other"), "it runs with /slow/other"),
        (disk(RUNNING, copied=""), "has a block job running"),
        (disk(RUNNING, copied="/elsewhere"), "has a block job running"),
        (disk(RUNNING, copied=NEW), "has a block job running"),
        (dataclasses.replace(OFF, files=OFF.files | {NEW}), f"{NEW} already exists"),
        (disk(OFF, allocation=20 * GIB), "choose another pool, or make room"),
        (stored(OFF, ha="yes"), "pool fast is no storage that its members share"),
    ],
)
def test_what_cannot_move_is_refused_and_nothing_done(facts: DiskMoveFacts, reason: str) -> None:
    planned = plan(facts)
    assert not planned.steps
    assert reason in "; ".join(planned.refusals)


def test_disk_that_another_run_is_moving_is_refused() -> None:
    (_before, left), *_rest = [
        (moment, left)
        for moment, left in interrupted(RUNNING, plan(RUNNING).steps)
        if moment.startswith("after: mark")
    ]
    at_work = dataclasses.replace(left, holder=Holder(7, "python3", "10:00"))
    assert "by process 7" in "; ".join(plan(at_work).refusals)


def test_disk_of_vm_of_cell_moves_to_shared_pool() -> None:
    pool = dataclasses.replace(OFF.pool, shared=True)
    facts = dataclasses.replace(stored(OFF, ha="yes"), pool=pool)
    require_moved(predict(facts, plan(facts).steps))


def test_transient_disk_is_refused_with_a_remedy_that_works() -> None:
    facts = disk(RUNNING, transient=True, runs_on=f"{OLD}.TRANSIENT-web1")
    (refusal,) = plan(facts).refusals
    assert "remove <transient/> from it (virsh edit web1)" in refusal
    assert "so that both are the same" not in refusal


@BOTH
def test_disk_with_its_data_in_another_file_is_refused(facts: DiskMoveFacts) -> None:
    (refusal,) = plan(disk(facts, data_file="/slow/web1.data")).refusals
    assert "has its data in another file (/slow/web1.data)" in refusal
