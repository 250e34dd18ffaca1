# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The order of rolling work: every row of the table of marks, refusals, several at once."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.proofs import Silence
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import evacuation
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import decide as placement
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rolling import plan, report
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rolling.marks import Progress
from ansible_collections.fleet.virt.tests.unit.foresight.test_foresight import (
    Answers,
    answer,
    hosts,
    vm,
)

_SILENT = {"hv9": Silence("no route to host")}
_FLEET = plan.Fleet(t.cast("plan.Hosts", hosts), _SILENT, placement.Policy())


def _vm(name: str, memory: int = 512, **changes: t.Any) -> dict[str, t.Any]:
    return vm(name, memory, **{"active": True, **changes})


def _three() -> Answers:
    return {
        "hv1": answer(_vm("a"), _vm("b")),
        "hv2": answer(_vm("c")),
        "hv3": answer(),
    }


def _planned(
    answers: Answers, progress: dict[str, Progress] | None = None, **options: t.Any
) -> plan.RollingPlan:
    selected = options.pop("selected", [*answers])
    return plan.plan(selected, answers, progress or {}, _FLEET, **options)


def _hosts(rolling: plan.RollingPlan) -> list[list[str]]:
    return [turn.hosts for turn in rolling.turns]


def test_all_hypervisors_have_a_turn_in_the_order_given() -> None:
    rolling = _planned(_three())
    assert _hosts(rolling) == [["hv1"], ["hv2"], ["hv3"]]
    assert {name for name, _source, _to in rolling.turns[0].moves} == {"a", "b"}
    assert rolling.turns[2].moves == []
    text = report.plan_text(rolling)
    assert "hv2         c to hv" in text


@pytest.mark.parametrize(
    ("progress", "maintenance", "turns", "passed"),
    [
        (Progress(), False, [("hv1", True, False), ("hv2", True, False)], []),
        (Progress(), True, [("hv1", True, False)], []),
        (Progress(begun=True), True, [("hv2", True, True), ("hv1", True, False)], []),
        (Progress(begun=True), False, [("hv1", True, False), ("hv2", True, False)], []),
        (Progress(True, 5), True, [("hv2", False, True), ("hv1", True, False)], []),
        (Progress(True, 5), False, [("hv2", False, True), ("hv1", True, False)], []),
        (Progress(passed=5), True, [("hv1", True, False)], ["hv2"]),
        (Progress(passed=5), False, [("hv1", True, False)], ["hv2"]),
    ],
)
def test_what_an_interrupted_run_left_decides_the_turn(
    progress: Progress, maintenance: bool, turns: list[tuple[str, bool, bool]], passed: list[str]
) -> None:
    answers = _three()
    answers["hv2"]["host"]["maintenance"] = maintenance
    rolling = _planned(answers, {"hv2": progress}, selected=["hv1", "hv2"])
    assert [(turn.hosts[0], turn.work, turn.resumed) for turn in rolling.turns] == turns
    assert list(rolling.passed) == passed
    left_out = len(turns) + len(passed) < 2
    assert ("not for this" in rolling.left_out.get("hv2", "")) is left_out


def test_silent_hypervisor_is_left_out_with_its_reason() -> None:
    rolling = _planned(_three(), selected=["hv9", "hv1"])
    assert rolling.left_out == {"hv9": "no route to host"}
    assert _hosts(rolling) == [["hv1"]]
    assert "hv9: left out: no route to host" in report.plan_text(rolling)


def test_running_vm_that_cannot_leave_refuses_all_before_anything() -> None:
    answers = _three()
    answers["hv2"] = answer(_vm("huge", 7000))
    answers["hv1"] = answer(*(_vm(f"vm{number}", 3000) for number in range(2)))
    answers["hv3"] = answer(*(_vm(f"on{number}", 2000) for number in range(3)))
    with pytest.raises(PlanRefused, match=r"hv2 cannot be emptied: huge would stay .*skip_unmov"):
        _planned(answers, selected=["hv2"])
    rolling = _planned(answers, selected=["hv2"], skip_unmovable=True)
    assert rolling.turns == []
    assert list(rolling.skipped) == ["hv2"]
    assert "hv2: skipped, as requested: huge would stay" in report.plan_text(rolling)


def test_vm_that_is_off_and_cannot_leave_stays() -> None:
    answers = {"hv1": answer(_vm("huge", 8000, active=False)), "hv2": answer(_vm("c", 4000))}
    rolling = _planned(answers, selected=["hv1"])
    assert _hosts(rolling) == [["hv1"]]
    assert rolling.turns[0].moves == []
    assert any("huge" in note for note in rolling.turns[0].notes)


def test_unreadable_vm_does_not_count_as_shut_off() -> None:
    answers = {"hv1": answer(_vm("ill", active=False, error="no XML")), "hv2": answer()}
    with pytest.raises(PlanRefused, match=r"ill would stay .*which cannot read it: no XML"):
        _planned(answers, selected=["hv1"])


def test_as_many_at_once_as_the_others_can_take() -> None:
    answers = {f"hv{number}": answer(_vm(f"vm{number}", 2600)) for number in range(1, 6)}
    assert _hosts(_planned(answers, serial=1)) == [["hv1"], ["hv2"], ["hv3"], ["hv4"], ["hv5"]]
    pairs = _planned(answers, serial=2)
    assert _hosts(pairs) == [["hv1", "hv2"], ["hv3", "hv4"], ["hv5"]]
    assert {to for _name, _source, to in pairs.turns[0].moves} <= {"hv3", "hv4", "hv5"}
    for full in ("hv3", "hv4", "hv5"):
        answers[full] = answer(_vm(f"big on {full}", 6000))
    assert _hosts(_planned(answers, selected=["hv1", "hv2"], serial=2)) == [["hv1"], ["hv2"]]


