# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A VM that an answer describes wrongly fails alone; what identifies it stays known."""

from __future__ import annotations

import sys
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.adoption import decide as adoption
from ansible_collections.fleet.virt.plugins.module_utils._fleet.adoption.facts import AdoptLook
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import answers
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import located
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import decide as migration
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.facts import MigrateLook
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes import rule
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.facts import Placing
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import fleet_plan
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.facts import Compared
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge import decide as purge
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge import report as purge_report
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge.facts import Purged, PurgeLook
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rename import decide as rename
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rename.facts import RenameLook
from ansible_collections.fleet.virt.plugins.module_utils._fleet.snapshots import (
    verb as snapshots,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.snapshots.facts import SnapshotLook
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import Defaults
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state import decide as state
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state.facts import StateLook
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state.plan import StateRequest

pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 10), reason="3.9 cannot evaluate X | None; controllers have 3.11"
)
_MAC = "52:54:00:00:00:07"


def _vm(name: str, **more: object) -> dict[str, t.Any]:
    return {"name": name, "uuid": f"uuid of {name}", "phase": None, **more}


def _sound(kind: type[t.Any], **lists: object) -> t.Any:
    return answers.read(lists, kind)


def test_purge_broken_vm_is_refused_and_others_are_not() -> None:
    volume = {"path": "/a", "shared": False, "pool_id": None}
    look = _sound(
        PurgeLook,
        vms=[
            _vm("good", groups=[], volumes=[volume]),
            _vm("bad", groups=[], volumes=[{**volume, "shared": "no"}]),
        ],
    )
    seen = located.sort({"hv1": look}, "vms", None, [])
    assert purge.decide(["good"], seen).shares == {"hv1": ["good"]}
    with pytest.raises(PlanRefused, match=r"^'bad' on hv1: .*vms\[1\].volumes\[0\].shared is text"):
        purge.decide(["good", "bad"], seen)


def test_rename_name_of_broken_vm_is_taken() -> None:
    vms = [_vm("good", managed=True, renamed_from=None), _vm("bad", managed=3, renamed_from=None)]
    seen = located.sort({"hv1": _sound(RenameLook, defined=vms)}, "defined", None, [])
    known = rule.Standing()
    assert rename.decide("good", "other", seen, known) == "hv1"
    with pytest.raises(PlanRefused, match="'bad' is on hv1"):
        rename.decide("good", "BAD", seen, known)
    with pytest.raises(PlanRefused, match="'bad' on hv1: its response"):
        rename.decide("bad", "other", seen, known)


def test_adoption_uuid_and_mac_of_broken_vm_are_taken() -> None:
    new = _vm("new", candidate=True, specification={"name": "new"}, problems=[], carried=None)
    defined = [
        {**_vm("new"), "macs": [_MAC]},
        {**_vm("bad"), "macs": [_MAC.upper(), 7]},
        {**_vm("worse"), "uuid": "uuid of new", "phase": 7, "macs": []},
    ]
    look = _sound(
        AdoptLook, vms=[{**new, "refused": [], "left_out": []}], defined=defined, pool_ids=[]
    )
    seen = located.sort({"hv1": look}, "defined", None, [])
    (refused,) = adoption.decide(["new"], None, seen, [], Defaults()).refused
    assert f"'bad' on hv1 also has the MAC address {_MAC}" in refused
    assert "'worse' on hv1 has the same UUID uuid of new" in refused


def test_snapshot_listing_shows_others_and_names_broken_vm() -> None:
    snapshot = {"name": "a", "parent": None, "current": True, "created": 1, "state": None}
    snapshot.update(kind="internal", managed=True)
    vms = [
        _vm("good", groups=[], snapshots=[snapshot]),
        _vm("bad", groups=[], snapshots=[{**snapshot, "current": 1}]),
    ]
    seen = located.sort({"hv1": _sound(SnapshotLook, vms=vms)}, "vms", None, [])
    text, (problem,) = snapshots.listing([], seen)
    assert "good" in text
    assert problem.startswith("bad on hv1: its response")


