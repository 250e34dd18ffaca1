# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Choosing by classes: every choice, score and reason is that of a pass over all hypervisors."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import (
    decide as placement_file,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.decide import (
    DiskNeed,
    PlacementHost,
    Request,
    place,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.hosts import (
    DefinedVm,
    PoolFacts,
)

from .test_decide import host, random_case, vm


def alike_case(seed: int) -> tuple[list[PlacementHost], list[Request]]:
    """Many hypervisors of few loads and sizes, and VMs of few shapes, with all kinds of rules."""
    rng = random.Random(seed)  # noqa: S311
    groups = ["linux", "web", "db", "rare"]
    hosts = []
    for index in range(rng.randint(2, 60)):
        disk = rng.choice([50000, 100000])
        free = rng.choice([disk, disk // 2, 3000])
        pools = [PoolFacts("default", "/var/lib/libvirt/images", disk, 0, free, 1.0)]
        if rng.random() < 0.9:
            room = rng.choice([900, 100000])
            pools.append(PoolFacts("base", "/var/lib/libvirt/base", room, 0, 100000, 1.0))
        vms = [
            DefinedVm(
                f"old{index}-{number}",
                groups=tuple(rng.sample(groups, rng.randint(0, 2))),
                anti_affinity=tuple(rng.sample(["web", "db:soft", "rare:soft"], 1))
                if rng.random() < 0.2
                else (),
            )
            for number in range(rng.choice([0, 0, 0, 1, 2]))
        ]
        memory = rng.choice([10000, 20000])
        hosts.append(
            host(
                f"h{index:02}",
                memory=rng.choice([0, 0, 1000, 5000]),
                cpus=rng.choice([0, 10]),
                memory_limit_mib=memory,
                memory_total_mib=memory,
                pools=tuple(pools),
                vms=tuple(vms),
                domain_types=frozenset(rng.choice([["kvm", "qemu"]] * 5 + [["qemu"]])),
                images=frozenset(rng.choice([["digest"], []])),
                maintenance=rng.choice([False] * 9 + [True]),
            )
        )
    rules = ["web", "db", "linux:soft", "web:soft", "rare", "rare:soft"]
    shapes = [
        vm(
            vcpus=rng.choice([1, 4]),
            memory=rng.choice([500, 1500, 4000]),
            disks=(DiskNeed("default", rng.choice([500, 8000])),) * rng.randint(0, 2),
            groups=tuple(rng.sample(groups, rng.choice([0, 1, 1, 2]))),
            affinity=tuple(rng.sample(["web", "db:soft", "rare"], rng.choice([0, 0, 0, 1, 2]))),
            anti_affinity=tuple(rng.sample(rules, rng.choice([0, 0, 1]))),
            image=rng.choice([None, "digest", "other"]),
            image_mib=400,
            relaxed=rng.random() < 0.1,
        )
        for _ in range(rng.randint(1, 5))
    ]
    requests = []
    for index in range(rng.randint(1, 80)):
        request = rng.choice(shapes)
        if rng.random() < 0.3:  # a service of three VMs that are kept apart
            service = f"svc{index // 9}{rng.choice(['', ':soft'])}"
            group = service.partition(":")[0]
            request = replace(
                request,
                groups=(*request.groups, group),
                anti_affinity=(*request.anti_affinity, service),
            )
        requests.append(replace(request, name=f"vm{index:02}"))
    return hosts, requests


def compare(hosts: list[PlacementHost], requests: list[Request]) -> int:
    """Compare both ways for each VM; returns how many VMs were placed."""
    fast, plain = place(hosts, requests), place(hosts, requests, every=True)
    for one, other in zip(fast, plain):
        assert (one.name, one.host, one.existing) == (other.name, other.host, other.existing)
        assert one.ranking == other.ranking[:2]
        assert one.why == other.why
        if one.host is None and not one.existing:
            assert set(one.rejected) <= set(other.rejected)
            assert len(one.rejected) + one.hidden == len(other.rejected)
    return sum(one.host is not None for one in fast)


@pytest.mark.parametrize("seed", range(300))
def test_alike_hosts_and_vms_chosen_as_by_full_pass(seed: int) -> None:
    compare(*alike_case(seed))


@pytest.mark.parametrize("seed", range(100))
def test_unlike_hosts_and_vms_chosen_as_by_full_pass(seed: int) -> None:
    compare(*random_case(seed))


def test_image_that_arrives_with_another_vm_makes_room_and_is_preferred() -> None:
    """The base pool takes one copy: after the first VM there is no need for a second one."""
    base = PoolFacts("base", "/var/lib/libvirt/base", 500, 0, 1500, 1.0)
    images = PoolFacts("default", "/var/lib/libvirt/images", 100000, 0, 100000, 1.0)
    hosts = [host(f"h{i}", pools=(base, images)) for i in range(5)]
    requests = [vm(f"v{i}", image="digest", image_mib=400) for i in range(20)]
    assert compare(hosts, requests) == 20
    # what is said of its size may differ; the first has no room for it, and then it is there
    sizes = [600, 400, 600, 600]
    mixed = [vm(f"v{i}", image="digest", image_mib=size) for i, size in enumerate(sizes)]
    assert compare(hosts[:1], mixed) == 3


def test_batch_of_like_vms_that_does_not_fit_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []
    once = placement_file._in_order
    monkeypatch.setattr(
        placement_file, "_in_order", lambda *args, **more: tries.append(1) or once(*args, **more)
    )
    hosts = [host("a"), host("b")]
    found = place(hosts, [vm(f"v{i}", memory=3000) for i in range(10)])
    assert sum(one.host is not None for one in found) == 6
    assert len(tries) == 1
    # more than there is, of whatever shape
    place(hosts, [vm(f"v{i}", memory=3000 + i) for i in range(10)])
    assert len(tries) == 2
    # as much as there is: another order may help
    place(hosts, [vm(f"v{i}", memory=3000 + i % 2) for i in range(6)] + [vm("x", memory=1900)])
    assert len(tries) > 3
