# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Capacity, losses, and the fleet as it would be: compared with placement's own bookkeeping."""

from __future__ import annotations

import copy
import dataclasses
import random
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused, SpecError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.foresight import (
    capacity,
    report,
    state,
    what_if,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.foresight.state import NewHost
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.decide import (
    request_of,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import decide as placement

Answers = dict[str, t.Any]
POLICY = placement.Policy()
GIB = 1 << 30


def vm(name: str, memory: int = 512, **changes: t.Any) -> dict[str, t.Any]:
    return {
        "name": name,
        "uuid": f"uuid of {name}",
        "active": False,
        "persistent": True,
        "error": None,
        "phase": None,
        "move": None,
        "vcpus": 1,
        "memory_mib": memory,
        "domain_type": "kvm",
        "arch": "x86_64",
        "bridges": [],
        "networks": [],
        "groups": [],
        "affinity": [],
        "anti_affinity": [],
        "tags": [],
        "zone": None,
        "evacuated_from": [],
        "nwfilters": [],
        "vsock": False,
        "media": [],
        "disks": [{"path": f"/images/{name}.qcow2", "bytes": GIB, "backing": None}],
        **changes,
    }


def answer(*vms: dict[str, t.Any], memory: int = 8704, **changes: t.Any) -> dict[str, t.Any]:
    """A hypervisor that can promise 8 GiB, 16 vCPUs and 100 GiB."""
    host = {
        "domain_types": ["kvm", "qemu"],
        "arch": "x86_64",
        "cpu": {"total": 4, "defined": sum(one["vcpus"] for one in vms), "running": 0},
        "memory_mib": {
            "total": memory,
            "defined": sum(one["memory_mib"] for one in vms),
            "running": 0,
        },
        "pools": [
            {
                "name": name,
                "state": "running",
                "path": path,
                "capacity_mib": 100 << 10,
                "available_mib": 100 << 10,
                "promised_mib": promised,
                "claimed_mib": 0,
                "volume_allocation_mib": 0,
                "error": None,
            }
            for name, path, promised in (
                ("default", "/images", sum(len(one["disks"]) for one in vms) << 10),
                ("base", "/base", 0),
            )
        ],
        "networks": [],
        "bridges": [],
        "maintenance": False,
        "errors": [],
        "images": [],
        "vms": [
            {key: one[key] for key in ("name", "uuid", "phase", "groups", "anti_affinity")}
            for one in vms
        ],
        **changes,
    }
    return {"host": host, "vms": list(vms), "claims": []}


def hosts(answers: Answers) -> list[placement.PlacementHost]:
    return [placement.host_from_info(one["host"], {}, name=name) for name, one in answers.items()]


def request(name: str = "new", memory: int = 1024, **other: t.Any) -> placement.Request:
    disks = (placement.DiskNeed("default", 10 << 10),)
    return placement.Request(name, 1, memory, **{"disks": disks, **other})


def test_room_of_hypervisor_names_what_it_lacks_for_another() -> None:
    answers = {
        "hv1": answer(vm("a", 2048)),
        "hv2": answer(maintenance=True),
        "hv3": answer(memory=262144),
        "hv4": answer(memory=262144, cpu={"total": 2, "defined": 1}),
    }
    rooms = capacity.rooms(hosts(answers), request(), POLICY)
    assert [(room.name, room.more, room.filter) for room in rooms] == [
        ("hv1", 6, "memory"),
        ("hv2", 0, "maintenance"),
        ("hv3", 9, "storage"),  # 512 MiB stay free
        ("hv4", 7, "vcpus"),
    ]
    assert "these VMs take 6144 MiB" in rooms[0].reason


def random_fleet(seed: int) -> tuple[Answers, random.Random]:
    rng = random.Random(seed)  # noqa: S311
    groups = ["web", "db"]
    answers = {}
    for index in range(rng.randint(2, 6)):
        vms = [
            vm(
                f"vm{index}-{number}",
                rng.choice([256, 1024, 3000]),
                vcpus=rng.choice([1, 2]),
                groups=rng.sample(groups, rng.choice([0, 1])),
                anti_affinity=rng.sample(groups, rng.choice([0, 0, 1])),
                active=rng.random() < 0.5,
            )
            for number in range(rng.randint(0, 4))
        ]
        answers[f"hv{index}"] = answer(*vms, memory=rng.choice([8704, 13000]))
    return answers, rng


@pytest.mark.parametrize("seed", range(60))
def test_sum_of_rooms_is_what_a_batch_gets(seed: int) -> None:
    answers, rng = random_fleet(seed)
    rule = rng.choice([(), (), ("web",)])
    shape = request(
        memory=rng.choice([512, 2000]),
        groups=rule,
        anti_affinity=rule,
        image=rng.choice([None, "digest"]),
        image_mib=3000,
    )
    more = sum(room.more for room in capacity.rooms(hosts(answers), shape, POLICY))
    batch = [dataclasses.replace(shape, name=f"n{i}") for i in range(more + 3)]
    placed = placement.place(hosts(answers), batch)
    assert sum(one.host is not None for one in placed) == more


@pytest.mark.parametrize("seed", range(60))
def test_state_after_steps_is_what_placement_counted(seed: int) -> None:
    """Its sums and groups, read anew from the answers, equal those kept while steps were added."""
    answers, rng = random_fleet(seed)
    before = copy.deepcopy(answers)
    fleet = placement.FleetLoad(hosts(answers), POLICY)
    now: Answers = answers
    for number in range(6):
        places = list(now)
        home = rng.choice(places)
        if rng.random() < 0.5 or not now[home]["vms"]:
            new = request(f"new{number}", groups=("web",), image="digest", image_mib=500)
            now = state.created(now, home, new, POLICY)
            fleet.add(home, new)
        else:
            moving = rng.choice(now[home]["vms"])
            to = rng.choice([one for one in places if one != home])
            now = state.moved(now, moving["name"], home, to)
            need = request_of(moving["name"], moving, None)
            fleet.remove(home, need)
            fleet.add(to, need)
    assert answers == before, "what was given is as it was"
    anew = placement.FleetLoad(hosts(now), POLICY)
    for name, load in fleet.loads.items():
        other = anew.loads[name]
        assert (load.memory, load.vcpus) == (other.memory, other.vcpus)
        assert set(load.names) == set(other.names)
        assert (load.groups, load.avoided) == (other.groups, other.avoided)
        assert load.images == other.images
        promised = {pool: one.promised for pool, one in load.pools.items()}
        assert promised == {pool: one.promised for pool, one in other.pools.items()}
        vms = now[name]["vms"]
        active = sum(one["memory_mib"] for one in vms if one["active"])
        was = sum(one["memory_mib"] for one in answers[name]["vms"] if one["active"])
        assert now[name]["host"]["memory_mib"]["running"] == active - was


def test_loss_that_leaves_a_vm_without_a_place_is_named() -> None:
    answers = {
        "hv1": answer(vm("a", 5000), vm("b", 2500)),
        "hv2": answer(vm("c", 3500)),
        "hv3": answer(vm("d", 3500)),
    }
    (loss,) = capacity.losses(answers, hosts(answers), 1, POLICY)
    assert loss.lost == ("hv1",)
    (problem,) = loss.problems
    assert problem.startswith("a fits nowhere. ")
    larger = {**answers, "hv4": answer()}
    assert capacity.losses(larger, hosts(larger), 1, POLICY) == []
    text = report.loss_text(1, [loss])
    assert "the fleet does not survive the loss of any one hypervisor:" in text
    assert "hv1" in text


def test_vms_with_the_same_reason_are_listed_together() -> None:
    why = "hv1: it is lost; hv2: needs 1 vCPUs, none are left; others take 1 vCPUs"
    many = [f"{name} fits nowhere. {why}" for name in "abcde"]
    loss = capacity.Loss(("hv1",), (*many, "'x' is being moved to hv1, which is lost too"))
    line = report.loss_text(1, [loss]).splitlines()[-1]
    assert " ".join(line.split()) == (
        "hv1 6 a, b, c, 2 more fit nowhere. hv2: needs 1 vCPUs, none are left; others take 1 vCPUs;"
        " 'x' is being moved to hv1, which is lost too"
    )
    alone = capacity.Loss(("hv1", "hv3"), ("a fits nowhere. hv1: it is lost; hv2: it is full",))
    assert "a fits nowhere. hv2: it is full" in report.loss_text(2, [alone])


def test_loss_of_two_at_once_needs_room_for_both() -> None:
    answers = {f"hv{i}": answer(vm(f"vm{i}", 4096)) for i in range(4)}
    assert capacity.losses(answers, hosts(answers), 1, POLICY) == []
    assert capacity.losses(answers, hosts(answers), 2, POLICY) == []
    lost = capacity.losses(answers, hosts(answers), 3, POLICY)
    assert len(lost) == 4
    assert all(len(one.problems) == 2 for one in lost)


def test_loss_of_more_hypervisors_than_answered_is_the_loss_of_all() -> None:
    answers = {f"hv{i}": answer(vm(f"vm{i}", 1024)) for i in range(3)}
    (loss,) = capacity.losses(answers, hosts(answers), 4, POLICY)
    assert loss.lost == ("hv0", "hv1", "hv2")
    assert len(loss.problems) == 3
    empty = {"hv1": answer(), "hv2": answer()}
    assert capacity.losses(empty, hosts(empty), 4, POLICY) == []


def test_silent_hypervisor_is_not_shown_as_empty() -> None:
    silent = placement.silent_host("hv2", "connection refused")
    seen = [*hosts({"hv1": answer(vm("a", 2048))}), silent]
    text = report.rooms_text(capacity.rooms(seen, request(), POLICY), "1 vCPU")
    assert "no answer: connection refused" in text
    assert "answered:" not in text
    known, unknown = report.hosts_rows(seen)
    assert (known["vms"], known["memory_mib"], known["problem"]) == (1, 2048, None)
    assert (unknown["name"], unknown["problem"]) == ("hv2", "connection refused")
    assert {unknown[key] for key in known if key not in ("name", "problem")} == {None}
    assert "0" not in report.steps_text([], [unknown])


def test_too_many_losses_are_refused() -> None:
    answers = {f"hv{i:03}": answer() for i in range(100)}
    with pytest.raises(PlanRefused, match="161700 cases"):
        capacity.losses(answers, hosts(answers), 3, POLICY)


def test_move_to_a_hypervisor_that_is_lost_too_is_a_problem() -> None:
    moving = vm("a", phase="migrating", move={"source": "hv1", "destination": "hv2"})
    answers = {"hv1": answer(moving), "hv2": answer(), "hv3": answer()}
    (loss,) = capacity.losses(answers, hosts(answers), 2, POLICY)
    assert loss.lost == ("hv1", "hv2")
    assert loss.problems == ("'a' is being moved to hv2, which is lost too",)


def test_what_if_moves_then_creates_where_it_is_left() -> None:
    answers = {"hv1": answer(vm("a", 4096)), "hv2": answer(vm("b", 6000))}
    found = what_if.foresee(
        answers,
        hosts,
        ["hv1"],
        [NewHost("hv9", "hv2")],
        [request("new", memory=4000), request("big", memory=7000)],
        POLICY,
    )
    steps = [(step.name, step.source, step.destination) for step in found.steps]
    assert steps == [("a", "hv1", "hv9"), ("new", None, "hv9")]
    assert len(found.problems) == 1
    assert found.problems[0].startswith("big fits nowhere")
    rows = report.hosts_rows(hosts(found.answers))
    assert [(row["name"], row["vms"], row["memory_mib"]) for row in rows] == [
        ("hv2", 1, 6000),
        ("hv9", 2, 8096),
    ]


@pytest.mark.parametrize(
    ("lost", "new", "said"),
    [
        (["hv8"], [], "hv8 did not answer"),
        ([], [NewHost("new1", "hv8")], "hv8 did not answer"),
        ([], [NewHost("hv1", "hv1")], "hv1 is a hypervisor that there is"),
    ],
)
def test_unknown_hypervisor_refused(lost: list[str], new: list[NewHost], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        what_if.foresee({"hv1": answer()}, hosts, lost, new, [], POLICY)


def test_new_hosts_are_read_with_every_problem() -> None:
    assert report.new_hosts(["hv1", {"like": "hv2", "name": "big", "memory": "1TiB"}]) == [
        NewHost("new1", "hv1"),
        NewHost("big", "hv2", 1 << 20),
    ]
    with pytest.raises(SpecError) as error:
        report.new_hosts([{"memory": 1}, {"like": "hv1", "cpus": "many"}, {"like": "a", "x": 1}])
    paths = [problem.path for problem in error.value.problems]
    assert paths == [f"virt_add_hosts[{index}]" for index in range(3)]


@pytest.mark.parametrize(
    ("size", "path"),
    [
        ({"cpus": 0}, "virt_add_hosts[0].cpus"),
        ({"cpus": "-4"}, "virt_add_hosts[0].cpus"),
        ({"memory": 0}, "virt_add_hosts[0].memory"),
    ],
)
def test_new_host_without_memory_or_cpus_is_refused(size: dict[str, t.Any], path: str) -> None:
    with pytest.raises(SpecError, match="is too few; give 1 or more") as error:
        report.new_hosts([{"like": "hv1", **size}])
    assert [problem.path for problem in error.value.problems] == [path]
