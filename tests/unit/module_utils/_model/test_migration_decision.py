# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Seen from the whole fleet: where VMs are, where they go, and what is not proven."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused, SpecError
from ansible_collections.fleet.virt.plugins.module_utils._model import placement
from ansible_collections.fleet.virt.plugins.module_utils._model.migration_decision import (
    Decision,
    decide,
    repair,
    report,
    silent,
)
from ansible_collections.fleet.virt.plugins.module_utils._model.migration_request import (
    moves,
    options,
)

MOVE = {"source": "hv1", "destination": "hv2", "run": "r", "autostart": "no"}


def vm(name: str = "web1", **changes: t.Any) -> dict[str, t.Any]:
    return {
        "name": name,
        "uuid": f"uuid of {name}",
        "active": True,
        "phase": None,
        "move": None,
        "vcpus": 1,
        "memory_mib": 512,
        "domain_type": "qemu",
        "arch": "x86_64",
        "bridges": ["br0"],
        "networks": [],
        "groups": [],
        "anti_affinity": [],
        "tags": [],
        "zone": None,
        "home": None,
        "disks": [{"path": "/images/web1.qcow2", "bytes": 1 << 30, "backing": None}],
        **changes,
    }


def answer(*vms: dict[str, t.Any], memory: int = 8192, **changes: t.Any) -> dict[str, t.Any]:
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
                "anti_affinity": [],
            }
            for one in vms
        ],
        **changes,
    }
    return {"host": host, "vms": list(vms)}


def go(
    answers: dict[str, dict[str, t.Any]],
    *names: str,
    host: str | None = None,
    mute: dict[str, str] | None = None,
) -> Decision:
    hosts = [placement.host_from_info(one["host"], {}, name=name) for name, one in answers.items()]
    chosen = names or ("web1",)
    return decide(chosen, host, answers, hosts, mute or {}, placement.Policy())


def test_the_best_other_one_is_chosen() -> None:
    crowd = [vm(f"db{number}") for number in range(6)]
    found = go({"hv1": answer(vm()), "hv2": answer(*crowd), "hv3": answer()})
    assert found.shares == {"hv1": [("web1", "hv3")]}
    found = go({"hv1": answer(vm()), "hv2": answer(*crowd), "hv3": answer()}, host="hv2")
    assert found.shares == {"hv1": [("web1", "hv2")]}


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


REFUSED: dict[str, tuple[dict[str, t.Any], dict[str, t.Any], str]] = {
    "unknown": ({"hv1": answer(vm("db1")), "hv2": answer()}, {}, "no hypervisor has .*: db1"),
    "on two": (
        {"hv1": answer(vm()), "hv2": answer(vm()), "hv3": answer()},
        {},
        "'web1' is defined on hv1 and hv2; a VM exists once",
    ),
    "on two, and neither knows the other": (
        {"hv1": answer(vm(phase="migrating", move=MOVE)), "hv3": answer(vm())},
        {},
        "is defined on hv1 and hv3",
    ),
    "silent": (
        {"hv1": answer(vm())},
        {"mute": {"hv2": "no route"}},
        "silent may have web1 too, so nothing is moved: hv2: no route.*virt_hypervisors_lost",
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
    found = repair([], answers, {"hv3": "no route"})
    assert found.shares == {"hv1": [("web1", "hv2")]}
    (problem,) = found.problems
    assert "from hv1 to hv3 is unfinished, and hv3 is silent (no route)" in problem
    assert repair(["web1"], {"hv2": answer(half), "hv1": answer()}, {}).shares == {
        "hv1": [("web1", "hv2")]
    }
    fine = repair(["db1"], {"hv1": answer(vm("db1")), "hv2": answer()}, {})
    assert (fine.shares, fine.settled, fine.problems) == ({}, {"db1": "hv1"}, [])
    twice = repair(["db1"], {"hv1": answer(vm("db1")), "hv2": answer(vm("db1"))}, {})
    assert "defined on hv1, hv2, and neither came from the other" in twice.problems[0]
    nowhere = repair(["db1"], {"hv1": answer()}, {"hv2": "no route"})
    assert nowhere.problems == ["no hypervisor that answered (silent: hv2) has a VM 'db1'"]


def test_who_is_silent() -> None:
    answers: dict[str, t.Any] = {
        "hv1": answer(),
        "hv2": {"unreachable": True, "msg": "timed out"},
        "hv3": {"failed": True},
    }
    found = silent(answers, ["hv1", "hv2", "hv3", "hv4", "hv5"], ["hv3", "hv5"])
    assert found == {"hv2": "timed out", "hv4": "it was not asked (--limit)"}


def test_what_people_read() -> None:
    entry = {
        "name": "web1",
        "destination": "hv2",
        "flow": "overlay",
        "changed": True,
        "failed": False,
        "msg": None,
        "progress": ["web1: 50 %"],
        "bytes_to_copy": 1 << 20,
        "bytes": 5 << 20,
        "seconds": 3.5,
        "downtime_ms": 20,
    }
    text, failures = report(["db1"], {"hv1": {"vms": [entry]}}, check=False)
    assert failures == []
    assert "web1: 50 %" in text
    assert text.splitlines()[-1].split() == [
        "web1",
        "hv1",
        "hv2",
        "moved",
        "(overlay)",
        "5",
        "3.5",
        "20",
    ]
    text, _failures = report([], {"hv1": {"vms": [{**entry, "bytes": "(generated)"}]}}, check=True)
    assert "would move (overlay)" in text
    failed = {**entry, "failed": True, "msg": "why"}
    _text, failures = report([], {"hv1": {"vms": [failed]}, "hv2": {"failed": True}}, check=False)
    assert failures == ["web1: why", "hv2: it did not answer"]


def test_options_and_moves() -> None:
    given: dict[str, t.Any] = {
        "keep_volumes": False,
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
    ((name, destination),) = moves([{"name": "web1", "destination": to}], "hv1")
    assert (name, destination.address, destination.bridges) == ("web1", "hv2", ("br0",))


BAD_MOVES = {
    "to itself": ([("web1", "hv1", None)], "from hv1 to hv1"),
    "twice": ([("web1", "hv2", None), ("web1", "hv3", None)], "is there twice"),
    "no name": ([("", "hv2", None)], "it is empty"),
    "part of a URI": ([("web1", "hv2", "hv2/system?x")], "no host name and no address"),
    "option of ssh": ([("web1", "hv2", "-x")], "no host name and no address"),
}


@pytest.mark.parametrize(("vms", "text"), BAD_MOVES.values(), ids=BAD_MOVES.keys())
def test_bad_moves(vms: list[tuple[str, str, str | None]], text: str) -> None:
    given = [{"name": n, "destination": {"name": to, "address": at}} for n, to, at in vms]
    with pytest.raises(SpecError, match=text):
        moves(given, "hv1")
