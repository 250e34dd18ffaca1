# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A move that is killed before, within and after each of its steps ends where it began or arrives,
and so does one whose settling is killed."""

from __future__ import annotations

import dataclasses
import itertools
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import (
    BEGUN,
    MADE,
    Metadata,
    Move,
    OwnVolume,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.steps import (
    interrupted,
    predict,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    plan_steps as moving,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import settling
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.plan_steps import (
    EndpointState,
    MoveState,
    Settled,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.settling import (
    Arrival,
    SourceState,
    Verdict,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.types import (
    MigrationDisk,
    MigrationPlan,
    NewVolume,
    Source,
    SourceSnapshot,
)

SYSTEM = OwnVolume("default", "web1_system.qcow2", "/pool/web1_system.qcow2", "system", "disk")
DATA = OwnVolume("default", "web1_data.qcow2", "/pool/web1_data.qcow2", "data", "disk")
DETACHED = OwnVolume("default", "web1_old.qcow2", "/pool/web1_old.qcow2", "old", "disk")
SHARED = OwnVolume("nfs", "web1_nfs.qcow2", "/nfs/web1_nfs.qcow2", "nfs", "disk")
SEED = OwnVolume("default", "web1_seed.iso", "/pool/web1_seed.iso", "seed", "seed")
DRIVE = MigrationDisk("sdb", "cdrom", "file", "/base/tools.iso", "raw")
OWN = (SYSTEM, DATA, DETACHED, SHARED)
KEPT = Metadata(volumes=OWN, request="{}", evacuated_from=("hv3",))
SNAPSHOTS = tuple(SourceSnapshot(name) for name in ("first", "second", "third"))


def source(
    state: str = "running", *, autostart: bool = True, snapshots: tuple[SourceSnapshot, ...] = ()
) -> Source:
    disks = tuple(
        MigrationDisk(f"vd{letter}", "disk", "file", one.path, "qcow2", own=one)
        for letter, one in zip("abc", (SYSTEM, DATA, SHARED))
    )
    disks += (DRIVE,)
    return Source(
        *("web1", "5a8c", "hv1", state, state != "shutoff", True, autostart, KEPT),
        *("kvm", "x86_64", "pc-q35-7.2", 512, 1),
        disks=disks,
        snapshots=snapshots,
    )


def plan(*, again: bool = False, eject: bool = False, whole: bool = False) -> MigrationPlan:
    volumes = [
        NewVolume("vda", "images", SYSTEM.name, SYSTEM.path, "qcow2", 8, 4, again=again),
        NewVolume("vdb", "images", DATA.name, DATA.path, "qcow2", 8, 4, ("/base/b", "qcow2")),
    ]
    volumes = [dataclasses.replace(one, whole=whole) for one in volumes]
    ejected = [DRIVE] if eject else []
    return MigrationPlan(
        "overlay", incremental=True, volumes=volumes, shared=[SHARED.path], ejected=ejected
    )


@dataclasses.dataclass
class Case:
    """A move, and both ends before it."""

    vm: Source
    found: MigrationPlan
    seed: str | None = None
    evacuating: bool = False
    keep: bool = False

    @property
    def before(self) -> MoveState:
        seen = moving.move_state(self.vm, self.seed)
        seen = dataclasses.replace(seen, old=seen.old | ({self.seed} if self.seed else set()))
        left = [one.path for one in self.found.volumes if one.again]
        if not left:
            return seen
        claim = tuple((one.path, BEGUN) for one in self.found.volumes)
        return dataclasses.replace(seen, claim=claim, new=frozenset(left))

    @property
    def steps(self) -> t.Any:
        return moving.begin(self.vm, self.found, "hv2", seed=self.seed, evacuating=self.evacuating)

    def metadata(self, held: EndpointState) -> Metadata:
        """What one end has noted."""
        move = held.before and Move("hv1", "hv2", "run", held.before[1], held.before[0])
        volumes = (*OWN, SEED) if self.seed else OWN
        return dataclasses.replace(
            KEPT,
            phase=held.phase,
            move=move,
            volumes=volumes,
            evacuated_from=held.evacuated_from,
        )

    def plan_again(self, seen: MoveState) -> Settled | None:
        """What the next run does with it; None if it goes on by itself, or nothing is left."""
        here, there = moving.states(seen)
        verdict = settling.VERDICTS[here, there]
        if seen.source is not None and seen.source.phase is None:
            return None
        if verdict is Verdict.UNDO and seen.source is not None:
            kept = seen.kept_here or seen.kept_there
            return moving.undo("web1", "hv1", "hv2", here, self.metadata(seen.source), kept)
        if verdict in (Verdict.FINISH, Verdict.REPLACE) and seen.destination is not None:
            arrival = {"running": Arrival.RUNNING, "paused": Arrival.PAUSED}
            arrived = moving.Arrived(
                *("web1", "hv2", arrival.get(seen.destination.state, Arrival.OFF)),
                self.metadata(seen.destination),
                copied=dict.fromkeys([path for path, _made in seen.claim or ()], "images"),
                attached=[disk.path for disk in self.vm.disks if disk.path],
                twice=verdict is Verdict.REPLACE,
                snapshots=seen.kept_here or seen.kept_there,
            )
            return moving.finish(arrived, keep_volumes=self.keep)
        assert verdict is Verdict.JOIN or (
            seen.destination is not None and seen.destination.phase is None
        ), (here, there)
        return None


CASES = [
    Case(
        source(state, autostart=autostart),
        plan(again=again, eject=seed is not None),
        *(seed, evacuating, keep),
    )
    for state, autostart, again, seed, evacuating, keep in itertools.product(
        ("running", "shutoff"),
        (True, False),
        (True, False),
        (None, SEED.path),
        (True, False),
        (True, False),
    )
]
# With snapshots: those whose disks are all shared or that libvirt copies, and whole files
CASES += [
    Case(
        source(state, autostart=autostart, snapshots=SNAPSHOTS),
        plan(again=again, whole=whole),
        keep=keep,
    )
    for (state, whole), autostart, again, keep in itertools.product(
        (("running", False), ("shutoff", False), ("shutoff", True)),
        (True, False),
        (True, False),
        (True, False),
    )
]


def ended(case: Case, seen: MoveState) -> t.Iterator[MoveState]:
    """What becomes of it: one that moves on arrives or does not."""
    if seen.moving:
        there = seen.source
        yield from ended(case, dataclasses.replace(seen, destination=None, moving=False))
        arrived = dataclasses.replace(seen, source=None, destination=there, moving=False)
        yield from ended(case, arrived)
        return
    found = case.plan_again(seen)
    yield seen if found is None else predict(seen, found.steps)


def is_as_before(case: Case, seen: MoveState) -> bool:
    """It is where it was, but for what is gone of earlier attempts, and its media."""
    before = case.before
    rest = dataclasses.replace(before, seed=seen.seed, old=seen.old, media=seen.media)
    assert case.found.ejected or seen.media == before.media
    cleaned = dataclasses.replace(rest, claim=None, new=frozenset())
    gone = before.old - seen.old
    return seen in (rest, cleaned) and gone <= ({case.seed} if case.seed else set())


def has_moved(case: Case, seen: MoveState) -> bool:
    """It is on the destination as it was on the source, and nothing else is left."""
    names = ("hv3", "hv1") if case.evacuating else ("hv3",)
    state = "shutoff" if case.vm.state == "shutoff" else "running"
    snapshots = moving.snapshot_names(case.vm)
    held = EndpointState(state, case.vm.autostart, evacuated_from=names, snapshots=snapshots)
    copied = frozenset(one.path for one in case.found.volumes)
    stays = {one.path for one in OWN} if case.keep else {DETACHED.path, SHARED.path}
    media = frozenset({DRIVE.target}) - {drive.target for drive in case.found.ejected}
    return seen == MoveState(None, held, None, frozenset(stays), copied, None, media)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_nothing_goes_wrong(number: int) -> None:
    case = CASES[number]
    after = predict(case.before, case.steps)
    settled = moving.predicted(
        case.vm, case.found, "hv2", keep_volumes=case.keep, evacuating=case.evacuating
    )
    assert has_moved(case, predict(after, settled.steps))
    again = case.plan_again(after)
    assert again is not None
    # what check mode says is what the real run finds out from both ends
    texts = [
        [step.text for step in one.steps if "seed" not in step.text] for one in (settled, again)
    ]
    assert texts[0] == texts[1]
    assert (settled.stay, settled.lost) == ((), False)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_killed_anywhere_it_is_where_it_was_or_has_moved(number: int) -> None:
    case = CASES[number]
    arrived = 0
    for where, seen in interrupted(case.before, case.steps):
        for end in ended(case, seen):
            assert is_as_before(case, end) or has_moved(case, end), where
            arrived += has_moved(case, end)
            _whole(case, seen)
            _whole(case, end)
    times = 2 if case.found.whole else 3
    assert arrived == times, "within libvirt's move twice, once if it is off, and after it"


@pytest.mark.parametrize("number", range(len(CASES)))
def test_settling_that_is_killed_is_done_again(number: int) -> None:
    case = CASES[number]
    for where, seen in interrupted(case.before, case.steps):
        found = case.plan_again(seen)
        if found is None:
            continue
        wanted = predict(seen, found.steps)
        for within, torn in interrupted(seen, found.steps):
            _whole(case, torn)
            again = case.plan_again(torn)
            end = torn if again is None else predict(torn, again.steps)
            assert end == wanted, f"{where}, then {within}"


def _whole(case: Case, seen: MoveState) -> None:
    """The VM is somewhere, with its disks, and runs once at most; all of its snapshots are where it
    is, or both ends keep them."""
    ends = [one for one in (seen.source, seen.destination) if one is not None and not one.incoming]
    assert ends
    assert [one.state for one in ends].count("running") <= 1
    wanted = {SYSTEM.path, DATA.path}
    arrived = seen.destination is not None and not seen.destination.incoming
    assert wanted <= (seen.new if arrived else seen.old)
    assert {DETACHED.path, SHARED.path} <= seen.old
    snapshots = moving.snapshot_names(case.vm)
    kept = seen.kept_here == seen.kept_there == snapshots
    assert kept or any(end.snapshots == snapshots for end in ends)


def test_what_is_said_and_in_which_order() -> None:
    case = Case(source(), plan(eject=True), SEED.path)
    settled = moving.predicted(case.vm, case.found, "hv2", keep_volumes=False)
    assert [step.text for step in (*case.steps, *settled.steps)] == [
        "remove the seed medium /pool/web1_seed.iso",
        "eject /base/tools.iso from sdb",
        "mark web1 as moving to hv2",
        "autostart off",
        "claim web1 on hv2",
        "create /pool/web1_system.qcow2 on hv2",
        "create /pool/web1_data.qcow2 on hv2 over /base/b",
        "leave /nfs/web1_nfs.qcow2 in place on shared storage",
        "move web1 to hv2, overlay",
        "remove /pool/web1_system.qcow2 here",
        "remove /pool/web1_data.qcow2 here",
        "release the claim of web1 on hv2",
        "autostart on",
        "remove the marks of the move of web1",
    ]
    off = Case(source("shutoff", autostart=False), plan(again=True))
    settled = moving.predicted(off.vm, off.found, "hv2", keep_volumes=True)
    assert [step.text for step in (*off.steps, *settled.steps)] == [
        "mark web1 as moving to hv2",
        "claim web1 on hv2",
        "recreate /pool/web1_system.qcow2 on hv2",
        "create /pool/web1_data.qcow2 on hv2 over /base/b",
        "leave /nfs/web1_nfs.qcow2 in place on shared storage",
        "start web1 paused",
        "move web1 to hv2",
        "shut web1 off",
        "release the claim of web1 on hv2",
        "remove the marks of the move of web1",
    ]


def test_vm_off_with_snapshots_says_what_is_done_with_them() -> None:
    case = Case(source("shutoff", autostart=False, snapshots=SNAPSHOTS), plan(whole=True))
    settled = moving.predicted(case.vm, case.found, "hv2", keep_volumes=False)
    assert [step.text for step in (*case.steps, *settled.steps)] == [
        "mark web1 as moving to hv2",
        "claim web1 on hv2",
        "copy /pool/web1_system.qcow2 to hv2, with its snapshots",
        "copy /pool/web1_data.qcow2 to hv2, with its snapshots",
        "leave /nfs/web1_nfs.qcow2 in place on shared storage",
        "keep the records of snapshots first, second, third on both hypervisors",
        "detach snapshots first, second, third from web1, their contents stay",
        "move web1 to hv2",
        "restore snapshots first, second, third of web1",
        "remove /pool/web1_system.qcow2 here",
        "remove /pool/web1_data.qcow2 here",
        "remove the kept records of the snapshots on both hypervisors",
        "release the claim of web1 on hv2",
        "remove the marks of the move of web1",
    ]


def test_only_from_libvirts_move_on_nothing_goes_back() -> None:
    steps = Case(source(), plan()).steps
    assert [step.action for step in steps if step.irreversible] == [moving.MoveVm()]
    settled = moving.predicted(source(), plan(), "hv2", keep_volumes=False)
    assert all(step.irreversible for step in settled.steps)


def test_one_that_arrived_and_does_not_run_keeps_its_old_disks() -> None:
    stored = dataclasses.replace(
        KEPT, phase="migrating", move=Move("hv1", "hv2", "run", "no", "running")
    )
    found = moving.finish(
        moving.Arrived(
            *("web1", "hv2", Arrival.OFF, stored), {SYSTEM.path: "images"}, [SYSTEM.path]
        )
    )
    assert found.lost
    assert [step.action for step in found.steps] == [moving.ReleaseClaim(), moving.Unmark()]
    (stays,) = found.stay
    assert stays.startswith(f"{SYSTEM.path}: 'web1' does not run on hv2, so what it had here stays")


def test_without_metadata_only_the_destination_is_cleaned() -> None:
    found = moving.undo("web1", "hv1", "hv2", SourceState.OFF, None)
    assert [step.action for step in found.steps] == [moving.ClearDestination()]
    assert found.off


def test_a_disk_is_noted_once_it_is_there() -> None:
    case = Case(source(), plan())
    action = moving.MakeVolume(case.found.volumes[0])
    (step,) = [step for step in case.steps if step.action == action]
    before = dataclasses.replace(case.before, claim=((SYSTEM.path, BEGUN), (DATA.path, BEGUN)))
    (torn,) = [effect(before) for effect in step.torn]
    assert (torn.new, torn.claim) == ({SYSTEM.path}, before.claim)
    assert step.effect(torn).claim == ((SYSTEM.path, MADE), (DATA.path, BEGUN))
