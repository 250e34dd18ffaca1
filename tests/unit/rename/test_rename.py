# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Renaming: refusals, and that it comes to its end from wherever a kill leaves it."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import (
    Metadata,
    Owner,
    OwnVolume,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import located
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.leases import Holder
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.outcomes import by_host
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.steps import (
    interrupted,
    predict,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes import note, rule
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rename import (
    decide as rename_decision,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rename import plan as rename_plan
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rename.plan import (
    RenamedFile,
    RenameFacts,
)

_UUID = "6f3a0d4c-0c57-4f3e-9f0e-0d6d5c1f2a3b"
_LOG = RenamedFile("/l/a-console.log", "/l/b-console.log", named=True, old_exists=True)
_NVRAM = RenamedFile("/n/a_VARS.fd", f"/n/{_UUID}_VARS.fd", named=True, old_exists=True)
_NEVER_STARTED = dataclasses.replace(_LOG, old_exists=False)
_DISK = RenamedFile(
    "/p/a_system.qcow2", "/p/b_system.qcow2", named=True, old_exists=True, volume=True
)
_LOOSE = RenamedFile(
    "/p/a_data.qcow2", "/p/b_data.qcow2", named=False, old_exists=True, volume=True
)
_MADE = Metadata(request='{"memory":1,"name":"a"}', host_key="k")
_OWN = tuple(
    OwnVolume("default", path.rpartition("/")[2], path, "system", "disk", "1")
    for path in (_DISK.old, _LOOSE.old, "/p/other.qcow2")
)
_OWNER = Owner("boot", 7, 1, "r")


def _facts(*files: RenamedFile, **more: t.Any) -> RenameFacts:
    return dataclasses.replace(RenameFacts("a", _UUID, stored=_MADE, files=files), **more)


@pytest.mark.parametrize("files", [(), (_LOG, _NVRAM), (_NEVER_STARTED, _NVRAM)])
def test_wherever_it_is_killed_the_next_run_ends_it(files: tuple[RenamedFile, ...]) -> None:
    before = _facts(*files)
    steps = rename_plan.plan(before, "a", "b", _OWNER).steps
    end = predict(before, steps)
    assert end.name == "b"
    assert end.stored == dataclasses.replace(
        _MADE, request='{"memory":1,"name":"b"}', renamed_from="a"
    )
    assert not any(file.old_exists or file.named for file in end.files)
    assert rename_plan.plan(end, "a", "b").steps == ()
    states = list(interrupted(before, steps))
    assert len(states) == 2 * len(steps)
    for when, left in states:
        again = rename_plan.plan(left, "a", "b", _OWNER)
        assert not again.refusals, when
        assert predict(left, again.steps) == end, when


@pytest.mark.parametrize("before", [None, Metadata(seed="{}")])
def test_vm_not_adopted_is_renamed_and_stays_unadopted(before: Metadata | None) -> None:
    facts = _facts(_LOG, stored=before)
    steps = rename_plan.plan(facts, "a", "b", _OWNER).steps
    end = predict(facts, steps)
    assert (end.name, end.stored) == (
        "b",
        dataclasses.replace(before or Metadata(), renamed_from="a"),
    )
    assert rename_plan.plan(end, "a", "b").steps == ()
    for when, left in interrupted(facts, steps):
        again = rename_plan.plan(left, "a", "b", _OWNER)
        assert not again.refusals, when
        assert predict(left, again.steps) == end, when
    taken = predict(facts, steps[:-1])
    back = rename_plan.withdrawal(dataclasses.replace(taken, files=()), "a", "b").steps
    restored = predict(taken, back)
    assert (restored.name, restored.stored) == ("a", before)


@pytest.mark.parametrize("name", ["a", "b"])
def test_with_volumes_too(name: str) -> None:
    """Of a VM that has its new name already as well."""
    made = dataclasses.replace(_MADE, volumes=_OWN, renamed_from="a" if name == "b" else None)
    before = _facts(_DISK, _LOOSE, name=name, stored=made)
    steps = rename_plan.plan(before, "a", "b", _OWNER).steps
    end = predict(before, steps)
    assert end.name == "b"
    assert end.stored is not None
    paths = [one.path for one in end.stored.volumes]
    assert paths == [_DISK.new, _LOOSE.new, "/p/other.qcow2"]
    assert end.stored.volumes[0].name == "b_system.qcow2"
    assert not any(file.old_exists or file.named or not file.new_exists for file in end.files)
    assert rename_plan.plan(dataclasses.replace(end, files=()), "a", "b").steps == ()
    for when, left in interrupted(before, steps):
        again = rename_plan.plan(left, "a", "b", _OWNER)
        assert not again.refusals, when
        assert predict(left, again.steps) == end, when


def test_a_name_that_is_somebodys_is_given_back_from_wherever() -> None:
    before = _facts(_LOG)
    taken = predict(before, rename_plan.plan(before, "a", "b", _OWNER).steps[:-1])
    turned = (RenamedFile(_LOG.new, _LOG.old, named=True, old_exists=True),)
    steps = rename_plan.withdrawal(dataclasses.replace(taken, files=turned), "a", "b").steps
    end = predict(dataclasses.replace(taken, files=turned), steps)
    assert (end.name, end.stored) == ("a", _MADE)
    assert end.files == (RenamedFile(_LOG.new, _LOG.old, named=False, new_exists=True),)
    assert rename_plan.withdrawal(before, "a", "b").refusals
    for when, left in interrupted(dataclasses.replace(taken, files=turned), steps):
        again = rename_plan.plan(dataclasses.replace(left, files=()), "a", "b", _OWNER)
        assert not again.refusals, when
        assert predict(left, again.steps).name == "b", when


@pytest.mark.parametrize(
    ("change", "new", "words"),
    [
        ({}, "b.", "empty part"),
        ({}, "all", "is reserved by Ansible"),
        ({}, "a", "is its present name"),
        (
            {"stored": Metadata(phase="unreadable", broken="phase: it is empty")},
            "b",
            "virsh metadata a urn:fleet.virt:1 --remove",
        ),
        ({"stored": Metadata(request="{}", phase="migrating")}, "b", "in phase migrating"),
        (
            {"stored": Metadata(request="{}", phase="renaming", renamed_from="z")},
            "b",
            "in phase renaming",
        ),
        (
            {
                "stored": Metadata(request="{}", phase="renaming", renamed_from="a"),
                "holder": Holder(4711, "python3", "2026-01-02 03:04:05 UTC"),
            },
            "b",
            "is being renamed by process 4711 (python3, since 2026-01-02 03:04:05 UTC)",
        ),
        ({"persistent": False}, "b", "transient"),
        ({"active": True, "state": "running"}, "b", "'a' is running; libvirt renames"),
        ({"managed_save": True}, "b", "saved memory"),
        ({"snapshots": ("one",)}, "b", "snapshots (one)"),
        ({"checkpoints": ("two",)}, "b", "checkpoints (two)"),
        ({"taken": True}, "b", "a VM 'b' already exists"),
        ({"users": ("/p/a.qcow2: /p/c.qcow2 lies on it",)}, "b", "/p/c.qcow2 lies on it; remove"),
        (
            {"files": (dataclasses.replace(_DISK, old_exists=False),)},
            "b",
            "does not exist; find out where",
        ),
        ({"files": (dataclasses.replace(_LOOSE, new_exists=True),)}, "b", "b_data.qcow2 exists"),
        ({"files": (dataclasses.replace(_LOG, new_exists=True),)}, "b", "/l/b-console.log exists"),
    ],
)
def test_refusals(change: dict[str, t.Any], new: str, words: str) -> None:
    plan = rename_plan.plan(_facts(**change), "a", new, _OWNER)
    assert not plan.steps
    assert words in "; ".join(plan.refusals)


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("{log}/a-console.log", ("{log}/a-console.log", "{log}/b-console.log")),
        ("{log}/b-console.log", ("{log}/a-console.log", "{log}/b-console.log")),
        ("{nvram}/a_VARS.fd", ("{nvram}/a_VARS.fd", "{nvram}/{uuid}_VARS.fd")),
        ("{nvram}/{uuid}_VARS.fd", ("{nvram}/a_VARS.fd", "{nvram}/{uuid}_VARS.fd")),
        ("{nvram}/ab_VARS.fd", None),
        ("/elsewhere/a_VARS.fd", None),
        ("{log}/c-console.log", None),
    ],
)
def test_only_files_in_libvirts_own_folders_are_renamed(
    path: str, names: tuple[str, str] | None
) -> None:
    folders = {
        "log": rename_plan.LOG_FOLDER,
        "nvram": rename_plan.NVRAM_FOLDER,
        "uuid": _UUID,
    }
    found = rename_plan.names_of(path.format(**folders), "a", "b", _UUID)
    wanted = None if names is None else tuple(one.format(**folders) for one in names)
    assert found == wanted


