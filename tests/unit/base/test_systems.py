# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a VM has because of its operating system, and what was written all the same."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import systems
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec import domain_xml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.devices_xml import VolumeRef
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.domain import Domain
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import from_options
from ansible_collections.fleet.virt.tests.unit._xml import assert_valid

_CD: dict[str, t.Any] = {"name": "cd", "device": "cdrom"}


def _domain(**options: t.Any) -> Domain:
    domain, problems = from_options({"name": "v", **options})
    assert problems == []
    assert domain is not None
    return domain


def _rendered(domain: Domain, domain_type: str = "kvm") -> str:
    return domain_xml.render(
        domain,
        uuid="6f0f7c2e-58f4-4a0e-9d0b-0d9c1b4f6a11",
        domain_type=domain_type,
        machine="pc-q35-7.2",
        arch="x86_64",
        volumes={disk.name: VolumeRef(f"/{disk.name}", "qcow2") for disk in domain.disks},
    )


@pytest.mark.parametrize(
    ("written", "whole"),
    [
        ("debian12", "http://debian.org/debian/12"),
        ("http://debian.org/debian/12", "http://debian.org/debian/12"),
        ("windows", "http://microsoft.com/win/11"),
        ("win2k22", "http://microsoft.com/win/2k22"),
        ("archlinux", "http://archlinux.org/archlinux/rolling"),
        ("sle15sp6", "http://suse.com/sle/15.6"),
        ("sles12sp5", "http://suse.com/sles/12.5"),
        ("sle12sp5", "http://suse.com/sles/12.5"),
        ("linux", "http://libosinfo.org/linux/2022"),
    ],
)
def test_a_system_is_written_as_libosinfo_has_it(written: str, whole: str) -> None:
    domain = _domain(os=written)
    xml = _rendered(domain)
    assert f'<libosinfo:os id="{whole}"/>' in xml
    assert_valid(xml, "domain")
    assert systems.OS.found(_lxml.parse(xml, "it")) == whole


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("debain12", "did you mean debian12?"),
        ("win12", "did you mean win1"),
        ("http://ubuntu.com/ubuntu/24.4", "did you mean http://ubuntu.com/ubuntu/24.04?"),
        (12, "12 is no system"),
    ],
)
def test_an_unknown_one_is_refused_with_the_likely_one(written: object, hint: str) -> None:
    domain, problems = from_options({"name": "v", "os": written})
    assert domain is None
    assert [one.path for one in problems] == ["os"]
    assert hint in problems[0].message


def test_linux_has_what_every_vm_has() -> None:
    one, other = _domain(os="debian12", disks=[_CD]), _domain(disks=[_CD])
    assert (one.disks, one.nics, one.machine) == (other.disks, other.nics, other.machine)


def test_windows_11_has_what_its_installer_asks_for() -> None:
    domain = _domain(os="win11", disks=[_CD])
    assert (domain.vcpus, domain.memory, domain.firmware) == (2, 4096, "uefi")
    assert domain.tpm is not None
    assert [disk.bus for disk in domain.disks] == ["sata", "sata"]
    xml = _rendered(domain)
    assert_valid(xml, "domain")
    root = _lxml.parse(xml, "it")
    assert root.find("os/loader[@secure='yes']") is not None
    assert root.find("clock[@offset='localtime']/timer[@name='hypervclock']") is not None
    assert root.find("features/hyperv/relaxed[@state='on']") is not None
    assert root.find("devices/interface/model[@type='e1000e']") is not None
    # that it has it is nothing the user asked for
    assert domain.written == {"name", "os", "disks", "disks.cd", "disks.cd.device"}


def test_emulation_has_no_enlightenments_unasked() -> None:
    assert "hyperv" not in _rendered(_domain(os="win10"), "qemu")
    assert "<relaxed" in _rendered(_domain(os="win10", hyperv={"relaxed": True}), "qemu")


def test_another_takes_the_place_of_one() -> None:
    root = _lxml.parse(_rendered(_domain(os="debian12")), "it")
    systems.OS.rewrite(root, _domain(os="win10"))
    assert len(root.findall("metadata/*")) == 1
    assert systems.OS.found(root) == "http://microsoft.com/win/10"


def test_what_is_written_wins() -> None:
    domain = _domain(
        os="win11",
        vcpus=4,
        clock="utc",
        hyperv=False,
        tpm=False,
        disk_profile="none",
        disks=[{"name": "a", "size": 8, "model": "virtio"}],
        nics=[{"name": "eth0", "model": "virtio"}],
    )
    assert domain.vcpus == 4
    assert (domain.hyperv, domain.tpm) == (None, None)
    assert [disk.bus for disk in domain.disks] == ["virtio"]
    root = _lxml.parse(_rendered(domain), "it")
    assert root.find("clock[@offset='utc']") is not None
    assert root.find("devices/interface/model[@type='virtio']") is not None


@pytest.mark.parametrize("given", [{"firmware": "bios"}, {"machine": "pc"}])
def test_the_firmware_goes_with_what_is_written_of_it(given: dict[str, str]) -> None:
    assert _domain(os="win11", **given).firmware == given.get("firmware")


def test_every_system_makes_a_valid_vm() -> None:
    for whole in systems._NEEDS:
        assert_valid(_rendered(_domain(os=whole, disks=[_CD])), "domain")
    assert len(systems._NEEDS) > 100
