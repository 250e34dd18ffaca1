# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Snapshots: refusals, what stays, and that a run ends it from wherever a kill leaves it."""

from __future__ import annotations

import dataclasses
import gc
import time
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused, SpecError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import (
    Metadata,
    Owner,
    OwnVolume,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import declaration, located
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.steps import (
    interrupted,
    predict,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.snapshots import options, plan, verb
from ansible_collections.fleet.virt.plugins.module_utils._fleet.snapshots.facts import (
    ABSENT,
    INTERNAL,
    Snapshot,
    SnapshotDisk,
    SnapshotFacts,
    SnapshotRequest,
    below,
    ordered,
)

_DISK = SnapshotDisk("vda", "/p/a.qcow2")
_CDROM = SnapshotDisk("sda", "/p/a.iso", "raw", "cdrom", readonly=True)
_MADE = Metadata(request="{}", volumes=(OwnVolume("p", "a", "/p/a.qcow2", "vda", "disk"),))


def _snapshot(name: str, created: int, parent: str | None = None, **more: t.Any) -> Snapshot:
    first = Snapshot(name, parent, created, ours=True, disks=(_DISK, _CDROM), stored=_MADE)
    return dataclasses.replace(first, **more)


_TREE = (
    _snapshot("one", 1),
    _snapshot("theirs", 2, "one", ours=False),
    _snapshot("two", 3, "theirs"),
    _snapshot("three", 4, "one", state="running"),
)


def _facts(**more: t.Any) -> SnapshotFacts:
    first = SnapshotFacts(
        "a", "u", disks=(_DISK, _CDROM), stored=_MADE, snapshots=_TREE, current="three"
    )
    return dataclasses.replace(first, **more)


_WAYS = [
    (SnapshotRequest("new", keep=2), ["new", "theirs", "three"]),
    (SnapshotRequest("new"), ["new", "one", "theirs", "three", "two"]),
    (SnapshotRequest("one", keep=1), ["one", "theirs"]),
    (SnapshotRequest("theirs", "absent"), ["one", "three", "two"]),
    (SnapshotRequest("one", "absent", children=True), []),
    (SnapshotRequest("three", "absent", children=True), ["one", "theirs", "two"]),
]


@pytest.mark.parametrize(("wanted", "names"), _WAYS)
def test_wherever_it_is_killed_the_next_run_ends_it(
    wanted: SnapshotRequest, names: list[str]
) -> None:
    before = _facts()
    steps = plan.plan(before, wanted).steps
    assert steps
    end = predict(before, steps)
    assert sorted(one.name for one in end.snapshots) == names
    assert plan.plan(end, wanted).steps == ()
    there = {one.name for one in end.snapshots}
    assert {one.parent for one in end.snapshots} - {None} <= there, "it is a tree"
    assert end.current is None or end.current in there
    for when, left in interrupted(before, steps):
        again = plan.plan(left, wanted)
        assert not again.refusals, when
        assert predict(left, again.steps) == end, when


def test_what_came_from_the_one_that_goes_comes_from_the_one_before_it() -> None:
    before = _facts(current="theirs")
    end = predict(before, plan.plan(before, SnapshotRequest("theirs", "absent")).steps)
    assert {one.name: one.parent for one in end.snapshots} == {
        "one": None,
        "two": "one",
        "three": "one",
    }
    assert end.current == "one"


def test_going_back_is_done_whenever_it_is_asked_for() -> None:
    wanted, before = SnapshotRequest("three", "reverted"), _facts(current="two")
    steps = plan.plan(before, wanted).steps
    assert [type(step.action).__name__ for step in steps] == ["Revert"]
    end = predict(before, steps)
    assert (end.current, end.state, end.active) == ("three", "running", True)
    assert plan.plan(end, wanted).steps
    alone = _facts(snapshots=(_TREE[0],), current="one")
    assert plan.plan(alone, SnapshotRequest("one", "reverted")).steps


def test_what_the_vm_owns_is_noted_before_going_back() -> None:
    """Killed between the two, the snapshot says the truth, and the VM is as it was."""
    owner = Owner("boot", 7, 1, "r")
    then = Metadata(request='{"memory":1}', phase="creating", owner=owner, tags=("then",))
    before = _facts(snapshots=(_snapshot("one", 1, stored=then),), current="one")
    wanted = SnapshotRequest("one", "reverted")
    steps = plan.plan(before, wanted).steps
    assert [type(step.action).__name__ for step in steps] == ["Record", "Revert"]
    end = predict(before, steps)
    assert end.stored == Metadata(request='{"memory":1}', tags=("then",), volumes=_MADE.volumes)
    for when, left in interrupted(before, steps):
        again = plan.plan(left, wanted)
        assert not again.refusals, when
        assert predict(left, again.steps).stored == end.stored, when


@pytest.mark.parametrize(
    ("now", "then", "after"),
    [
        (None, None, None),
        (None, _MADE, _MADE),
        (_MADE, None, _MADE),
        (_MADE, Metadata(host_key="k"), _MADE),
        (dataclasses.replace(_MADE, home="hv2"), _MADE, dataclasses.replace(_MADE, home="hv2")),
    ],
)
def test_an_adopted_vm_stays_adopted(
    now: Metadata | None, then: Metadata | None, after: Metadata | None
) -> None:
    assert plan.stored_after(now, then) == after


_NEW, _BACK, _GONE = (
    SnapshotRequest("new"),
    SnapshotRequest("one", "reverted"),
    SnapshotRequest("one", "absent"),
)
_EXTERNAL = (_snapshot("one", 1, kind="external", ours=False),)
_OTHER = SnapshotDisk("vdb", "/p/b.qcow2")


@pytest.mark.parametrize(
    ("wanted", "change", "words"),
    [
        (_NEW, {"stored": Metadata(phase="migrating")}, "in phase migrating"),
        (_BACK, {"stored": Metadata(phase="migrating")}, "in phase migrating"),
        (_GONE, {"stored": Metadata(phase="migrating")}, "in phase migrating"),
        (SnapshotRequest("one", keep=1), {"stored": Metadata(phase="purging")}, "in phase purging"),
        (_NEW, {"persistent": False}, "transient"),
        (_NEW, {"managed_save": True}, "managedsave-remove a"),
        (_BACK, {"managed_save": True}, "managedsave-remove a"),
        (_NEW, {"state": "crashed"}, "is crashed"),
        (_NEW, {"snapshot_blockers": ("'a' has UEFI firmware",)}, "UEFI"),
        (_NEW, {"disks": (dataclasses.replace(_DISK, format="raw"),)}, "vda of 'a' is raw"),
        (_NEW, {"disks": (dataclasses.replace(_DISK, snapshot="no"),)}, "snapshot='no'"),
        (_NEW, {"disks": (_CDROM,)}, "no writable disk"),
        (_NEW, {"snapshots": _EXTERNAL}, "virsh snapshot-delete a NAME"),
        (
            _NEW,
            {"active": True, "state": "running", "memory_mib": 512, "free_mib": 500},
            "has 500 MiB left; up to 576 MiB",
        ),
        (_BACK, {"snapshots": ()}, "no snapshot 'one'; there are: none"),
        (_BACK, {"snapshots": _EXTERNAL}, "virsh snapshot-revert a one"),
        (_GONE, {"snapshots": _EXTERNAL}, "virsh snapshot-delete a one"),
        (_BACK, {"disks": (_DISK, _OTHER)}, "has disks that snapshot one does not contain"),
        (_BACK, {"disks": (dataclasses.replace(_DISK, source="/p/c"),)}, "(vda)"),
        (_BACK, {"disks": ()}, "can only be deleted"),
    ],
)
def test_refusals(wanted: SnapshotRequest, change: dict[str, t.Any], words: str) -> None:
    found = plan.plan(_facts(**change), wanted)
    assert not found.steps
    assert words in "; ".join(found.refusals)


def test_what_is_there_already_and_what_is_gone_asks_for_nothing() -> None:
    busy = _facts(stored=Metadata(phase="migrating"))
    for wanted in (SnapshotRequest("one"), SnapshotRequest("one", keep=3)):
        assert plan.plan(busy, wanted) == plan.Plan()
    assert plan.plan(_facts(), SnapshotRequest("never", "absent")).steps == ()
    plenty = _facts(active=True, state="running", memory_mib=512, free_mib=577)
    assert plan.plan(plenty, _NEW).steps[0].text == "take snapshot new with its memory"


_ASKED = {"children": False, "keep": None, "disk_only": False, "quiesce": "auto"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"snapshot": None}, "none is named"),
        ({"snapshot": "a/b"}, "'a/b' is no snapshot name"),
        ({"snapshot": "-a"}, "'-a' is no snapshot name"),
        ({"snapshot": "a\n"}, "is no snapshot name"),
        ({"snapshot": "a" * 64}, "at most 63"),
        ({"keep": 0}, "0 is no number"),
        ({"keep": 3, "state": "absent"}, "leave it out"),
        ({"children": True}, "leave it out"),
        ({"disk_only": True, "state": "absent"}, "leave it out"),
        ({"quiesce": "always"}, "without disk_only"),
    ],
)
def test_what_cannot_be_meant(given: dict[str, t.Any], words: str) -> None:
    asked = {**_ASKED, "snapshot": "a", "state": "present"}
    assert options.wanted_of(asked) == SnapshotRequest("a")
    with pytest.raises(SpecError, match=words):
        options.wanted_of({**asked, **given})


