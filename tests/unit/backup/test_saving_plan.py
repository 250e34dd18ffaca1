# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Planning backups: what is refused, and what is done after every kill."""

from __future__ import annotations

import dataclasses
import os
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._errors import SpecError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import (
    decide,
    definition,
    effects_unit,
    plan,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.facts import (
    FILES,
    JOB,
    BackupDisk,
    BackupFacts,
    BackupRequest,
    Clear,
    Save,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.options_saving import (
    wanted_of,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import Metadata
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import located
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.steps import (
    interrupted,
    predict,
)

_WANTED = BackupRequest("/mnt/backup", "secret")
_DISK = BackupDisk("vda", "/srv/a.qcow2", "qcow2", 1 << 30)
_OFF = BackupFacts("web1", "u", disks=(_DISK,))
_WRITTEN = dataclasses.replace(_DISK, written=True)
_RUNNING = dataclasses.replace(
    _OFF, state="running", active=True, scratch_mib=1000, disks=(_WRITTEN,)
)
_OPTIONS: dict[str, t.Any] = {
    "to": "/mnt/backup/",
    "passphrase": "secret",
    "ssh_key": None,
    "quiesce": "auto",
    "scratch": "/srv/scratch",
    "scratch_mib": None,
}


@pytest.mark.parametrize("facts", [_OFF, _RUNNING], ids=["off", "running"])
def test_backup_after_every_kill_clears_and_saves_once_more(facts: BackupFacts) -> None:
    first = plan.plan(facts, _WANTED)
    assert [type(step.action) for step in first.steps] == [Save]
    states = list(interrupted(facts, first.steps))
    assert len(states) == (8 if facts.active else 4)
    for when, left in states:
        again = plan.plan(left, _WANTED)
        assert not again.refusals, when
        kinds = [type(step.action) for step in again.steps]
        assert kinds == ([Clear, Save] if left.left else [Save]), when
        after = predict(left, again.steps)
        assert not after.left, when
        assert after.job is None, when
        assert after.saved == left.saved + 1, when


@pytest.mark.parametrize("left", [{JOB}, {FILES}, {JOB, FILES}])
def test_kill_while_leftovers_are_cleared_is_cleared_again(left: set[str]) -> None:
    facts = dataclasses.replace(_RUNNING, left=frozenset(left), job="backup")
    for when, state in interrupted(facts, plan.plan(facts, _WANTED).steps[:1]):
        if state.left or JOB in left:
            assert predict(state, plan.plan(state, _WANTED).steps).saved == 1, when


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"disks": ()}, "no writable disk"),
        ({"persistent": False}, "transient"),
        ({"state": "crashed"}, "is crashed"),
        ({"managed_save": True}, "saved memory"),
        ({"own_unit": True}, "backed up by another run"),
        ({"job": "x"}, "libvirt is busy"),
        ({"scratch_mib": 15}, "virt_backup_scratch"),
        ({"blockers": ("disk vdb is shareable",)}, "shareable"),
        ({"stored": Metadata(phase="migrating")}, "in phase migrating"),
        ({"stored": Metadata(phase="x", broken="y")}, "cannot be used"),
    ],
)
def test_backup_is_refused_with_the_reason(changes: dict[str, t.Any], said: str) -> None:
    found = plan.plan(dataclasses.replace(_RUNNING, **changes), _WANTED)
    assert not found.steps
    assert len(found.refusals) == 1
    assert said in found.refusals[0]