def _vm(name: str, phase: str | None = None, before: str | None = None) -> dict[str, t.Any]:
    return {"name": name, "uuid": name, "phase": phase, "managed": True, "renamed_from": before}


def _fleet(*hosts: list[dict[str, t.Any]]) -> rename_decision.Fleet:
    answers = {f"hv{number}": {"defined": vms} for number, vms in enumerate(hosts, 1)}
    return located.sort(answers, "defined", list(answers), [])


def _decided(new: str, seen: rename_decision.Fleet) -> str:
    return rename_decision.decide("a", new, seen, rename_decision.standing(seen, {}, []))


def test_it_is_renamed_where_it_is() -> None:
    assert _decided("b", _fleet([], [_vm("a")])) == "hv2"
    assert _decided("A", _fleet([], [_vm("a")])) == "hv2"
    # begun, or done before
    for phase in ("renaming", None):
        assert _decided("b", _fleet([_vm("b", phase, "a")], [])) == "hv1"


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        (([_vm("a")], [_vm("b")]), "'b' is on hv2 (a VM)"),
        (([_vm("a")], [_vm("B", "creating")]), "'B' is on hv2 (in phase creating)"),
        (([_vm("a"), _vm("b")], []), "'b' is on hv1"),
        (([_vm("a")], [{**_vm("a"), "uuid": "other"}]), "'a' is defined on hv1 and hv2"),
        (([], []), "no hypervisor has a VM 'a'"),
        # another VM has got the old name since
        (([_vm("a")], [_vm("b", None, "a")]), "'b' is on hv2"),
    ],
)
def test_a_name_that_is_not_certainly_free_is_refused(hosts: t.Any, words: str) -> None:
    with pytest.raises(PlanRefused) as told:
        _decided("b", _fleet(*hosts))
    assert words in str(told.value)


