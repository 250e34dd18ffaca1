# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Seen from the whole fleet: where VMs are, where they go, and what is not proven."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused, SpecError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.proofs import Silence
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.decide import (
    MigrationDecision,
    decide,
    repair,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.options import (
    moves,
    options,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import decide as placement

MOVE = {"source": "hv1", "destination": "hv2", "run": "r", "autostart": "no"}


def vm(name: str = "web1", **changes: t.Any) -> dict[str, t.Any]:
    return {
        "name": name,
        "uuid": f"uuid of {name}",
        "active": True,
        "persistent": True,
        "error": None,
        "phase": None,
        "move": None,
        "vcpus": 1,
        "memory_mib": 512,
        "domain_type": "qemu",
        "arch": "x86_64",
        "bridges": ["br0"],
        "networks": [],
        "groups": [],
        "affinity": [],
        "anti_affinity": [],
        "tags": [],
        "zone": None,
        "evacuated_from": [],
        "disks": [{"path": "/images/web1.qcow2", "bytes": 1 << 30, "backing": None}],
        **changes,
    }


def answer(
    *vms: dict[str, t.Any], memory: int = 8192, claims: t.Sequence[str] = (), **changes: t.Any
) -> dict[str, t.Any]:
    """What a hypervisor says; ``claims`` are VMs that are to come from hv1 to hv2."""
    promised = sum(one["memory_mib"] for one in vms)
    host = {
        "domain_types": ["qemu"],
        "arch": "x86_64",
        "cpu": {"total": 4, "defined": len(vms), "running": 0, "max_vcpus": 16},
        "memory_mib": {"total": memory, "defined": promised, "running": 0, "free": memory},
        "pools": [
            {
                "name": "default",
                "type": "dir",
                "state": "running",
                "path": "/images",
                "capacity_mib": 100_000,
                "allocation_mib": 0,
                "available_mib": 100_000,
                "promised_mib": 1024 * len(vms),
                "volume_allocation_mib": 0,
                "claimed_mib": 0,
                "error": None,
            }
        ],
        "networks": [],
        "bridges": ["br0"],
        "maintenance": False,
        "errors": [],
        "images": [],
        "vms": [
            {
                **{key: one[key] for key in ("name", "uuid", "phase")},
                "groups": [],
                "affinity": [],
                "anti_affinity": [],
            }
            for one in vms
        ],
        **changes,
    }
    coming = [{"name": one, "source": "hv1", "destination": "hv2"} for one in claims]
    return {"host": host, "vms": list(vms), "claims": coming}


DOWN = Silence("no route")


def go(
    answers: dict[str, dict[str, t.Any]],
    *names: str,
    host: str | None = None,
    mute: dict[str, Silence] | None = None,
    groups: t.Sequence[str] = (),
) -> MigrationDecision:
    hosts = [placement.host_from_info(one["host"], {}, name=name) for name, one in answers.items()]
    chosen = names or (() if groups else ("web1",))
    return decide(chosen, host, answers, hosts, mute or {}, placement.Policy(), groups)


def test_pattern_and_group_move_from_where_they_are() -> None:
    answers = {
        "hv1": answer(vm("web1"), vm("web2", groups=["shop"])),
        "hv2": answer(vm("web3", groups=["shop"])),
    }
    assert go(answers, "web?", host="hv2").shares == {"hv1": [("web1", "hv2"), ("web2", "hv2")]}
    decision = go(answers, host="hv1", groups=["shop"], mute={"hv3": DOWN})
    assert decision.settled == {"web2": "hv1"}
    assert decision.shares == {"hv2": [("web3", "hv1")]}
    assert decision.problems == [
        "not all hypervisors answered, and VMs there that were meant too were not changed: hv3: no"
        " route"
    ]
    with pytest.raises(PlanRefused, match=r"no VM matches 'db\*'"):
        go(answers, "db*", "web1")
    with pytest.raises(PlanRefused, match="no VM is in mail"):
        go(answers, groups=["mail"])


def test_the_best_other_one_is_chosen() -> None:
    crowd = [vm(f"db{number}") for number in range(6)]
    found = go({"hv1": answer(vm()), "hv2": answer(*crowd), "hv3": answer()})
    assert found.shares == {"hv1": [("web1", "hv3")]}
    found = go({"hv1": answer(vm()), "hv2": answer(*crowd), "hv3": answer()}, host="hv2")
    assert found.shares == {"hv1": [("web1", "hv2")]}


def test_a_disk_needs_a_pool_at_its_folder_whatever_it_is_called() -> None:
    pool = answer()["host"]["pools"][0]
    renamed = answer(pools=[{**pool, "name": "storage"}])
    assert go({"hv1": answer(vm()), "hv2": renamed}).placements[0].host == "hv2"
    elsewhere = answer(pools=[{**pool, "path": "/srv/images"}])
    with pytest.raises(PlanRefused, match=r"hv2: has no pool at /images.*pool-define-as"):
        go({"hv1": answer(vm()), "hv2": elsewhere})
    # one outside all pools of its own hypervisor, as far as their folders' names tell
    linked = vm(disks=[{"path": "/srv/real/w.img", "bytes": 1 << 30, "backing": None}])
    there = answer(pools=[pool, {**pool, "name": "real", "path": "/srv/real"}])
    assert go({"hv1": answer(linked), "hv2": there}).placements[0].host == "hv2"


def test_one_that_is_there_already_stays() -> None:
    found = go({"hv1": answer(vm()), "hv2": answer()}, host="hv1")
    assert (found.shares, found.settled) == ({}, {"web1": "hv1"})


def test_several_see_each_other() -> None:
    small = {"memory": 3000}
    answers = {"hv1": answer(vm(), vm("web2")), "hv2": answer(**small), "hv3": answer(**small)}
    found = go(answers, "web1", "web2")
    assert sorted(to for _name, to in found.shares["hv1"]) == ["hv2", "hv3"]


@pytest.mark.parametrize("both", [False, True])
def test_an_interrupted_move_is_finished_where_it_went(both: bool) -> None:
    half = vm(phase="migrating", move=MOVE)
    answers = {"hv1": answer(*([half] if both else [])), "hv2": answer(half), "hv3": answer()}
    assert go(answers, host="hv3").shares == {"hv1": [("web1", "hv2")]}


def test_one_that_concerns_neither_end_may_be_silent() -> None:
    answers = {"hv1": answer(vm()), "hv2": answer()}
    for host in ("hv2", None):
        found = go(answers, host=host, mute={"hv3": DOWN})
        assert (found.shares, found.problems) == ({"hv1": [("web1", "hv2")]}, [])


def test_an_unfinished_move_to_another_than_asked_for_is_not_what_was_asked_for() -> None:
    half = vm(phase="migrating", move=MOVE)
    answers = {"hv1": answer(half), "hv2": answer(), "hv3": answer()}
    assert go(answers, host="hv2").problems == []
    found = go(answers, host="hv3")
    assert found.shares == {"hv1": [("web1", "hv2")]}
    assert "run this again to move it to hv3" in found.problems[0]


def test_a_claim_whose_source_says_that_nothing_moves_is_of_no_account() -> None:
    answers = {"hv1": answer(vm()), "hv2": answer(claims=["web1"]), "hv3": answer()}
    assert go(answers, host="hv3").shares == {"hv1": [("web1", "hv3")]}


def test_a_vm_that_another_run_creates_is_no_duplicate() -> None:
    answers = {"hv1": answer(vm()), "hv2": answer(vm(phase="creating"))}
    with pytest.raises(PlanRefused, match="being created on hv2 by another run") as raised:
        go(answers)
    assert "remove the other" not in str(raised.value)


REFUSED: dict[str, tuple[dict[str, t.Any], dict[str, t.Any], str]] = {
    "unknown": ({"hv1": answer(vm("db1")), "hv2": answer()}, {}, "no hypervisor has .*: db1"),
    "on two": (
        {"hv1": answer(vm()), "hv2": answer(vm()), "hv3": answer()},
        {},
        "'web1' is defined on hv1 and hv2; a VM may exist only once",
    ),
    "on two, and neither knows the other": (
        {"hv1": answer(vm(phase="migrating", move=MOVE)), "hv3": answer(vm())},
        {},
        "is defined on hv1 and hv3",
    ),
    "on the only one that answered": (
        {"hv1": answer(vm())},
        {"mute": {"hv2": DOWN}},
        "web1 fits nowhere",
    ),
    "on none that answered": (
        {"hv1": answer(vm("db1"))},
        {"mute": {"hv2": DOWN}},
        r"no hypervisor that answered has a VM 'web1', but it may be on one that did not \(hv2: no"
        " route.*virt_hypervisors_lost=hv2",
    ),
    "silent target": (
        {"hv1": answer(vm())},
        {"mute": {"hv2": DOWN}, "host": "hv2"},
        r"hv2 did not respond \(no route\), and nothing moves from or to it",
    ),
    "half there, and the target is silent": (
        {"hv1": answer(vm(phase="migrating", move=MOVE)), "hv3": answer()},
        {"mute": {"hv2": DOWN}, "host": "hv3"},
        r"from hv1 to hv2 is unfinished, and hv2 did not respond \(hv2: no route\)",
    ),
    "half there, and the source is silent": (
        {"hv2": answer(vm(phase="migrating", move=MOVE)), "hv3": answer()},
        {"mute": {"hv1": DOWN}, "host": "hv3"},
        r"from hv1 to hv2 is unfinished, and hv1 did not respond \(hv1: no route\)",
    ),
    "coming in, and the source is silent": (
        {"hv2": answer(vm(persistent=False), claims=["web1"]), "hv3": answer()},
        {"mute": {"hv1": DOWN}, "host": "hv3"},
        r"from hv1 to hv2 is unfinished, and hv1 did not respond",
    ),
    "not there yet, and the source is silent": (
        {"hv2": answer(claims=["web1"]), "hv3": answer()},
        {"mute": {"hv1": DOWN}},
        r"from hv1 to hv2 is unfinished, and hv1 did not respond",
    ),
    "half there, and --limit left the target out": (
        {"hv1": answer(vm(phase="migrating", move=MOVE)), "hv3": answer()},
        {"mute": {"hv2": Silence("excluded by --limit", asked=False)}},
        "run without --limit, run ansible-playbook fleet.virt.repair_vms",
    ),
    "not readable": (
        {"hv1": answer(vm(error="/x.qcow2: no such file")), "hv2": answer()},
        {},
        "'web1' stays on hv1, which cannot read it: /x.qcow2: no such file",
    ),
    "unknown target": (
        {"hv1": answer(vm()), "hv2": answer()},
        {"host": "hv9"},
        "hv9 is no hypervisor of this play; there are: hv1, hv2",
    ),
    "no other": ({"hv1": answer(vm())}, {}, "web1 fits nowhere"),
    "maintenance": (
        {"hv1": answer(vm()), "hv2": answer(maintenance=True)},
        {"host": "hv2"},
        "hv2: .*maintenance",
    ),
    "memory": ({"hv1": answer(vm()), "hv2": answer(memory=700)}, {}, "hv2: .*MiB"),
    "bridge": ({"hv1": answer(vm()), "hv2": answer(bridges=[])}, {}, "hv2: .*br0"),
}


@pytest.mark.parametrize(("answers", "more", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(answers: dict[str, t.Any], more: dict[str, t.Any], text: str) -> None:
    with pytest.raises(PlanRefused, match=text):
        go(answers, **more)


def test_what_is_to_be_repaired() -> None:
    half = vm(phase="migrating", move=MOVE)
    lost = vm("web2", phase="migrating", move={**MOVE, "destination": "hv3"})
    answers = {"hv1": answer(half, lost, vm("db1")), "hv2": answer()}
    answers["hv1"]["vms"] = [half, lost]
    found = repair([], answers, {"hv3": DOWN})
    assert found.shares == {"hv1": [("web1", "hv2")]}
    one, all_of_them = found.problems
    assert "from hv1 to hv3 is unfinished, and hv3 did not respond (hv3: no route)" in one
    assert (
        "moves known only to a hypervisor that did not respond cannot be found (hv3:" in all_of_them
    )
    assert repair(["web1"], {"hv2": answer(half), "hv1": answer()}, {}).shares == {
        "hv1": [("web1", "hv2")]
    }
    fine = repair(["db1"], {"hv1": answer(vm("db1")), "hv2": answer()}, {})
    assert (fine.shares, fine.settled, fine.problems) == ({}, {"db1": "hv1"}, [])
    # a VM that is named needs its own ends alone
    fine = repair(["db1"], {"hv1": answer(vm("db1"))}, {"hv2": DOWN})
    assert (fine.settled, fine.problems) == ({"db1": "hv1"}, [])
    twice = repair(["db1"], {"hv1": answer(vm("db1")), "hv2": answer(vm("db1"))}, {})
    assert "'db1' is defined on hv1 and hv2; a VM may exist only once" in twice.problems[0]
    nowhere = repair(["db1"], {"hv1": answer()}, {"hv2": DOWN})
    assert "no hypervisor that answered has a VM 'db1'" in nowhere.problems[0]
    assert repair(["db1"], {"hv1": answer()}, {}).problems == ["no hypervisor has a VM 'db1'"]


def test_nothing_is_repaired_in_silence_while_the_source_is_dead() -> None:
    arrived = {"hv2": answer(vm(phase="migrating", move=MOVE))}
    coming = {"hv2": answer(claims=["web1"])}
    for answers in (arrived, coming):
        found = repair([], answers, {"hv1": DOWN})
        assert found.shares == {}
        assert "the move of 'web1' from hv1 to hv2 is unfinished, and hv1" in found.problems[0]
    # whoever leaves a hypervisor out with --limit does not ask for its moves
    away = {"hv1": Silence("excluded by --limit", asked=False)}
    assert repair([], {"hv2": answer()}, away).problems == []
    strange = {"hv3": answer(vm(phase="migrating", move=MOVE))}
    assert "does not name the two hypervisors" in repair([], strange, {}).problems[0]


def test_a_move_whose_source_is_declared_lost_is_settled_on_its_destination() -> None:
    arrived = {"hv2": answer(vm(phase="migrating", move=MOVE)), "hv3": answer()}
    coming = {"hv2": answer(claims=["web1"]), "hv3": answer()}
    for answers in (arrived, coming):
        for names in ([], ["web1"]):
            found = repair(names, answers, {}, ["hv1"])
            assert (found.shares, found.problems) == ({}, [])
            assert found.left == {"hv2": [("web1", "hv1")]}
        # whoever has not declared it lost is told how
        found = repair([], answers, {"hv1": DOWN})
        assert found.left == {}
        assert "-e vm_name=web1 -e virt_hypervisors_lost=hv1" in found.problems[0]
        away = {"hv1": Silence("excluded by --limit", asked=False)}
        assert "virt_hypervisors_lost" not in repair([], answers, away).problems[0]
    # one that answers is not lost, whatever is said
    found = repair([], {"hv1": answer(), **arrived}, {}, ["hv1"])
    assert (found.shares, found.left) == ({"hv1": [("web1", "hv2")]}, {})
    # another silent one has nothing to say about it, but may know of more
    found = repair(["web1"], coming, {"hv4": DOWN}, ["hv1"])
    assert (found.left, found.problems) == ({"hv2": [("web1", "hv1")]}, [])
    assert len(repair([], coming, {"hv4": DOWN}, ["hv1"]).problems) == 1


def test_a_destination_that_is_lost_is_not_settled_by_that() -> None:
    half = vm(phase="migrating", move={**MOVE, "destination": "hv3"})
    answers = {"hv1": answer(half), "hv2": answer()}
    found = repair(["web1"], answers, {}, ["hv3"])
    assert (found.shares, found.left) == ({}, {})
    assert "from hv1 to hv3 is unfinished, and hv3 did not respond" in found.problems[0]


def test_what_a_lost_source_left_is_not_settled_where_a_third_one_has_the_vm() -> None:
    answers = {"hv2": answer(claims=["web1"]), "hv3": answer(vm())}
    found = repair(["web1"], answers, {}, ["hv1"])
    assert found.left == {}
    assert "'web1' is on hv3, and hv2 still has what its unfinished move" in found.problems[0]


def test_a_vm_that_left_and_arrived_while_hypervisors_were_read_is_in_a_move() -> None:
    """hv2 was read while the VM was not there yet, hv1 when it had gone."""
    answers = {"hv1": answer(), "hv2": answer(claims=["web1"]), "hv3": answer()}
    for names in ([], ["web1"]):
        assert repair(names, answers, {}).shares == {"hv1": [("web1", "hv2")]}
    assert go(answers, host="hv2").shares == {"hv1": [("web1", "hv2")]}
    # it waits there for its memory, without marks
    answers["hv2"] = answer(vm(persistent=False), claims=["web1"])
    assert repair(["web1"], answers, {}).shares == {"hv1": [("web1", "hv2")]}
    # a source that says that it has it, and that nothing moves, is believed
    answers["hv1"] = answer(vm())
    answers["hv1"]["vms"] = []
    found = repair([], {**answers, "hv2": answer(claims=["web1"])}, {})
    assert (found.shares, found.problems) == ({}, [])


def test_options_and_moves() -> None:
    given: dict[str, t.Any] = {
        "keep_volumes": False,
        "eject_media": False,
        "parallel": 1,
        "bandwidth": 0,
        "max_downtime": -1,
        "auto_converge": True,
        "tunnelled": True,
        "parallel_connections": 2,
        "seconds_per_gib": 0,
        "on_timeout": "abort",
    }
    with pytest.raises(SpecError) as raised:
        options(given)
    assert [one.path for one in raised.value.problems] == [
        "bandwidth",
        "max_downtime",
        "seconds_per_gib",
        "parallel_connections",
    ]
    given.update(bandwidth=None, max_downtime=5, seconds_per_gib=1, parallel_connections=None)
    fine = options(given)
    assert (fine.bandwidth, fine.max_downtime, fine.seconds_per_gib) == (None, 5, 1)
    to = {"name": "hv2", "address": None, "bridges": ["br0"]}
    ((name, destination, _lost),) = moves([{"name": "web1", "destination": to}], "hv1")
    assert (name, destination.address, destination.bridges) == ("web1", "hv2", ("br0",))


BAD_MOVES = {
    "to itself": ([("web1", "hv1", None)], "from hv1 to hv1"),
    "twice": ([("web1", "hv2", None), ("web1", "hv3", None)], "is given twice"),
    "no name": ([("", "hv2", None)], "it is empty"),
    "part of a URI": ([("web1", "hv2", "hv2/system?x")], "no host name or address"),
    "option of ssh": ([("web1", "hv2", "-x")], "no host name or address"),
}


@pytest.mark.parametrize(("vms", "text"), BAD_MOVES.values(), ids=BAD_MOVES.keys())
def test_bad_moves(vms: list[tuple[str, str, str | None]], text: str) -> None:
    given = [{"name": n, "destination": {"name": to, "address": at}} for n, to, at in vms]
    with pytest.raises(SpecError, match=text):
        moves(given, "hv1")


def test_vm_of_cell_moves_within_its_cell() -> None:
    answers = {
        "hv1": answer(vm(ha=True), offers={"cell": "a"}),
        "hv2": answer(offers={"cell": None}),
        "hv3": answer(offers={"cell": "b"}),
        "hv4": answer(offers={"cell": "a"}),
    }
    assert go(answers).shares == {"hv1": [("web1", "hv4")]}
    with pytest.raises(PlanRefused, match="hv2: is in no cell that has quorum there"):
        go(answers, host="hv2")
    with pytest.raises(PlanRefused, match="hv3: is in the cell 'b', and the VM is one of 'a'"):
        go(answers, host="hv3")
    answers["hv1"]["vms"][0]["ha"] = False
    assert go(answers, host="hv3").shares == {"hv1": [("web1", "hv3")]}


def test_move_goes_where_its_network_filters_and_vsock_are() -> None:
    moving = vm(nwfilters=["own"], vsock=True)
    whole = answer(offers={"nwfilters": ["own"], "vsock": True})
    without_filter = answer(offers={"nwfilters": [], "vsock": True})
    without_vsock = answer(offers={"nwfilters": ["own"], "vsock": False})
    found = go({"hv1": answer(moving), "hv2": without_filter, "hv3": without_vsock, "hv4": whole})
    assert found.shares == {"hv1": [("web1", "hv4")]}
    with pytest.raises(PlanRefused, match=r"hv2: has no network filter own; define it there"):
        go({"hv1": answer(moving), "hv2": without_filter}, host="hv2")
    with pytest.raises(PlanRefused, match=r"hv3: needs vsock, .* \(modprobe vhost_vsock\)"):
        go({"hv1": answer(moving), "hv3": without_vsock}, host="hv3")


@pytest.mark.parametrize("again", [False, True])
def test_move_whose_source_was_proven_off_by_the_cell_is_known_to_go_on_elsewhere(
    again: bool,
) -> None:
    held = {"name": "web1", "uuid": "u", "held_by": "hv1", "problem": None, "at_work": False}
    claim = {"name": "web1", "source": "hv1", "destination": "hv2"}
    answers = {"hv2": {**answer(), "claims": [claim], "unmanaged": [held]}, "hv3": answer()}
    if again:
        answers["hv2"]["unmanaged"] = []
        answers["hv3"] = answer(vm(ha=True))
    (move, _others) = repair([], answers, {"hv1": DOWN}).problems
    assert "its cell has proven hv1 off, and has it run elsewhere. When hv1 is back" in move
    assert "unknown which of them" not in move
    answers["hv2"]["unmanaged"] = [{**held, "problem": "hv1 is not proven off"}]
    answers["hv3"] = answer()
    assert "unknown which of them has it" in repair([], answers, {"hv1": DOWN}).problems[0]


@pytest.mark.parametrize(
    ("unclean", "why"),
    [
        ([], "is off, and defined on no hypervisor: the cell 'a' knows it by its card"),
        (["hv3"], "of the cell 'a', and it may run on hv3, which is not proven off"),
    ],
)
def test_vm_of_cell_that_is_defined_nowhere_is_not_moved_and_not_denied(
    unclean: list[str], why: str
) -> None:
    member = answer()
    member["host"].update(cell={"name": "a", "unclean": unclean}, cell_vms=["web1"])
    with pytest.raises(PlanRefused, match=why):
        decide(["web1"], None, {"hv1": answer(), "hv2": member}, [], {}, placement.Policy())
