# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which VMs leave a hypervisor or come back to it, where they go, and why others do not."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.proofs import Silence
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.decide import (
    MigrationDecision,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.evacuation import (
    come_back,
    leave,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import decide as placement

from .test_decide import DOWN, answer, vm

Answers = dict[str, dict[str, t.Any]]
Mute = dict[str, Silence]


def fleet(answers: Answers, *marked: str) -> list[placement.PlacementHost]:
    hosts = [placement.host_from_info(one["host"], {}, name=name) for name, one in answers.items()]
    return [dataclasses.replace(host, maintenance=host.name in marked) for host in hosts]


def emptied(answers: Answers, *marked: str, mute: Mute | None = None) -> MigrationDecision:
    return leave("hv1", answers, fleet(answers, *marked), mute or {}, placement.Policy())


def returned(answers: Answers, *marked: str, mute: Mute | None = None) -> MigrationDecision:
    return come_back("hv1", answers, fleet(answers, *marked), mute or {}, placement.Policy())


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


def test_one_whose_disk_lies_in_no_pool_stops_no_other() -> None:
    disk = {"path": "/srv/web2.qcow2", "bytes": 1 << 30, "backing": None}
    answers = {"hv1": answer(vm("web1"), vm("web2", disks=[disk])), "hv2": answer()}
    found = emptied(answers)
    assert found.shares == {"hv1": [("web1", "hv2")]}
    (problem,) = found.problems
    assert problem.startswith("web2 fits nowhere. ")
    assert "/srv" in problem
    disk["path"] = None
    found = emptied(answers)
    assert found.shares == {"hv1": [("web1", "hv2")]}
    assert found.problems == [
        "'web2' stays on hv1: it has a disk that is no file; only files can move"
    ]


def test_vms_of_cell_leave_for_its_members_and_others_for_any() -> None:
    answers = {
        "hv1": answer(
            vm("ha1", ha=True, memory_mib=3072), vm("web1", ha=False), offers={"cell": "a"}
        ),
        "hv2": answer(vm("there", memory_mib=3072), offers={"cell": "a"}),
        "hv3": answer(offers={}),
    }
    assert emptied(answers).shares == {"hv1": [("ha1", "hv2"), ("web1", "hv3")]}
    gone = {**answers, "hv2": answer(offers={"cell": None})}
    left = emptied(gone)
    assert [name for name, _to in left.shares["hv1"]] == ["web1"]
    (problem,) = left.problems
    assert problem.startswith("ha1 fits nowhere. ")
    home = {
        "hv1": answer(offers={"cell": None}),
        "hv2": answer(vm("ha1", ha=True, evacuated_from=["hv1"]), offers={"cell": "a"}),
    }
    assert returned(home).shares == {}
    home["hv1"] = answer(offers={"cell": "a"})
    assert returned(home).shares == {"hv2": [("ha1", "hv1")]}


def test_relaxed_evacuation_breaks_anti_affinity_only_where_it_must() -> None:
    def defined(name: str) -> dict[str, t.Any]:
        return {
            "name": name,
            "uuid": f"uuid of {name}",
            "phase": None,
            "groups": ["web"],
            "anti_affinity": [],
        }

    rule = {"groups": ["web"], "anti_affinity": ["web"]}
    answers = {
        "hv1": answer(vm("web1", memory_mib=1024, **rule), vm("web2", **rule)),
        "hv2": answer(vms=[defined("web3")]),
        "hv3": answer(),
    }
    strict = emptied(answers)
    assert strict.shares == {"hv1": [("web1", "hv3")]}
    assert strict.notes == []
    assert "web2 fits nowhere" in strict.problems[0]
    assert strict.problems[1:] == [
        "only affinity or anti-affinity keeps web2 on hv1; -e virt_relax=true breaks it for this"
        " evacuation"
    ]
    relaxed = leave("hv1", answers, fleet(answers), {}, placement.Policy(), relax=True)
    assert dict(relaxed.shares["hv1"])["web1"] == "hv3"
    assert set(dict(relaxed.shares["hv1"])) == {"web1", "web2"}
    (note,) = relaxed.notes
    assert note.startswith(f"web2 to {dict(relaxed.shares['hv1'])['web2']}: ")
    assert "must keep away from" in note
    assert relaxed.problems == []


def test_evacuated_vms_stay_together_and_come_back_together() -> None:
    db = vm("db", groups=["db"], memory_mib=256)
    app = vm("app", groups=["app"], affinity=["db"], memory_mib=2048)
    answers = {"hv1": answer(db, app), "hv2": answer(), "hv3": answer()}
    found = emptied(answers)
    assert found.problems == []
    assert [name for name, _to in found.shares["hv1"]] == ["db", "app"]
    assert len({to for _name, to in found.shares["hv1"]}) == 1


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


def test_one_that_cannot_be_read_stays_and_is_told() -> None:
    ill = vm("ill", memory_mib=0, disks=[], error="/x.qcow2: no such file")
    answers = {"hv1": answer(ill, vm("web1")), "hv2": answer()}
    found = emptied(answers)
    assert found.shares == {"hv1": [("web1", "hv2")]}
    assert found.problems == ["'ill' stays on hv1, which cannot read it: /x.qcow2: no such file"]


def test_a_silent_one_takes_nothing_and_stops_nothing() -> None:
    answers = {"hv1": answer(vm("web1")), "hv2": answer()}
    found = emptied(answers, mute={"hv3": DOWN})
    assert (found.shares, found.problems) == ({"hv1": [("web1", "hv2")]}, [])
    half = vm("web2", phase="migrating", move={"source": "hv1", "destination": "hv3"})
    found = emptied({"hv1": answer(vm("web1"), half), "hv2": answer()}, mute={"hv3": DOWN})
    assert found.shares == {"hv1": [("web1", "hv2")]}
    assert "the move of 'web2' from hv1 to hv3 is unfinished, and hv3" in found.problems[0]


def test_nothing_is_marked_where_limit_leaves_nobody_to_take_the_vms() -> None:
    away = {"hv2": Silence("excluded by --limit", asked=False)}
    with pytest.raises(PlanRefused, match=r"VMs of hv1 \(hv2\).*run without --limit"):
        emptied({"hv1": answer(vm("web1"))}, mute=away)
    # one without VMs is marked, and so is one whose VMs find no room
    assert emptied({"hv1": answer()}, mute=away).problems == []
    crowded = emptied({"hv1": answer(vm("web1")), "hv3": answer(memory=1)}, mute=away)
    assert crowded.problems[0].startswith("web1 fits nowhere. ")


def test_one_that_was_just_coming_is_told() -> None:
    half = vm("web1", phase="migrating", move={"source": "hv2", "destination": "hv1"})
    found = emptied({"hv1": answer(vm("web1", persistent=False)), "hv2": answer(half)})
    assert found.shares == {"hv2": [("web1", "hv1")]}
    assert "was being moved to hv1" in found.problems[0]


def test_an_unknown_hypervisor_and_a_silent_one() -> None:
    answers = {"hv2": answer()}
    for act in (emptied, returned):
        with pytest.raises(PlanRefused, match="hv1 is no hypervisor of this play; there are: hv2"):
            act(answers)
        with pytest.raises(PlanRefused, match=r"hv1 did not respond \(no route\)"):
            act(answers, mute={"hv1": DOWN})


def test_those_come_back_that_were_evacuated_as_far_as_they_fit() -> None:
    gone = {"evacuated_from": ["hv1"]}
    answers = {
        "hv1": answer(vm("stays", **gone)),
        "hv2": answer(vm("web1", **gone), vm("huge", **gone, memory_mib=9000), vm("own")),
        "hv3": answer(vm("web2", evacuated_from=["hv1", "hv2"]), vm("other", evacuated_from=["x"])),
    }
    found = returned(answers, "hv1")
    assert found.shares == {"hv2": [("web1", "hv1")], "hv3": [("web2", "hv1")]}
    (problem,) = found.problems
    assert problem.startswith("huge fits nowhere. ")
    assert "hv1: needs 9000 MiB" in problem


def test_a_way_back_that_was_interrupted_is_ended_without_a_repair() -> None:
    move = {"source": "hv2", "destination": "hv1"}
    begun = vm("web1", phase="migrating", move=move, evacuated_from=["hv1"])
    arrived = vm("web2", phase="migrating", move=move, evacuated_from=["hv1"])
    found = returned({"hv1": answer(arrived), "hv2": answer(begun)})
    assert dict(found.shares["hv2"]) == {"web1": "hv1", "web2": "hv1"}
    assert found.problems == []


def test_nobody_says_that_all_are_back_while_one_is_silent() -> None:
    answers = {"hv1": answer(), "hv2": answer(vm("web1", evacuated_from=["hv1"]))}
    found = returned(answers, mute={"hv3": DOWN})
    assert found.shares == {"hv2": [("web1", "hv1")]}
    assert (
        "VMs of hv1 on a hypervisor that did not respond are not returned now" in found.problems[0]
    )
    away = {"hv3": Silence("it was not asked (--limit)", asked=False)}
    assert returned(answers, mute=away).problems == []


def test_a_source_of_which_one_domain_cannot_be_read_at_that_moment() -> None:
    """As libvirt says of one that is just moving: what the source has promised is not known then,
    which is no obstacle for leaving it."""
    answers = {"hv1": answer(vm("web1"), vm("web2")), "hv2": answer()}
    answers["hv1"]["host"]["errors"] = ["read domain web3: Domain not found"]
    found = emptied(answers)
    assert found.problems == []
    assert found.shares == {"hv1": [("web1", "hv2"), ("web2", "hv2")]}


@pytest.mark.parametrize("partly", [True, False])
@pytest.mark.parametrize("active", [True, False])
def test_foreign_vm_stays_and_is_no_failure_only_if_shut_off_vms_may(
    partly: bool, active: bool
) -> None:
    answers = {
        "hv1": answer(vm("theirs", active=active, foreign=True), vm("web1")),
        "hv2": answer(),
    }
    decision = leave("hv1", answers, fleet(answers), {}, placement.Policy(), partly=partly)
    assert decision.shares == {"hv1": [("web1", "hv2")]}
    told = decision.notes if partly and not active else decision.problems
    assert len(decision.notes) + len(decision.problems) == 1
    assert told[0].startswith("'theirs' stays on hv1: it was not made by this collection")
