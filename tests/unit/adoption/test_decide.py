# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which VMs of a fleet are adopted, and what is told of the others."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.adoption import (
    decide as adopt_decision,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import located
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import Defaults


def _vm(name: str, mac: str = "52:54:00:00:00:01", uuid: str = "", **more: t.Any) -> t.Any:
    spec = {"name": name, "disk_profile": "none", "nic_profile": "none"}
    return {
        "name": name,
        "uuid": uuid or f"of {name}",
        "phase": None,
        "candidate": True,
        "specification": spec,
        "problems": [],
        "macs": [mac] if mac else [],
        **more,
    }


def _answer(*vms: t.Any, ids: t.Sequence[str] = ()) -> dict[str, t.Any]:
    keys = ("name", "uuid", "phase", "macs")
    defined = [{key: vm[key] for key in keys} for vm in vms]
    return {"vms": list(vms), "defined": defined, "pool_ids": list(ids)}


def _decide(
    answers: dict[str, t.Any],
    names: t.Sequence[str] = (),
    host: str | None = None,
    disks: bool = False,
) -> adopt_decision.AdoptionDecision:
    seen = located.sort(answers, "defined", list(answers), [])
    return adopt_decision.decide(names, host, seen, ["hv1", "hv2"], Defaults(), disks=disks)


SILENT = {"hv1": _answer(_vm("a")), "hv2": {"unreachable": True, "msg": "no route"}}


@pytest.mark.parametrize("host", [None, "hv1"])
def test_vm_is_adopted_while_another_hypervisor_is_silent(host: str | None) -> None:
    decision = _decide(SILENT, ["a"], host)
    assert (decision.shares, decision.refused) == ({"hv1": ["a"]}, [])


@pytest.mark.parametrize("names", [[], ["a*"]])
def test_adopting_what_is_not_named_reports_silent_hypervisor(names: list[str]) -> None:
    decision = _decide(SILENT, names)
    assert decision.shares == {"hv1": ["a"]}
    assert [why.startswith("not all hypervisors answered") for why in decision.refused] == [True]
    assert not _decide(SILENT, names, "hv1").refused


def test_vm_that_none_has_may_be_on_silent_hypervisor() -> None:
    (why,) = _decide(SILENT, ["b"]).refused
    assert "may be on one that did not (hv2: no route)" in why
    assert "virt_hypervisors_lost=hv2" in why


def test_disks_are_adopted_only_if_all_answer() -> None:
    with pytest.raises(PlanRefused, match="may have the disks' pools too"):
        _decide(SILENT, ["a"], disks=True)


def test_adopting_on_silent_hypervisor_is_refused() -> None:
    with pytest.raises(PlanRefused, match=r"hv2 did not respond \(hv2: no route\)"):
        _decide(SILENT, [], "hv2")


def test_all_or_some_or_those_of_one_hypervisor() -> None:
    fleet = {
        "hv1": _answer(_vm("a"), _vm("b", mac="")),
        "hv2": _answer(_vm("c", mac="52:54:00:00:00:02")),
    }
    assert _decide(fleet).shares == {"hv1": ["a", "b"], "hv2": ["c"]}
    assert _decide(fleet, host="hv2").shares == {"hv2": ["c"]}
    some = _decide(fleet, ["b", "gone"])
    assert some.shares == {"hv1": ["b"]}
    assert some.refused == [
        "no hypervisor has a VM 'gone'; ansible-playbook fleet.virt.list shows the VMs"
    ]
    some = _decide(fleet, ["[bc]", "x*"])
    assert some.shares == {"hv1": ["b"], "hv2": ["c"]}
    assert some.refused == ["no VM matches 'x*'; ansible-playbook fleet.virt.list shows the VMs"]
    elsewhere = _decide(fleet, ["c*"], host="hv1")
    assert (elsewhere.shares, len(elsewhere.refused)) == ({}, 1)
    with pytest.raises(PlanRefused, match="vm_host: 'hv9' is no hypervisor"):
        _decide(fleet, host="hv9")


@pytest.mark.parametrize(
    ("here", "there", "words"),
    [
        (_vm("a"), _vm("a", uuid="other"), "'a' is defined on hv1 and hv2"),
        (_vm("a", uuid="1"), _vm("a", uuid="1"), "with the same UUID, so it is being"),
        (_vm("a", mac=""), _vm("A", mac=""), "'A' on hv2 differs only in case"),
        (_vm("a", uuid="1"), _vm("b", mac="", uuid="1"), "'b' on hv2 has the same UUID 1"),
        (_vm("a"), _vm("b"), "'b' on hv2 also has the MAC address 52:54:00:00:00:01"),
        (_vm("a", problems=["it is transient"]), _vm("b", mac=""), "it is transient"),
        (_vm("hv2"), _vm("b", mac=""), "'hv2' is the name of a hypervisor"),
        (_vm("a", specification=None), _vm("b", mac=""), "returned no specification"),
        (_vm("a", specification={"name": "b"}), _vm("b", mac=""), "returned no specification"),
        (
            _vm("a", specification={"name": "a", "vcpus": -1}),
            _vm("b", mac=""),
            "vcpus: -1 is out of range",
        ),
    ],
)
def test_what_is_not_certain_is_refused_naming_both(here: t.Any, there: t.Any, words: str) -> None:
    for both in ({}, {"candidate": False, "specification": None}):
        decision = _decide({"hv1": _answer(here), "hv2": _answer({**there, **both})})
        assert here["name"] not in decision.shares.get("hv1", [])
        assert words in "\n".join(decision.refused)


def test_a_pool_that_two_have_is_told() -> None:
    one, two = _answer(ids=["both", "mine"]), _answer(ids=["both", "yours"])
    assert _decide({"hv1": one, "hv2": two}).shared_ids == ["both"]


def test_every_name_has_an_outcome() -> None:
    def entry(name: str, **more: t.Any) -> dict[str, t.Any]:
        spec = {"name": name}
        known = {"name": name, "specification": spec, "undescribed": [], "owned": [], "kept": []}
        return {**known, "changed": False, "failed": False, "msg": None, **more}

    kept = [{"path": "/p/a", "reason": "a link"}]
    answers = {
        "hv1": {
            "vms": [
                entry("a", changed=True, kept=kept),
                entry("b", failed=True, msg="it is busy"),
                entry("made", msg="created by this collection, so there is nothing to adopt"),
            ]
        },
        "hv2": {"msg": "killed", "failed": True},
    }
    shares = {"hv1": ["a", "b", "made"], "hv2": ["c"]}
    found = adopt_decision.report(shares, answers, ["d: refused"], check=False)
    assert [vm["name"] for vm in found.vms] == ["a"]
    assert "/p/a: a link" in found.text
    assert [one.partition(":")[0] for one in found.failures] == ["d", "b on hv1", "c on hv2"]
    assert "would be adopted" in adopt_decision.report(shares, answers, [], check=True).text
