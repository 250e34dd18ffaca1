# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Specifications and the XML they become: golden documents, libvirt's schemas, libvirt itself."""

from __future__ import annotations

import typing as t
from pathlib import Path

import libvirt
import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import metadata
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec import domain_xml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.devices_xml import (
    VolumeRef,
    device_name,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.domain import Domain
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import (
    Defaults,
    from_options,
)
from ansible_collections.fleet.virt.tests.unit._xml import assert_valid, assert_xml_equal
from lxml import etree

GOLDEN = Path(__file__).parents[1] / "fixtures" / "golden"
UUID = "6f0f7c2e-58f4-4a0e-9d0b-0d9c1b4f6a11"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGnZ0Vh3c3V0cGl4ZWxzd2l0aG91dG1lYW5pbmcw ansible@control"
BASELINE = (
    "<cpu mode='custom' match='exact'><model fallback='forbid'>Haswell-noTSX</model>"
    "<vendor>Intel</vendor><feature policy='require' name='pcid'/></cpu>"
)
BASE = VolumeRef("/var/lib/libvirt/base/0a1b-centos.qcow2", "qcow2")
IMAGES = "/var/lib/libvirt/images"


class Case(t.NamedTuple):
    """A golden file's stem, the options, and the host's part."""

    golden: str
    options: dict[str, t.Any]
    host: dict[str, t.Any]


def overlay(name: str) -> VolumeRef:
    return VolumeRef(f"{IMAGES}/{name}", "qcow2", BASE.path, BASE.format)


CASES = [
    Case(
        "one_line_overlay",
        {"name": "centos1", "vcpus": "2", "memory": "512", "image": "centos.img"},
        {
            "domain_type": "kvm",
            "machine": "pc-q35-7.2",
            "arch": "x86_64",
            "cpu": BASELINE,
            "volumes": {"system": overlay("centos1_system.qcow2")},
            "seed_path": f"{IMAGES}/centos1_seed.iso",
            "log_path": "/var/log/libvirt/qemu/centos1.console.log",
            "metadata": metadata.Metadata(phase="creating", groups=("web",)),
        },
    ),
    Case(
        "emulated_full_copy",
        {
            "name": "copy1",
            "image": "/var/lib/libvirt/images/centos.img",
            "overlay": "no",
            "seed": False,
            "disks": [{"system": {"format": "raw"}}],
            "rng": False,
        },
        {
            "domain_type": "qemu",
            "machine": "pc-i440fx-7.2",
            "arch": "x86_64",
            "cpu": BASELINE,
            "volumes": {"system": VolumeRef(f"{IMAGES}/copy1_system.raw", "raw")},
        },
    ),
    Case(
        "everything",
        {
            "name": "db_1",
            "title": 'Database "one" & <two>',
            "description": "first line\nsecond <line>",
            "vcpus": 4,
            "memory": "2GiB",
            "memory_max": "4GiB",
            "image": "debian12.qcow2",
            "firmware": "uefi",
            "cpu": {"mode": "custom", "model": "EPYC-Rome"},
            "disk_profile": "database",
            "disks": [
                {
                    "data": {
                        "bus": "scsi",
                        "cache": "writeback",
                        "discard": "ignore",
                        "serial": "DATA-1",
                    }
                },
                {"name": "logs", "size": "1GiB", "format": "raw", "io": "native"},
                {"name": "old", "size": 64, "bus": "sata"},
                {"name": "fixed", "size": 64, "bus": "usb", "readonly": True},
                {"name": "installer", "device": "cdrom"},
                {"name": "empty", "device": "cdrom", "bus": "sata"},
            ],
            "nic_profile": "none",
            "nics": [
                {"name": "eth0", "bridge": "service_br", "mac": "52:54:00:AB:CD:EF"},
                {"name": "eth1", "network": "storage", "vlan": "42", "model": "e1000e"},
                {"name": "eth2", "bridge": "br0", "link": "down"},
            ],
            "boot": ["installer", "system", "eth0"],
            "console": {"type": "vnc", "password": "s3cret&<"},
            "watchdog": "poweroff",
            "seed": {"hostname": "db-1", "user": "admin"},
        },
        {
            "domain_type": "kvm",
            "machine": "q35",
            "arch": "x86_64",
            "cpu": BASELINE,
            "volumes": {
                "system": overlay("db_1_system.qcow2"),
                "data": VolumeRef(f"{IMAGES}/db_1_data.qcow2", "qcow2"),
                "logs": VolumeRef(f"{IMAGES}/db_1_logs.raw", "raw"),
                "old": VolumeRef(f"{IMAGES}/db_1_old.qcow2", "qcow2"),
                "fixed": VolumeRef(f"{IMAGES}/db_1_fixed.qcow2", "qcow2"),
                "installer": VolumeRef("/srv/iso/debian.iso", "raw"),
            },
            "seed_path": f"{IMAGES}/db_1_seed.iso",
            "log_path": "/var/log/libvirt/qemu/db_1.console.log",
            "emulator": "/usr/bin/qemu-system-x86_64",
        },
    ),
    Case(
        "arm_spice",
        {
            "name": "arm1",
            "image": "debian-arm64.qcow2",
            "cpu": "host-passthrough",
            "console": {"type": "spice", "listen": "0.0.0.0"},  # noqa: S104
        },
        {
            "domain_type": "kvm",
            "machine": "virt-7.2",
            "arch": "aarch64",
            "volumes": {"system": overlay("arm1_system.qcow2")},
            "seed_path": f"{IMAGES}/arm1_seed.iso",
        },
    ),
    Case(
        "installer",
        {
            "name": "pxe1",
            "boot": ["eth0", "system"],
            "disks": [{"cd": {"device": "cdrom"}}],
            "console": "vnc",
        },
        {
            "domain_type": "kvm",
            "machine": "q35",
            "arch": "x86_64",
            "volumes": {"system": VolumeRef(f"{IMAGES}/pxe1_system.qcow2", "qcow2")},
        },
    ),
]
DEFAULTS = Defaults(
    disk_profiles={"database": [{"system": {"size": 8192}}, {"data": {"size": 30720}}]},
    ssh_public_keys=(KEY,),
    fleet="lab",
)


def specification(options: dict[str, t.Any]) -> Domain:
    domain, problems = from_options(options, defaults=DEFAULTS)
    assert problems == []
    assert domain is not None
    return domain


def rendered(case: Case, **changes: t.Any) -> str:
    host = {**case.host, **changes}
    if host.get("cpu") is not None:
        host["cpu"] = _lxml.parse(host["cpu"], "cpu")
    if host.get("metadata") is not None:
        host["metadata"] = metadata.to_element(host["metadata"])
    return domain_xml.render(specification(case.options), uuid=UUID, **host)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.golden)
