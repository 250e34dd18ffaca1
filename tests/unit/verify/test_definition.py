# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The VM that runs from a backup has what its guest needs, and nothing of a hypervisor's."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.archives import SavedDisk
from ansible_collections.fleet.virt.plugins.module_utils._fleet.verify import definition
from ansible_collections.fleet.virt.plugins.module_utils._fleet.verify.definition import (
    ProofPlaces,
    ProofVm,
)
from ansible_collections.fleet.virt.plugins.module_utils._lxml import parse, tostring

_OLD, _NEW = "6f3a0d4c-0c57-4f3e-9f0e-0d6d5c1f2a3b", "0a1b2c3d-0c57-4f3e-9f0e-0d6d5c1f2a3b"
_OF = ("web1", "2026-11-28T06:51:18Z")
_DISKS = (SavedDisk("vda", 1 << 30, "qcow2"),)
_PLACES = ProofPlaces(
    {"vda": "/proofs/vda.qcow2"}, {"vda": "/shown/disks/vda.raw"}, "/proofs/nvram.fd", "/proofs"
)
# All that a definition can name of a hypervisor is called evil here
_DOMAIN = f"""
<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
 <name>web1</name><uuid>{_OLD}</uuid><title>evil</title>
 <metadata><f:fleet xmlns:f='urn:fleet.virt:1'><f:request>{{}}</f:request></f:fleet></metadata>
 <memory unit='MiB'>64</memory><currentMemory unit='MiB'>64</currentMemory>
 <memoryBacking><source type='file'/><hugepages/></memoryBacking>
 <vcpu placement='static' cpuset='7' current='1'>2</vcpu><iothreads>1</iothreads>
 <cputune><vcpupin vcpu='0' cpuset='7'/></cputune><resource><partition>/evil</partition></resource>
 <sysinfo type='smbios'><system><entry name='uuid'>{_OLD}</entry></system></sysinfo>
 <sysinfo type='fwcfg'><entry name='opt/x' file='/evil'/></sysinfo>
 <os firmware='efi'><type arch='x86_64' machine='pc-q35-7.2'>hvm</type>
  <loader readonly='yes' type='pflash'>/usr/share/OVMF/OVMF_CODE.fd</loader>
  <nvram template='/evil'>/evil/web1_VARS.fd</nvram><boot dev='hd'/><smbios mode='sysinfo'/></os>
 <features><acpi/></features><cpu mode='host-passthrough'/><clock offset='utc'/>
 <on_reboot>restart</on_reboot><on_crash>coredump-destroy</on_crash>
 <seclabel type='none'/>
 <devices>
  <emulator>/evil</emulator>
  <disk type='file' device='disk'><driver name='qemu' type='raw' cache='none' io='native'/>
   <source file='/evil/web1.raw'/><backingStore type='file'><source file='/evil'/></backingStore>
   <target dev='vda' bus='virtio'/><serial>S1</serial><boot order='1'/>
   <address type='pci' domain='0' bus='4' slot='0' function='0'/></disk>
  <disk type='block' device='disk'><source dev='/dev/evil'/><target dev='vdb' bus='virtio'/></disk>
  <disk type='file' device='cdrom'><source file='/evil.iso'/><target dev='sda' bus='sata'/></disk>
  <interface type='bridge'><source bridge='evil'/></interface>
  <hostdev mode='subsystem' type='pci'/><filesystem type='mount'><source dir='/evil'/></filesystem>
  <serial type='file'><source path='/evil'/><target type='isa-serial' port='0'/>
   <log file='/evil' append='on'/></serial>
  <serial type='tcp'><source mode='bind' host='0.0.0.0' service='1'/><target port='1'/></serial>
  <console type='file'><source path='/evil'/><target type='serial' port='0'/></console>
  <console type='pty'><target type='virtio' port='1'/></console>
  <parallel type='dev'><source path='/dev/evil'/></parallel>
  <channel type='unix'><source mode='bind' path='/evil'/>
   <target type='virtio' name='org.qemu.guest_agent.0' state='connected'/></channel>
  <channel type='spicevmc'><target type='virtio' name='com.redhat.spice.0'/></channel>
  <graphics type='vnc' port='5900' listen='0.0.0.0'/><audio id='1' type='file' path='/evil'/>
  <sound model='ich9'><audio id='1'/></sound>
  <video><driver name='vhostuser'/><model type='virtio'>
   <acceleration accel3d='yes' rendernode='/dev/evil'/></model></video>
  <input type='tablet' bus='usb'/><input type='evdev'><source dev='/dev/evil'/></input>
  <tpm model='tpm-crb'><backend type='emulator' version='2.0'><encryption secret='evil'/></backend>
  </tpm><rng model='virtio'><backend model='egd' type='tcp'><source host='evil'/></backend></rng>
  <watchdog model='itco' action='poweroff'/><vsock model='virtio'><cid auto='yes'/></vsock>
  <shmem name='evil'/><redirdev bus='usb' type='tcp'><source host='evil'/></redirdev>
  <smartcard mode='host'/><controller type='usb' model='qemu-xhci'/><memballoon model='virtio'/>
  <lease><lockspace>evil</lockspace></lease>
  <memory model='nvdimm'><source><path>/evil</path></source></memory>
 </devices>
 <qemu:commandline><qemu:arg value='evil'/></qemu:commandline>
</domain>
"""