def test_scratch_of_a_vm_that_is_off_is_not_needed() -> None:
    assert plan.plan(dataclasses.replace(_OFF, scratch_mib=0), _WANTED).steps


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"to": None}, "virt_backup_to"),
        ({"to": "backup"}, "no place for backups"),
        ({"to": "ssh://server"}, "no place for backups"),
        ({"passphrase": ""}, "virt_backup_passphrase"),
        ({"scratch_mib": 8}, "16 or more"),
    ],
)
def test_option_that_cannot_be_used_is_refused(changes: dict[str, t.Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        wanted_of({**_OPTIONS, **changes})


def test_passphrase_is_in_no_text_of_a_request() -> None:
    wanted = wanted_of(_OPTIONS)
    assert wanted.to == "/mnt/backup"
    assert "secret" not in repr(wanted)
    assert wanted_of({**_OPTIONS, "passphrase": None}, secret=False).passphrase == ""


@pytest.mark.parametrize("block", [4096, 1 << 20])
@pytest.mark.parametrize("length", [1, 2, 3, 4093, 4094, 4095, 4096, 4097])
def test_paths_are_padded_to_blocks_and_stay_the_same(length: int, block: int) -> None:
    paths = ["d" * length, "disks/vdb.raw"]
    padded = effects_unit._padded(paths, block)
    assert len(padded) % block == 0
    lines = padded.decode().splitlines()
    assert [os.path.normpath(line) for line in lines] == paths


def test_definition_in_an_archive_has_no_mark_of_a_run() -> None:
    text = (
        "<domain type='qemu'><name>a</name><metadata><f:fleet xmlns:f='urn:fleet.virt:1'>"
        "<f:phase>changing</f:phase><f:group>web</f:group></f:fleet></metadata></domain>"
    )
    saved = definition.unmarked(_lxml.parse(text, "domain a"))
    assert "changing" not in saved
    assert "web" in saved


def test_report_shows_what_was_saved_and_what_failed() -> None:
    entry: t.Any = {"name": "web1", "changed": True, "failed": False, "msg": None, "steps": []}
    entry |= {"archive": "2026-11-28T06:51:18Z", "consistency": "frozen"}
    entry |= {"size": 1 << 30, "added": 1 << 20, "uuid": "u", "left_out": ["vdb: it waits"]}
    entry |= {"one_file": ["vda: its data are in /a.data"]}
    answers: t.Any = {"hv1": {"vms": [entry]}, "hv2": {"failed": True, "msg": "gone"}}
    text, failures = decide.VERB.report({"hv1": ["web1"], "hv2": ["db1"]}, answers, check=False)
    assert "web1  hv1         saved   2026-11-28T06:51:18Z  frozen       1024.0    1.0" in text
    assert "web1: its backup is without disk vdb: it waits\n" in text
    assert "web1: in its backup this disk is one file, vda: its data are in /a.data\n" in text
    assert len(failures) == 1
    assert "db1 on hv2: gone" in failures[0]


def _tried(*, gave_way: bool = False, msg: str | None = None, **more: t.Any) -> t.Any:
    entry = {"name": "web1", "changed": not msg, "failed": bool(msg), "msg": msg, "steps": []}
    entry |= dict.fromkeys(("uuid", "archive", "consistency", "size", "added"))
    entry |= {"gave_way": gave_way, "not_tried": False, "left_out": [], "one_file": []}
    return {"vms": [{**entry, **more}]}


def test_backup_that_gave_way_is_tried_where_the_vm_then_is_and_reported_once() -> None:
    other: t.Any = _tried(name="db1")
    shares = {"hv1": ["web1"], "hv2": ["db1"]}
    answers = {"hv1": _tried(gave_way=True, msg="it is being moved"), "hv2": other}
    first = decide.settle(shares, answers)
    assert (first.number, first.again) == (0, ["web1"])

    moving: t.Any = {"name": "web1", "uuid": "u", "phase": "migrating", "groups": []}
    both: t.Any = {"hv1": {"vms": [moving]}, "hv2": {"vms": [moving]}}
    looked = decide.decide_again(first.again, located.sort(both, "vms", None, []))
    assert looked.shares == {}
    second = decide.settle(looked.shares, {}, decide.settled(vars(first)))
    assert (second.number, second.again) == (1, ["web1"])

    del both["hv1"]["vms"][0]
    looked = decide.decide_again(second.again, located.sort(both, "vms", None, []))
    assert looked.shares == {"hv2": ["web1"]}
    done = {"hv2": _tried(archive="2026-11-28T06:51:18Z")}
    third = decide.settle(looked.shares, done, decide.settled(vars(second)))
    assert (third.number, third.again) == (2, [])
    text, failures = decide.VERB.report(third.shares, third.ended, check=False)
    assert not failures
    assert [line.split()[:3] for line in text.splitlines()[1:]] == [
        ["db1", "hv2", "saved"],
        ["web1", "hv2", "saved"],
    ]


def test_backup_that_always_gives_way_fails_after_a_few_tries() -> None:
    answers = {"hv1": _tried(gave_way=True, msg="it is being moved; try again")}
    after = None
    for number in range(decide.TRIES):
        after = decide.settle({"hv1": ["web1"]}, answers, after)
        assert after.again == (["web1"] if number + 1 < decide.TRIES else []), number
    assert after is not None
    _text, failures = decide.VERB.report(after.shares, after.ended, check=False)
    assert failures == [
        f"web1 on hv1: it is being moved; try again (of {decide.TRIES} tries, this was the last)"
    ]


def test_hypervisor_that_did_not_answer_is_reported_after_another_round() -> None:
    silent: t.Any = {"failed": True, "msg": "gone"}
    answers = {"hv1": _tried(gave_way=True, msg="x"), "hv2": silent}
    first = decide.settle({"hv1": ["web1"], "hv2": ["db1"]}, answers)
    before = decide.settled(vars(first))
    last = decide.settle({"hv1": ["web1"]}, {"hv1": _tried(archive="a")}, before)
    _text, failures = decide.VERB.report(last.shares, last.ended, check=False)
    assert len(failures) == 1
    assert "db1 on hv2: gone" in failures[0]
