# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a hypervisor has left of a VM never counts as the VM, and never hides one: all of its
places, in each decision that locates VMs."""

from __future__ import annotations

import itertools
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.selected import Selected
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards import leftover
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import located
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    decide as migration,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import evacuation
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import decide as placement
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.types import (
    Policy,
    Request,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import fleet_plan
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.fleet_plan import Place
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rename import decide as rename
from ansible_collections.fleet.virt.tests.unit.migration.test_decide import answer, vm

HOSTS = ("hv1", "hv2", "hv3")
# Of a hypervisor: nothing, the VM, a leftover, another VM of the name, a leftover of that
NOTHING, IT, LEFT, OTHER, OTHER_LEFT = range(5)


def entry(kind: int) -> dict[str, t.Any]:
    uuid = "a" if kind in (IT, LEFT) else "b"
    marks = {"leftover": "hv9"} if kind in (LEFT, OTHER_LEFT) else {}
    return {"name": "web1", "uuid": uuid, "phase": None, "groups": ["web"], **marks}


def expected(kinds: dict[str, int]) -> str | None:
    """The only hypervisor that has the VM, beside which there is nothing but leftovers of it."""
    real = [host for host, kind in kinds.items() if kind in (IT, OTHER)]
    if len(real) != 1:
        return None
    own = LEFT if kinds[real[0]] == IT else OTHER_LEFT
    rest = {kind for host, kind in kinds.items() if host != real[0]}
    return real[0] if rest <= {NOTHING, own} else None


def test_vm_is_where_no_leftover_is_in_every_state_of_three_hypervisors() -> None:
    """Other verbs find it where it is, and refuse what they cannot tell."""
    counted = 0
    for chosen in itertools.product(range(5), repeat=len(HOSTS)):
        kinds = dict(zip(HOSTS, chosen, strict=True))
        vms = {host: [entry(kind)] if kind else [] for host, kind in kinds.items()}
        where = expected(kinds)
        for selected in (Selected.of(["web1"]), Selected.of(["web*"]), Selected.of([], ["web"])):
            try:
                place = located.select(selected, vms, {})
            except PlanRefused:
                assert where is None
                assert not {*chosen} & {IT, OTHER}
                continue
            assert {name: host for name, (host, _vm) in place.places.items()} == (
                {} if where is None else {"web1": where}
            ), kinds
            assert bool(place.problems or place.absent) == (where is None), kinds
        kept = leftover.without({host: vms[host][0] for host in vms if vms[host]})
        assert {host for host, kind in kinds.items() if kind in (IT, OTHER)} <= {*kept}
        counted += 1
    assert counted == 125


def test_vm_is_not_sought_elsewhere_where_its_hypervisor_is_named() -> None:
    vms = {"hv1": [entry(IT)], "hv3": [entry(LEFT)]}
    named = located.select(Selected.of(["web1"]), vms, {}, host="hv1")
    assert [host for host, _vm in named.places.values()] == ["hv1"]
    other = located.select(Selected.of(["web1"]), vms, {}, host="hv3")
    assert not other.places
    assert "what hv3 has of 'web1' is a leftover" in other.problems[0]
    assert "fleet.virt.repair_vms -e vm_name=web1" in other.problems[0]


def test_group_of_a_leftover_is_no_group_of_the_vm() -> None:
    vms = {"hv1": [{**entry(IT), "groups": []}], "hv3": [entry(LEFT)]}
    with pytest.raises(PlanRefused, match="no VM is in web"):
        located.select(Selected.of([], ["web"]), vms, {})


def test_vm_with_a_leftover_keeps_its_name_until_that_is_cleared() -> None:
    """Else the definition that is left would be of a VM that no card names."""
    vms = {"hv1": [entry(IT)], "hv3": [entry(LEFT)]}
    place = located.select(Selected.of(["web1"]), vms, {}, whole=True)
    assert not place.places
    (problem,) = place.problems
    assert problem.startswith("hv3 has a leftover of 'web1', which has to be cleared before: ")
    answers = {
        host: {"defined": [{**of, "managed": True, "renamed_from": None} for of in entries]}
        for host, entries in vms.items()
    }
    seen = located.sort(answers, "defined", list(answers), [])  # type: ignore[arg-type]
    with pytest.raises(PlanRefused, match="hv3 has a leftover of 'web1'"):
        rename.decide("web1", "web2", seen, rename.standing(seen, {}, []))


def _hosts(answers: dict[str, dict[str, t.Any]]) -> list[placement.PlacementHost]:
    return [placement.host_from_info(one["host"], {}, name=name) for name, one in answers.items()]


def _answers(*, on_three: dict[str, t.Any] | None = None) -> dict[str, dict[str, t.Any]]:
    left = vm(leftover="hv1", active=False, disks=[], **(on_three or {}))
    answers = {"hv1": answer(vm()), "hv2": answer(), "hv3": answer(left)}
    for one in answers.values():
        for defined in one["host"]["vms"]:
            defined["leftover"] = "hv1" if one is answers["hv3"] else None
            defined.setdefault("uuid", "uuid of web1")
    return answers


def test_vm_beside_its_leftover_moves_to_a_third_hypervisor() -> None:
    answers = _answers()
    decision = migration.decide(["web1"], None, answers, _hosts(answers), {}, Policy())
    assert decision.shares == {"hv1": [("web1", "hv2")]}
    with pytest.raises(PlanRefused, match=r"hv3: .*has a leftover of web1; .*repair_vms clears it"):
        migration.decide(["web1"], "hv3", answers, _hosts(answers), {}, Policy())


def test_hypervisor_with_a_leftover_only_has_nothing_to_evacuate() -> None:
    answers = _answers()
    decision = evacuation.leave("hv3", answers, _hosts(answers), {}, Policy())
    assert (decision.shares, decision.problems) == ({}, [])


def test_leftover_of_a_dead_move_is_no_unfinished_move() -> None:
    """It is cleared with its card; the VM that was restarted stays as it is."""
    move = {"source": "hv3", "destination": "hv2", "run": "r", "autostart": "no"}
    answers = _answers(on_three={"phase": "migrating", "move": move})
    decision = migration.repair([], answers, {})
    assert (decision.shares, decision.left, decision.problems) == ({}, {}, [])
    assert decision.settled == {"web1": "hv1"}
    del answers["hv1"]
    assert migration.repair([], answers, {}).shares == {}


@pytest.mark.parametrize("names", [[], ["web1"]])
@pytest.mark.parametrize("cleared", [False, True])
def test_claim_of_a_dead_move_is_removed_with_the_leftover(names: list[str], cleared: bool) -> None:
    """By its source, which knows the card; and no other verb takes it for a move."""
    move = {"source": "hv3", "destination": "hv2", "run": "r", "autostart": "no"}
    answers = _answers(on_three={"phase": "migrating", "move": move})
    if cleared:
        answers["hv3"] = answer()
    answers["hv2"]["claims"] = [{"name": "web1", "source": "hv3", "destination": "hv2"}]
    assert migration.repair(names, answers, {}).shares == {"hv3": [("web1", "hv2")]}
    moved = migration.decide(["web1"], None, answers, _hosts(answers), {}, Policy())
    assert list(moved.shares) == ["hv1"]


def test_vm_is_changed_where_it_is_and_never_its_leftover() -> None:
    answers = _answers()
    fleet = placement.FleetLoad(_hosts(answers), Policy())
    assert placement.rank(fleet, Request("web1", 1, 64)).existing == ("hv1",)
    del answers["hv1"]
    fleet = placement.FleetLoad(_hosts(answers), Policy())
    assert placement.rank(fleet, Request("web1", 1, 64)).existing == ("hv3",)


def test_plan_names_leftover_only_where_nothing_else_is() -> None:
    answers: dict[str, t.Any] = _answers()
    for one in answers.values():
        one["vms"] = []
    place = {"web1": Place(None, "")}
    (planned,) = (one for one in fleet_plan.compare(["web1"], answers, place) if one.name == "web1")
    assert planned.hypervisor == "hv1"
    del answers["hv1"]
    (planned,) = fleet_plan.compare(["web1"], answers, place)
    assert (planned.action, planned.hypervisor) == ("conflict", "hv3")
    assert "is a leftover" in planned.details[0]


def test_vm_that_is_defined_nowhere_is_named_by_a_single_member() -> None:
    """Whichever members know its card; where it is defined that counts."""
    card = {"uuid": "u", "nowhere": "a"}
    known = {"hv2": card, "hv1": card}
    assert leftover.without(known) == {"hv1": card}
    defined = {"uuid": "u"}
    assert leftover.without({**known, "hv3": defined}) == {"hv3": defined}
    why = leftover.refusal("web1", "hv1", card)
    assert why is not None
    assert "the cell 'a' knows it by its card" in why
    assert "ansible-playbook fleet.virt.state -e vm_name=web1 -e vm_state=running" in why


def test_leftover_does_not_prove_that_its_vm_moved() -> None:
    left: dict[str, object] = {"name": "web1", "uuid": "a", "leftover": "hv1"}
    assert leftover.uuids([left, {"name": "web2", "uuid": "b"}]) == {"b"}
    assert leftover.uuids([left, {"name": "web1", "uuid": "a", "leftover": None}]) == {"a"}