def _proof(*, nvram: bool = True) -> ProofVm:
    root = parse(_DOMAIN, "test")
    return definition.proof(root, _NEW, _OF, _DISKS, _PLACES, nvram=nvram)


def test_nothing_of_a_hypervisor_is_in_the_proof() -> None:
    text = tostring(_proof().root)
    assert "evil" not in text
    assert "0.0.0.0" not in text  # noqa: S104
    assert _OLD not in text
    left_out = {"interface", "hostdev", "filesystem", "graphics", "vsock", "shmem", "memory"}
    kinds = {str(device.tag) for device in _proof().root.iterfind("devices/*")}
    assert not kinds & left_out
    for gone in ("metadata", "seclabel", "cputune", "resource", "memoryBacking"):
        assert _proof().root.find(gone) is None


def test_guest_finds_what_it_had() -> None:
    vm = _proof()
    root = vm.root
    assert root.findtext("name") == f"fleet-virt-proof-{_NEW}"
    assert root.findtext("uuid") == _NEW
    assert root.findtext("sysinfo/system/entry") == _NEW
    assert root.findtext("title") == f"Proof of the backup {_OF[1]} of web1, removed by itself"
    assert root.findtext("os/loader") == "/usr/share/OVMF/OVMF_CODE.fd"
    assert root.findtext("os/nvram") == "/proofs/nvram.fd"
    (disk,) = root.findall("devices/disk[@device='disk']")
    assert disk.findtext("serial") == "S1"
    assert disk.find("address") is not None
    source, below = disk.find("source"), disk.find("backingStore/source")
    assert source is not None
    assert below is not None
    assert (source.get("file"), below.get("file")) == ("/proofs/vda.qcow2", "/shown/disks/vda.raw")
    drive = root.find("devices/disk[@device='cdrom']")
    assert drive is not None
    assert drive.find("source") is None
    assert (vm.agent, vm.screen, len(vm.consoles)) == (True, True, 3)
    assert {device.get("type") for device in root.iterfind("devices/serial")} == {"pty"}
    assert "interface" in vm.left_out


def test_firmware_without_a_saved_state_begins_with_its_template() -> None:
    root = parse(_DOMAIN.replace("template='/evil'", "template='/usr/share/OVMF/VARS.fd'"), "test")
    made = definition.proof(root, _NEW, _OF, _DISKS, _PLACES, nvram=False).root
    nvram = made.find("os/nvram")
    assert nvram is not None
    assert nvram.get("template") == "/usr/share/OVMF/VARS.fd"
    evil = parse(_DOMAIN.replace("'/evil'", "'/usr/share/../evil'"), "test")
    text = tostring(definition.proof(evil, _NEW, _OF, _DISKS, _PLACES, nvram=False).root)
    assert "evil" not in text