def test_snapshots_of_others_may_have_any_name() -> None:
    asked = {**_ASKED, "snapshot": "a b", "state": "reverted"}
    assert options.wanted_of(asked) == SnapshotRequest("a b", "reverted")


def _seen(**hosts: t.Any) -> declaration.Fleet:
    answers = {
        host: {
            "vms": [
                {"name": name, "uuid": name, "phase": None, "groups": [name], "snapshots": shown}
            ]
        }
        if name
        else {"unreachable": True, "msg": "gone"}
        for host, (name, shown) in hosts.items()
    }
    return located.sort(answers, "vms", list(hosts), [])


def test_each_vm_is_found_where_it_is() -> None:
    seen = _seen(hv1=("a", []), hv2=("b", []))
    assert verb.VERB.decide(["b", "a"], seen).shares == {"hv2": ["b"], "hv1": ["a"]}
    assert verb.VERB.decide(["?"], seen).shares == {"hv1": ["a"], "hv2": ["b"]}
    assert verb.VERB.decide([], seen, ["b"]).shares == {"hv2": ["b"]}
    with pytest.raises(PlanRefused, match=r"no VM matches 'x\*'"):
        verb.VERB.decide(["x*", "a"], seen)
    assert verb.listing(["x*"], seen)[1] == [
        "no VM matches 'x*'; ansible-playbook fleet.virt.list shows the VMs"
    ]
    with pytest.raises(PlanRefused, match="no hypervisor has a VM 'c'"):
        verb.VERB.decide(["a", "c"], seen)
    with pytest.raises(PlanRefused, match="hv2: gone"):
        verb.VERB.decide(["c"], _seen(hv1=("a", []), hv2=("", [])))


