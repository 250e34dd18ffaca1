# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Placement as a whole: the score's parts, batches, and what holds for any fleet whatever."""

from __future__ import annotations

import json
import random
import typing as t
from dataclasses import replace

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import SpecError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import (
    decide as placement_file,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import together
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.decide import (
    DiskNeed,
    FleetLoad,
    HostSettings,
    Placement,
    PlacementHost,
    Policy,
    Request,
    describe,
    host_from_info,
    place,
    rank,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.hosts import (
    DefinedVm,
    PoolFacts,
)


def host(name: str, memory: int = 0, cpus: int = 0, disk: int = 0, **other: t.Any) -> PlacementHost:
    """A hypervisor of 10000 MiB, 100 vCPUs, 100000 MiB of disk, with that much promised."""
    pool = PoolFacts("default", "/var/lib/libvirt/images", 100000, disk, 100000, 1.0)
    base = PoolFacts("base", "/var/lib/libvirt/base", 100000, 0, 100000, 1.0)
    values: dict[str, t.Any] = {
        "maintenance": False,
        "domain_types": frozenset({"kvm", "qemu"}),
        "arch": "x86_64",
        "memory_total_mib": 10000,
        "memory_limit_mib": 10000,
        "memory_promised_mib": memory,
        "vcpus_total": 100,
        "vcpus_max": 100,
        "vcpus_limit": 100,
        "vcpus_promised": cpus,
        "pools": (base, pool),
        "networks": {},
        "bridges": frozenset(),
    }
    return PlacementHost(name=name, **{**values, **other})


def vm(name: str = "new", vcpus: int = 1, memory: int = 100, **other: t.Any) -> Request:
    return Request(name, vcpus, memory, **other)


def on(placements: list[Placement]) -> dict[str, str | None]:
    return {placement.name: placement.host for placement in placements}


# the better hypervisor, the worse one, the VM, the part that decides
WEIGHED: list[tuple[PlacementHost, PlacementHost, Request, str]] = [
    (host("b", memory=1000), host("a", memory=2000), vm(), "memory"),
    (host("b", cpus=10), host("a", cpus=20), vm(), "cpu"),
    (
        host("b", disk=10000),
        host("a", disk=20000),
        vm(disks=(DiskNeed("default", 1000),)),
        "disk",
    ),
    (host("b", cpus=10, memory=1000), host("a", cpus=50, memory=1000), vm(), "peak"),
    (
        host("b", images=frozenset({"digest"})),
        host("a"),
        vm(image="digest", image_mib=100),
        "image",
    ),
    (
        host("b", vms=(DefinedVm("x", groups=("other",)),)),
        host("a", vms=(DefinedVm("y", groups=("web",)),)),
        vm(groups=("web",)),
        "spread",
    ),
    (host("b"), host("a", domain_types=frozenset({"qemu"})), vm(), "emulation"),
]


@pytest.mark.parametrize(("better", "worse", "request_", "part"), WEIGHED)
def test_weighers(
    better: PlacementHost, worse: PlacementHost, request_: Request, part: str
) -> None:
    ranking = place([worse, better], [request_])[0].ranking
    assert [ranked.host for ranked in ranking] == ["b", "a"]
    assert ranking[0].parts[part] < ranking[1].parts[part]
    for ranked in ranking:
        assert set(ranked.parts) == {
            "memory", "cpu", "disk", "peak", "image", "spread", "emulation"
        }  # fmt: skip
        assert ranked.score == pytest.approx(sum(ranked.parts.values()), abs=5e-6)


def test_the_parts_by_hand() -> None:
    # memory ratios 0.2 and 0.4, mean 0.3; the VM adds 0.1 of memory, 0.05 of CPU; its size is 0.15
    ranking = place([host("a", memory=2000), host("b", memory=4000)], [vm(vcpus=5, memory=1000)])[
        0
    ].ranking
    best = ranking[0]
    assert best.host == "a"
    assert best.parts["memory"] == pytest.approx((2 * 0.1 * -0.1 + 0.01 / 2) / 0.15, abs=1e-6)
    assert best.parts["cpu"] == pytest.approx(0.05**2 / 2 / 0.15, abs=1e-6)
    assert best.parts["disk"] == 0
    assert best.parts["peak"] == pytest.approx(0.3**2, abs=1e-6)
    assert ranking[1].parts["memory"] == pytest.approx((2 * 0.1 * 0.1 + 0.005) / 0.15, abs=1e-6)


def test_a_trifle_does_not_outweigh_the_image() -> None:
    """Min-max normalising would make one MiB the whole range of the score."""
    hosts = [host("a", memory=1000), host("b", memory=1001, images=frozenset({"digest"}))]
    assert place(hosts, [vm(image="digest")])[0].host == "b"


def test_the_image_does_not_outweigh_a_full_host() -> None:
    hosts = [host("a"), host("b", memory=8000, images=frozenset({"digest"}))]
    assert place(hosts, [vm(image="digest")])[0].host == "a"


def test_a_big_general_group_does_not_make_placement_count_vms() -> None:
    """Of 300 VMs in `linux`, 10 more or less on a host are nothing against its load."""
    crowd = [DefinedVm(f"v{i}", groups=("linux",)) for i in range(300)]
    hosts = [
        host("a", memory=1000, vms=tuple(crowd[:160])),
        host("b", memory=6000, vms=tuple(crowd[160:])),
    ]
    assert place(hosts, [vm(groups=("linux",))])[0].host == "a"


def test_scores_do_not_change_with_a_host_that_is_no_candidate() -> None:
    two = [host("a", memory=1000), host("b", memory=2000)]
    alone = place(two, [vm(zone=None)])[0].ranking
    third = host("c", maintenance=True, memory=9000)
    assert place([*two, third], [vm()])[0].ranking == alone


def test_a_score_says_the_same_in_a_big_fleet() -> None:
    """The parts do not shrink with the number of hosts, so the weights stay what they are."""

    def gap(count: int) -> float:
        hosts = [host(f"h{i:04}", memory=4000) for i in range(count)]
        hosts += [host("low", memory=2000), host("top", memory=6000)]
        scores = {
            ranked.host: ranked.score for ranked in rank(FleetLoad(hosts, Policy()), vm()).ranking
        }
        return scores["top"] - scores["low"]

    assert gap(1000) == pytest.approx(gap(2), rel=0.01)


def test_equal_vms_spread_evenly() -> None:
    hosts = [host(f"h{i}") for i in range(10)]
    found = place(hosts, [vm(f"v{i}", memory=500) for i in range(50)])
    counts = [sum(p.host == h.name for p in found) for h in hosts]
    assert counts == [5] * 10


def test_an_uneven_fleet_is_filled_up() -> None:
    hosts = [host("a", memory=3000, cpus=30), host("b"), host("c", memory=1500, cpus=15)]
    found = place(hosts, [vm(f"v{i}", vcpus=5, memory=500) for i in range(9)])
    assert sorted(str(p.host) for p in found) == ["b"] * 6 + ["c"] * 3


def test_ties_go_to_the_first_name() -> None:
    hosts = [host("c"), host("a"), host("b")]
    assert [one.host for one in place(hosts, [vm()], every=True)[0].ranking] == ["a", "b", "c"]


# Batches


def test_input_order_is_kept_and_members_see_each_other() -> None:
    requests = [vm("small", memory=1000), vm("big", memory=9500), vm("mid", memory=8000)]
    found = place([host("a"), host("b")], requests)
    assert [placement.name for placement in found] == ["small", "big", "mid"]
    assert found[0].host == found[2].host != found[1].host


def test_a_batch_says_what_it_took() -> None:
    found = place([host("a")], [vm("x", memory=6000), vm("y", memory=6000)])
    assert on(found) == {"x": "a", "y": None}
    reason = found[1].rejected[0].reason
    assert "4000 MiB of 10000 MiB are not promised; others in this batch take 6000 MiB" in reason


def test_batch_anti_affinity() -> None:
    hosts = [host("a"), host("b", memory=5000), host("c", memory=8000)]
    found = place(hosts, [vm(f"v{i}", groups=("web",), anti_affinity=("web",)) for i in range(4)])
    assert sorted(str(p.host) for p in found) == ["None", "a", "b", "c"]
    lost = next(p for p in found if p.host is None)
    assert {entry.filter for entry in lost.rejected} == {"anti_affinity"}


def test_soft_anti_affinity_ranks_last_and_names_the_rule() -> None:
    near = host("a", vms=(DefinedVm("x", groups=("web",)),))
    far = host("b", memory=9000, cpus=90)
    soft = vm(anti_affinity=("web:soft",))
    (placed,) = place([near, far], [soft])
    assert [ranked.host for ranked in placed.ranking] == ["b", "a"]
    assert placed.why == "keeps away from VMs that are on a"
    broken = "x of group web is on it, and the VM should keep away from that group"
    assert placed.ranking[1].notes == (broken,)
    (alone,) = place([near], [soft])
    assert (alone.host, alone.ranking[0].notes) == ("a", (broken,))
    (hard,) = place([near], [vm(anti_affinity=("web",))])
    assert hard.host is None


def test_soft_anti_affinity_is_mutual() -> None:
    near = host("a", vms=(DefinedVm("x", anti_affinity=("web:soft",)),))
    (placed,) = place([near, host("b", memory=9000)], [vm(groups=("web",))])
    assert [ranked.host for ranked in placed.ranking] == ["b", "a"]
    assert placed.ranking[1].notes == ("x is on it and should keep away from the VM's group web",)


def test_batch_with_soft_anti_affinity_spreads_and_then_shares() -> None:
    requests = [vm(f"v{i}", groups=("web",), anti_affinity=("web:soft",)) for i in range(3)]
    placed = place([host("a"), host("b")], requests)
    assert sorted(filter(None, on(placed).values())) in (["a", "a", "b"], ["a", "b", "b"])
    assert [bool(one.ranking[0].notes) for one in placed].count(True) == 1


def test_relaxed_request_breaks_hard_rules_and_names_them() -> None:
    near = host("a", vms=(DefinedVm("x", groups=("web",)),))
    relaxed = vm(anti_affinity=("web",), relaxed=True)
    (placed,) = place([near, host("b", memory=9000)], [relaxed])
    assert [ranked.host for ranked in placed.ranking] == ["b", "a"]
    assert placed.ranking[1].notes == (
        "x of group web is on it, and the VM must keep away from that group",
    )


def test_anti_affinity_is_mutual() -> None:
    hosts = [host("a"), host("b", memory=9000)]
    for order in (0, 1):
        pair = [vm("x", groups=("db",)), vm("y", memory=200, anti_affinity=("db",))]
        found = on(place(hosts, pair[order:] + pair[:order]))
        assert None not in found.values()
        assert found["x"] != found["y"]


def test_affinity_keeps_to_the_hosts_of_the_group() -> None:
    near = host("a", memory=9000, cpus=90, vms=(DefinedVm("x", groups=("db",)),))
    hosts = [near, host("b")]
    (placed,) = place(hosts, [vm(affinity=("db",))])
    assert placed.host == "a"
    (full,) = place(hosts, [vm(affinity=("db",), memory=2000)])
    assert {entry.host: entry.filter for entry in full.rejected} == {
        "a": "memory",
        "b": "affinity",
    }
    (soft,) = place(hosts, [vm(affinity=("db:soft",))], every=True)
    assert [ranked.host for ranked in soft.ranking] == ["a", "b"]
    broken = "no VM of group db is on it, and the VM should be beside one of that group"
    assert soft.ranking[1].notes == (broken,)


def test_affinity_to_a_group_without_vms_in_service_binds_nothing() -> None:
    member = (DefinedVm("x", groups=("db",)),)
    for away in ({"maintenance": True}, {"problem": "refused"}):
        hosts = [host("a"), host("b", vms=member, **away)]
        (placed,) = place(hosts, [vm(affinity=("db",))])
        assert placed.host == "a"
    (placed,) = place([host("a"), host("b")], [vm(affinity=("db",))])
    assert placed.host == "a"


def test_batch_with_affinity_is_placed_after_what_it_is_beside() -> None:
    hosts = [host("a"), host("b"), host("c")]
    requests = [
        vm("cache", memory=3000, groups=("cache",), affinity=("app",)),
        vm("app", memory=2000, groups=("app",), affinity=("db",)),
        vm("db", memory=100, groups=("db",)),
        vm("other", memory=5000),
    ]
    placed = on(place(hosts, requests))
    assert placed["cache"] == placed["app"] == placed["db"] != placed["other"]


def test_batch_with_affinity_to_its_own_group_stays_together() -> None:
    requests = [vm(f"v{i}", groups=("ring",), affinity=("ring",)) for i in range(3)]
    assert len(set(on(place([host("a"), host("b")], requests)).values())) == 1


def test_relaxed_request_breaks_hard_affinity_and_names_it() -> None:
    near = host("a", memory=10000, vms=(DefinedVm("x", groups=("db",)),))
    (placed,) = place([near, host("b")], [vm(affinity=("db",), relaxed=True)])
    assert placed.host == "b"
    broken = "no VM of group db is on it, and the VM must be beside one of that group"
    assert placed.ranking[0].notes == (broken,)


@pytest.mark.parametrize(
    ("vms", "expected"),
    [
        ([((), ()), ((), ())], [0, 0]),
        ([(("a",), ("b",)), (("b",), ("c:soft",)), (("c",), ())], [2, 1, 0]),
        ([(("a",), ("absent",))], [0]),
        ([(("a",), ("a",)), (("a",), ())], [0, 0]),
    ],
)
def test_turns_follow_the_chain_of_groups(vms: list[t.Any], expected: list[int]) -> None:
    assert together.turns(vms) == expected


def test_turns_of_a_circle_are_finite() -> None:
    assert len(together.turns([(("a",), ("b",)), (("b",), ("a",))])) == 2


def test_batch_disk_space() -> None:
    requests = [vm(f"v{i}", disks=(DiskNeed("default", 40000),)) for i in range(5)]
    found = place([host("a"), host("b")], requests)
    assert sorted(str(p.host) for p in found) == ["None", "a", "a", "b", "b"]


def test_an_image_is_copied_once_per_host() -> None:
    base = PoolFacts("base", "/var/lib/libvirt/base", 1000, 0, 1000, 1.0)
    one = host("a", pools=(base, PoolFacts("default", None, 100000, 0, 100000, 1.0)))
    requests = [vm(f"v{i}", image="digest", image_mib=400) for i in range(3)]
    assert set(on(place([one], requests)).values()) == {"a"}
    two = [*requests, vm("w", image="another", image_mib=400)]
    found = place([one], two)
    assert sum(p.host is None for p in found) >= 1, "a second image does not fit in the pool"


@pytest.fixture
def one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """No second try in another order, so that the first order is what is tested."""
    monkeypatch.setattr(placement_file, "_ROUNDS", 1)


@pytest.mark.usefixtures("one_round")
def test_those_without_a_choice_come_first() -> None:
    """`free` is bigger and likes `a` better, but `bound` can be nowhere else."""
    hosts = [host("a"), host("b", memory=500)]
    requests = [vm("free", memory=9000), vm("bound", memory=2000, host="a")]
    assert on(place(hosts, requests)) == {"free": "b", "bound": "a"}


@pytest.mark.usefixtures("one_round")
def test_the_big_come_first() -> None:
    hosts = [host("a"), host("b")]
    requests = [vm("s1", memory=1500), vm("s2", memory=1500), vm("big", memory=9000)]
    requests += [vm(f"t{index}", memory=1000) for index in range(8)]
    assert None not in on(place(hosts, requests)).values()


@pytest.mark.usefixtures("one_round")
def test_the_choosy_come_early() -> None:
    """`zoned` is a little smaller, but has half the choice."""
    hosts = [host("a", settings=HostSettings(zone="z"))]
    hosts += [host("b", settings=HostSettings(zone="z"), memory=5000), host("c", memory=1000)]
    hosts += [host("d", memory=1000)]
    requests = [vm("free", memory=8000), vm("zoned", memory=7000, zone="z")]
    assert on(place(hosts, requests)) == {"zoned": "a", "free": "c"}


def test_a_batch_is_tried_in_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spreading 6, 4, 4, 3, 3 evenly over two tens leaves 1 and 2; beginning with a 3 does not."""
    hosts = [host("a"), host("b")]
    sizes = {"v6": 6000, "v41": 4000, "v42": 4000, "v31": 3000, "v32": 3000}
    requests = [vm(name, memory=memory) for name, memory in sizes.items()]
    assert None not in on(place(hosts, requests)).values()
    monkeypatch.setattr(placement_file, "_ROUNDS", 1)
    assert None in on(place(hosts, requests)).values(), "the case shows nothing any more"


def test_one_that_fits_nowhere_harms_no_other() -> None:
    requests = [vm("huge", memory=10001), *(vm(f"v{index}", memory=5000) for index in range(4))]
    found = on(place([host("a"), host("b")], requests))
    assert [name for name, where in found.items() if where is None] == ["huge"]


def test_a_pool_of_another_name_is_weighed_with_the_rest() -> None:
    images = PoolFacts("images", "/var/lib/libvirt/images", 100000, 10000, 100000, 1.0)
    hosts = [host("a", disk=20000), host("b", pools=(images,))]
    ranking = place(hosts, [vm(disks=(DiskNeed("default", 1000),))])[0].ranking
    assert [ranked.host for ranked in ranking] == ["b", "a"]
    assert ranking[0].parts["disk"] < 0 < ranking[1].parts["disk"]


def test_a_base_image_stays_when_its_vm_goes() -> None:
    fleet = FleetLoad([host("a")], Policy())
    request = vm(image="digest", image_mib=400)
    fleet.add("a", request)
    fleet.remove("a", request)
    assert fleet.loads["a"].pools["base"].promised == 400
    other = FleetLoad([host("a", vms=(DefinedVm("new"),), memory=100, cpus=1)], Policy())
    other.remove("a", request)
    assert other.loads["a"].pools["base"].promised == 0


def random_case(seed: int) -> tuple[list[PlacementHost], list[Request]]:
    rng = random.Random(seed)  # noqa: S311
    hosts = []
    for index in range(rng.randint(1, 12)):
        total = rng.choice([4096, 24576, 131072])
        vms = [
            {
                "name": f"old{index}-{n}",
                "groups": rng.sample(["web", "db", "all"], rng.randint(0, 2)),
                "anti_affinity": rng.sample(["web", "db"], rng.choice([0, 0, 0, 1])),
            }
            for n in range(rng.randint(0, 4))
        ]
        info = {
            "domain_types": rng.choice([["kvm", "qemu"], ["qemu"]]),
            "arch": "x86_64",
            "cpu": {"total": rng.choice([2, 8, 32]), "defined": rng.randint(0, 10)},
            "memory_mib": {"total": total, "defined": rng.randint(0, total)},
            "pools": [
                {
                    "name": name,
                    "state": rng.choice(["running"] * 9 + ["inactive"]),
                    "path": f"/{name}",
                    "capacity_mib": capacity,
                    "available_mib": rng.randint(0, capacity),
                    "promised_mib": rng.randint(0, capacity),
                }
                for name in rng.sample(["default", "base", "gold"], rng.randint(0, 3))
                for capacity in [rng.randint(10000, 400000)]
            ],
            "networks": [{"name": "nat", "active": rng.random() < 0.9, "bridge": "virbr0"}],
            "bridges": rng.choice([["br0"], ["br0", "br1"], None]),
            "maintenance": rng.choice([False] * 8 + [True, None]),
            "vms": vms,
            "images": rng.sample(["img1", "img2"], rng.randint(0, 2)),
        }
        settings = {
            "virt_zone": rng.choice(["a", "b", None]),
            "virt_tags": rng.choice(["", "ssd"]),
            "virt_memory_ratio": rng.choice(["1", "1.5", 0.9]),
            "virt_vcpu_ratio": rng.choice(["4", 1, 2.5]),
            "virt_disk_ratio": rng.choice([1, "2"]),
        }
        hosts.append(host_from_info(info, settings, name=f"hv{index:02}"))
    requests = [
        vm(
            f"vm{index:02}",
            vcpus=rng.choice([1, 2, 4]),
            memory=rng.choice([256, 1024, 4096, 9000]),
            disks=tuple(
                DiskNeed(rng.choice(["default", "gold"]), rng.choice([1024, 8192, 50000]), full)
                for full in rng.choices([True, False], k=rng.randint(0, 2))
            ),
            networks=("nat",) if rng.random() < 0.2 else (),
            bridges=(rng.choice(["br0", "br1"]),) if rng.random() < 0.3 else (),
            host=rng.choice([None] * 9 + ["hv00"]),
            zone=rng.choice([None] * 5 + ["a"]),
            tags=rng.choice([(), (), (), ("ssd",)]),
            groups=tuple(rng.sample(["web", "db", "all"], rng.randint(0, 2))),
            anti_affinity=tuple(rng.sample(["web", "db"], rng.choice([0, 0, 0, 1]))),
            image=rng.choice([None, "img1", "img2"]),
            image_mib=600,
        )
        for index in range(rng.randint(1, 25))
    ]
    return hosts, requests


SEEDS = range(100)


@pytest.mark.parametrize("seed", SEEDS)
def test_never_where_it_does_not_fit(seed: int) -> None:
    """Counted anew from the placements alone, with none of the library's own bookkeeping."""
    hosts, requests = random_case(seed)
    by_name = {one.name: one for one in hosts}
    wanted = {one.name: one for one in requests}
    found = place(hosts, requests, every=True)
    assert [placement.name for placement in found] == [one.name for one in requests]
    for placement in found:
        seen = [ranked.host for ranked in placement.ranking]
        seen += [entry.host for entry in placement.rejected]
        assert sorted(seen) == sorted(by_name), "each host is ranked or rejected, once"
        assert all(entry.reason for entry in placement.rejected)
        assert placement.host == (seen[0] if placement.ranking else None)
    for name, one in by_name.items():
        mine = [wanted[placement.name] for placement in found if placement.host == name]
        if not mine:
            continue
        assert one.problem is None
        assert one.maintenance is False
        total, promised = one.memory_total_mib, one.memory_promised_mib
        used = promised + sum(request.memory_mib for request in mine)
        assert used <= total * one.settings.memory_ratio - max(512, total // 20)
        vcpus = one.vcpus_promised + sum(request.vcpus for request in mine)
        assert vcpus <= one.vcpus_total * one.settings.vcpu_ratio
        assert all(request.vcpus <= one.vcpus_total for request in mine)
        check_pools(one, mine)
        groups = [(v.name, set(v.groups), set(v.anti_affinity)) for v in one.vms]
        groups += [(r.name, set(r.groups), set(r.anti_affinity)) for r in mine]
        placed = {request.name for request in mine}
        for first, member_of, _ in groups:
            for second, _, avoided in groups:
                if first != second and {first, second} & placed:
                    assert not member_of & avoided
        for request in mine:
            assert request.host in (None, name)
            assert request.zone in (None, one.settings.zone)
            assert set(request.tags) <= one.settings.tags
            assert all((one.networks or {})[network] for network in request.networks)
            assert set(request.bridges) <= (one.bridges or frozenset())


def check_pools(one: PlacementHost, mine: list[Request]) -> None:
    pools = {pool.name: pool for pool in one.pools}
    copied = {r.image: r.image_mib for r in mine if r.image and r.image not in one.images}
    for name in {disk.pool for request in mine for disk in request.disks}:
        pool = pools.get(name)
        if pool is None:
            assert name in ("default", "base"), "gold is not made by anybody"
            continue
        needs = [disk for request in mine for disk in request.disks if disk.pool == name]
        assert pool.problem is None
        assert pool.promised_mib + sum(disk.size_mib for disk in needs) <= pool.limit_mib
        real = sum(d.size_mib if d.full else d.size_mib / one.settings.disk_ratio for d in needs)
        assert real + 512 <= pool.available_mib
    if "base" in pools and copied:
        assert pools["base"].problem is None
        assert pools["base"].promised_mib + sum(copied.values()) <= pools["base"].limit_mib
        assert sum(copied.values()) + 512 <= pools["base"].available_mib


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_depends_on_the_order_of_hosts(seed: int) -> None:
    hosts, requests = random_case(seed)
    shuffled = hosts[:]
    random.Random(seed + 1).shuffle(shuffled)  # noqa: S311
    assert place(shuffled, requests) == place(hosts, requests)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_order_of_a_batch_changes_nothing(seed: int) -> None:
    hosts, requests = random_case(seed)
    shuffled = requests[:]
    random.Random(seed + 1).shuffle(shuffled)  # noqa: S311
    assert on(place(hosts, shuffled)) == on(place(hosts, requests))


@pytest.mark.parametrize("seed", SEEDS)
def test_sums_come_back_after_add_and_remove(seed: int) -> None:
    """What evacuation and rebalance rest on: the running sums equal those counted afresh."""
    hosts, requests = random_case(seed)
    requests = [replace(request, image=None) for request in requests]
    fleet, rng = FleetLoad(hosts, Policy()), random.Random(seed)  # noqa: S311
    before = sums(fleet)
    placed = []
    for request in requests:
        target = rank(fleet, request).host
        if target is not None:
            fleet.add(target, request)
            placed.append((target, request))
    rng.shuffle(placed)
    for target, request in placed:
        fleet.remove(target, request)
    assert sums(fleet) == pytest.approx(before, abs=1e-9)
    after = [rank(fleet, request) for request in requests]
    fresh = [rank(FleetLoad(hosts, Policy()), request) for request in requests]
    assert [p.host for p in after] == [p.host for p in fresh]
    assert [p.rejected for p in after] == [p.rejected for p in fresh]


def test_evacuation_counts_the_hosts_in_service_only() -> None:
    """A VM that leaves a hypervisor in maintenance loads another one, and evens out nothing."""
    leaving = vm("x", memory=1000, disks=(DiskNeed("default", 1000),))
    evacuated = host("a", 1000, 1, 1000, maintenance=True, vms=(DefinedVm("x"),))
    fleet = FleetLoad([evacuated, host("b"), host("c")], Policy())
    assert rank(fleet, leaving).existing == ("a",)
    before = sums(fleet)
    fleet.remove("a", leaving)
    assert sums(fleet) == before
    assert rank(fleet, leaving).host == "b"
    fleet.add("b", leaving)
    assert sums(fleet) != before
    assert [fleet.loads[name].memory for name in "abc"] == [0, 1000, 0]


def test_members_of_a_group_are_counted_as_they_come() -> None:
    """Three on `a`, one on `b`, four in all: a quarter would die with `b`."""
    fleet = FleetLoad([host("a", vms=(DefinedVm("old", groups=("web",)),)), host("b")], Policy())
    for name, where in (("x", "a"), ("y", "a"), ("z", "b")):
        fleet.add(where, vm(name, groups=("web", "web")))
    parts = {one.host: one.parts for one in rank(fleet, vm(groups=("web",))).ranking}
    assert (parts["a"]["spread"], parts["b"]["spread"]) == (0.75, 0.25)


@pytest.mark.parametrize("seed", range(20))
def test_sums_are_the_same_to_the_last_bit(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    hosts = [host(f"h{i}", memory=rng.randint(0, 9999)) for i in range(30)]
    before = sums(FleetLoad(hosts, Policy()))
    rng.shuffle(hosts)
    assert sums(FleetLoad(hosts, Policy())) == before


def sums(fleet: FleetLoad) -> list[float]:
    values = [fleet.memory.value(), fleet.cpu.value(), fleet.memory.ratios, fleet.cpu.ratios]
    values += [fleet.disk[pool].value() for pool in sorted(fleet.disk)]
    values += [fleet.disk[pool].ratios for pool in sorted(fleet.disk)]
    values += [fleet.members.get(group, 0) for group in ("web", "db", "all")]
    return values


@pytest.mark.parametrize("seed", range(40))
def test_the_change_foretold_is_the_change_that_comes(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    hosts = [host(f"h{i}", memory=rng.randint(0, 9000)) for i in range(rng.randint(1, 9))]
    fleet = FleetLoad(hosts, Policy())
    for index in range(10):
        load = fleet.loads[f"h{rng.randrange(len(hosts))}"]
        request = vm(f"v{index}", memory=rng.randint(1, 3000))
        ratio, added = load.memory / load.memory_limit, request.memory_mib / load.memory_limit
        expected = fleet.memory.value() + fleet.memory.change(ratio, added)
        fleet.add(load.host.name, request)
        ratios = [one.memory / one.memory_limit for one in fleet.loads.values()]
        mean = sum(ratios) / len(ratios)
        assert fleet.memory.value() == pytest.approx(expected, abs=1e-9)
        assert fleet.memory.value() == pytest.approx(sum((r - mean) ** 2 for r in ratios), abs=1e-9)


# Bad input, and what people read


def test_every_bad_request_is_named() -> None:
    requests = [
        vm("x", memory=0),
        vm("x", vcpus=-1),
        vm("y", disks=(DiskNeed("default", 0),)),
    ]
    with pytest.raises(SpecError) as error:
        place([host("a"), host("a")], requests)
    assert [problem.path for problem in error.value.problems] == [
        "hosts",
        "vms[0].memory",
        "vms[1].name",
        "vms[1].vcpus",
        "vms[2].disks[0].size",
    ]


def test_nothing_to_place_on_or_to_place() -> None:
    assert place([host("a")], []) == []
    alone = place([], [vm()])[0]
    assert alone.host is None
    assert describe(alone) == "new fits nowhere: there is no hypervisor to choose from"


DESCRIBED: list[tuple[list[PlacementHost], Request, str]] = [
    ([host("a"), host("b")], vm(), "new goes to a, next best: b"),
    ([host("a")], vm(), "new goes to a"),
    (
        [host("a", vms=(DefinedVm("new"),)), host("b")],
        vm(),
        "new already exists on a",
    ),
    (
        [host("a"), host("b", maintenance=True)],
        vm(host="b"),
        "new fits nowhere. b: it is in maintenance; a: the request names b",
    ),
    (
        [host("a", maintenance=True), host("b", maintenance=True), host("c", maintenance=True)],
        vm(),
        "new fits nowhere. a: it is in maintenance; b: it is in maintenance; and 1 more",
    ),
]


@pytest.mark.parametrize(("hosts", "request_", "text"), DESCRIBED)
def test_describe(hosts: list[PlacementHost], request_: Request, text: str) -> None:
    assert describe(place(hosts, [request_])[0], limit=2) == text


def test_the_result_is_plain_data() -> None:
    hosts = [host("a"), host("b", maintenance=True), host("c", pools=())]
    request = vm(disks=(DiskNeed("default", 100),))
    result = place(hosts, [request], every=True)[0].as_dict()
    assert json.loads(json.dumps(result)) == result
    assert result["host"] == "a"
    assert [entry["host"] for entry in result["ranking"]] == ["a", "c"]
    assert result["rejected"] == [
        {"host": "b", "filter": "maintenance", "reason": "it is in maintenance"}
    ]
    assert result["ranking"][1]["notes"]


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize(
    ("known", "batch", "new"),
    [
        ({"groups": ("app",)}, {}, {"anti_affinity": ("app",)}),
        ({}, {"groups": ("app",)}, {"anti_affinity": ("app",)}),
        ({}, {"anti_affinity": ("app",)}, {"groups": ("app",)}),
        ({"anti_affinity": ("app",)}, {"groups": ("x",)}, {"groups": ("app",)}),
    ],
)
def test_new_vm_keeps_away_from_existing_vm_of_its_batch(
    known: dict[str, t.Any], batch: dict[str, t.Any], new: dict[str, t.Any], every: bool
) -> None:
    """The group may be in the metadata of the one that exists, or only in the request that adds
    it."""
    hosts = [host("hv1", vms=(DefinedVm("app1", "u1", **known),)), host("hv2")]
    beside = [vm("app1", **batch), vm("appx2", host="hv1", **new)]
    (existing, placed) = place(hosts, beside, every=every)
    assert existing.existing == ("hv1",)
    assert placed.host is None
    reasons = {rejection.host: rejection.filter for rejection in placed.rejected}
    assert reasons["hv1"] == "anti_affinity"
    free = [vm("app1", **batch), vm("appx2", **new)]
    assert on(place(hosts, free, every=every))["appx2"] == "hv2"