def _machine(number: int) -> str:
    return f"0000000{number}-0000-4000-8000-000000000000"


def _seen(*silent: str, **held: t.Any) -> tuple[rename_decision.Fleet, rule.Standing]:
    """Three hypervisors, of which hv1 has the VM, and hv2 holds notes, with what is known then."""
    answers = {
        host: {"defined": [_vm("a")] if host == "hv1" else [], "machine": _machine(int(host[2:]))}
        for host in ("hv1", "hv2", "hv3")
    }
    answers["hv2"]["notes"] = [*held]
    down = {"msg": "gone", "unreachable": True}
    seen = located.sort(
        {**answers, **dict.fromkeys(silent, down)},
        "defined",  # type: ignore[arg-type]
        [*answers],
        [],
    )
    texts = {volume: text for volume, text in held.items() if text}
    return seen, rename_decision.standing(seen, texts, [])


def _noted(*names: str) -> dict[str, str]:
    """What hv2 noted of hv3."""
    vms = [
        {"name": name, "uuid": f"u-{name}", "macs": [], "addresses": [], "groups": []}
        for name in names
    ]
    text = note.text_of("hv3", [{**vm, "active": True, "managed": True} for vm in vms])
    return {note.reading(_machine(3), 1_795_851_165_300, text).volume: note.packed(text)}


@pytest.mark.parametrize(
    ("silent", "noted", "words"),
    [
        ((), {}, ""),
        (("hv3",), _noted("c"), ""),
        (("hv3",), {}, "nothing is known of what hv3 had"),
        (("hv3",), _noted("b"), "a VM named 'b' is on hv3, which does not answer, as hv2 noted"),
        (("hv2", "hv3"), {}, "1 of 3 hypervisors answered; more than half must"),
    ],
    ids=["all answer", "noted", "nothing noted", "taken", "half"],
)
def test_new_name_needs_names_rule_before_and_after(
    silent: tuple[str, ...], noted: dict[str, str], words: str
) -> None:
    seen, known = _seen(*silent, **noted)
    after = rename_decision.confirm("a", "b", "hv1", seen, known, "r", [])
    if words:
        with pytest.raises(PlanRefused, match=words):
            rename_decision.decide("a", "b", seen, known)
        assert words in after
        assert "-e virt_unasked=" in after
    else:
        assert rename_decision.decide("a", "b", seen, known) == "hv1"
        assert after == ""


def test_name_that_another_run_claimed_meanwhile_is_given_back() -> None:
    """Its VM may be on a hypervisor that this controller does not see."""
    run, own = "11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002"
    claims = {who: note.Claim(_machine(5), 7, who, "name", "b").volume for who in (run, own)}
    _before, known = _seen()
    for who, problem in ((run, "name b was claimed meanwhile by another run"), (own, "")):
        after, _known = _seen(**{claims[who]: ""})
        said = rename_decision.confirm("a", "b", "hv1", after, known, own, [])
        assert said.startswith(problem)
        assert bool(said) == bool(problem)
        old = rename_decision.claims(after)
        assert old == [claims[who]]
        assert not rename_decision.confirm("a", "b", "hv1", after, known, own, old)


