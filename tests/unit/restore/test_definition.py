# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The definition that a VM is restored with."""

from __future__ import annotations

import dataclasses
import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import archives
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import OwnVolume
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore import (
    decide,
    definition,
    read,
    read_archives,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore.options import SavedVm
from ansible_collections.fleet.virt.tests.unit._xml import assert_valid

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
    found = definition.adapted(root, who, {}, {})[0].find("devices/serial/log")
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


_OF_ONE_VM = """
<domain type='kvm'><name>web1</name><uuid>x</uuid>
<genid>5d1b2f4e-8a0c-4d4e-9a57-3f1f6e2b7c11</genid>
<sysinfo type='smbios'><bios><entry name='vendor'>A</entry></bios>
<system><entry name='uuid'>5d1b2f4e-8a0c-4d4e-9a57-3f1f6e2b7c11</entry>
<entry name='serial'>S-1</entry><entry name='family'>web</entry></system>
<baseBoard><entry name='serial'>B-1</entry></baseBoard>
<chassis><entry name='serial'>C-1</entry><entry name='asset'>C-2</entry></chassis></sysinfo>
<memory unit='KiB'>131072</memory><vcpu>1</vcpu><os><type arch='x86_64' machine='pc'>hvm</type></os>
<devices>
<disk type='file' device='disk'><source file='/a.img'/><target dev='vda' bus='virtio'/>
<serial>D-1</serial><wwn>5000c50015ea71aa</wwn></disk>
<interface type='bridge'><mac address='52:54:00:00:00:01'/><source bridge='br0'
 portid='5d1b2f4e-8a0c-4d4e-9a57-3f1f6e2b7c12'/>
<virtualport type='openvswitch'><parameters interfaceid='5d1b2f4e-8a0c-4d4e-9a57-3f1f6e2b7c11'
 profileid='web'/></virtualport><target dev='tap-web1'/><model type='virtio'/>
<filterref filter='clean-traffic'><parameter name='IP' value='192.0.2.7'/>
<parameter name='IP' value='192.0.2.8'/><parameter name='IPV6' value='2001:db8::7'/>
<parameter name='MAC' value='52:54:00:00:00:01'/><parameter name='CTRL_IP_LEARNING' value='none'/>
<parameter name='DHCPSERVER' value='192.0.2.253'/><parameter name='VMADDR' value='192.0.2.77'/>
<parameter name='VMNET' value='2001:DB8:77::/64'/><parameter name='PEER' value='52:54:0:0:0:AB'/>
<parameter name='PORTS' value='8443'/></filterref></interface>
<interface type='vhostuser'><mac address='52:54:00:00:00:09'/>
<source type='unix' path='/run/web1.vhost' mode='client'/><model type='virtio'/></interface>
<filesystem type='mount'><driver type='virtiofs' queue='1024'/><source socket='/run/web1.fs'/>
<target dir='data'/></filesystem>
<lease><lockspace>s</lockspace><key>web1</key><target path='/l'/></lease>
<redirdev bus='usb' type='tcp'><source mode='bind' host='127.0.0.1' service='4556'/></redirdev>
<redirdev bus='usb' type='tcp'><source mode='connect' host='192.0.2.90' service='4'/></redirdev>
<serial type='tcp'><source mode='bind' host='127.0.0.1' service='4555'/><protocol type='raw'/>
<target port='0'/></serial>
<serial type='file'><source path='/srv/web1.log'/><target port='1'/></serial>
<serial type='tcp'><source mode='connect' host='192.0.2.9' service='4555'/><protocol type='raw'/>
<target port='2'/></serial>
<channel type='unix'><source mode='bind' path='/run/web1.agent'/>
<target type='virtio' name='org.qemu.guest_agent.0'/></channel>
<graphics type='vnc' port='5901' autoport='no' websocket='5701' listen='127.0.0.1'>
<listen type='address' address='127.0.0.1'/></graphics>
<graphics type='spice' socket='/run/web1.spice'><listen type='socket' socket='/run/web1.spice'/>
</graphics>
<hostdev mode='subsystem' type='mdev' model='vfio-pci'>
<source><address uuid='5d1b2f4e-8a0c-4d4e-9a57-3f1f6e2b7c13'/></source></hostdev>
<shmem name='web1'><model type='ivshmem-plain'/><size unit='M'>4</size></shmem>
<vsock model='virtio'><cid auto='no' address='77'/></vsock>
</devices></domain>
"""
_LACKS = (
    "sysinfo/system/entry[@name='serial']",
    "sysinfo/baseBoard/entry[@name='serial']",
    "sysinfo/chassis/entry[@name='serial']",
    "sysinfo/chassis/entry[@name='asset']",
    "devices/interface[@type='bridge']/filterref/parameter[@name='IP']",
    "devices/interface[@type='bridge']/filterref/parameter[@name='IPV6']",
    "devices/hostdev[@type='mdev']",
    "devices/shmem",
    "devices/interface[@type='bridge']/filterref/parameter[@name='VMADDR']",
    "devices/interface[@type='bridge']/filterref/parameter[@name='VMNET']",
    "devices/interface[@type='bridge']/filterref/parameter[@name='PEER']",
    "devices/interface[@type='vhostuser']",
    "devices/filesystem",
    "devices/lease",
    "devices/redirdev",
    "devices/serial[@type='tcp'] (127.0.0.1:4555)",
    "devices/serial[@type='file'] (/srv/web1.log)",
)


def test_copy_has_nothing_that_identifies_the_vm_that_was_saved() -> None:
    root, before = (_lxml.parse(_OF_ONE_VM, "domain web1") for _each in range(2))
    copied, lacks = definition.adapted(root, definition.Identity("web2", _UUID, True), {}, {})
    text = _lxml.tostring(copied)
    assert set(lacks) == set(_LACKS)
    own = (
        "S-1",
        "B-1",
        "C-1",
        "C-2",
        "D-1",
        "5000c5",
        "52:54:00:00:00:01",
        "192.0.2.7",
        "192.0.2.8",
    )
    own += ("2001:db8::7", "5d1b2f4e", "tap-web1", "web1", "5901", "5701", "127.0.0.1:4555", "'77'")
    assert [one for one in own if one in text.replace('"', "'")] == []
    assert_valid(text, "domain")
    kept = ("sysinfo/bios", "devices/serial[@type='tcp']", "devices/channel/target")
    kept += ("devices/redirdev",)
    assert [len(copied.findall(path)) for path in kept] == [1] * len(kept)
    assert copied.find("sysinfo/system/entry").get("name") == "family"
    parameters = [one.get("name") for one in copied.iterfind("devices/interface/filterref/*")]
    assert parameters == ["CTRL_IP_LEARNING", "DHCPSERVER", "PORTS"]
    assert dict(copied.find("devices/vsock/cid").attrib) == {"auto": "yes"}
    assert [one.get("type") for one in copied.iterfind("devices/serial")] == ["pty", "pty", "tcp"]
    assert len(copied.findall("devices/*")) == len(before.findall("devices/*")) - 6


def test_vm_that_is_restored_as_it_was_keeps_what_identifies_it() -> None:
    root = _lxml.parse(_OF_ONE_VM, "domain web1")
    who = definition.Identity("web1", _UUID, False)
    kept, lacks = definition.adapted(root, who, {}, {})
    assert lacks == ()
    for path in ("sysinfo", "genid", "devices/interface", "devices/shmem", "devices/vsock"):
        assert _lxml.tostring(kept.find(path)) == _lxml.tostring(root.find(path))


def test_request_in_a_copy_has_nothing_of_the_vm_that_was_saved() -> None:
    request = {
        "console": {"port": 5901, "type": "vnc"},
        "disks": [{"name": "a", "serial": "D-1", "wwn": None}],
        "name": "web1",
        "nics": [{"mac": "52:54:00:00:00:01", "name": "eth0"}],
        "seed": {"network": [{"name": "eth0", "addresses": ["192.0.2.7/24"], "mtu": 1400}]},
    }
    text = _OF_ONE_VM.replace(
        "<devices>",
        "<metadata><fleet:fleet xmlns:fleet='urn:fleet.virt:1'><fleet:request>"
        f"{json.dumps(request)}</fleet:request></fleet:fleet></metadata><devices>",
    )
    root = _lxml.parse(text, "domain web1")
    who = definition.Identity("w", _UUID, False)
    kept = definition.stored_of(root, who, (), "x::web1", None).request
    assert json.loads(kept or "") == {**request, "name": "w"}
    who = dataclasses.replace(who, copy=True)
    mac = definition.adapted(root, who, {}, {})[0].find("devices/interface/mac").get("address")
    assert mac != "52:54:00:00:00:01"
    kept = definition.stored_of(root, who, (), "x::web1", None).request
    assert json.loads(kept or "") == {
        "console": {"port": None, "type": "vnc"},
        "disks": [{"name": "a", "serial": None, "wwn": None}],
        "name": "w",
        "nics": [{"mac": mac, "name": "eth0"}],  # by which a second run finds it
        "seed": {"network": [{"name": "eth0", "addresses": [], "mtu": 1400}]},
    }


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


def test_restore_names_disk_whose_data_file_is_joined() -> None:
    """From its manifest, and from a definition in which libvirt wrote it."""
    vm = _saved("vda", "vda")
    content = archives.read_manifest(vm.manifest)
    content = dataclasses.replace(content, one_file=(archives.OneFile("vda", "/srv/a.data"),))
    vm = dataclasses.replace(vm, manifest=archives.manifest(content))
    (said,) = decide.left_out([vm], {"hv1": ["web1"]})
    assert "web1: its disk vda becomes one file; when it was saved, its data were in" in said
    assert "/srv/a.data" in said
    store = "<dataStore type='file'><format type='raw'/><source file='/srv/a.data'/></dataStore>"
    text = _OF_ONE_VM.replace("<source file='/a.img'/>", f"<source file='/a.img'>{store}</source>")
    root = _lxml.parse(text, "domain web1")
    volume = OwnVolume("default", "b", "/b.qcow2", "vda", "disk", "")
    who = definition.Identity("web1", _UUID, False)
    changed, lacks = definition.adapted(root, who, {"vda": volume}, {"/b.qcow2": "qcow2"})
    assert lacks == ("a data file (/srv/a.data) of disk vda",)
    assert changed.find("devices/disk/source/dataStore") is None


@pytest.mark.parametrize(
    ("kind", "lacks", "left"),
    [
        (
            "<backend type='external'><source type='unix' mode='connect' path='/run/web1.tpm'/>"
            "</backend>",
            "devices/tpm",
            None,
        ),
        (
            "<backend type='emulator' version='2.0'><source type='dir' path='/srv/web1.tpm'/>"
            "</backend>",
            "devices/tpm[@model='tpm-crb']/backend/source",
            "emulator",
        ),
    ],
)
def test_copy_shares_no_state_with_the_vm_that_was_saved(
    kind: str, lacks: str, left: str | None
) -> None:
    """The state of a TPM, and where libvirt keeps UEFI variables since 11.10."""
    text = _OF_ONE_VM.replace(
        "</devices>",
        f"<tpm model='tpm-crb'>{kind}</tpm><pstore backend='acpi-erst'><path>/p/web1"
        "</path><size>8</size></pstore></devices>",
    ).replace("</os>", "<varstore path='/v/web1.json' template='/usr/share/vars.json'/></os>")
    root = _lxml.parse(text, "domain web1")
    copied, lacked = definition.adapted(root, definition.Identity("web2", _UUID, True), {}, {})
    assert lacks in lacked
    assert "web1" not in _lxml.tostring(copied)
    backend = copied.find("devices/tpm/backend")
    assert (None if backend is None else backend.get("type")) == left
    assert copied.find("os/varstore").get("template") == "/usr/share/vars.json"
