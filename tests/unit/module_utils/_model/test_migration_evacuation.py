# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which VMs leave a hypervisor or come back to it, where they go, and why others do not."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._model import placement
from ansible_collections.fleet.virt.plugins.module_utils._model.migration_decision import Decision
from ansible_collections.fleet.virt.plugins.module_utils._model.migration_evacuation import (
    come_back,
    leave,
)

from .test_migration_decision import answer, vm

Answers = dict[str, dict[str, t.Any]]


def fleet(answers: Answers, *marked: str) -> list[placement.PlacementHost]:
    hosts = [placement.host_from_info(one["host"], {}, name=name) for name, one in answers.items()]
    return [dataclasses.replace(host, maintenance=host.name in marked) for host in hosts]


def emptied(answers: Answers, *marked: str, mute: dict[str, str] | None = None) -> Decision:
    return leave("hv1", answers, fleet(answers, *marked), mute or {}, placement.Policy())


def returned(answers: Answers, *marked: str) -> Decision:
    return come_back("hv1", answers, fleet(answers, *marked), {}, placement.Policy())


def test_all_leave_the_largest_first_and_none_stays_for_another() -> None:
    """Two hypervisors of 8 GiB: only the order lets all of them fit."""
    small = [vm(f"small{number}", memory_mib=2048) for number in range(2)]
    answers = {
        "hv1": answer(*small, vm("large", memory_mib=6144), memory=16384),
        "hv2": answer(),
        "hv3": answer(vm("there", memory_mib=3072)),
    }
    found = emptied(answers)
    assert found.problems == []
    assert dict(found.shares["hv1"])["large"] == "hv2"
    assert {name for name, _ in found.shares["hv1"]} == {"large", "small0", "small1"}
    assert found.shares == emptied(answers, "hv1").shares, "its mark makes no difference"


def test_one_that_fits_nowhere_stays_and_is_told() -> None:
    answers = {
        "hv1": answer(vm("huge", memory_mib=12000), vm("web1"), memory=16384),
        "hv2": answer(),
    }
    found = emptied(answers)
    assert found.shares == {"hv1": [("web1", "hv2")]}
    (problem,) = found.problems
    assert problem.startswith("huge fits nowhere. ")
    assert "hv2: needs 12000 MiB" in problem


def test_nothing_goes_to_a_hypervisor_in_maintenance() -> None:
    answers = {"hv1": answer(vm("web1")), "hv2": answer(), "hv3": answer()}
    assert emptied(answers, "hv2").shares == {"hv1": [("web1", "hv3")]}


def test_what_an_earlier_run_began_is_finished() -> None:
    move = {"source": "hv1", "destination": "hv3", "run": "r", "autostart": "no"}
    there = vm("web1", phase="migrating", move=move)
    answers = {"hv1": answer(vm("web2")), "hv2": answer(), "hv3": answer(there)}
    shares = dict(emptied(answers).shares["hv1"])
    assert shares["web1"] == "hv3"
    assert set(shares) == {"web1", "web2"}


def on_its_way(**changes: t.Any) -> Answers:
    """web1 from hv1 to hv3, where libvirt has it without marks, and nobody asked about it."""
    move = {"source": "hv1", "destination": "hv3", "run": "r", "autostart": "no"}
    here = vm("web1", phase="migrating", move=move)
    answers = {"hv1": answer(here), "hv2": answer(), "hv3": answer(vm("web1", **changes))}
    answers["hv3"]["vms"] = []
    return answers


def test_one_that_still_travels_is_joined() -> None:
    found = emptied(on_its_way())
    assert found.problems == []
    assert found.shares == {"hv1": [("web1", "hv3")]}


def test_another_of_the_name_where_it_goes_is_not_the_one_that_travels() -> None:
    found = emptied(on_its_way(uuid="another"))
    assert found.shares == {}
    assert "defined on hv1 and hv3" in found.problems[0]


def test_a_vm_that_is_there_twice_is_left_alone() -> None:
    answers = {"hv1": answer(vm("web1")), "hv2": answer(vm("web1")), "hv3": answer()}
    answers["hv2"]["vms"] = []  # nobody asked hv2 about it
    found = emptied(answers)
    assert found.shares == {}
    assert "defined on hv1 and hv2" in found.problems[0]


def test_a_silent_hypervisor_may_have_them_too() -> None:
    answers = {"hv1": answer(vm("web1")), "hv2": answer()}
    with pytest.raises(PlanRefused, match="hv3: no route"):
        emptied(answers, mute={"hv3": "no route"})


def test_an_unknown_hypervisor() -> None:
    answers = {"hv2": answer()}
    with pytest.raises(PlanRefused, match="hv1 is no hypervisor of this play; there are: hv2"):
        emptied(answers)
    with pytest.raises(PlanRefused, match="hv1 is no hypervisor of this play; there are: hv2"):
        returned(answers)


def test_those_come_back_that_were_made_there_as_far_as_they_fit() -> None:
    answers = {
        "hv1": answer(vm("stays", home="hv1")),
        "hv2": answer(vm("web1", home="hv1"), vm("huge", home="hv1", memory_mib=9000)),
        "hv3": answer(vm("web2", home="hv1"), vm("other", home="hv3")),
    }
    found = returned(answers, "hv1")
    assert found.shares == {"hv2": [("web1", "hv1")], "hv3": [("web2", "hv1")]}
    (problem,) = found.problems
    assert problem.startswith("huge fits nowhere. ")
    assert "hv1: needs 9000 MiB" in problem