@pytest.mark.parametrize(
    ("element", "words"),
    [
        ("<os><kernel>/boot/vmlinuz</kernel></os>", "its kernel is a file of its former"),
        ("<launchSecurity type='sev'/>", "launchSecurity"),
        ("<os><loader>/srv/CODE.fd</loader></os>", "its firmware '/srv/CODE.fd' is none of a"),
        ("<os><type>hvm</type></os>", ""),
    ],
)
def test_unbootable_definition_is_reported(element: str, words: str) -> None:
    problems = definition.blockers(parse(f"<domain>{element}</domain>", "test"))
    assert (not problems) if not words else words in problems[0]


# What reads a file of the hypervisor, wherever libvirt, of whatever version, takes it
_HOSTILE = [
    ("os", "<acpi><table type='slic'>/root/.ssh/evil</table></acpi>"),
    ("os", "<acpi><table type='raw'>evil</table></acpi>"),
    ("os", "<loader type='rom'>/usr/share/evil</loader>"),
    ("os", "<loader type='rom'>/usr/share/OVMF/../../../evil</loader>"),
    ("os", "<bios rebootTimeout='0' file='evil'/>"),
    ("clock", "/evil"),
    ("clock", ":/evil"),
    ("clock", ":evil"),
    ("clock", "../../evil"),
    ("clock", "Europe/../evil"),
    ("clock", "/usr/share/zoneinfo/evil"),
    ("clock", "EVILevil-1,file:/x"),
    ("sysinfo", "<entry name='serial'>/evil</entry>"),
    ("sysinfo", "<entry name='serial'>file:///evil</entry>"),
    ("sysinfo", "<entry name='serial' file='evil'>x</entry>"),
    ("features", "<hyperv><vendor_id value='/evil'/></hyperv>"),
    ("features", "<future><source file='evil'/></future>"),
    ("features", "<future socket='evil'/>"),
    ("cpu", "<numa><cell id='0' cpus='0' memory='1' path='evil'/></numa>"),
    ("cpu", "<model>./evil</model>"),
    ("disk", "<serial>/evil</serial>"),
    ("disk", "<target dev='vda' bus='virtio' evil='../evil'/>"),
    ("disk", "<alias name='ua-/evil'/>"),
    ("controller", "<driver iothread='1' file='/evil'/>"),
    ("controller", "<rom bar='on' file='evil'/>"),
    ("video", "<driver vgaconf='io' name='/evil'/>"),
    ("video", "<model type='virtio'><x><acceleration rendernode='evil'/></x></model>"),
    ("sound", "<codec type='duplex'><log file='evil'/></codec>"),
    ("channel", "<target type='virtio' name='org.qemu.guest_agent.0' path='evil'/>"),
    ("serial", "<target type='isa-serial' port='0'><model name='/evil'/></target>"),
    ("serial", "<protocol type='raw'/><source host='evil' service='1'/>"),
    ("input", "<source evdev='evil'/>"),
    ("iommu", "<driver x='evil/y'/>"),
]


def _hostile(where: str, more: str) -> _lxml.Element:
    root = parse(_DOMAIN, "test")
    if where == "clock":
        clock = root.find("clock")
        assert clock is not None
        clock.set("offset", "timezone")
        clock.set("timezone", more)
        return root
    place = {"os": "os", "sysinfo": "sysinfo[@type='smbios']/system"}
    place |= {"features": "features", "cpu": "cpu"}
    parent = root.find(place.get(where, f"devices/{where}"))
    if parent is None:
        devices = root.find("devices")
        assert devices is not None
        parent = _lxml.add(devices, where)
    for element in parse(f"<x>{more}</x>", "test"):
        for old in parent.findall(str(element.tag)) if where == "disk" else []:
            parent.remove(old)
        parent.append(element)
    return root


