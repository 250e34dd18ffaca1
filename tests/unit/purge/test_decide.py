# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a domain is removed, and what has to be proven before."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.selected import Selected
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import located
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge.decide import (
    Fleet,
    decide,
    require_confirmed,
    require_unused,
    sole_pool_ids,
)


def look(
    *vms: tuple[str, dict[str, t.Any]],
    ids: tuple[str, ...] = (),
    uuid: str | None = None,
    groups: t.Sequence[str] = (),
) -> dict[str, t.Any]:
    found = []
    for name, volume in vms:
        place = {"path": f"/pool/{name}.qcow2", "shared": False, "pool_id": None}
        found.append(
            {
                **{"name": name, "uuid": uuid, "phase": None, "groups": list(groups)},
                "volumes": [{**place, **volume}],
            }
        )
    return {"vms": found, "pool_ids": list(ids), "users": []}


SILENT = {"unreachable": True, "msg": "ssh: no route"}
HERE = look(("web1", {}))
SHARED = look(("web1", {"shared": True}))
WITH_ID = look(("web1", {"pool_id": "x"}), ids=("x",))
NOTHING = look()


def seen(hv1: dict[str, t.Any], hv2: dict[str, t.Any], lost: t.Sequence[str] = ()) -> Fleet:
    return located.sort({"hv1": hv1, "hv2": hv2}, "vms", ["hv1", "hv2"], lost)


@pytest.mark.parametrize(
    ("other", "lost", "expected"),
    [
        (look(), [], ["x", "y"]),
        (look(ids=("y", "z")), [], ["x"]),
        (SILENT, [], []),
        (SILENT, ["hv2"], ["x", "y"]),
    ],
)
def test_pools_that_nobody_else_has(
    other: dict[str, t.Any], lost: list[str], expected: list[str]
) -> None:
    assert sole_pool_ids("hv1", seen(look(ids=("x", "y")), other, lost)) == expected
    assert sole_pool_ids("hv3", seen(look(ids=("x", "y")), other, lost)) == []


# hv1, hv2, lost, where it is removed; or why not
TABLE: list[tuple[dict[str, t.Any], dict[str, t.Any], list[str], dict[str, list[str]] | str]] = [
    (HERE, NOTHING, [], {"hv1": ["web1"]}),
    (NOTHING, HERE, [], {"hv2": ["web1"]}),
    (NOTHING, NOTHING, [], {}),
    (HERE, HERE, [], "defined on hv1 and hv2"),
    (HERE, SILENT, [], {"hv1": ["web1"]}),
    (NOTHING, SILENT, [], "may be on one that did not (hv2: ssh: no route)"),
    (NOTHING, SILENT, ["hv2"], {}),
    (SHARED, NOTHING, [], {"hv1": ["web1"]}),
    (SHARED, SILENT, [], "shared storage"),
    (SHARED, SILENT, ["hv2"], {"hv1": ["web1"]}),
    (WITH_ID, NOTHING, [], {"hv1": ["web1"]}),
    (WITH_ID, SILENT, [], {"hv1": ["web1"]}),
    (WITH_ID, look(ids=("x",)), [], {"hv1": ["web1"]}),
    (WITH_ID, SILENT, ["hv2"], {"hv1": ["web1"]}),
]


@pytest.mark.parametrize(("hv1", "hv2", "lost", "expected"), TABLE)
def test_where(
    hv1: dict[str, t.Any],
    hv2: dict[str, t.Any],
    lost: list[str],
    expected: dict[str, list[str]] | str,
) -> None:
    if isinstance(expected, str):
        with pytest.raises(PlanRefused) as error:
            decide(["web1"], seen(hv1, hv2, lost))
        assert expected in str(error.value)
        return
    decision = decide(["web1"], seen(hv1, hv2, lost))
    assert decision.shares == expected
    assert decision.absent == ([] if expected else ["web1"])


def test_purge_on_shared_storage_names_the_silent_hypervisor() -> None:
    with pytest.raises(PlanRefused) as error:
        decide(["web1"], seen(SHARED, SILENT))
    assert "did not respond (hv2: ssh: no route); bring hv2 back" in str(error.value)
    decision = decide(["web1"], seen(SHARED, NOTHING))
    with pytest.raises(PlanRefused, match=r"use web1\.qcow2: hv2: ssh: no route"):
        require_unused(
            decision, located.sort({"hv1": {"users": []}, "hv2": SILENT}, "users", None, [])
        )