def test_golden(case: Case) -> None:
    assert_xml_equal(rendered(case), (GOLDEN / f"{case.golden}.xml").read_text("utf-8"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.golden)
def test_is_what_libvirts_schema_allows(case: Case) -> None:
    assert_valid(rendered(case), "domain")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.golden)
def test_libvirt_defines_it_and_keeps_every_device(case: Case) -> None:
    """The test driver parses with libvirt's own parser; its one guest is an i686 PC."""
    xml = rendered(case, domain_type="test", arch="i686", machine="pc", emulator=None)
    connection = libvirt.open("test:///default")  # one for the whole process: leave nothing in it
    try:
        defined = connection.defineXMLFlags(xml, libvirt.VIR_DOMAIN_DEFINE_VALIDATE)
        kept = etree.fromstring(defined.XMLDesc(libvirt.VIR_DOMAIN_XML_SECURE))
        defined.undefine()
    finally:
        connection.close()
    ours = etree.fromstring(xml)
    for root in (kept, ours):  # libvirt sorts disks by bus
        devices = root.find("devices")
        devices[:] = sorted(devices, key=lambda device: str(device.xpath("self::disk/target/@dev")))
    for path in (
        "disk/source/@file",
        "disk/driver/@type",
        "disk/driver/@cache",
        "disk/driver/@discard",
        "disk/backingStore/source/@file",
        "disk/backingStore/format/@type",
        "disk/target/@dev",
        "disk/target/@bus",
        "disk/serial/text()",
        "disk/boot/@order",
        "interface/@type",
        "interface/mac/@address",
        "interface/source/@*",
        "interface/vlan/tag/@id",
        "interface/model/@type",
        "interface/link/@state",
        "interface/boot/@order",
        "serial/log/@file",
        "channel/target/@name",
        "graphics/@type",
        "graphics/@passwd",
        "graphics/listen/@address",
        "watchdog/@action",
        "memballoon/stats/@period",
        "rng/backend/text()",
    ):
        assert kept.xpath(f"devices/{path}") == ours.xpath(f"devices/{path}"), path
    for path in ("name", "title", "description", "memory", "currentMemory", "vcpu"):
        assert kept.findtext(path) == ours.findtext(path), path
    assert metadata.parse(kept) == metadata.parse(ours)


def test_the_hosts_baseline_yields_to_the_vms_own_cpu() -> None:
    case = CASES[0]
    assert "Haswell-noTSX" in rendered(case)
    own = case._replace(options={**case.options, "cpu": "maximum"})
    root = etree.fromstring(rendered(own))
    assert root.find("cpu").attrib == {"mode": "maximum"}
    assert "Haswell" not in rendered(own)


