# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A hypervisor as placement reads it: settings as strings, and facts that are missing or absurd."""

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import SpecError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.decide import (
    DiskNeed,
    HostSettings,
    Request,
    default_reserve_mib,
    host_from_info,
    place,
    settings_from,
    silent_host,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.hosts import image_keys

INFO: dict[str, t.Any] = {
    "name": "hv1",
    "domain_types": ["kvm", "qemu"],
    "arch": "x86_64",
    "cpu": {"total": 8, "defined": 3},
    "memory_mib": {"total": 24576, "free": 100, "defined": 2048},
    "pools": [
        {
            "name": "default",
            "state": "running",
            "path": "/var/lib/libvirt/images/",
            "capacity_mib": 100000,
            "available_mib": 60000,
            "promised_mib": 20000,
            "error": None,
        }
    ],
    "networks": [
        {"name": "nat", "active": True, "bridge": "virbr0"},
        {"name": "off", "active": False, "bridge": "virbr1"},
    ],
    "bridges": ["br0"],
    "maintenance": False,
    "errors": [],
    "vms": [{"name": "web1", "uuid": "u1", "groups": ["web"]}],
}
SMALL = Request("new", vcpus=1, memory_mib=512)


def changed(path: str, value: t.Any) -> dict[str, t.Any]:
    """INFO with the value at ``path`` replaced; a value of ... removes it."""
    info = copy.deepcopy(INFO)
    *parents, last = path.split(".")
    at: t.Any = info
    for key in parents:
        at = at[int(key)] if key.isdigit() else at[key]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return info


def test_what_is_read() -> None:
    host = host_from_info(INFO, {})
    assert host.problem is None
    assert (host.memory_total_mib, host.memory_promised_mib) == (24576, 2048)
    assert host.memory_limit_mib == 24576 - 1228
    assert (host.vcpus_total, host.vcpus_max, host.vcpus_limit) == (8, 8, 32)
    assert host.vcpus_promised == 3
    # an active network's bridge counts, no other's
    assert host.bridges == frozenset({"br0", "virbr0"})
    assert host.networks == {"nat": True, "off": False}
    pool = host.pools[0]
    assert (pool.path, pool.limit_mib) == ("/var/lib/libvirt/images", 100000)
    assert (pool.promised_mib, pool.available_mib) == (20000, 60000)
    assert host.vms[0].groups == ("web",)


@pytest.mark.parametrize(
    ("total", "reserve"),
    [(512, 512), (1024, 512), (10239, 512), (10260, 513), (24576, 1228), (1 << 20, 52428)],
)
def test_default_reserve(total: int, reserve: int) -> None:
    assert default_reserve_mib(total) == reserve


# the same settings: as YAML has them, as -e gives them, and unset
SETTINGS: list[tuple[dict[str, t.Any], HostSettings]] = [
    ({}, HostSettings()),
    ({"virt_zone": None, "virt_tags": None, "virt_memory_ratio": ""}, HostSettings()),
    ({"virt_tags": []}, HostSettings()),
    (
        {
            "virt_zone": "a",
            "virt_tags": ["ssd", "fast"],
            "virt_memory_reserve": 2048,
            "virt_memory_ratio": 1.5,
            "virt_vcpu_ratio": 2,
            "virt_disk_ratio": 3,
        },
        HostSettings("a", frozenset({"ssd", "fast"}), 2048, 1.5, 2.0, 3.0),
    ),
    (
        {
            "virt_zone": " a ",
            "virt_tags": "ssd, fast",
            "virt_memory_reserve": "2GiB",
            "virt_memory_ratio": "1.5",
            "virt_vcpu_ratio": "2",
            "virt_disk_ratio": "3",
        },
        HostSettings("a", frozenset({"ssd", "fast"}), 2048, 1.5, 2.0, 3.0),
    ),
    ({"virt_zone": 1, "virt_memory_reserve": "0"}, HostSettings("1", memory_reserve_mib=0)),
]


@pytest.mark.parametrize(("variables", "expected"), SETTINGS)
def test_settings(variables: dict[str, t.Any], expected: HostSettings) -> None:
    assert settings_from(variables, "hv1") == expected


@pytest.mark.parametrize("bad", ["much", "-1", 0, "0", "nan", "inf", True, [2], 1001])
@pytest.mark.parametrize("key", ["virt_memory_ratio", "virt_vcpu_ratio", "virt_disk_ratio"])
def test_bad_ratio(key: str, bad: t.Any) -> None:
    with pytest.raises(SpecError) as error:
        settings_from({key: bad}, "hv1")
    assert f"hv1.{key}: {bad!r} is not a ratio; write a number above 0 and up to 1000" in str(
        error.value
    )


def test_every_bad_setting_is_named() -> None:
    bad = {
        "virt_zone": ["a"],
        "virt_tags": 7,
        "virt_memory_reserve": "lots",
        "virt_memory_ratio": "x",
    }
    with pytest.raises(SpecError) as error:
        settings_from(bad, "hv1")
    assert sorted(problem.path for problem in error.value.problems) == sorted(
        f"hv1.{key}" for key in bad
    )


UNKNOWN: list[tuple[str, t.Any, str]] = [
    ("memory_mib", None, "did not report its memory"),
    ("memory_mib.total", None, "did not report its memory"),
    ("memory_mib.total", -1, "reported -1 as its memory"),
    ("memory_mib.total", float("inf"), "reported inf"),
    ("memory_mib.total", 10**400, "reported 10000"),
    ("memory_mib.total", "²", "did not report"),
    ("memory_mib.total", True, "did not report its memory"),
    ("memory_mib.defined", ..., "did not report the memory of its defined VMs"),
    ("cpu", "8", "did not report its CPUs"),
    ("cpu.defined", None, "did not report the vCPUs of its defined VMs"),
    ("pools", None, "did not report its pools"),
    ("networks", None, "did not report its networks"),
    ("vms", ..., "did not report which VMs are defined"),
    ("vms", None, "did not report which VMs are defined"),
    ("vms", ["web1"], "did not report its VMs"),
    ("vms", [{"uuid": "u"}], "a VM without a name"),
    ("errors", ["web9: no such thing"], "domains cannot be read: web9: no such thing"),
]


@pytest.mark.parametrize(("path", "value", "reason"), UNKNOWN)
def test_what_is_not_known_is_never_guessed(path: str, value: t.Any, reason: str) -> None:
    placement = place([host_from_info(changed(path, value), {})], [SMALL])[0]
    assert placement.host is None
    assert placement.rejected[0].filter == "facts"
    assert reason in placement.rejected[0].reason


POOLS: list[tuple[str, t.Any, str]] = [
    ("state", "inactive", "pool default is inactive; start it with virsh pool-start default"),
    ("state", None, "pool default is unknown"),
    ("promised_mib", None, "did not report the sizes of the volumes of pool default"),
    ("available_mib", None, "did not report the free space of pool default"),
    ("capacity_mib", -5, "reported -5 as the capacity of pool default"),
    ("error", "stale mount", "pool default cannot be read: stale mount"),
]


@pytest.mark.parametrize(("key", "value", "reason"), POOLS)
def test_a_pool_that_cannot_be_used(key: str, value: t.Any, reason: str) -> None:
    host = host_from_info(changed(f"pools.0.{key}", value), {})
    assert host.problem is None, "one pool does not spoil the host"
    with_disk = Request("new", 1, 512, disks=(DiskNeed("default", 1024),))
    found = place([host], [SMALL])[0], place([host], [with_disk])[0]
    assert found[0].host == "hv1"
    assert found[1].host is None
    assert reason in found[1].rejected[0].reason


def test_figures_as_strings() -> None:
    info = changed("memory_mib", {"total": "24576", "defined": "2048"})
    info["cpu"] = {"total": "8", "defined": "3"}
    assert host_from_info(info, {}) == host_from_info(INFO, {})


def test_a_ratio_does_not_lose_a_cpu_to_rounding() -> None:
    info = changed("cpu", {"total": 100, "defined": 0})
    assert host_from_info(info, {"virt_vcpu_ratio": "0.29"}).vcpus_limit == 29


def test_foreign_files_are_not_promised_a_second_time() -> None:
    # 100000 in all, 60000 free, the volumes take 10000: other files have 30000
    info = changed("pools.0.volume_allocation_mib", 10000)
    assert host_from_info(info, {}).pools[0].limit_mib == 70000
    assert host_from_info(info, {"virt_disk_ratio": "2"}).pools[0].limit_mib == 140000


def test_claims_count() -> None:
    info = changed("pools.0.claimed_mib", 8192)
    assert host_from_info(info, {}).pools[0].promised_mib == 28192


def test_other_sources() -> None:
    host = host_from_info(INFO, {}, domains=[{"name": "db1", "groups": None}], name="inventory1")
    assert host.name == "inventory1"
    assert [vm.name for vm in host.vms] == ["db1"]
    assert host_from_info(changed("cpu.max_vcpus", 4), {}).vcpus_max == 4
    assert host_from_info(changed("bridges", None), {}).bridges is None
    assert host_from_info(changed("maintenance", None), {}).maintenance is None


@pytest.mark.parametrize("info", [{}, {"name": "x"}, {"memory_mib": []}])
def test_an_empty_answer(info: dict[str, t.Any]) -> None:
    assert host_from_info(info, {}, name="hv1").problem is not None


def test_silent_host() -> None:
    placement = place([silent_host("hv2", "no answer within 10 seconds")], [SMALL])[0]
    assert placement.rejected == (("hv2", "answered", "no answer within 10 seconds"),)


DIGEST = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("volume", "keys"),
    [
        (f"{DIGEST}-a-b.img.qcow2", {DIGEST, "a-b.img.qcow2", "a-b.img"}),
        (f"{DIGEST}-a.raw", {DIGEST, "a.raw"}),
        ("plain.qcow2", set()),
        ("0123-short.qcow2", set()),
    ],
)
def test_image_keys(volume: str, keys: set[str]) -> None:
    assert image_keys([volume]) == {volume, *keys}