@pytest.mark.parametrize("name", ["hv1", "hv2"])
@pytest.mark.parametrize("other", [NOTHING, SILENT])
def test_a_hypervisor_is_no_vm(name: str, other: dict[str, t.Any]) -> None:
    with pytest.raises(PlanRefused, match=f"{name!r} is a hypervisor, not a VM"):
        decide(["web1", name], seen(HERE, other))
    # a VM may have such a name all the same
    assert decide(["hv2"], seen(look(("hv2", {})), NOTHING)).shares == {"hv1": ["hv2"]}


def test_a_pool_is_shared_by_its_kind_or_by_its_identity() -> None:
    assert decide(["web1"], seen(HERE, NOTHING)).files == []
    assert decide(["web1"], seen(SHARED, NOTHING)).files == ["web1.qcow2"]
    assert decide(["web1"], seen(WITH_ID, NOTHING)).files == []
    decision = decide(["web1"], seen(WITH_ID, look(ids=("x",))))
    assert (decision.files, decision.asked) == (["web1.qcow2"], ["/pool/web1.qcow2"])


def test_a_file_that_is_used_elsewhere() -> None:
    used = {"users": [{"file": "web1.qcow2", "users": ["used by domain 'x'"]}]}
    decision = decide(["web1"], seen(SHARED, NOTHING))
    # on its own hypervisor it is the domain itself, and the module there looks for others
    require_unused(decision, located.sort({"hv1": used, "hv2": {"users": []}}, "users", None, []))
    with pytest.raises(PlanRefused, match="used on hv2: used by domain 'x'"):
        require_unused(
            decision, located.sort({"hv1": {"users": []}, "hv2": used}, "users", None, [])
        )
    with pytest.raises(PlanRefused, match="not all reported"):
        require_unused(
            decision, located.sort({"hv1": {"users": []}, "hv2": SILENT}, "users", None, [])
        )


def test_purge_hypervisor_outside_of_play_is_refused() -> None:
    """A play on a part of the fleet does not make it a VM that is gone."""
    everywhere = ["hv1", "hv2", "hv3"]
    with pytest.raises(PlanRefused, match="'hv3' is a hypervisor, not a VM"):
        decide(["hv3"], seen(HERE, NOTHING), everywhere)
    assert decide(["web9"], seen(HERE, NOTHING), everywhere).absent == ["web9"]
    # a VM that has such a name is removed
    assert decide(["web1"], seen(HERE, NOTHING), ["web1"]).shares == {"hv1": ["web1"]}


def test_a_hypervisor_that_purges_another_vm_is_asked_as_well() -> None:
    decision = decide(["web1", "web2"], seen(SHARED, look(("web2", {}))))
    assert decision.shares == {"hv1": ["web1"], "hv2": ["web2"]}
    used = {"users": [{"file": "web1.qcow2", "users": ["used by domain 'web2'"]}]}
    with pytest.raises(PlanRefused, match="used on hv2"):
        require_unused(
            decision, located.sort({"hv1": {"users": []}, "hv2": used}, "users", None, [])
        )


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(PlanRefused) as error:
        decide(["web1", "web2"], seen(look(("web1", {"shared": True})), SILENT))
    assert "'web2' is on no hypervisor that responded" in str(error.value)
    assert "/pool/web1.qcow2 of 'web1' is on shared storage" in str(error.value)


@pytest.mark.parametrize(
    ("registered", "expected", "lost", "reason"),
    [
        ({"hv1": SILENT}, ["hv1"], [], "no hypervisor answered: hv1: ssh: no route"),
        ({"hv1": NOTHING}, ["hv1"], ["hv9"], "virt_hypervisors_lost names hv9"),
    ],
)
def test_the_fleet_as_such(
    registered: dict[str, t.Any], expected: list[str], lost: list[str], reason: str
) -> None:
    with pytest.raises(PlanRefused) as error:
        located.sort(registered, "vms", expected, lost)
    assert reason in str(error.value)


def test_limit_hides_nobody() -> None:
    part = located.sort({"hv1": NOTHING}, "vms", ["hv1", "hv2"], [])
    with pytest.raises(PlanRefused, match=r"hv2: excluded by --limit.*run without --limit"):
        decide(["web1"], part)


