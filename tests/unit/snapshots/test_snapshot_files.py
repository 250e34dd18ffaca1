# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Snapshots in files of their own: refusals, whose the files are, and kills at every step."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import (
    Metadata,
    OwnVolume,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.steps import (
    interrupted,
    predict,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.snapshots import (
    effects,
    parsed,
    plan,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.snapshots import external as files
from ansible_collections.fleet.virt.plugins.module_utils._fleet.snapshots.facts import (
    Snapshot,
    SnapshotDisk,
    SnapshotFacts,
    SnapshotRequest,
)

_ROOT, _OTHER = SnapshotDisk("vda", "/p/a-root.qcow2"), SnapshotDisk("vdb", "/p/a-data.raw", "raw")
_CDROM = SnapshotDisk("sda", "/p/a.iso", "raw", "cdrom", readonly=True)
_OWN = (
    OwnVolume("p", "a-root.qcow2", "/p/a-root.qcow2", "root", "disk"),
    OwnVolume("p", "a-data.raw", "/p/a-data.raw", "data", "disk"),
    OwnVolume("p", "a.iso", "/p/a.iso", "seed", "seed"),
)
_MADE = Metadata(request="{}", volumes=_OWN)
_BARE = SnapshotFacts(
    "a",
    "u",
    "running",
    active=True,
    disks=(_ROOT, _OTHER, _CDROM),
    stored=_MADE,
    agent=True,
    libvirt=9_009_000,
)


def _taken(facts: SnapshotFacts, *names: str) -> SnapshotFacts:
    """With snapshots of these names, one upon the other."""
    for name in names:
        found = plan.plan(facts, SnapshotRequest(name, disk_only=True))
        assert not found.refusals
        facts = predict(facts, found.steps)
    return facts


_THREE = _taken(_BARE, "one", "two", "three")


def _sources(facts: SnapshotFacts) -> list[str]:
    return [disk.source for disk in facts.disks]


def test_the_vm_goes_on_in_files_named_after_its_disks() -> None:
    assert _sources(_THREE) == ["/p/a-root.three.qcow2", "/p/a-data.three.qcow2", "/p/a.iso"]
    two = _THREE.find("two")
    assert two is not None
    assert two.kind == "external"
    assert [disk.source for disk in two.disks] == [
        "/p/a-root.one.qcow2",
        "/p/a-data.one.qcow2",
        "/p/a.iso",
    ]


_WAYS = [
    (SnapshotRequest("new", disk_only=True), ["new", "one", "three", "two"]),
    (SnapshotRequest("new", disk_only=True, keep=2), ["new", "three"]),
    (SnapshotRequest("one", keep=1), ["one"]),
    (SnapshotRequest("two", "absent"), ["one", "three"]),
    (SnapshotRequest("three", "absent"), ["one", "two"]),
    (SnapshotRequest("one", "absent", children=True), []),
]


@pytest.mark.parametrize(("wanted", "names"), _WAYS)
def test_wherever_it_is_killed_the_next_run_ends_it(
    wanted: SnapshotRequest, names: list[str]
) -> None:
    steps = plan.plan(_THREE, wanted).steps
    end = predict(_THREE, steps)
    assert sorted(one.name for one in end.snapshots) == names
    assert not any(one.merging for one in end.snapshots)
    assert plan.plan(end, wanted).steps == ()
    for when, left in interrupted(_THREE, steps):
        again = plan.plan(left, wanted)
        assert not again.refusals, when
        assert predict(left, again.steps) == end, when
        for one in left.snapshots:
            if one.merging:
                back = plan.plan(left, SnapshotRequest(one.name, "reverted"))
                assert "no longer usable" in "".join(back.refusals), when


def test_merged_from_whichever_end_the_disks_are_what_they_were() -> None:
    for names in (("one", "two", "three"), ("three", "two", "one"), ("two", "three", "one")):
        facts = _THREE
        for name in names:
            facts = predict(facts, plan.plan(facts, SnapshotRequest(name, "absent")).steps)
        assert facts.disks == _BARE.disks
        assert facts.snapshots == ()


def test_what_a_disk_lies_on_is_known() -> None:
    below = files.chain(_THREE, _THREE.disks[1])
    assert [(disk.source, disk.format) for disk in below] == [
        ("/p/a-data.two.qcow2", "qcow2"),
        ("/p/a-data.one.qcow2", "qcow2"),
        ("/p/a-data.raw", "raw"),
    ]
    assert files.chain(_BARE, _ROOT) == []
    lost = dataclasses.replace(_THREE.snapshots[2], disks=())
    assert files.chain(dataclasses.replace(_THREE, snapshots=(lost,)), _THREE.disks[1]) == []


def test_one_that_is_being_merged_is_not_taken_for_one_that_is_there() -> None:
    left = predict(_THREE, plan.plan(_THREE, SnapshotRequest("two", "absent")).steps[:1])
    again = plan.plan(left, SnapshotRequest("two", disk_only=True))
    assert "delete it, and take another" in "".join(again.refusals)


def test_going_back_stops_the_vm_and_keeps_what_it_owns() -> None:
    found = plan.plan(_THREE, SnapshotRequest("two", "reverted"))
    assert [step.text for step in found.steps] == ["revert to snapshot two (shutoff)"]
    end = predict(_THREE, found.steps)
    assert (end.state, end.active, end.current) == ("shutoff", False, "two")
    assert end.stored == _MADE


def test_frozen_is_who_runs_and_answers() -> None:
    for change, quiesce, frozen in (
        ({}, "auto", True),
        ({}, "always", True),
        ({}, "never", False),
        ({"agent": False}, "auto", False),
        ({"state": "paused"}, "auto", False),
        ({"state": "shutoff", "active": False, "agent": False}, "always", False),
    ):
        facts = dataclasses.replace(_BARE, **t.cast("t.Any", change))
        (step,) = plan.plan(facts, SnapshotRequest("new", disk_only=True, quiesce=quiesce)).steps
        assert step.text.endswith("frozen") is frozen, (change, quiesce)


_WITHIN = Snapshot("within", None, 1, ours=True, disks=(_ROOT,))
_THEIRS = dataclasses.replace(_taken(_BARE, "one").snapshots[0], ours=False)
_NEW = SnapshotRequest("new", disk_only=True)
_GONE, _BACK = SnapshotRequest("one", "absent"), SnapshotRequest("one", "reverted")


def _branched(current: str) -> SnapshotFacts:
    """After going back to the first, another was taken."""
    other = dataclasses.replace(_THREE.snapshots[1], name="other", parent="one")
    return dataclasses.replace(_THREE, snapshots=(*_THREE.snapshots, other), current=current)


@pytest.mark.parametrize(
    ("facts", "wanted", "words"),
    [
        (dataclasses.replace(_BARE, snapshot_blockers=("'a' has UEFI",)), _NEW, "UEFI"),
        (dataclasses.replace(_BARE, snapshots=(_WITHIN,)), _NEW, "internal snapshots (within)"),
        (
            dataclasses.replace(_BARE, disks=(SnapshotDisk("vda", "p/v", type="volume"),)),
            _NEW,
            "volume",
        ),
        (
            dataclasses.replace(_BARE, disks=(SnapshotDisk("vda", "/p/v", None),)),
            _NEW,
            "the format",
        ),
        (
            dataclasses.replace(_BARE, disks=(SnapshotDisk("vda", "/p/v", snapshot="no"),)),
            _NEW,
            "='no'",
        ),
        (dataclasses.replace(_BARE, disks=(_CDROM,)), _NEW, "nothing to snapshot"),
        (
            dataclasses.replace(_BARE, disks=(SnapshotDisk("vda", f"/p/{'v' * 250}.raw"),)),
            _NEW,
            "too long",
        ),
        (
            dataclasses.replace(_BARE, there=frozenset({"/p/a-data.new.qcow2"})),
            _NEW,
            "/p/a-data.new.qcow2 already exists",
        ),
        (
            dataclasses.replace(_BARE, agent=False),
            dataclasses.replace(_NEW, quiesce="always"),
            "does not respond",
        ),
        (_THREE, SnapshotRequest("new"), "delete them first"),
        (dataclasses.replace(_THREE, used={"one": "others need it"}), _GONE, "others need it"),
        (
            dataclasses.replace(_THREE, used={"one": "others need it"}),
            SnapshotRequest("new", disk_only=True, keep=3),
            "others need it",
        ),
        (
            dataclasses.replace(_THREE, snapshots=(*_THREE.snapshots, _WITHIN)),
            _GONE,
            "virsh blockcommit a",
        ),
        (
            dataclasses.replace(_THREE, snapshots=(*_THREE.snapshots, _WITHIN)),
            SnapshotRequest("within", "absent"),
            "virsh blockcommit a",
        ),
        (_branched("other"), _GONE, "two, other are based on snapshot one"),
        (dataclasses.replace(_THREE, current="one"), _GONE, "two and the VM itself are based on"),
        (dataclasses.replace(_BARE, snapshots=(_THEIRS,)), _GONE, "virsh snapshot-delete a one"),
        (dataclasses.replace(_BARE, snapshots=(_THEIRS,)), _BACK, "virsh snapshot-revert a one"),
        (
            dataclasses.replace(_THREE, libvirt=9_000_000),
            _BACK,
            "needs libvirt 9.9 on its hypervisor, which has 9.0",
        ),
        (dataclasses.replace(_THREE, disks=_THREE.disks[:1]), _BACK, "no longer has (vdb)"),
    ],
)
def test_refusals(facts: SnapshotFacts, wanted: SnapshotRequest, words: str) -> None:
    found = plan.plan(facts, wanted)
    assert not found.steps
    assert words in "; ".join(found.refusals)


def test_the_branch_that_is_left_is_merged() -> None:
    facts = _branched("other")
    alone = predict(facts, plan.plan(facts, SnapshotRequest("two", "absent", children=True)).steps)
    assert plan.plan(alone, _GONE).steps


def test_which_files_are_the_vms_own() -> None:
    own = files.own_files(_MADE, _THREE.disks, _THREE.snapshots)
    assert {(one.path, one.name, one.target) for one in own} == {
        (f"/p/a-{disk}.{name}.qcow2", f"a-{disk}.{name}.qcow2", disk)
        for disk in ("root", "data")
        for name in ("one", "two", "three")
    }
    went_back = (SnapshotDisk("vda", "/p/a-root.1795486578"),)  # libvirt's own name
    own = files.own_files(_MADE, went_back, _THREE.snapshots)
    assert own[0] == OwnVolume("p", "a-root.1795486578", went_back[0].source, "root", "disk")
    for kept, snapshots in (
        (None, _THREE.snapshots),
        (Metadata(), _THREE.snapshots),
        (_MADE, ()),
        (_MADE, (*_THREE.snapshots, _THEIRS)),
    ):
        assert files.own_files(kept, _THREE.disks, snapshots) == ()
    stranger = (
        SnapshotDisk("vdc", "/p/b.one.qcow2"),
        SnapshotDisk("vdd", "/p/a-root.d/x"),
        SnapshotDisk("vde", "/q/a-root.x"),
    )
    paths = {one.path for one in files.own_files(_MADE, stranger, _THREE.snapshots)}
    assert not paths & {disk.source for disk in stranger}


_XML = """
<domainsnapshot><name>n</name><description>{said}</description><state>disk-snapshot</state>
 <parent><name>m</name></parent><creationTime>7</creationTime>
 <disks><disk name='vda' snapshot='external' type='file'><source file='/p/n'/></disk>
 <disk name='sda' snapshot='no'/></disks>
 <revertDisks><disk name='vda' snapshot='external'><source file='/p/7'/></disk></revertDisks>
 <domain><name>a</name><devices><disk type='file'><driver type='raw'/><source file='/p/a'/>
 <target dev='vda'/></disk></devices></domain></domainsnapshot>
"""


def test_an_empty_drive_is_the_same_after_going_back() -> None:
    """QEMU's saved state has no format of a medium that is not there, the definition has one."""
    drive = (
        "<domain><devices><disk device='cdrom'><driver name='qemu'{}/><target dev='sda'/></disk>"
    )
    stored, running = (
        list(parsed.disks(_lxml.parse(f"{drive.format(kind)}</devices></domain>", "domain")))
        for kind in (" type='raw'", "")
    )
    assert stored == running


def test_what_libvirt_says_of_one() -> None:
    found = parsed.snapshot(_XML.format(said="made by fleet.virt"))
    assert found == Snapshot(
        "n",
        "m",
        7,
        "disk-snapshot",
        "external",
        ours=True,
        disks=(SnapshotDisk("vda", "/p/a", "raw"),),
        files=(("vda", "/p/n"), ("vda", "/p/7")),
    )
    begun = parsed.snapshot(_XML.format(said="made by fleet.virt; being merged"))
    assert begun == dataclasses.replace(found, merging=True)
    assert not parsed.snapshot(_XML.format(said="of mine")).ours


def test_a_snapshot_without_freezing_says_so_in_its_step() -> None:
    wanted = SnapshotRequest("one", disk_only=True)
    planned = plan.plan(_BARE, wanted)
    nothing: t.Any = None  # neither libvirt nor the domain is asked
    job = effects._SnapshotJob(nothing, "a", "u", _BARE, planned, nothing, wanted)
    job.done, job.after = list(planned.steps), predict(_BARE, planned.steps)
    assert job.entry()["steps"] == ["take disk-only snapshot one, its file systems frozen"]
    job.unfrozen = True
    assert job.entry()["steps"] == ["take disk-only snapshot one, nothing frozen"]
    job.after = job.facts
    assert job.entry()["steps"] == []