def test_render_leaves_what_it_is_given_alone() -> None:
    """The baseline and the metadata are shared by a whole batch."""
    cpu = _lxml.parse(BASELINE, "cpu")
    ours = metadata.to_element(metadata.Metadata(phase="creating"))
    host = {**CASES[0].host, "cpu": cpu, "metadata": ours}
    domain = specification(CASES[0].options)
    first = domain_xml.render(domain, uuid=UUID, **host)
    assert domain_xml.render(domain, uuid=UUID, **host) == first
    assert cpu.getparent() is None
    assert ours.getparent() is None


def test_a_disk_without_volume_is_not_rendered_away() -> None:
    with pytest.raises(KeyError, match="system"):
        rendered(CASES[0], volumes={})


def test_without_console_there_is_no_graphics() -> None:
    root = etree.fromstring(rendered(CASES[0]))
    assert root.xpath("//graphics | //video | //input") == []
    assert len(root.xpath("//serial")) == len(root.xpath("//channel[@type='unix']")) == 1


def test_b13_vnc_listens_on_loopback_and_its_password_shows_nowhere() -> None:
    """B13: 127.0.0.1 unless asked otherwise; a password can be set and is in no output."""
    vm = {"name": "v", "console": {"type": "vnc", "password": "topsecre"}}
    domain = specification(vm)
    host: dict[str, t.Any] = {
        "uuid": UUID,
        "domain_type": "kvm",
        "machine": "q35",
        "arch": "x86_64",
        "volumes": {"system": VolumeRef("/v.qcow2", "qcow2")},
    }
    graphics = etree.fromstring(domain_xml.render(domain, **host)).find("devices/graphics")
    assert graphics.get("passwd") == "topsecre"
    assert [listen.get("address") for listen in graphics] == ["127.0.0.1"]
    assert "topsecre" not in repr(domain)
    assert "topsecre" not in domain_xml.render(domain.without_secrets(), **host)
    wide = specification({"name": "v", "console": {"type": "vnc", "listen": "0.0.0.0"}})  # noqa: S104
    assert 'address="0.0.0.0"' in domain_xml.render(wide, **host)


def test_emulation_has_its_cache_bounded_and_kvm_has_the_timers() -> None:
    emulated = etree.fromstring(rendered(CASES[1]))
    assert emulated.xpath("clock/timer") == []
    kvm = etree.fromstring(rendered(CASES[0]))
    assert kvm.find("features/tcg") is None
    assert kvm.xpath("clock/timer/@name") == ["rtc", "pit", "hpet"]


@pytest.mark.parametrize(
    ("memory", "cache"), [(16, "32"), (96, "48"), (512, "256"), (1024, "512"), (65536, "512")]
)
def test_the_cache_of_emulation_grows_with_the_memory(memory: int, cache: str) -> None:
    domain = specification({"name": "v", "memory": memory})
    host: dict[str, t.Any] = {
        "uuid": UUID,
        "domain_type": "qemu",
        "machine": "q35",
        "arch": "x86_64",
        "volumes": {"system": VolumeRef("/v.qcow2", "qcow2")},
    }
    found = etree.fromstring(domain_xml.render(domain, **host))
    assert found.findtext("features/tcg/tb-cache") == cache
    assert found.xpath("features/tcg/tb-cache/@unit") == ["MiB"]


@pytest.mark.parametrize(
    ("index", "name"), [(0, "vda"), (25, "vdz"), (26, "vdaa"), (51, "vdaz"), (52, "vdba"),
                        (701, "vdzz"), (702, "vdaaa")],
)  # fmt: skip
def test_target_names_count_as_libvirt_does(index: int, name: str) -> None:
    assert device_name("vd", index) == name


def test_there_are_as_many_threads_as_disks_ask_for() -> None:
    disks = [{"name": name, "size": 8, "iothread": thread} for name, thread in (("a", 3), ("b", 1))]
    case = CASES[0]._replace(options={"name": "v", "disk_profile": "none", "disks": disks})
    volumes = {name: VolumeRef(f"/{name}", "qcow2") for name in "ab"}
    root = etree.fromstring(rendered(case, volumes=volumes))
    assert root.xpath("iothreads/text()") == ["3"]
    assert root.xpath("devices/disk/driver/@iothread") == ["3", "1"]


@pytest.mark.parametrize(
    ("case", "tpm", "model"),
    [(0, True, "tpm-crb"), (0, "tpm-tis", "tpm-tis"), (3, True, "tpm-tis")],
)
def test_a_tpm_is_emulated_and_fits_the_architecture(case: int, tpm: t.Any, model: str) -> None:
    xml = rendered(CASES[case]._replace(options={**CASES[case].options, "tpm": tpm}))
    assert_valid(xml, "domain")
    root = etree.fromstring(xml)
    assert root.xpath("devices/tpm/@model") == [model]
    assert root.find("devices/tpm/backend").attrib == {"type": "emulator", "version": "2.0"}
