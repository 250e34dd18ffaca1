# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every setting that a VM can have is found in it again, in a specification as short as can be."""

from __future__ import annotations

import copy
import json
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.adoption import export as described
from ansible_collections.fleet.virt.plugins.module_utils._fleet.adoption import (
    unsupported as undescribed,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import Metadata
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec import difference, settings
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.options import from_options
from ansible_collections.fleet.virt.tests.unit.spec import test_round_trip as round_trip

_HOST = described.Host("x86_64", "kvm")
_DISK = (
    "<disk type='file' device='disk'><driver name='qemu' type='qcow2'/>"
    "<source file='/p/{0}'/><target dev='{0}' bus='virtio'/></disk>"
)


def _describe(devices: str = "", top: str = "", **more: t.Any) -> described.Description:
    text = (
        "<domain type='kvm'><name>v</name><memory unit='MiB'>1024</memory><vcpu>1</vcpu>"
        f"<os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type></os>{top}"
        f"<devices>{devices}</devices></domain>"
    )
    found = described.DefinedDomain("v", text, active=True, **more)
    return described.describe(found, _HOST)


def _differences(found: described.Description, xml: str, sizes: dict[str, int]) -> list[str]:
    """How a VM differs from the specification, as it is read from a user's file."""
    options = json.loads(json.dumps(found.options))
    domain, problems = from_options(options)
    assert domain is not None, problems
    paths = difference.sized_disks(domain, xml, Metadata(adopted="yes"))
    by_path = {path: sizes[target] for target, path in paths.items()}
    existing = difference.Existing(xml, Metadata(adopted="yes"), False, by_path)
    return difference.differences(domain, existing)


@pytest.mark.parametrize(("path", "value"), round_trip.CASES)
def test_every_row_is_found_again(path: str, value: t.Any) -> None:
    asked = round_trip._domain(round_trip._options(path, value))
    assert asked is not None
    xml = round_trip._render(asked)
    sizes = {
        str(one.get("dev")): 8 << 20
        for one in _lxml.parse(xml, "v").iterfind("devices/disk/target")
    }
    found = described.describe(described.DefinedDomain("v", xml, True, sizes=sizes), _HOST)
    assert not found.problems
    assert found.options is not None
    assert _differences(found, xml, sizes) == []
    if path.startswith("hostdevs."):  # which a specification has only beside its hypervisor
        assert any(one.startswith("hostdevs.") for one in found.left)
        return
    if path == "console.password":  # which nobody reads without asking for secrets
        return
    root = _lxml.parse(xml, "v")
    assert found.domain is not None
    again = undescribed.rendered(found.domain, root)
    assert _read(path, again) == _read(path, root)


def _read(path: str, root: t.Any) -> list[object]:
    """What the row reads in every device of its kind, or in the domain."""
    row, device = round_trip.ROWS[path], path.rpartition(".")[0]
    group = next((one for one in settings.VM if one.name == device), None)
    return [row.found(one) for one in (root.findall(group.xml) if group else [root])]


def test_what_goes_without_a_word_is_not_written() -> None:
    asked = round_trip._domain({"disks": [{"name": "a", "size": 8}]})
    assert asked is not None
    xml = round_trip._render(asked)
    host = described.Host("x86_64", "qemu")
    found = described.describe(
        described.DefinedDomain("v", xml, True, sizes={"vda": 8 << 20}), host
    )
    assert found.left == ()
    assert found.options is not None
    machine = found.options.pop("machine")
    assert isinstance(machine, str)
    found.options.pop("cpu", None)
    assert found.options == {
        "name": "v",
        "disk_profile": "none",
        "nic_profile": "none",
        "vcpus": 1,
        "memory": 1024,
        "disks": [{"name": "vda", "size": 8}],
    }


def test_no_option_can_be_left_out() -> None:
    """Without any that is written it would be another VM, but for those that people look for."""
    nic = (
        "<interface type='network'><source network='lan'/><mac address='52:54:00:00:00:01'/>"
        "<model type='e1000'/></interface>"
    )
    found = _describe(
        _DISK.format("vda") + nic + "<watchdog model='ib700' action='pause'/>",
        "<title>one</title>",
        sizes={"vda": 8 << 20},
    )
    assert found.options is not None
    writer = described._Writer(
        described.DefinedDomain("v", "<domain/>", True, sizes={"vda": 8 << 20}),
        _HOST,
        _lxml.parse("<domain type='kvm'><os><type machine='pc-q35-7.2'/></os></domain>", "v"),
    )
    whole = writer._meaning(found.options)
    assert whole is not None
    for place in described._places(found.options):
        assert writer._meaning(described._without(found.options, place)) != whole, place


@pytest.mark.parametrize(
    "devices",
    [
        "<disk type='dir' device='disk'><source dir='/srv'/>"
        "<target dev='vdb' bus='virtio'/></disk>",
        "<disk type='network' device='disk'><source protocol='https' name='a'>"
        "<host name='a' port='443'/></source><target dev='vdb' bus='virtio'/></disk>",
        "<disk type='file' device='lun'><source file='/a'/><target dev='sda' bus='scsi'/></disk>",
        "<interface type='user'><mac address='52:54:00:00:00:01'/></interface>",
        "<interface type='bridge'><source bridge='br0'/><mac address='fe:54:00:00:00:01'/>"
        "</interface>",
        "<hostdev mode='subsystem' type='usb'/>",
        "<filesystem type='mount'/>",
    ],
)
def test_what_no_option_describes_is_named_and_not_asked_for(devices: str) -> None:
    found = _describe(_DISK.format("vda") + devices, sizes={"vda": 1 << 20, "vdb": 1, "sda": 1})
    assert not found.problems
    assert found.options is not None
    assert found.options["disks"] == [{"name": "vda", "size": 1, **_AS_QEMU}]
    assert "nics" not in found.options
    assert found.left


@pytest.mark.parametrize(
    ("disk", "options"),
    [
        ("type='block'><source dev='/dev/sdb'/>", {"dev": "/dev/sdb"}),
        ("type='volume'><source pool='p' volume='v'/>", {"volume": "v", "pool": "p"}),
        (
            "type='network'><source protocol='rbd' name='a/b'/>",
            {"protocol": "rbd", "source_name": "a/b"},
        ),
    ],
)
def test_disks_that_are_no_files_are_described(disk: str, options: dict[str, str]) -> None:
    driver = "<driver name='qemu' type='raw'/>"
    found = _describe(f"<disk device='disk' {disk}{driver}<target dev='vdb' bus='virtio'/></disk>")
    assert found.options is not None
    assert found.options["disks"] == [{"name": "vdb", **options, **_AS_QEMU}]


_AS_QEMU = {"cache": "writeback", "discard": "ignore"}


def test_a_disk_is_known_by_its_target_and_rounded_up() -> None:
    disks = _DISK.format("vdc") + _DISK.format("vda")
    found = _describe(disks, sizes={"vdc": (1 << 20) + 1, "vda": 1 << 30})
    assert found.options is not None
    assert found.options["disks"] == [
        {"name": "vdc", "size": 2, **_AS_QEMU},
        {"name": "vda", "size": 1024, **_AS_QEMU},
    ]
    without = _describe(disks, sizes={"vda": 1 << 30})
    assert without.options is not None
    assert [one["name"] for one in t.cast("list[t.Any]", without.options["disks"])] == ["vda"]
    assert "disks.vdc: disk disk file /p/vdc" in without.left


def test_an_order_of_boot_is_taken_where_all_of_it_is_described() -> None:
    nic = (
        "<interface type='bridge'><source bridge='br0'/><mac address='52:54:00:00:00:01'/>"
        "<boot order='1'/></interface>"
    )
    disk = _DISK.format("vda").replace("</disk>", "<boot order='2'/></disk>")
    found = _describe(disk + nic, sizes={"vda": 1 << 20})
    assert found.options is not None
    assert found.options["boot"] == ["eth0", "vda"]
    found = _describe(disk + "<hostdev><boot order='1'/></hostdev>", sizes={"vda": 1 << 20})
    assert found.options is not None
    assert "boot" not in found.options
    assert "boot: the order has a device that is not described" in found.left


@pytest.mark.parametrize("name", ["all", "-rf", "a b", "12.5", "x.migration"])
def test_a_name_that_ansible_cannot_have_is_a_problem(name: str) -> None:
    xml = "<domain type='kvm'><name>v</name><memory>1</memory></domain>"
    found = described.describe(described.DefinedDomain(name, xml), _HOST)
    assert found.options is None
    assert found.problems[0].startswith("name: ")
    assert name in found.problems[0]


def test_nothing_of_what_is_read_is_kept() -> None:
    """What a description is made of is as it was."""
    sizes = {"vda": 1 << 20}
    found = described.DefinedDomain("v", "<domain type='kvm'><name>v</name></domain>", sizes=sizes)
    before = copy.deepcopy(found)
    described.describe(found, _HOST)
    assert found == before


def test_numa_nodes_are_described_together() -> None:
    """Each needs the others: together they have all vCPUs and all memory."""
    cells = (
        "<cpu><numa><cell id='0' cpus='0' memory='512' unit='MiB'/>"
        "<cell id='1' cpus='1' memory='512' unit='MiB'/></numa></cpu>"
    )
    text = (
        "<domain type='kvm'><name>v</name><memory unit='MiB'>1024</memory><vcpu>2</vcpu>"
        f"<os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type></os>{cells}</domain>"
    )
    found = described.describe(described.DefinedDomain("v", text, active=True), _HOST)
    assert found.left == ()
    assert found.options is not None
    assert found.options["numa"] == [{"cpus": "0", "memory": 512}, {"cpus": "1", "memory": 512}]