def test_state_broken_vm_of_group_is_named() -> None:
    vms = [_vm("good", groups=["web"], start_order=1), _vm("bad", groups="web", start_order=1)]
    seen = located.sort({"hv1": _sound(StateLook, vms=vms)}, "vms", None, [])
    assert state.decide(["good"], [], seen, StateRequest("running")).shares == {"hv1": ["good"]}
    with pytest.raises(PlanRefused, match="'bad' on hv1: its response"):
        state.decide([], ["web"], seen, StateRequest("running"))


def test_purged_broken_result_is_a_failure_of_that_vm() -> None:
    done = {"changed": True, "failed": False, "msg": None, "removed": [], "kept": []}
    vms = [{**_vm("good"), **done}, {**_vm("bad"), **done, "removed": [{"kind": 3}]}]
    answer = _sound(Purged, vms=vms)
    text, (failure,) = purge_report.report(
        ["good", "bad"], {"hv1": ["good", "bad"]}, {"hv1": answer}, check=False
    )
    assert failure.startswith("bad on hv1: its response")
    assert [line.split()[2] for line in text.splitlines() if line.startswith("bad")] == ["failed"]


@pytest.mark.parametrize(
    ("vm", "part"),
    [
        ({"name": " ", "uuid": None, "phase": None, "groups": []}, "name is text"),
        ({"uuid": None, "phase": None, "groups": []}, "name is missing"),
        ({"name": None}, "name is null"),
        ("web1", "is text"),
    ],
)
def test_vm_without_name_silences_its_hypervisor(vm: object, part: str) -> None:
    good = _vm("good", groups=[], start_order=None)
    with pytest.raises(answers.UnsoundAnswerError, match=rf"vms\[1\].*{part}"):
        answers.read({"vms": [good, vm]}, StateLook)


def test_no_answer_is_left_to_its_reader() -> None:
    for answer in ({}, {"vms": None}, {"failed": True, "msg": 3, "other": [1]}):
        assert answers.read(answer, StateLook) == answer


_HOST = {
    "name": "hv1",
    "arch": "x86_64",
    "cpu": {"total": 8, "defined": 1},
    "memory_mib": {"total": 8192, "defined": 512},
    "networks": [],
    "pools": [],
}
_PLACED = {"macs": [_MAC], "active": True, "phase": None, "groups": []}


def test_placement_broken_vm_silences_its_hypervisor() -> None:
    vms = [{**_vm("good"), **_PLACED}, {**_vm("bad"), **_PLACED, "groups": 7}]
    with pytest.raises(answers.UnsoundAnswerError, match=r"host.vms\[1\].groups is a number"):
        _sound(Placing, host={**_HOST, "vms": vms})


def test_plan_vm_that_was_compared_wrongly_is_unknown() -> None:
    vms = [{**_vm(name), **_PLACED} for name in ("good", "bad")]
    compared = {"name": "good", "differences": [], "drift": False, "pending": []}
    answer = _sound(
        Compared,
        host={**_HOST, "vms": vms},
        vms=[compared, {**compared, "name": "bad", "differences": "none"}],
    )
    entries = fleet_plan.compare(["good", "bad"], {"hv1": answer}, {}, "")
    assert {entry.name: entry.action for entry in entries} == {
        "good": "unchanged",
        "bad": "unknown",
    }


def _moving(name: str, **more: object) -> dict[str, t.Any]:
    texts = dict.fromkeys(("zone", "domain_type", "arch", "move", "error"))
    lists: dict[str, t.Any] = {
        key: [] for key in ("groups", "affinity", "anti_affinity", "tags", "evacuated_from")
    }
    lists.update({key: [] for key in ("bridges", "networks", "nwfilters", "disks", "media")})
    lists["names"] = []
    flags = dict.fromkeys(("persistent", "active", "vsock", "ha"), True)
    return {**_vm(name), **texts, **lists, **flags, "vcpus": 1, "memory_mib": 512, **more}


def test_repair_broken_vm_is_a_problem_of_its_own() -> None:
    vms = [_moving("good"), _moving("bad", phase=7)]
    look = _sound(MigrateLook, host={**_HOST, "vms": []}, vms=vms, claims=[])
    decision = migration.repair([], {"hv1": look}, {})
    (problem,) = decision.problems
    assert problem.startswith("whether 'bad' on hv1 is in a move is not known: its response")
    assert "good" in decision.settled
