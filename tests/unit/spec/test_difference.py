# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A VM is compared as libvirt has it, with what is asked for now and nothing else.

libvirt's test driver keeps the definitions, and is asked to change them as virsh would.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t
from collections.abc import Callable, Iterator

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import metadata
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import (
    Metadata,
    OwnVolume,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec import (
    difference,
    domain_xml,
    request,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.domain import Domain
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import (
    Defaults,
    from_options,
)

_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIISFKZORN6s68Y7QSAYATVaW7/MW11nJOj4UAWkhXyaT "
_UUID = "5f2c8f0e-9d0a-4d0b-8a2b-6e1f7c3a9b54"
_CONFIG = 2  # VIR_DOMAIN_AFFECT_CONFIG
_MIB = 1024 * 1024
_MADE: dict[str, t.Any] = {
    "name": "web1",
    "image": "debian.qcow2",
    "vcpus": 2,
    "memory": 512,
    "memory_max": 1024,
    "disks": [{"data": {"size": 8, "serial": "A1"}}, {"cd": {"device": "cdrom"}}],
    "nics": [{"eth1": {"network": "default", "model": "e1000e"}}],
    "console": {"type": "vnc"},
    "cpu": "qemu64",
    "watchdog": {"action": "poweroff", "model": "i6300esb"},
    "boot": ["system", "eth0"],
    "title": "Web",
    "groups": ["web", "blue"],
    "seed": {"user": "bob", "commands": ["true"]},
}


def domain_of(options: t.Any, **defaults: t.Any) -> Domain:
    chosen = {"ssh_public_keys": (f"{_KEY} one",), "fleet": "f", **defaults}
    domain, problems = from_options(options, defaults=Defaults(**chosen))
    assert not problems, problems
    assert domain is not None
    return domain


class Vm:
    """A VM in the test driver, made of a request; its disks have the sizes they were given."""

    def __init__(self, connection: t.Any, options: t.Any) -> None:
        domain = domain_of(options)
        volumes = {
            disk.name: domain_xml.VolumeRef(f"/pool/web1_{disk.name}.qcow2", disk.format)
            for disk in domain.disks
            if disk.device == "disk"
        }
        kept = Metadata(
            groups=domain.groups,
            volumes=tuple(
                OwnVolume("default", f"web1_{name}.qcow2", volume.path, name, "disk")
                for name, volume in volumes.items()
            ),
            request=request.to_text(domain),
        )
        text = domain_xml.render(
            domain,
            uuid=_UUID,
            domain_type="test",
            machine="pc",
            arch="i686",
            volumes=volumes,
            metadata=metadata.to_element(kept),
        )
        self.connection = connection
        self.raw = connection.conn.defineXML(text)
        self.sizes = {
            volumes[disk.name].path: (disk.size or 0) * _MIB
            for disk in domain.disks
            if disk.name in volumes
        }
        self.autostart = domain.autostart

    def edit(self, pattern: str, replacement: str) -> None:
        """As virsh edit."""
        text, count = re.subn(pattern, replacement, self.raw.XMLDesc(_CONFIG), flags=re.DOTALL)
        assert count, pattern
        self.raw = self.connection.conn.defineXML(text)

    def differences(
        self, options: t.Any, bases: t.Mapping[str, str] | None = None, **defaults: t.Any
    ) -> list[str]:
        text = self.raw.XMLDesc(_CONFIG)
        stored = metadata.parse(_lxml.parse(text, "web1"))
        assert stored is not None
        existing = difference.Existing(text, stored, self.autostart, self.sizes, bases or {})
        found = difference.differences(domain_of(options, **defaults), existing)
        return [str(one) for one in found]


@pytest.fixture
def make() -> Iterator[Callable[..., Vm]]:
    with connect("test:///default", 5) as connection:
        made: list[Vm] = []

        def make(**options: t.Any) -> Vm:
            made.append(Vm(connection, {**_MADE, **options}))
            return made[-1]

        yield make
        for vm in made:
            vm.raw.undefine()


def test_the_same_request_finds_nothing(make: Callable[..., Vm]) -> None:
    vm = make()
    assert vm.differences(_MADE) == []
    as_text = {**_MADE, "memory": "0.5GiB", "vcpus": "2", "groups": "blue,web"}
    assert vm.differences(as_text) == []


def test_what_is_not_written_is_not_compared(make: Callable[..., Vm]) -> None:
    """Neither defaults, nor what was asked for once, nor the fleet's own variables."""
    vm = make()
    profiles = {"default": [{"system": {"size": 1}}]}
    keys = (f"{_KEY} two",)
    assert vm.differences({"name": "web1"}, disk_profiles=profiles) == []
    plain = {"name": "web1", "image": "debian.qcow2"}
    assert vm.differences(plain, ssh_public_keys=keys, fleet="other") == []
    vm.edit("<cpu.*?</cpu>", "")
    vm.edit("<rng.*?</rng>", "")
    assert vm.differences({"name": "web1", "memory": 512}) == []


def test_what_another_tool_changed_is_what_counts(make: Callable[..., Vm]) -> None:
    vm = make()
    vm.raw.setVcpusFlags(1, _CONFIG)
    vm.raw.setMemoryFlags(256 * 1024, _CONFIG)
    assert vm.differences(_MADE) == [
        "vcpus: requested 2, is 1",
        "memory: requested 512 MiB, is 256 MiB",
    ]
    # and who asks for what is there is told of no difference
    assert vm.differences({**_MADE, "vcpus": 1, "memory": 256}) == []


_ISO = f"/base/{'a' * 64}-a.iso.raw"


@pytest.mark.parametrize(
    ("asked", "medium", "bases", "expected"),
    [
        (None, _ISO, {}, []),
        ("a.iso", _ISO, {}, []),
        ("a.iso", _ISO, {"a.iso": _ISO}, []),
        ("a.iso", None, {}, ["disks.cd.image: requested a.iso, is none"]),
        ("a.iso", None, {"a.iso": _ISO}, ["disks.cd.image: requested a.iso, is none"]),
        ("a.iso", "/mnt/x.iso", {}, ["disks.cd.image: requested a.iso, is /mnt/x.iso"]),
        ("a.iso", _ISO, {"a.iso": "/base/b"}, [f"disks.cd.image: requested a.iso, is {_ISO}"]),
        # the same content, which a move brought under the name it has on another hypervisor
        ("a.iso", _ISO, {"a.iso": f"/base/{'a' * 64}-b.iso.raw"}, []),
        ("b.iso", _ISO, {}, ["disks.cd.image: requested b.iso, is a.iso"]),
        ("none", None, {}, []),
        ("none", _ISO, {}, ["disks.cd.image: requested none, is a.iso"]),
        ("none", "/mine.iso", {}, ["disks.cd.image: requested none, is a.iso"]),
    ],
)
@pytest.mark.parametrize("device", ["cdrom", "floppy"])
def test_the_medium_in_its_drive(
    make: Callable[..., Vm],
    device: str,
    asked: str | None,
    medium: str | None,
    bases: dict[str, str],
    expected: list[str],
) -> None:
    vm = make(disks=[{"cd": {"device": device, "image": "a.iso"}}])
    if medium is not None:
        text = vm.raw.XMLDesc(_CONFIG)
        drive = re.search(rf"<disk type='file' device='{device}'>", text)
        assert drive is not None
        vm.edit(drive[0], f"{drive[0]}<source file='{medium}'/>")
    now = {"name": "web1", "disks": [{"cd": {"device": device, "image": asked}}]}
    assert vm.differences(now, bases) == expected


def test_seed_medium_in_an_empty_drive_stays(make: Callable[..., Vm]) -> None:
    vm = make(disks=[{"cd": {"device": "cdrom"}}])
    vm.edit("<disk type='file' device='cdrom'>", r"\g<0><source file='/pool/web1_seed.iso'/>")
    request = {"name": "web1", "disks": [{"cd": {"device": "cdrom", "image": "none"}}]}
    assert vm.differences(request) == ["disks.cd.image: requested none, is /pool/web1_seed.iso"]
    volume = "<fleet:volume pool='p' name='s' path='/pool/web1_seed.iso' target='s' role='seed'/>"
    vm.edit("</fleet:fleet>", rf"{volume}\g<0>")
    assert vm.differences(request) == []


def test_drive_under_another_name_is_another_drive(make: Callable[..., Vm]) -> None:
    vm = make(disks=[{"cd": {"device": "cdrom", "image": "a.iso"}}])
    request = {"name": "web1", "disks": [{"late": {"device": "cdrom", "image": "b.iso"}}]}
    assert vm.differences(request)[0] == "disks.late: requested a CD drive, is none"


ASKED: list[tuple[dict[str, t.Any], list[str]]] = [
    ({"vcpus": 4}, ["vcpus: requested 4, is 2"]),
    ({"memory_max": "2GiB"}, ["memory_max: requested 2.0GiB, is 1.0GiB"]),
    ({"autostart": True}, ["autostart: requested true, is false"]),
    ({"title": "other"}, ["title: requested other, is Web"]),
    ({"description": "x"}, ["description: requested x, is none"]),
    ({"rng": False}, ["rng: requested false, is true"]),
    ({"groups": ["web"]}, ["groups: requested web, is blue, web"]),
    ({"groups": []}, ["groups: requested none, is blue, web"]),
    ({"arch": "x86_64"}, ["arch: requested x86_64, is i686"]),
    ({"domain_type": "kvm"}, ["domain_type: requested kvm, is test"]),
    ({"machine": "q35"}, ["machine: requested q35, is pc"]),
    ({"machine": "pc"}, []),
    ({"firmware": "uefi"}, []),  # of a domain of the test driver nobody can tell
    ({"cpu": "EPYC"}, ["cpu: requested EPYC, is qemu64"]),
    ({"cpu": "host-model"}, ["cpu: requested host-model, is custom"]),
    ({"console": "spice"}, ["console: requested spice, is vnc"]),
    ({"console": "none"}, ["console: requested none, is vnc"]),
    ({"console": {"listen": "::"}}, ["console.listen: requested ::, is 127.0.0.1"]),
    ({"watchdog": "reset"}, ["watchdog: requested reset, is i6300esb poweroff"]),
    ({"watchdog": "poweroff"}, []),
    ({"tpm": True}, ["tpm: requested true, is none"]),
    ({"clock": "utc"}, []),
    ({"clock": "localtime"}, ["clock: requested localtime, is utc"]),
    ({"clock": {"offset": "localtime"}}, ["clock: requested localtime, is utc"]),
    ({"clock": {"offset": "utc"}}, []),
    ({"sound": {}}, ["sound: requested true, is none"]),
    ({"video": {"model": "vga"}}, []),
    ({"panic": True}, ["panic: requested true, is none"]),
    ({"video": "vga"}, []),
    ({"video": "virtio"}, ["video: requested virtio, is vga 16 1"]),
    ({"cpuset": "0,1"}, ["cpuset: requested 0,1, is none"]),
    ({"cpu": {"disable": ["svm"]}}, ["cpu: requested [\"svm\"], is []"]),
    ({"vcpus": 2, "cpu": {"cores": 2}}, ["cpu: requested 1, is none"]),
    ({"console": {"type": "vnc", "keymap": "de"}}, ["console.keymap: requested de, is none"]),
    ({"serials": [{"type": "pty"}]}, []),
    ({"channels": [{"name": "org.example.0"}]},
     ["channels[0]: requested org.example.0 unix, is org.qemu.guest_agent.0 unix"]),
    ({"numatune": {"nodeset": "0"}}, ["numatune: requested strict 0, is none"]),
    ({"tpm": "tpm-crb"}, ["tpm: requested tpm-crb, is none"]),
    ({"boot": ["eth0", "system"]}, ["boot: requested eth0, system, is system, eth0"]),
    ({"image": "centos.qcow2"}, ["disks.system.image: requested centos.qcow2, is debian.qcow2"]),
    ({"image": "debian.qcow2", "overlay": False},
     ["disks.system.overlay: requested false, is true"]),
    ({"disks": [{"data": {"size": 9}}]}, ["disks.data.size: requested 9 MiB, is 8 MiB"]),
    ({"disks": [{"data": {"size": 8, "bus": "scsi"}}]},
     ["disks.data.bus: requested scsi, is virtio"]),
    (
        {"disks": [{"data": {"size": 8, "cache": "unsafe", "serial": "B"}}]},
        ["disks.data.cache: requested unsafe, is none", "disks.data.serial: requested B, is A1"],
    ),
    ({"disks": [{"logs": {"size": 1}}]}, ["disks.logs: requested a disk, is none"]),
    ({"disks": [{"system": {"discard": "ignore"}}]},
     ["disks.system.discard: requested ignore, is unmap"]),
    ({"disks": [{"system": {"detect_zeroes": "unmap"}}]},
     ["disks.system.detect_zeroes: requested unmap, is off"]),
    ({"disks": [{"system": {"detect_zeroes": False}}]}, []),
    ({"disks": [{"system": {"iothread": 2}}]}, ["disks.system.iothread: requested 2, is none"]),
    ({"nics": [{"eth1": {"network": "x"}}]},
     ["nics.eth1.source: requested network x, is network default"]),
    ({"nics": [{"eth1": {"network": "default", "model": "virtio"}}]},
     ["nics.eth1.model: requested virtio, is e1000e"]),
    ({"nics": [{"eth0": {"vlan": 5}}]}, ["nics.eth0.vlan: requested 5, is none"]),
    ({"nics": [{"eth0": {"link": "down"}}]}, ["nics.eth0.link: requested false, is true"]),
    ({"nics": [{"eth0": {"mac": "52:54:00:00:00:01"}}]},
     ["nics.eth0.mac: requested 52:54:00:00:00:01, is 52:c8:95:95:d4:9b"]),
    ({"disks": [{"data": {"state": "absent"}}]}, ["disks.data: requested absent, is a disk"]),
    ({"disks": [{"cd": {"state": "absent"}}]}, ["disks.cd: requested absent, is a CD drive"]),
    ({"disks": [{"never": {"state": "absent"}}]}, []),
    ({"nics": [{"eth1": {"state": "absent"}}]}, ["nics.eth1: requested absent, is a NIC"]),
    ({"tags": ["ssd"]}, ["tags: requested ssd, is none"]),
    ({"placement": {"zone": "a"}}, ["zone: requested a, is none"]),
    ({"vcpus_max": 4}, ["vcpus_max: requested 4, is 2"]),
    ({"console": {"password": "s3cret"}},
     ["console.password: requested a different one, is not shown"]),
    ({"seed": False}, ["seed: requested false, is true"]),
    ({"seed": {"user": "eve"}}, ["seed.user: requested eve, is bob"]),
    ({"seed": {"timezone": "UTC"}}, ["seed.timezone: requested UTC, is none"]),
    ({"seed": {"commands": ["false"]}},
     ["seed.secrets: requested others, is those it was created with"]),
    ({"seed": {"commands": ["true"]}}, []),
]  # fmt: skip


@pytest.mark.parametrize(("options", "expected"), ASKED, ids=lambda value: str(value)[:60])
def test_every_option_is_compared_when_it_is_written(
    make: Callable[..., Vm], options: dict[str, t.Any], expected: list[str]
) -> None:
    assert make().differences({"name": "web1", **options}) == expected


@pytest.mark.parametrize("name", ["seed", "boot", "nics", "disks", "image"])
def test_every_option_is_compared_with_the_rest(make: Callable[..., Vm], name: str) -> None:
    assert make().differences({"name": "web1", name: _MADE[name]}) == []


def test_disks_and_nics_that_somebody_took_out_or_put_in(make: Callable[..., Vm]) -> None:
    vm = make()
    disk = "<disk type='file' device='disk'><source file='/x'/><target dev='vdz' bus='virtio'/>"
    vm.edit("</devices>", f"{disk}</disk></devices>")
    assert vm.differences(_MADE) == []
    vm.edit("<disk [^>]*>(?:(?!</disk>).)*web1_data.*?</disk>", "")
    wanted = {"name": "web1", "disks": [{"data": {"size": 8}}]}
    assert vm.differences(wanted) == ["disks.data: requested a disk, is none"]
    mac = domain_of(_MADE).nics[1].mac
    vm.edit(f"<interface [^>]*>\\s*<mac address='{mac}'/>.*?</interface>", "")
    wanted = {"name": "web1", "nics": _MADE["nics"]}
    line = f"nics.eth1: requested a NIC with MAC address {mac}, is none"
    assert vm.differences(wanted) == [line]


def test_a_disk_with_a_snapshot_beside_it_is_still_that_disk(make: Callable[..., Vm]) -> None:
    vm = make()
    vm.edit("web1_data.qcow2", "web1_data.snapshot")
    wanted = {"name": "web1", "disks": [{"data": {"serial": "A1"}}]}
    assert vm.differences({**wanted, "disks": [{"data": {"size": 8, "serial": "A1"}}]}) == [
        "disks.data.size: requested 8 MiB, is unknown"
    ]
    vm.sizes["/pool/web1_data.snapshot"] = 8 * _MIB
    assert vm.differences(_MADE) == []


def test_a_vm_whose_request_is_lost_is_still_compared(make: Callable[..., Vm]) -> None:
    vm = make()
    text = vm.raw.XMLDesc(_CONFIG)
    stored = metadata.parse(_lxml.parse(text, "web1"))
    assert stored is not None
    for lost in (None, "no json", "[]", "{}", '{"disks": 3, "nics": null}'):
        other = dataclasses.replace(stored, request=lost)
        existing = difference.Existing(text, other, False, vm.sizes)
        found = difference.differences(domain_of({**_MADE, "vcpus": 4}), existing)
        assert [str(one) for one in found] == ["vcpus: requested 4, is 2"]


def test_the_disks_whose_sizes_are_to_be_read(make: Callable[..., Vm]) -> None:
    text = make().raw.XMLDesc(_CONFIG)
    stored = metadata.parse(_lxml.parse(text, "web1"))
    assert stored is not None
    found = difference.sized_disks(domain_of(_MADE), text, stored)
    assert found == {"vdb": "/pool/web1_data.qcow2"}
    assert difference.sized_disks(domain_of({"name": "web1"}), text, stored) == {}


def test_a_cd_drive_is_compared_by_its_settings(make: Callable[..., Vm]) -> None:
    vm = make()
    wanted = {"device": "cdrom", "cache": "unsafe", "readonly": True, "discard": "ignore"}
    assert vm.differences({"name": "web1", "disks": [{"cd": wanted}]}) == [
        "disks.cd.cache: requested unsafe, is none"
    ]


def test_an_empty_description_is_none(make: Callable[..., Vm]) -> None:
    assert make().differences({"name": "web1", "description": ""}) == []


def test_of_two_vlans_the_one_that_was_asked_for_is_not_all(make: Callable[..., Vm]) -> None:
    vm = make()
    vm.edit("(<source bridge='br0'/>)", r"\1<vlan><tag id='5'/><tag id='6'/></vlan>")
    assert vm.differences({"name": "web1", "nics": [{"eth0": {"vlan": 5}}]}) == [
        "nics.eth0.vlan: requested 5, is [5, 6]"
    ]
