# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Disk and NIC profiles: the predecessor's documented examples, in their order."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import (
    Defaults,
    from_options,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.profiles import (
    bridges,
    resolve_disks,
    resolve_nics,
)

DISK_PROFILES: dict[str, t.Any] = {
    "default": [{"system": {"size": 8192}}],
    "database": [{"system": {"size": 8192}}, {"data": {"size": 30720}}],
    "web": [{"system": {"size": 1024}}, {"logs": {"size": 5120}}],
}
NIC_PROFILES: dict[str, t.Any] = {
    "dual": {"eth0": {"bridge": "service_br"}, "eth1": {"bridge": "storage_br"}},
    "single": {"eth0": {"bridge": "service_br"}},
    "triple": {
        "eth0": {"bridge": "service_br"},
        "eth1": {"bridge": "storage_br"},
        "eth2": {"bridge": "dmz_br"},
    },
    "all": {
        "eth0": {"bridge": "service_br"},
        "eth1": {"bridge": "storage_br"},
        "eth2": {"bridge": "dmz_br"},
        "eth3": {"bridge": "database_br"},
    },
    "dmz": {"eth0": {"bridge": "service_br"}, "eth1": {"bridge": "dmz_br"}},
    "database": {"eth0": {"bridge": "service_br"}, "eth1": {"bridge": "database_br"}},
}


def vm(options: dict[str, t.Any], **profiles: t.Any) -> t.Any:
    domain, problems = from_options({"name": "v", **options}, defaults=Defaults(**profiles))
    assert problems == []
    return domain


def test_b05_without_profiles_one_disk_and_one_nic() -> None:
    """B05: one virtio qcow2 disk system of 8192 MiB, one virtio NIC on br0."""
    domain = vm({})
    assert [(d.name, d.size, d.format, d.bus) for d in domain.disks] == [
        ("system", 8192, "qcow2", "virtio")
    ]
    assert [(n.name, n.type, n.source, n.model) for n in domain.nics] == [
        ("eth0", "bridge", "br0", "virtio")
    ]


@pytest.mark.parametrize(
    ("profile", "disks"),
    [
        ("default", [("system", 8192)]),
        ("database", [("system", 8192), ("data", 30720)]),
        ("web", [("system", 1024), ("logs", 5120)]),
    ],
)
def test_b06_documented_disk_profiles(profile: str, disks: list[tuple[str, int]]) -> None:
    """B06: disks in the declared order with the declared sizes."""
    domain = vm({"disk_profile": profile}, disk_profiles=DISK_PROFILES)
    assert [(disk.name, disk.size) for disk in domain.disks] == disks
    assert {(disk.format, disk.bus) for disk in domain.disks} == {("qcow2", "virtio")}


@pytest.mark.parametrize(
    ("profile", "bridges"),
    [
        ("dual", ["service_br", "storage_br"]),
        ("single", ["service_br"]),
        ("triple", ["service_br", "storage_br", "dmz_br"]),
        ("all", ["service_br", "storage_br", "dmz_br", "database_br"]),
        ("dmz", ["service_br", "dmz_br"]),
        ("database", ["service_br", "database_br"]),
        ("default", ["br0"]),
    ],
)
def test_b06_documented_nic_profiles(profile: str, bridges: list[str]) -> None:
    """B06: NICs in the declared order on the declared bridges."""
    domain = vm({"nic_profile": profile}, nic_profiles=NIC_PROFILES)
    assert [(nic.name, nic.source) for nic in domain.nics] == [
        (f"eth{index}", bridge) for index, bridge in enumerate(bridges)
    ]
    assert {(nic.type, nic.model) for nic in domain.nics} == {("bridge", "virtio")}


@pytest.mark.parametrize(
    ("kind", "option", "profiles", "known"),
    [
        ("disk", "databse", DISK_PROFILES, "known: database, default, web"),
        ("nic", "duel", NIC_PROFILES, "known: all, database, default, dmz, dual, single, triple"),
        ("disk", "x", None, "known: default"),
    ],
)
def test_b07_an_unknown_profile_is_named_with_the_known_ones(
    kind: str, option: str, profiles: t.Any, known: str
) -> None:
    """B07: fails naming the unknown profile and the known ones, and how to add one."""
    defaults = Defaults(**{f"{kind}_profiles": profiles})
    domain, problems = from_options(
        {"name": "v", f"{kind}_profile": option}, path="vms[0]", defaults=defaults
    )
    assert domain is None
    assert [problem.path for problem in problems] == [f"vms[0].{kind}_profile"]
    for part in (repr(option), known, f"virt_{kind}_profiles"):
        assert part in problems[0].message


SHAPES: list[t.Any] = [
    [{"system": {"size": 8192}}, {"data": {"size": 1024}}],
    # the page's indentation, as a reader may copy it: size beside system
    [{"system": None, "size": 8192}, {"data": None, "size": 1024}],
    [{"name": "system", "size": 8192}, {"name": "data", "size": 1024}],
    {"system": {"size": 8192}, "data": {"size": 1024}},
    [{"system": {"size": 8192}}, {"name": "data", "size": 1024}],
]


@pytest.mark.parametrize(
    "shape", SHAPES, ids=["documented", "slipped", "named", "mapping", "mixed"]
)
def test_every_shape_means_the_same(shape: t.Any) -> None:
    for found, problems in (
        resolve_disks("p", {"p": shape}, None),
        resolve_nics("p", {"p": shape}, None),
        resolve_disks("none", None, shape),
    ):
        assert problems == []
        assert [(entry.name, dict(entry.options)) for entry in found] == [
            ("system", {"size": 8192}),
            ("data", {"size": 1024}),
        ]


