# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From options to specification: conversions, defaults, and every problem at once."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import Problem
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.names import mac_address
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.source import ImageSource
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed.types import Seed
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec import domain as domain_module
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.devices import (
    Console,
    Cpu,
    Disk,
    Nic,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.domain import Domain, Placement
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import (
    Defaults,
    from_options,
    many,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.settings_peripherals import (
    Tpm,
    Watchdog,
)

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGnZ0Vh3c3V0cGl4ZWxzd2l0aG91dG1lYW5pbmcw ansible@control"
DEFAULTS = Defaults(ssh_public_keys=(KEY,), fleet="lab", pool="disks")


def good(options: t.Any) -> Domain:
    domain, problems = from_options(options, defaults=DEFAULTS)
    assert problems == []
    assert domain is not None
    return domain


def bad(options: t.Any, path: str = "") -> list[Problem]:
    domain, problems = from_options(options, path=path, defaults=DEFAULTS)
    assert domain is None
    assert problems
    return problems


def test_what_is_not_said_has_the_documented_default() -> None:
    assert good({"name": "centos1", "image": "centos.img"}) == Domain(
        name="centos1",
        vcpus=1,
        memory=1024,
        disks=(
            Disk(
                "system", 8192, pool="disks", image=ImageSource("file", "centos.img"), overlay=True
            ),
        ),
        nics=(Nic("eth0", mac=mac_address("lab", "centos1", "eth0")),),
        start=True,
        autostart=False,
        wait=True,
        console=Console("none", "127.0.0.1"),
        boot=("system",),
        rng=True,
        seed=Seed(None, "ansible", (KEY,)),
    )


def test_every_variable_given_as_a_string_means_the_same() -> None:
    """``-e`` makes strings of everything."""
    strings = {
        "name": "centos1",
        "vcpus": "2",
        "memory": "512",
        "image": "centos.img",
        "disk_profile": "default",
        "nic_profile": "default",
        "overlay": "false",
        "start": "no",
        "autostart": "True",
        "console": '{"type": "vnc"}',
        "seed": "yes",
        "groups": "web,db",
        "host": "hv1",
        "wait": "off",
        "disks": '[{"name": "data", "size": "1GiB"}]',
        "anti_affinity": '["web"]',
    }
    typed = {
        "name": "centos1",
        "vcpus": 2,
        "memory": 512,
        "image": "centos.img",
        "overlay": False,
        "start": False,
        "autostart": True,
        "console": {"type": "vnc"},
        "seed": True,
        "groups": ["web", "db"],
        "placement": {"host": "hv1", "anti_affinity": ["web"]},
        "wait": False,
        "disks": [{"data": {"size": 1024}}],
    }
    assert good(strings) == good(typed)
    assert good(typed).placement == Placement(host="hv1", anti_affinity=("web",))


def test_soft_anti_affinity_is_read_and_no_other_ending() -> None:
    rules = ("web:soft", "db")
    domain = good({"name": "web1", "seed": False, "anti_affinity": list(rules)})
    assert domain.placement.anti_affinity == rules
    for wrong in ("web:hard", "web:", ":soft", "all:soft"):
        _domain, problems = from_options({"name": "web1", "seed": False, "anti_affinity": [wrong]})
        assert [problem.path for problem in problems] == ["anti_affinity[0]"]


def test_none_is_not_given() -> None:
    """As a module's arguments have it."""
    fields = [field for field in dataclasses.fields(Domain) if field.compare]
    others = ("name", "absent_disks", "absent_nics")  # these are states of disks and NICs
    names = [field.name for field in fields if field.name not in others]
    options = {**dict.fromkeys(names), "image": None, "overlay": None, "host": None, "name": "v"}
    assert good(options) == good({"name": "v"})


CONVERTED: list[tuple[str, t.Any, str, t.Any]] = [
    ("vcpus", 4096, "vcpus", 4096),
    ("vcpus", " 2 ", "vcpus", 2),
    ("memory", "2GiB", "memory", 2048),
    ("memory", 16, "memory", 16),
    ("memory", 2048.0, "memory", 2048),
    ("memory", "0.5GiB", "memory", 512),
    ("memory", "64TiB", "memory", 64 * 1024 * 1024),
    ("memory_max", "2048", "memory_max", 2048),
    ("start", 0, "start", False),
    ("start", "n", "start", False),
    ("autostart", "1", "autostart", True),
    ("console", "vnc", "console", Console("vnc")),
    ("console", "none", "console", Console("none")),
    ("console", False, "console", Console("none")),
    ("console", {"listen": "::1"}, "console", Console("vnc", "::1")),
    ("console", {"type": "spice", "listen": "10.0.0.1"}, "console", Console("spice", "10.0.0.1")),
    ("cpu", "host-model", "cpu", Cpu("host-model")),
    ("cpu", "EPYC", "cpu", Cpu("custom", "EPYC")),
    ("cpu", {"mode": "custom", "model": "EPYC"}, "cpu", Cpu("custom", "EPYC")),
    ("firmware", "uefi", "firmware", "uefi"),
    ("machine", "pc-q35-7.2", "machine", "pc-q35-7.2"),
    ("domain_type", "qemu", "domain_type", "qemu"),
    ("tpm", True, "tpm", Tpm()),
    ("tpm", "tpm-tis", "tpm", Tpm("tpm-tis")),
    ("tpm", {"model": "tpm-crb"}, "tpm", Tpm("tpm-crb")),
    ("tpm", False, "tpm", None),
    ("watchdog", True, "watchdog", Watchdog(None, "reset")),
    ("watchdog", "yes", "watchdog", Watchdog(None, "reset")),
    ("watchdog", "false", "watchdog", None),
    ("watchdog", "poweroff", "watchdog", Watchdog(None, "poweroff")),
    ("watchdog", {"model": "itco"}, "watchdog", Watchdog("itco", "reset")),
    ("seed", False, "seed", None),
    ("seed", "none", "seed", None),
    ("groups", [], "groups", ()),
    ("groups", "", "groups", ()),
    ("groups", ["a", "a"], "groups", ("a",)),
    ("tags", ["ssd"], "placement", Placement(tags=("ssd",))),
    ("zone", "a", "placement", Placement(zone="a")),
    ("boot", ["eth0", "system"], "boot", ("eth0", "system")),
    ("description", "two\nlines <&>", "description", "two\nlines <&>"),
    ("title", "Größe", "title", "Größe"),
]


@pytest.mark.parametrize(
    ("key", "value", "field", "expected"), CONVERTED, ids=lambda value: str(value)[:30]
)
def test_converted(key: str, value: t.Any, field: str, expected: t.Any) -> None:
    assert getattr(good({"name": "v", key: value}), field) == expected


REFUSED: list[tuple[str, t.Any, str, str]] = [
    # option, value, path, words of the rule or remedy
    ("vcpus", 0, "vcpus", "1 to 4096"),
    ("vcpus", -1, "vcpus", "1 to 4096"),
    ("vcpus", 5000, "vcpus", "1 to 4096"),
    ("vcpus", "two", "vcpus", "digits only"),
    ("vcpus", 1.5, "vcpus", "whole number"),
    ("vcpus", True, "vcpus", "whole number"),
    ("vcpus", "9" * 5000, "vcpus", "whole number"),
    ("vcpus", "٣", "vcpus", "whole number"),
    ("memory", 0, "memory", "for example 1024"),
    ("memory", "0", "memory", "for example 1024"),
    ("memory", -512, "memory", "negative"),
    ("memory", "-1GiB", "memory", "negative"),
    ("memory", "lots", "memory", "not a size"),
    ("memory", True, "memory", "not a size"),
    ("memory", float("nan"), "memory", "not a size"),
    ("memory", [], "memory", "not a size"),
    ("memory", 0.5, "memory", "write for example 0.5GiB"),
    ("memory", "0.5", "memory", "write for example 0.5GiB"),
    ("memory", 15, "memory", "16.0M"),
    ("memory", "4", "memory", "without a unit is MiB"),
    ("memory", "1MiB", "memory", "16.0M"),
    ("memory", "65TiB", "memory", "64.0T"),
    ("memory", "9" * 30, "memory", "not a size"),
    ("memory_max", 512, "memory_max", "less than memory"),
    ("start", "maybe", "start", "true or false"),
    ("start", 2, "start", "true or false"),
    ("autostart", [], "autostart", "true or false"),
    ("overlay", "x", "overlay", "true or false"),
    ("image", "", "image", "not an image"),
    ("image", 5, "image", "not an image"),
    ("image", "../shadow", "image", "'..'"),
    ("image", "http://x/y.img", "image", "https"),
    ("console", "vcn", "console.type", "none, vnc, spice"),
    ("console", {"type": "vnc", "listen": "all"}, "console.listen", "127.0.0.1"),
    ("console", {"tpye": "vnc"}, "console.tpye", "did you mean type?"),
    ("console", 5, "console", "key: value"),
    ("console", "{type: vnc}", "console", "JSON"),
    ("cpu", {"mode": "custom"}, "cpu.model", "needs a model"),
    ("cpu", {"mode": "host-model", "model": "EPYC"}, "cpu.model", "takes no model"),
    ("cpu", "a b", "cpu.model", "for example EPYC"),
    ("firmware", "efi", "firmware", "bios, uefi"),
    ("machine", "q35 ", "machine", "for example q35"),
    ("arch", "x86-64", "arch", "x86_64"),
    ("domain_type", "xen", "domain_type", "kvm, qemu"),
    ("watchdog", "bark", "watchdog.action", "reset"),
    ("seed", "perhaps", "seed", "true or false"),
    ("seed", [], "seed", "neither a mapping"),
    ("seed", {"hostname": "a_b"}, "seed.hostname", "rename"),
    ("groups", ["web-servers"], "groups[0]", "web_servers"),
    ("groups", ["ok", "all"], "groups[1]", "not all"),
    ("groups", 5, "groups", "not a list"),
    ("groups", [["a"]], "groups[0]", "not allowed"),
    ("tags", ["a b"], "tags[0]", "letters"),
    ("zone", "a b", "zone", "letters"),
    ("host", "", "host", "inventory"),
    ("placement", {"host": "hv1", "rack": 1}, "placement.rack", "unknown option"),
    ("placement", "hv1", "placement", "key: value"),
    ("boot", ["system", "eth7"], "boot[1]", "known: system, eth0"),
    ("title", "two\nlines", "title", "one line"),
    ("description", "bell \x07", "description", "control characters"),
    ("description", "half \ud800", "description", "control characters"),
    ("disk_profile", [], "disk_profile", "not text"),
    ("vcpu", 2, "vcpu", "did you mean vcpus?"),
    ("disks", "many", "disks", "not a list"),
]


@pytest.mark.parametrize(
    ("key", "value", "path", "words"), REFUSED, ids=lambda value: repr(value)[:30]
)
def test_refused_with_path_rule_and_remedy(key: str, value: t.Any, path: str, words: str) -> None:
    problems = bad({"name": "v", key: value}, "vms[0]")
    assert [problem.path for problem in problems] == [f"vms[0].{path}"]
    assert words in problems[0].message
    problems[0].message.encode("utf-8")
    assert len(problems[0].message) < 700


def test_every_problem_is_reported_with_its_path() -> None:
    problems = bad(
        {
            "name": "a b",
            "memory": "lots",
            "disks": [{"name": "data"}, {"name": "logs", "size": -1}],
            "nics": [{"eth0": {"model": "virto", "vlan": 4095}}],
            "frobnicate": 1,
        },
        "vms[3]",
    )
    assert sorted(problem.path for problem in problems) == [
        "vms[3].disks[0].size",
        "vms[3].disks[1].size",
        "vms[3].frobnicate",
        "vms[3].memory",
        "vms[3].name",
        "vms[3].nics[0].eth0.model",
        "vms[3].nics[0].eth0.vlan",
    ]


def test_a_prefix_names_the_playbooks_variables() -> None:
    assert {problem.path for problem in bad({"name": "a/b", "memory": 0}, "vm_")} == {
        "vm_name",
        "vm_memory",
    }


@pytest.mark.parametrize("options", [None, "centos1", ["name"], 5])
def test_what_is_no_mapping_is_refused(options: t.Any) -> None:
    assert [problem.path for problem in bad(options, "vms[0]")] == ["vms[0]"]


def test_a_name_is_required_and_a_host_name_only_if_seeded_with_it() -> None:
    assert bad({})[0].path == "name"
    assert good({"name": "web_1"}).seed is None
    assert bad({"name": "web_1", "image": "i"})[0].path == "name"
    assert good({"name": "web_1", "image": "i", "seed": {"hostname": "web-1"}}).name == "web_1"
    assert good({"name": "web_1", "image": "i", "seed": False}).seed is None


def test_a_host_given_twice_is_refused() -> None:
    problems = bad({"name": "v", "host": "hv1", "placement": {"host": "hv2"}})
    assert [problem.path for problem in problems] == ["host"]


def test_seeding_without_any_key_is_an_error_that_says_what_to_do() -> None:
    _, problems = from_options({"name": "v", "image": "centos.img"}, path="vm_")
    assert [problem.path for problem in problems] == ["vm_seed.ssh_public_keys"]
    assert "virt_ssh_public_key" in problems[0].message


def test_overlays_are_copy_on_write_of_an_image_on_qcow2_only() -> None:
    def overlays(**options: t.Any) -> list[bool]:
        return [disk.overlay for disk in good({"name": "v", **options}).disks]

    data = {"name": "data", "size": 1}
    assert overlays(image="i", disks=[data]) == [True, False]
    assert overlays(image="i", overlay=False) == [False]
    assert overlays(image="i", disks=[{"system": {"format": "raw"}}]) == [False]
    assert overlays(image="i", overlay=False, disks=[{"system": {"overlay": True}}]) == [True]
    assert overlays(disks=[{**data, "image": "other.img"}]) == [False, True]
    raw = {"name": "v", "image": "i", "disks": [{"system": {"format": "raw", "overlay": "yes"}}]}
    assert [problem.path for problem in bad(raw)] == ["disks[0].system.overlay"]


def test_the_image_goes_to_the_first_disk() -> None:
    cd = {"cd": {"device": "cdrom"}}
    domain = good(
        {
            "name": "v",
            "image": "base/centos.qcow2",
            "disk_profile": "none",
            "disks": [cd, {"root": {"size": 4096}}, {"data": {"size": 1}}],
        }
    )
    assert [disk.image and disk.image.value for disk in domain.disks] == [
        None,
        "base/centos.qcow2",
        None,
    ]
    assert domain.image == ImageSource("volume", "base/centos.qcow2")
    assert domain.image.pool_and_volume == ("base", "centos.qcow2")
    assert domain.boot == ("root", "cd")


def test_an_image_needs_one_disk_to_go_to() -> None:
    assert bad({"name": "v", "image": "i", "disk_profile": "none"})[0].path == "image"
    twice = bad({"name": "v", "image": "i", "disks": [{"system": {"image": "j"}}]})
    assert [problem.path for problem in twice] == ["image"]
    unknown = bad({"name": "v", "image": "i", "disk_profile": "x"})
    assert [problem.path for problem in unknown] == ["disk_profile"]


def test_a_disk_with_an_image_may_have_the_images_size() -> None:
    vm = {"name": "v", "image": "i", "disk_profile": "none", "disks": [{"name": "root"}]}
    assert good(vm).disks[0].size is None


def test_names_given_twice_in_a_batch_are_found_in_any_case() -> None:
    domains, problems = many([{"name": "web1"}, {"name": "a"}, {"name": "Web1"}], path="virt_vms")
    assert domains == []
    assert [problem.path for problem in problems] == ["virt_vms[2].name"]
    assert "virt_vms[0].name" in problems[0].message


def test_mac_addresses_given_twice_are_found() -> None:
    nic = {"eth0": {"mac": "52:54:00:00:00:01"}}
    _, problems = many([{"name": "a", "nics": [nic]}, {"name": "b", "nics": [nic]}])
    assert [problem.path for problem in problems] == ["vms[1].nics[0].mac"]
    other = {"eth1": {"bridge": "br0", "mac": "52:54:00:00:00:01"}}
    assert [problem.path for problem in bad({"name": "a", "nics": [nic, other]})] == ["nics"]


def test_volumes_that_would_have_one_name_are_found() -> None:
    def vm(name: str, disk: str) -> dict[str, t.Any]:
        return {"name": name, "disk_profile": "none", "disks": [{disk: {"size": 1}}]}

    _, problems = many([vm("a", "b_c"), vm("a_b", "c")])
    assert [problem.path for problem in problems] == ["vms[1].disks[0].name"]


def test_two_disks_with_one_name_are_refused() -> None:
    problems = bad({"name": "v", "disks": [{"a": {"size": 1}}, {"name": "a", "size": 1}]})
    assert [problem.path for problem in problems] == ["disks[1]"]


def test_one_bad_vm_withholds_the_whole_batch_and_all_are_reported() -> None:
    domains, problems = many([{"name": "a"}, {"name": "b", "memory": 0}, {"name": "c c"}, 5])
    assert domains == []
    assert [problem.path for problem in problems] == ["vms[1].memory", "vms[2].name", "vms[3]"]
    domains, problems = many([{"name": "a"}, {"name": "b"}])
    assert ([domain.name for domain in domains], problems) == (["a", "b"], [])


@pytest.mark.parametrize("vms", [None, "web1", {"name": "web1"}, 5])
def test_a_batch_is_a_list(vms: t.Any) -> None:
    assert [problem.path for problem in many(vms)[1]] == ["vms"]


def test_machine_types_without_ide_say_so() -> None:
    domain = good({"name": "v", "disks": [{"system": {"bus": "ide"}}]})
    found = domain_module.machine_problems(
        domain, machine="pc-q35-7.2", arch="x86_64", path="vms[0]"
    )
    assert [problem.path for problem in found] == ["vms[0].disks[0].bus"]
    assert domain_module.machine_problems(domain, machine="pc", arch="x86_64") == []
    assert domain_module.machine_problems(good({"name": "v"}), machine="q35", arch="x86_64") == []


def test_no_secret_is_in_any_problem_or_representation() -> None:
    options = {"name": "v", "console": {"type": "vnc", "password": "hunter2hunter2"}, "bad": 1}
    problems = bad(options)
    assert [problem.path for problem in problems] == ["console.password", "bad"]
    assert "hunter2" not in str(problems)
    assert "8 characters" in problems[0].message or "first 8" in problems[0].message
    for wrong, words in (("", "this is empty; leave it out"), (["hunter2"], "not printable text")):
        _, problems = from_options({"name": "v", "console": {"type": "vnc", "password": wrong}})
        assert [problem.path for problem in problems] == ["console.password"]
        assert words in problems[0].message
    shown = good({"name": "v", "console": {"type": "vnc", "password": "hunter2"}})
    assert "hunter2" not in repr(shown)
    assert shown.without_secrets().console.password is None