def test_vms_of_what_was_begun_count_as_returned_for_the_others() -> None:
    away = _vm("a", 5000, evacuated_from=["hv1"])
    answers = {"hv1": answer(maintenance=True), "hv2": answer(away), "hv3": answer(_vm("c", 5000))}
    begun = {"hv1": Progress(begun=True)}
    with pytest.raises(PlanRefused, match="c would stay"):
        _planned({**answers, "hv1": answer(maintenance=True)}, selected=["hv3"])
    rolling = _planned(answers, begun)
    assert _hosts(rolling) == [["hv1"], ["hv2"], ["hv3"]]
    assert answers["hv1"]["host"]["maintenance"] is True


@pytest.mark.parametrize("partly", [False, True])
def test_return_with_silent_third_hypervisor_succeeds_in_rolling_work(partly: bool) -> None:
    answers = _three()
    returning = evacuation.come_back(
        "hv1", answers, hosts(answers), _SILENT, placement.Policy(), partly=partly
    )
    told, other = returning.notes, returning.problems
    if not partly:
        told, other = other, told
    assert other == []
    assert "VMs of hv1 on a hypervisor that did not respond are not returned now" in told[0]


def _of_cell(
    number: int, *online: str, quorate: bool = True, device: bool | None = None
) -> Answers:
    """So many members of a cell, as each of them that is ``online`` sees it."""
    members = [f"hv{index}" for index in range(1, number + 1)]
    cell = {"name": "a", "members": members, "running": True, "quorate": quorate, "unclean": []}
    cell["device"] = device
    alone = {**cell, "quorate": False, "online": []}
    return {
        name: answer(cell={**cell, "online": [*online]} if name in online else alone)
        for name in members
    }


def test_member_that_its_cell_needs_for_its_quorum_is_left_out() -> None:
    answers = _of_cell(3, "hv1", "hv2")
    rolling = _planned(answers)
    assert _hosts(rolling) == [["hv3"]], "its cell does without that already"
    assert list(rolling.left_out) == ["hv1", "hv2"]
    assert rolling.left_out["hv1"] == (
        "without hv1, 1 of the 3 members of the cell 'a' would be online (hv3 not online), which is"
        " no majority, so it would stop all its VMs"
    )
    answers["hv1"]["host"]["maintenance"] = True
    begun = _planned(answers, {"hv1": Progress(begun=True), "hv2": Progress(passed=5)})
    assert _hosts(begun) == [["hv3"]]
    assert list(begun.left_out) == ["hv1"]
    returning = _planned(answers, {"hv1": Progress(True, 5)}, selected=["hv1"])
    assert _hosts(returning) == [["hv1"]], "nothing is done there, its VMs return"


@pytest.mark.parametrize(
    ("number", "serial", "turns"),
    [(3, 3, 3), (4, 2, 4), (5, 3, 3), (7, 3, 3)],
)
def test_cell_keeps_its_quorum_where_several_are_worked_on_at_once(
    number: int, serial: int, turns: int
) -> None:
    members = [f"hv{index}" for index in range(1, number + 1)]
    rolling = _planned(_of_cell(number, *members), serial=serial)
    assert len(rolling.turns) == turns
    assert all(2 * (number - len(turn.hosts)) > number for turn in rolling.turns)


def test_pair_is_worked_on_while_its_quorum_device_votes() -> None:
    assert _hosts(_planned(_of_cell(2, "hv1", "hv2", device=True))) == [["hv1"], ["hv2"]]
    for device in (False, None):
        rolling = _planned(_of_cell(2, "hv1", "hv2", device=device))
        assert list(rolling.left_out) == ["hv1", "hv2"]
        assert ("quorum device does not vote" in rolling.left_out["hv1"]) is (device is False)
    blind = _of_cell(2, "hv1", "hv2", device=True)
    blind["hv2"]["host"]["cell"]["device"] = False
    assert list(_planned(blind).left_out) == ["hv1", "hv2"], "hv2 would be alone without its vote"


@pytest.mark.parametrize(
    ("device", "turns"),
    [(True, [["hv1", "hv2"], ["hv3", "hv4"]]), (False, [["hv1"], ["hv2"], ["hv3"], ["hv4"]])],
)
def test_vote_of_quorum_device_decides_how_many_are_worked_on(
    device: bool, turns: list[list[str]]
) -> None:
    answers = _of_cell(4, "hv1", "hv2", "hv3", "hv4", device=device)
    assert _hosts(_planned(answers, serial=2)) == turns


def test_cell_without_quorum_is_worked_on() -> None:
    lost = _of_cell(3, "hv1", quorate=False)
    assert _hosts(_planned(lost)) == [["hv1"], ["hv2"], ["hv3"]]


@pytest.mark.parametrize("serial", [1, 2])
def test_foreign_vm_that_is_off_stays_and_a_running_vm_refuses_all(serial: int) -> None:
    answers = _three()
    answers["hv1"] = answer(_vm("a"), _vm("theirs", active=False, foreign=True))
    rolling = _planned(answers, serial=serial)
    moves = [name for turn in rolling.turns for name, _source, _to in turn.moves]
    assert "theirs" not in moves
    assert {"a", "c"} <= {*moves}
    told = " ".join(note for turn in rolling.turns for note in turn.notes)
    assert serial == 2 or "'theirs' stays on hv1: it was not made by this collection" in told
    answers["hv1"] = answer(_vm("a"), _vm("theirs", foreign=True))
    with pytest.raises(PlanRefused, match=r"hv1 cannot be emptied: theirs would stay .*virt.adopt"):
        _planned(answers, serial=serial)