def test_new_name_of_another_vm_is_a_conflict_afterwards() -> None:
    taken = [_vm("b", "renaming", "a")]
    free, both = _fleet(taken, []), _fleet(taken, [_vm("b")])
    known = rename_decision.standing(free, {}, [])
    assert rename_decision.confirm("a", "b", "hv1", free, known, "r", []) == ""
    assert "'b' is on hv2" in rename_decision.confirm("a", "b", "hv1", both, known, "r", [])


def test_what_is_told() -> None:
    good = {"name": "b", "changed": True, "failed": False, "msg": None, "kept": []}
    good["steps"] = ["rename a to b"]
    text, failures = rename_decision.report(
        "a", "b", "hv1", {"hv1": {"vms": [good]}}, "", check=False
    )
    assert "renamed" in text
    assert failures == []
    answers: dict[str, t.Any] = {"hv1": {"vms": [{**good, "changed": False}]}}
    text, failures = rename_decision.report("a", "b", "hv1", answers, "'b' is on hv2", check=False)
    assert "failed" in text
    assert failures == ["'a' is not renamed to 'b': 'b' is on hv2; it has its old name again"]
    assert rename_decision.report("a", "b", "hv1", {}, "", check=False)[1]


def test_report_of_failed_rename_names_host_of_vm() -> None:
    for answers, problem in (({}, ""), ({"hv2": {"vms": []}}, "'b' is on hv1")):
        failures = rename_decision.report("a", "b", "hv2", answers, problem, check=False)[1]
        assert [*by_host(failures, ["hv1", "hv2"])] == ["hv2"]


def test_report_of_two_stages_is_that_of_check_mode() -> None:
    path = {"path": "/srv/a.iso", "reason": "it does not belong to 'a'"}
    whole = {"name": "b", "changed": True, "failed": False, "msg": None, "kept": [path]}
    steps = ["mark a", "rename a to b", "mark b as complete"]
    predicted = rename_decision.report(
        "a", "b", "hv1", {"hv1": {"vms": [{**whole, "steps": steps}]}}, "", check=True
    )
    taken = {"hv1": {"vms": [{**whole, "steps": steps[:-1]}]}}
    ended = {"hv1": {"vms": [{**whole, "kept": [], "steps": steps[-1:]}]}}
    real = rename_decision.report("a", "b", "hv1", ended, "", check=False, taken=taken)
    assert predicted[0].replace("would be renamed", "renamed").split() == real[0].split()
    assert "keep the name of /srv/a.iso: it does not belong to 'a'" in real[0]
    assert predicted[1] == real[1] == []


@pytest.mark.parametrize(
    ("name", "old", "new", "after"),
    [
        ("web1_system.qcow2", "web1", "web9", "web9_system.qcow2"),
        ("legacy1.qcow2", "legacy1", "new", "new.qcow2"),
        ("legacy1-1.qcow2", "legacy1", "new", "new-1.qcow2"),
        ("legacy10.qcow2", "legacy1", "new", None),
        ("data.qcow2", "legacy1", "new", None),
        ("web.example.qcow2", "web", "web.example", None),
        ("web.qcow2", "web", "web.example", "web.example.qcow2"),
        ("web.example.qcow2", "web.example", "web", "web.qcow2"),
        ("web-2_system.qcow2", "web-2", "web", "web_system.qcow2"),
    ],
)
def test_volume_named_after_its_vm_gets_the_new_name(
    name: str, old: str, new: str, after: str | None
) -> None:
    found = rename_plan.volume_name(f"/pool/{name}", old, new)
    assert found == (None if after is None else f"/pool/{after}")
    if after is not None:  # a second run leaves it alone
        assert rename_plan.volume_name(f"/pool/{after}", old, new) is None


def test_volumes_that_keep_their_names_are_named_with_the_reason() -> None:
    own = [
        OwnVolume("default", name, f"/pool/{name}", "vda", "disk", "1")
        for name in ("a.qcow2", "b_data.qcow2", "odd.qcow2")
    ]
    disks = ["/pool/a.qcow2", "/srv/shared.iso"]
    assert dict(rename_plan.kept(own, disks, "a", "b")) == {
        "/pool/odd.qcow2": "it is not named after 'a'",
        "/srv/shared.iso": "it does not belong to 'a'",
    }