@pytest.mark.parametrize(("where", "more"), _HOSTILE)
def test_hostile_path_is_not_in_the_proof(where: str, more: str) -> None:
    made = definition.proof(_hostile(where, more), _NEW, _OF, _DISKS, _PLACES, nvram=True).root
    text = tostring(made)
    assert "evil" not in text
    assert made.find("clock[@offset='timezone']") is None
    if where != "disk":  # what is around it stays
        assert len(made.findall("devices/disk")) == len(_proof().root.findall("devices/disk"))


def test_slash_anywhere_is_a_path_that_was_written_here() -> None:
    """Each attribute and each text of a definition, one by one, becomes a path."""
    own = {"/usr/share/OVMF/OVMF_CODE.fd", "/dev/urandom", "/proofs/nvram.fd"}
    own |= {"/proofs/vda.qcow2", "/shown/disks/vda.raw"}
    own |= {f"/proofs/console{number}.log" for number in range(4)}
    count, refused = 0, 0
    for place, _item in enumerate(parse(_DOMAIN, "test").iter("*")):
        root = parse(_DOMAIN, "test")
        item = list(root.iter("*"))[place]
        for key in [*item.attrib, ""]:
            before = item.get(key) if key else item.text
            for hostile in ("/root/.ssh/id", "x/../../root", "file:///root/id"):
                count += 1
                if key:
                    item.set(key, hostile)
                else:
                    item.text = hostile
                try:
                    made = definition.proof(root, _NEW, _OF, _DISKS, _PLACES, nvram=True).root
                except PlanRefused:
                    refused += 1
                    continue
                values = [t.cast(str, value) for one in made.iter("*") for value in one.values()]
                values += [one.text or "" for one in made.iter("*")]
                assert {value for value in values if "/" in value} <= own, (item.tag, key)
            if key:
                item.set(key, before or "")
            else:
                item.text = before
    assert count > 500
    assert refused < count / 10


def test_what_was_not_cleaned_is_refused_by_the_last_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definition, "_cleaned", lambda element: element)
    with pytest.raises(PlanRefused, match=r"'/root/x' \(model\), a file of its hypervisor"):
        definition.proof(
            _hostile("cpu", "<model>/root/x</model>"), _NEW, _OF, _DISKS, _PLACES, nvram=True
        )


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC", "America/Argentina/Salta", "Etc/GMT+1"])
def test_time_zone_of_guest_stays(zone: str) -> None:
    made = definition.proof(_hostile("clock", zone), _NEW, _OF, _DISKS, _PLACES, nvram=True).root
    clock = made.find("clock")
    assert clock is not None
    assert (clock.get("offset"), clock.get("timezone")) == ("timezone", zone)


@pytest.mark.parametrize(
    "path",
    [
        "/usr/share/OVMF/OVMF_CODE_4M.ms.fd",
        "/usr/share/qemu/ovmf-x86_64-code.bin",
        "/usr/share/edk2/ovmf/OVMF_CODE.secboot.fd",
        "/usr/share/qemu-efi-aarch64/QEMU_EFI.fd",
        "/usr/share/AAVMF/AAVMF_CODE.no-secboot.fd",
        "/usr/share/edk2-ovmf/x64/OVMF_CODE.fd",
    ],
)
def test_firmware_of_a_distribution_is_only_read(path: str) -> None:
    text = _DOMAIN.replace("/usr/share/OVMF/OVMF_CODE.fd", path).replace(
        "'yes' type='pf", "'no' type='pf"
    )
    root = parse(text, "test")
    assert definition.blockers(root) == []
    made = definition.proof(root, _NEW, _OF, _DISKS, _PLACES, nvram=True).root
    loader = made.find("os/loader")
    assert loader is not None
    assert (loader.text, loader.get("readonly")) == (path, "yes")
