# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Huge pages are no room for ordinary VMs, and VMs in them take no ordinary memory."""

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.foresight import capacity, state
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.decide import request_of
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import decide as placement
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.offers import Wants

GIB = 1024
INFO: dict[str, t.Any] = {
    "name": "hv1",
    "domain_types": ["kvm"],
    "arch": "x86_64",
    "cpu": {"total": 64, "defined": 0, "running": 0},
    "memory_mib": {
        "total": 64 * GIB,
        "defined": 0,
        "running": 0,
        "hugepages": [
            {"size_kib": 2048, "total": 48 * GIB, "running": 0, "defined": 0},
            {"size_kib": 1048576, "total": 0, "running": 0, "defined": 0},
        ],
    },
    "pools": [],
    "networks": [],
    "bridges": [],
    "maintenance": False,
    "errors": [],
    "images": [],
    "vms": [],
    "offers": {"hugepages": [{"size_kib": 2048, "total": 24576, "free": 24576}]},
}


def info(aside: int = 48 * GIB, **memory: t.Any) -> dict[str, t.Any]:
    """A hypervisor with 64 GiB, of which so much is set aside."""
    changed = copy.deepcopy(INFO)
    changed["memory_mib"].update(memory)
    changed["memory_mib"]["hugepages"][0]["total"] = aside
    changed["offers"]["hugepages"][0].update(total=aside // 2, free=aside // 2)
    return changed


def host(entry: dict[str, t.Any], **settings: t.Any) -> placement.PlacementHost:
    return placement.host_from_info(entry, settings)


def vm(name: str, memory: int, size: int | None = None) -> placement.Request:
    pages = () if size is None else ((size, memory),)
    return placement.Request(name, vcpus=1, memory_mib=memory, wants=Wants(hugepages=pages))


@pytest.mark.parametrize(
    ("aside", "ratio", "limit"),
    [
        (0, 1, 64 * GIB - 3276),
        (48 * GIB, 1, 16 * GIB - 3276),
        (48 * GIB, 1.5, 24 * GIB - 3276),  # huge pages cannot be promised twice
        (63 * GIB, 1, GIB - 3276),
    ],
)
def test_memory_for_ordinary_vms_is_without_huge_pages(
    aside: int, ratio: float, limit: int
) -> None:
    assert host(info(aside), virt_memory_ratio=ratio).memory_limit_mib == limit


def test_host_whose_promises_in_pages_are_unknown_still_has_what_is_set_aside() -> None:
    entry = info()
    del entry["memory_mib"]["hugepages"]
    assert host(entry).memory_limit_mib == 16 * GIB - 3276
    del entry["offers"]
    unknown = host(entry)
    assert (unknown.memory_limit_mib, unknown.pages) == (64 * GIB - 3276, None)


@pytest.mark.parametrize("size", [0, 2048])
def test_batch_takes_ordinary_memory_and_huge_pages_separately(size: int) -> None:
    requests = [vm("a", 40 * GIB, size), vm("b", 12 * GIB), vm("c", 8 * GIB, size)]
    requests += [vm("d", GIB), vm("e", GIB, size)]
    placed = {one.name: one for one in placement.place([host(info())], requests)}
    assert {name for name, one in placed.items() if one.host} == {"a", "b", "c"}
    assert placed["d"].rejected[0].filter == "memory"
    assert placed["e"].rejected[0].filter == "hugepages"
    assert "0 MiB of 49152 MiB are not promised; others in this" in placed["e"].rejected[0].reason


@pytest.mark.parametrize("promised", [0, 2 * GIB])
def test_host_full_of_huge_pages_takes_only_vms_in_them(promised: int) -> None:
    full = host(info(63 * GIB, defined=promised))
    other = placement.host_from_info(info(0), {}, name="hv2")
    requests = [vm("a", 60 * GIB, 2048), vm("b", GIB)]
    placed = {one.name: one.host for one in placement.place([full, other], requests)}
    assert placed == {"a": "hv1", "b": "hv2"}
    placed = {one.name: one.host for one in placement.place([full], requests)}
    assert placed == {"a": "hv1", "b": None}


def test_room_is_what_a_batch_gets() -> None:
    there = host(info())
    for shape in (vm("a", 4 * GIB), vm("a", 4 * GIB, 2048), vm("a", 4 * GIB, 1048576)):
        (room,) = capacity.rooms([there], shape, placement.Policy())
        if shape.wants.hugepages[:1] == ((1048576, 4 * GIB),):
            assert (room.more, room.filter) == (0, "hugepages")
            continue
        many = [
            placement.Request(f"v{n}", 1, shape.memory_mib, wants=shape.wants) for n in range(20)
        ]
        placed = [one for one in placement.place([there], many) if one.host]
        assert room.more == len(placed)


def test_claim_in_pages_that_others_took_is_withdrawn() -> None:
    entry = info()
    entry["vms"] = [{"name": name, "uuid": name, "groups": []} for name in ("mine", "theirs")]
    entry["memory_mib"]["hugepages"][0]["defined"] = 50 * GIB
    (excess,) = placement.excess(host(entry), ())
    assert (excess.filter, excess.reason) == (
        "hugepages",
        "huge pages of 2 MiB: 2048 MiB more than the limit of 49152 MiB are promised",
    )
    (conflict,) = placement.claim_conflicts([host(entry)], "hv1", vm("mine", 10 * GIB, 2048))
    assert conflict.filter == "hugepages"
    assert not placement.claim_conflicts([host(entry)], "hv1", vm("mine", 10 * GIB))


@pytest.mark.parametrize("active", [False, True])
def test_move_of_vm_in_huge_pages_changes_no_ordinary_memory(active: bool) -> None:
    hosts = {name: {"host": {**info(), "name": name}, "vms": []} for name in ("hv1", "hv2")}
    answers: t.Any = state.created(hosts, "hv1", vm("a", 4 * GIB, 0), placement.Policy())  # type: ignore[arg-type]
    (moving,) = answers["hv1"]["vms"]
    assert answers["hv1"]["host"]["memory_mib"]["defined"] == 0
    assert answers["hv1"]["host"]["memory_mib"]["hugepages"][0]["defined"] == 4 * GIB
    request = request_of("a", moving, None)
    assert (request.ordinary_mib, request.wants.hugepages) == (0, ((0, 4 * GIB),))
    if active:
        moving["active"] = True
        pages = answers["hv1"]["host"]
        pages["memory_mib"]["hugepages"][0]["running"] = 4 * GIB
        pages["offers"]["hugepages"][0]["free"] -= 2 * GIB
    after: t.Any = state.moved(answers, "a", "hv1", "hv2")
    assert after["hv1"]["host"]["memory_mib"] == INFO["memory_mib"]
    assert after["hv1"]["host"]["offers"] == INFO["offers"]
    there = after["hv2"]["host"]
    pages = there["memory_mib"]["hugepages"][0]
    assert (pages["defined"], pages["running"]) == (4 * GIB, active * 4 * GIB)
    assert there["offers"]["hugepages"][0]["free"] == 24576 - active * 2 * GIB
    counted = placement.FleetLoad([host(info())], placement.Policy())
    counted.add("hv1", request)
    assert counted.loads["hv1"].pages == {2048: 4 * GIB, 1048576: 0}
    assert counted.loads["hv1"].memory == there["memory_mib"]["defined"] == 0
    counted.remove("hv1", request)
    assert counted.loads["hv1"].pages == {2048: 0, 1048576: 0}


def test_new_host_copied_from_paged_host_has_free_pages() -> None:
    used = info(defined=GIB)
    used["memory_mib"]["hugepages"][0].update(defined=GIB, running=GIB)
    used["offers"]["hugepages"][0]["free"] = 3
    answers: t.Any = {"hv1": {"host": used, "vms": []}}
    new = state.added(answers, state.NewHost("hv9", "hv1"))["hv9"]["host"]
    assert new is not None
    assert (new["memory_mib"], new["offers"]) == (INFO["memory_mib"], INFO["offers"])  # type: ignore[typeddict-item]
