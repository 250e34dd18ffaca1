# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The definition that a VM is restored with."""

from __future__ import annotations

import dataclasses
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import archives
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore import (
    decide,
    definition,
    read,
    read_archives,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore.options import SavedVm

_UUID = "6f3a0d4c-0c57-4f3e-9f0e-0d6d5c1f2a3b"
_OWN = "/var/log/libvirt/qemu/web1-console.log"
_TEXT = """
<domain type='kvm'><name>web1</name><uuid>x</uuid><devices>
 <serial type='pty'><log file='{}' append='off'/></serial>
</devices></domain>
"""


@pytest.mark.parametrize(
    ("log", "copy", "kept"),
    [
        (_OWN, True, "/var/log/libvirt/qemu/web2-console.log"),
        ("/var/log/web1.log", True, None),
        ("/var/log/web1.log", False, "/var/log/web1.log"),
    ],
)
def test_copy_does_not_write_to_the_log_of_the_vm_that_was_saved(
    log: str, copy: bool, kept: str | None
) -> None:
    root = _lxml.parse(_TEXT.format(log), "domain web1")
    who = definition.Identity("web2", _UUID, copy)
    found = definition.adapted(root, who, {}, {}).find("devices/serial/log")
    assert (found.get("file") if found is not None else None) == kept


def test_restored_vm_is_in_no_cell_until_that_is_requested_again() -> None:
    text = _TEXT.format(_OWN).replace(
        "<devices>",
        "<metadata><fleet:fleet xmlns:fleet='urn:fleet.virt:1'><fleet:ha>yes</fleet:ha>"
        "<fleet:zone>a</fleet:zone></fleet:fleet></metadata><devices>",
    )
    root = _lxml.parse(text, "domain web1")
    who = definition.Identity("web1", _UUID, False)
    stored = definition.stored_of(root, who, (), "x::web1", None)
    assert (stored.in_cell, stored.zone) == (False, "a")


_POOLS = ("/var/lib/libvirt/images",)
_PLAIN = """
<domain type='kvm'><name>web1</name><uuid>x</uuid><title>a/b</title><os>
 <loader>/usr/share/OVMF/OVMF_CODE.fd</loader><nvram>/var/lib/libvirt/qemu/nvram/web1_VARS.fd</nvram>
</os><devices><emulator>/usr/bin/qemu-system-x86_64</emulator>
 <disk type='file'><source file='/elsewhere/web1.qcow2'/><target dev='vda'/></disk>
 <serial type='pty'><log file='/var/log/libvirt/qemu/web1-console.log' append='off'/></serial>
 <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>{}
</devices></domain>
"""


@pytest.mark.parametrize(
    ("device", "reaches"),
    [
        ("", []),
        ("<console><log file='/etc/cron.d/x'/></console>", ["/etc/cron.d/x"]),
        ("<filesystem><source dir='/'/></filesystem>", ["/"]),
        ("<emulator>/usr/../root/x</emulator>", ["/usr/../root/x"]),
        ("<channel><source path='/var/lib/libvirt/images/s'/></channel>", []),
        (
            "<disk device='cdrom'><source file='/root/.ssh/id'/></disk>",
            ["/root/.ssh/id"],
        ),
        ("<disk device='floppy'><source file='id'/></disk>", ["id"]),
        ("<disk device='cdrom'><source file='/var/lib/libvirt/images/a.iso'/></disk>", []),
        (
            "<disk device='cdrom'><source name='x'><host name='10.0.0.1' port='80'/></source>"
            "</disk>",
            ["10.0.0.1:80"],
        ),
        (
            "<serial type='tcp'><source mode='connect' host='127.0.0.1' service='22'/></serial>",
            ["127.0.0.1:22"],
        ),
        ("<interface><script path='reboot'/></interface>", ["reboot"]),
        ("<filesystem><source dir='/srv'/><target dir='data'/></filesystem>", ["/srv"]),
        ("<video><model><acceleration rendernode='card'/></model></video>", ["card"]),
        (
            "<seclabel type='static'><label>+0:+0</label></seclabel>",
            ["a label that QEMU runs with"],
        ),
    ],
)
def test_what_reaches_past_the_disks_is_known(device: str, reaches: list[str]) -> None:
    root = _lxml.parse(_PLAIN.format(device), "domain web1")
    assert definition.reaches(root, _POOLS) == reaches


def test_table_of_firmware_reaches_past_the_disks() -> None:
    table = "<os><acpi><table type='slic'>etc/shadow</table></acpi><kernel>vmlinuz</kernel></os>"
    root = _lxml.parse(_PLAIN.format("").replace("<devices>", f"{table}<devices>"), "domain web1")
    assert definition.reaches(root, _POOLS) == ["etc/shadow", "vmlinuz"]


def test_arguments_of_qemu_reach_past_the_disks() -> None:
    added = (
        "</devices><q:commandline xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'/></domain>"
    )
    root = _lxml.parse(_PLAIN.format("").replace("</devices></domain>", added), "domain web1")
    assert definition.reaches(root, _POOLS) == ["arguments of QEMU's own"]


def test_remark_names_what_reaches_past_the_disks() -> None:
    entries = [{"name": "web1", "reaches": ["/etc/x", "/"]}, {"name": "web2", "reaches": []}]
    answers: t.Any = {"hv1": {"entries": entries}, "hv2": {"entries": entries}}
    (remark,) = decide.remarks({"hv1": ["web1", "web2"], "hv2": []}, answers)
    assert remark.startswith("web1: its definition in the backup has /etc/x, /, beside its disks;")
    assert remark.endswith("before you start it: ansible hv1 -b -a 'virsh dumpxml web1'")


# --- archives of earlier releases, whose definition and disks differ ---


def _saved(defined: str, saved: str, more: str = "") -> SavedVm:
    disks = "".join(
        f"<disk type='file'><source file='/srv/{one}'/><target dev='{one}'/></disk>"
        for one in defined.split()
    )
    kept = tuple(archives.SavedDisk(target, 1, "raw") for target in saved.split())
    backup = archives.Backup("web1", _UUID, "hv1", "2026-11-28T06:51:18Z", archives.SHUT_OFF, kept)
    paths = [archives.DOMAIN, *(disk.path for disk in kept)]
    files = tuple(archives.SavedFile(path, 1, "0" * 64) for path in paths)
    text = f"<name>web1</name><uuid>{_UUID}</uuid><devices>{disks}{more}</devices>"
    manifest = archives.manifest(archives.Manifest(backup, files))
    return SavedVm("web1", _UUID, _UUID, backup.at, False, manifest, f"<domain>{text}</domain>")


_HOST_DEVICE = "<hostdev mode='subsystem' type='pci'/>"


@pytest.mark.parametrize(
    ("defined", "saved", "lacks", "said"),
    [
        ("vda vdb", "vda", ["vdb"], "a disk vdb, which was not saved"),
        ("vda", "vda vdb", ["vdb"], "no disk vdb"),
        ("vda vdb", "vda vdc", ["vdb", "vdc"], "no disk vdc; a disk vdb, which was not saved"),
    ],
)
def test_archive_that_lacks_a_disk_is_restored_without_it_if_option_names_it(
    defined: str, saved: str, lacks: list[str], said: str
) -> None:
    vm = _saved(defined, saved)
    same, found, problem = read_archives.complete(vm, [])
    assert (same, found) == (vm, lacks)
    assert said in problem
    made, found, problem = read_archives.complete(vm, lacks)
    assert (found, problem) == (lacks, "")
    root, content = _lxml.parse(made.definition, "x"), archives.read_manifest(made.manifest)
    (target,) = definition.targets(root, content.backup.disks)
    assert (target.saved.target, target.folder) == ("vda", "/srv")


def test_disk_that_was_saved_is_never_left_out() -> None:
    vm = _saved("vda vdb", "vda vdb")
    assert read_archives.complete(vm, ["vdb"]) == (vm, [], "")


def test_device_of_the_former_hypervisor_is_left_out_if_option_names_it() -> None:
    vm = _saved("vda", "vda", _HOST_DEVICE)
    (said,) = definition.blockers(_lxml.parse(vm.definition, "x"), ())
    option, _equals, value = said.rpartition(" ")[2].partition("=")
    assert option == "virt_restore_without"
    made, lacks, problem = read_archives.complete(vm, [value])
    assert (lacks, problem) == ([value], "")
    assert definition.blockers(_lxml.parse(made.definition, "x"), ()) == []


def test_disk_of_a_pool_returns_to_the_pool_it_had(tmp_path: Path) -> None:
    vm = _saved("vda", "vda")
    text = vm.definition.replace(
        "<disk type='file'><source file='/srv/vda'/>",
        "<disk type='volume'><source pool='fast' volume='web1.raw'/>",
    )
    root = _lxml.parse(dataclasses.replace(vm, definition=text).definition, "x")
    (target,) = definition.targets(root, archives.read_manifest(vm.manifest).backup.disks)
    options: t.Any = {"pool": "default", "pool_path": "/srv/default"}
    with connect("test:///default", 30.0) as connection:
        assert read._volume(connection, "web1", target, options).pool == "default"
        pool = f"<pool type='dir'><name>fast</name><target><path>{tmp_path}</path></target></pool>"
        handle = connection.conn.storagePoolDefineXML(pool, 0)
        handle.create(0)
        volume = read._volume(connection, "web1", target, options)
    assert (volume.pool, volume.path) == ("fast", f"{tmp_path}/web1_vda.raw")


def test_restore_names_what_its_backup_was_made_without() -> None:
    vm = _saved("vda", "vda")
    content = archives.read_manifest(vm.manifest)
    content = dataclasses.replace(content, left_out=(archives.LeftOut("vdb", "it is shareable"),))
    vm = dataclasses.replace(vm, manifest=archives.manifest(content))
    (said,) = decide.left_out([vm], {"hv1": ["web1"]})
    assert "web1: its backup was made without disk vdb: it is shareable" in said