def test_the_list_says_whose_and_when() -> None:
    shown = {
        **{"name": "s", "parent": None, "current": True, "created": 1772442847},
        **{"state": "running", "kind": "internal", "managed": False},
    }
    text, problems = verb.listing([], _seen(hv1=("a", [shown]), hv2=("", [])))
    assert "2026-03-02 09:14:07Z  running  internal  others" in text
    assert "hv2: no answer: gone" in text
    assert not problems
    huge = {**shown, "created": 10**18, "managed": True}
    text, problems = verb.listing(["a", "z"], _seen(hv1=("a", [huge])))
    assert "fleet.virt" in text
    assert problems == ["on no hypervisor that answered: z"]
    assert "has snapshots" in verb.listing([], _seen(hv1=("a", [])))[0]


def test_who_said_nothing_has_failed() -> None:
    good = {"name": "a", "changed": True, "failed": False, "msg": None, "steps": ["x"]}
    answers = {"hv1": {"vms": [good]}}
    for check, word in ((False, "changed"), (True, "would change")):
        text, failures = verb.VERB.report({"hv1": ["a"]}, answers, check=check)
        assert f"{word}  x" in text
        assert not failures
    text, failures = verb.VERB.report({"hv1": ["a", "b"]}, answers, check=False)
    assert "failed" in text
    assert failures[0].startswith("b on hv1: ")