def test_a_pool_that_two_have_is_shared_for_a_third_that_is_silent() -> None:
    answers = {"hv1": WITH_ID, "hv2": look(ids=("x",)), "hv3": SILENT}
    with pytest.raises(
        PlanRefused, match=r"on shared storage, .* did not respond \(hv3: ssh: no route\)"
    ):
        decide(["web1"], located.sort(answers, "vms", list(answers), []))


def test_both_ends_of_a_move_are_no_duplicates() -> None:
    with pytest.raises(
        PlanRefused, match="on hv1 and hv2 with the same UUID, so it is being moved"
    ):
        decide(["web1"], seen(look(("web1", {}), uuid="u"), look(("web1", {}), uuid="u")))


def test_a_vm_that_another_run_creates_is_no_duplicate() -> None:
    made = look(("web1", {}))
    made["vms"][0]["phase"] = "creating"
    with pytest.raises(PlanRefused, match="being created on hv2 by another run") as raised:
        decide(["web1"], seen(HERE, made))
    assert "remove the other" not in str(raised.value)


def test_no_name() -> None:
    with pytest.raises(PlanRefused, match="-e vm_name=web1"):
        decide([], seen(HERE, NOTHING))


@pytest.mark.parametrize("names", [[""], ["web1", " "]], ids=["no value", "a comma too many"])
def test_an_empty_name_is_not_one_that_is_not_there(names: list[str]) -> None:
    with pytest.raises(PlanRefused, match="a VM name is empty; give every name"):
        decide(names, seen(HERE, NOTHING))


TWO = seen(look(("web1", {}), ("web2", {})), look(("web3", {}), groups=["shop"]))


def test_pattern_and_group_are_purged_where_they_are() -> None:
    assert decide(["web*"], TWO).shares == {"hv1": ["web1", "web2"], "hv2": ["web3"]}
    assert decide([], TWO, groups=["shop"]).shares == {"hv2": ["web3"]}
    with pytest.raises(PlanRefused, match=r"no VM matches 'db\*'"):
        decide(["db*"], TWO)
    with pytest.raises(PlanRefused, match=r"no VM matches 'db\*'"):
        decide(["db*", "web1"], TWO)
    with pytest.raises(PlanRefused, match=r"no VM is in mail; .*; hv2: ssh: no route"):
        decide([], seen(HERE, SILENT), groups=["mail"])


def test_pattern_with_silent_hypervisor_says_who_may_have_more() -> None:
    assert decide(["web*"], seen(HERE, SILENT)).silent == "hv2: ssh: no route"
    assert decide(["web1"], seen(HERE, SILENT)).silent == ""


@pytest.mark.parametrize(
    ("names", "confirm", "refusal"),
    [
        (["web*"], "3", ""),
        (["web*"], " 3 ", ""),
        (["web1", "web2"], "", ""),
        (["web1", "web2"], "2", ""),
        (
            ["web*"],
            "",
            "3 VMs would be removed (hv1: web1, web2; hv2: web3); none is removed before the"
            " number is confirmed: to remove exactly these, add -e virt_confirm=3",
        ),
        (["web3*"], "", "to remove exactly it, add -e virt_confirm=1"),
        (["web*"], "2", "virt_confirm=2 is wrong: 3 VMs would be removed (hv1: web1, web2; hv2:"),
        (["web*"], "yes", "virt_confirm=yes is wrong"),
        (["web1", "web2"], "3", "virt_confirm=3 is wrong: 2 VMs would be removed"),
        (["db1"], "1", "virt_confirm=1 is wrong: no VM would be removed; leave virt_confirm out"),
    ],
)
def test_purge_of_pattern_needs_the_number_of_vms(
    names: list[str], confirm: str, refusal: str
) -> None:
    decision = decide(names, TWO)
    selected = Selected.of(names)
    if not refusal:
        require_confirmed(selected, confirm, decision, check=False)
        assert decision.unconfirmed == ""
        return
    with pytest.raises(PlanRefused) as refused:
        require_confirmed(selected, confirm, decision, check=False)
    assert refusal in str(refused.value)


def test_check_of_purge_says_which_number_a_run_needs() -> None:
    decision = decide(["web*"], TWO)
    require_confirmed(Selected.of(["web*"]), "", decision, check=True)
    assert decision.unconfirmed == (
        "a run removes none before the number is confirmed: to remove exactly these, add"
        " -e virt_confirm=3"
    )
    with pytest.raises(PlanRefused, match="virt_confirm=4 is wrong"):
        require_confirmed(Selected.of(["web*"]), "4", decide(["web*"], TWO), check=True)