def test_a_slipped_nic_mapping_is_understood() -> None:
    found, problems = resolve_nics(
        None, {"default": {"eth0": None, "bridge": "br0", "model": "virtio"}}, None
    )
    assert problems == []
    assert [(e.name, e.options) for e in found] == [("eth0", {"bridge": "br0", "model": "virtio"})]


BROKEN: list[tuple[t.Any, str, str]] = [
    ("text", "virt_disk_profiles.p", "not a list"),
    ([8192], "virt_disk_profiles.p[0]", "does not name a disk"),
    ([{"size": 1, "format": "raw"}], "virt_disk_profiles.p[0]", "does not name a disk"),
    ([{"size": 8192}], "virt_disk_profiles.p[0]", "does not name a disk"),
    ([{"a": None, "b": None}], "virt_disk_profiles.p[0]", "does not name a disk"),
    ([{"a": {}}, {"a": {}}], "virt_disk_profiles.p[1].a", "two disks"),
    ([{"a/b": {}}], "virt_disk_profiles.p[0].a/b", "cannot name a disk"),
    ([{"..": {}}], "virt_disk_profiles.p[0]...", "cannot name a disk"),
    ([{5: {}}], "virt_disk_profiles.p[0].5", "cannot name a disk"),
    ({"a": "8192"}, "virt_disk_profiles.p.a", "not a mapping"),
]


@pytest.mark.parametrize(("profile", "path", "message"), BROKEN, ids=lambda value: str(value)[:30])
def test_a_broken_profile_is_reported_where_it_is(profile: t.Any, path: str, message: str) -> None:
    _, problems = resolve_disks("p", {"p": profile}, None)
    assert [problem.path for problem in problems] == [path]
    assert message in problems[0].message


def test_profiles_that_are_no_mapping_are_reported() -> None:
    _, problems = resolve_disks(None, ["default"], None)
    assert [problem.path for problem in problems] == ["virt_disk_profiles"]


def test_given_disks_are_merged_by_name_and_new_ones_follow() -> None:
    found, problems = resolve_disks(
        "database",
        DISK_PROFILES,
        [{"name": "logs", "size": 1}, {"data": {"format": "raw", "size": None}}],
        "vms[1]",
    )
    assert problems == []
    assert [(entry.name, dict(entry.options)) for entry in found] == [
        ("system", {"size": 8192}),
        ("data", {"size": 30720, "format": "raw"}),
        ("logs", {"size": 1}),
    ]


def test_a_problem_is_reported_where_it_was_written_also_after_merging() -> None:
    profiles = {"p": [{"system": {"size": "big"}}]}
    _, problems = from_options(
        {"name": "v", "disk_profile": "p", "disks": [{"system": {"bus": "pci"}}]},
        path="vms[0]",
        defaults=Defaults(disk_profiles=profiles),
    )
    assert [problem.path for problem in problems] == [
        "vms[0].disks[0].system.bus",
        "virt_disk_profiles.p[0].system.size",
    ]


def test_the_users_default_profile_replaces_ours_and_others_add_to_it() -> None:
    mine = {"default": [{"root": {"size": 4096}}], "small": [{"root": {"size": 512}}]}
    assert [d.name for d in vm({}, disk_profiles=mine).disks] == ["root"]
    other = {"small": [{"root": {"size": 512}}]}
    assert [d.name for d in vm({}, disk_profiles=other).disks] == ["system"]


def test_none_is_no_profile_unless_there_is_one_of_that_name() -> None:
    assert vm({"disk_profile": "none", "nic_profile": "none"}).disks == ()
    assert vm({"nic_profile": "none"}).nics == ()
    named = {"none": [{"a": {"size": 1}}]}
    assert [d.name for d in vm({"disk_profile": "none"}, disk_profiles=named).disks] == ["a"]


def test_a_profile_is_not_changed_by_its_use() -> None:
    profile = {"system": {"size": 8192}}
    resolve_disks("p", {"p": [profile]}, [{"system": {"size": 1, "format": "raw"}}])
    assert profile == {"system": {"size": 8192}}


def test_a_given_bus_or_place_replaces_the_profiles_other_word_for_it() -> None:
    disk = vm({"disks": [{"system": {"bus": "scsi"}}]}).disks[0]
    assert (disk.bus, disk.size) == ("scsi", 8192)
    nic = vm({"nics": [{"eth0": {"network": "lan"}}]}).nics[0]
    assert (nic.type, nic.source) == ("network", "lan")
    profiles = {"default": {"eth0": {"type": "network", "source": "lan", "model": "e1000"}}}
    nic = vm({"nics": [{"eth0": {"bridge": "br1"}}]}, nic_profiles=profiles).nics[0]
    assert (nic.type, nic.source, nic.model) == ("bridge", "br1", "e1000")
    nic = vm({"nics": [{"eth0": {"source": "wan"}}]}, nic_profiles=profiles).nics[0]
    assert (nic.type, nic.source) == ("network", "wan")


@pytest.mark.parametrize(
    ("profiles", "expected"),
    [
        (None, ["br0"]),
        ({}, ["br0"]),
        ("nonsense", ["br0"]),
        (
            {"dual": NIC_PROFILES["dual"], "one": NIC_PROFILES["single"]},
            ["service_br", "storage_br"],
        ),
        ({"lan": [{"name": "eth0", "type": "bridge", "source": "br7"}]}, ["br7"]),
        ({"nat": {"eth0": {"network": "default"}}}, []),
    ],
)
def test_the_bridges_that_profiles_need(profiles: t.Any, expected: list[str]) -> None:
    assert bridges(profiles) == expected