_SHAPES: dict[str, t.Callable[[int], list[Snapshot]]] = {
    "chain": lambda count: [
        Snapshot(f"{number:06}", f"{number - 1:06}", created=1, ours=True)
        for number in range(count)
    ],
    "reversed": lambda count: _SHAPES["chain"](count)[::-1],
    "circle": lambda count: [
        dataclasses.replace(one, parent=f"{(number - 1) % count:06}")
        for number, one in enumerate(_SHAPES["chain"](count))
    ],
    "star": lambda count: [
        dataclasses.replace(one, parent="root") for one in _SHAPES["chain"](count)
    ],
    "unrelated": lambda count: [
        dataclasses.replace(one, parent=None) for one in _SHAPES["chain"](count)
    ],
}
_USES: dict[str, t.Callable[[SnapshotFacts], object]] = {
    "sorted": lambda facts: ordered(facts.snapshots),
    "descendants": lambda facts: below(facts, facts.snapshots[0].name),
    "of one kind": lambda facts: facts.of_kind(INTERNAL),
    "removed with its children": lambda facts: plan.plan(
        facts, SnapshotRequest(facts.snapshots[0].name, ABSENT, children=True)
    ),
    "kept": lambda facts: plan.plan(facts, SnapshotRequest(facts.snapshots[0].name, keep=1)),
}


@pytest.mark.parametrize("use", _USES)
@pytest.mark.parametrize("shape", _SHAPES)
def test_twice_as_many_snapshots_take_about_twice_as_long(shape: str, use: str) -> None:
    def seconds(count: int) -> float:
        facts = dataclasses.replace(_facts(), snapshots=tuple(_SHAPES[shape](count)), current=None)
        times = []
        gc.disable()  # it would go through what other tests have left in this process
        try:
            for _attempt in range(3):
                begun = time.process_time()  # not the clock's: others may have the processors
                _USES[use](facts)
                times.append(time.process_time() - begun)
        finally:
            gc.enable()
        return min(times)

    # sixteen times as many: what is quadratic takes 256 times as long, what is not up to 60 times,
    # since many do not fit into the processor's caches
    assert seconds(16_000) < 120 * seconds(1_000) + 0.02


@pytest.mark.parametrize("shape", ["chain", "reversed"])
def test_child_of_the_same_second_comes_after_its_parent(shape: str) -> None:
    snapshots = _SHAPES[shape](20_000)
    assert [one.name for one in ordered(snapshots)] == [f"{n:06}" for n in range(20_000)]
    chain = ordered(snapshots)
    facts = dataclasses.replace(_facts(), snapshots=tuple(snapshots))
    assert tuple(below(facts, chain[0].name)) == chain[1:]


@pytest.mark.parametrize("state", ["present", "reverted", "absent"])
def test_vm_of_cell_gets_no_snapshot(state: str) -> None:
    """One that is there all the same can be deleted."""
    facts = _facts(stored=dataclasses.replace(_MADE, ha="yes"))
    wanted = SnapshotRequest("new" if state == "present" else "two", state)
    planned = plan.plan(facts, wanted)
    assert bool(planned.steps) == (state == "absent")
    assert not planned.steps or not planned.refusals
    if state != "absent":
        (reason,) = planned.refusals
        assert "is a VM of a cell (ha), and snapshots are of one hypervisor alone" in reason
        assert "fleet.virt.backup -e vm_name=a" in reason
