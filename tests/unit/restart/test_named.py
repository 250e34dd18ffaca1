# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Cards that another hypervisor has written, and what they name of the one that takes the VM."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards.card import (
    Card,
    CardName,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restart import definition, named

_GOLDEN = sorted((Path(__file__).parents[1] / "fixtures" / "golden").glob("*.xml"))
_UUID = "6f3a0d4c-0c57-4f3e-9f0e-0d6d5c1f2a3b"
_VM = f"""<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
<name>web1</name><uuid>{_UUID}</uuid>
<description>see https://wiki.example.org/web1</description>
<metadata><own xmlns='urn:own'><file>/srv/anything</file></own></metadata>
<memory>131072</memory><os>OS<type>hvm</type></os><clock offset='timezone' timezone='Europe/Oslo'/>
<sysinfo type='smbios'><oemStrings><entry>ds=http://192.0.2.1/seed/</entry></oemStrings></sysinfo>
<devices><emulator>/usr/bin/qemu-system-x86_64</emulator>
<disk type='file' device='disk'><driver name='qemu' type='qcow2'/>
<source file='/srv/shared/web1.qcow2'/>BELOW
<target dev='vda' bus='virtio'/></disk>DEVICES
<serial type='pty'><log file='/var/log/libvirt/qemu/web1-console.log' append='on'/></serial>
<channel type='unix'><source mode='bind' path='/var/lib/libvirt/qemu/channel/web1.agent'/>
<target type='virtio' name='org.qemu.guest_agent.0'/></channel>
<rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
<graphics type='vnc' port='-1'><listen type='address' address='127.0.0.1'/></graphics>
</devices>REST</domain>"""
_PLACES = named.Places(frozenset({"/srv/shared"}), frozenset({"/var/lib/libvirt/base"}))
_KEY = "/root/.ssh/id_ed25519"


def _root(os: str = "", below: str = "", devices: str = "", rest: str = "") -> _lxml.Element:
    parts = {"OS": os, "BELOW": below, "DEVICES": devices, "REST": rest}
    text = _VM
    for key, value in parts.items():
        text = text.replace(key, value, 1)
    return _lxml.parse(text, "domain")


def _backing(path: str) -> str:
    return f"<backingStore type='file'><format type='raw'/><source file='{path}'/></backingStore>"


@pytest.mark.parametrize("path", _GOLDEN, ids=lambda path: path.stem)
def test_definition_of_the_collection_names_nothing_strange(path: Path) -> None:
    root = _lxml.parse(path.read_text(encoding="utf-8"), "domain")
    folders = frozenset({"/var/lib/libvirt/images"})
    places = named.Places(folders, frozenset({"/var/lib/libvirt/base"}))
    assert named.strangers(named.without_stray_media(root, []), places) == []


@pytest.mark.parametrize(
    "root",
    [
        _root(),
        _root(below=_backing("/var/lib/libvirt/base/debian.qcow2")),
        _root(below=_backing("/srv/shared/web1.base.qcow2")),
        _root(os="<kernel>/srv/shared/vmlinuz</kernel><cmdline>root=/dev/vda1</cmdline>"),
        _root(
            os="<loader type='pflash'>/usr/share/OVMF/OVMF_CODE_4M.fd</loader><nvram"
            " template='/usr/share/OVMF/OVMF_VARS_4M.fd'>/srv/shared/web1_VARS.fd</nvram>"
        ),
        _root(rest="<sysinfo type='fwcfg'><entry name='opt/own/a'>a/b</entry></sysinfo>"),
        _root(rest="<resource><partition>/machine</partition></resource>"),
        _root(devices="<serial type='tcp'><source mode='bind' host='::1' service='9'/></serial>"),
    ],
    ids=["plain", "base", "shared base", "kernel", "firmware", "entry", "partition", "bound port"],
)
def test_definition_with_shared_or_common_files_is_taken(root: _lxml.Element) -> None:
    assert named.strangers(root, _PLACES) == []


_HOSTILE = {
    # what QEMU's user gets, or the guest reads
    "table": {"os": f"<acpi><table type='slic'>{_KEY}</table></acpi>"},
    "kernel": {"os": f"<kernel>{_KEY}</kernel>"},
    "initrd": {"os": f"<initrd>{_KEY}</initrd>"},
    "dtb": {"os": f"<dtb>{_KEY}</dtb>"},
    "loader": {"os": f"<loader type='rom'>{_KEY}</loader>"},
    "shared loader": {"os": "<loader type='rom'>/srv/shared/../../root/x</loader>"},
    # libvirt copies it as root
    "template": {"os": f"<nvram template='{_KEY}'>/srv/shared/web1_VARS.fd</nvram>"},
    "nvram": {"os": "<nvram>/etc/shadow</nvram>"},
    "nvram of a block device": {
        "os": "<nvram type='block'><source file='/srv/shared/v' dev='/dev/sda'/></nvram>"
    },
    "firmware configuration": {
        "rest": f"<sysinfo type='fwcfg'><entry name='opt/a' file='{_KEY}'/></sysinfo>"
    },
    "backing file": {"below": _backing(_KEY)},
    "backing file of another VM": {"below": _backing("/var/lib/libvirt/images/db1.qcow2")},
    "backing file that is relative": {"below": _backing("../../root/x")},
    "backing device": {
        "below": "<backingStore type='block'><format type='raw'/><source dev='/dev/sda'/>"
        "</backingStore>"
    },
    "backing server": {
        "below": "<backingStore type='network'><format type='raw'/>"
        "<source protocol='nbd' name='x'><host name='127.0.0.1'/></source></backingStore>"
    },
    "data file": {"below": f"<dataStore type='file'><source file='{_KEY}'/></dataStore>"},
    "mirror": {"below": f"<mirror type='file' file='{_KEY}' format='raw'/>"},
    "second source": {"below": "<source file='/srv/shared/web1.qcow2' dev='/dev/sda'/>"},
    "memory": {"devices": f"<memory model='nvdimm'><source><path>{_KEY}</path></source></memory>"},
    "rom": {"devices": f"<interface type='user'><rom bar='on' file='{_KEY}'/></interface>"},
    # programs
    "emulator": {"devices": "<emulator>/srv/shared/qemu-system-x86_64</emulator>"},
    "script": {"devices": "<interface type='ethernet'><script path='/srv/shared/x'/></interface>"},
    "binary": {
        "devices": "<filesystem type='mount'><binary path='/srv/shared/x'/>"
        "<source dir='/srv/shared'/><target dir='x'/></filesystem>"
    },
    "arguments": {"rest": "<qemu:commandline><qemu:arg value='-S'/></qemu:commandline>"},
    "override": {"rest": "<qemu:override><qemu:device alias='a'/></qemu:override>"},
    # what libvirt's log daemon writes as root
    "log": {"devices": "<console type='pty'><log file='/etc/cron.d/x'/></console>"},
    "log of another VM": {
        "devices": "<console type='pty'><log file='/var/log/libvirt/qemu/db1.log'/></console>"
    },
    "file of a serial console": {
        "devices": "<serial type='file'><source path='/etc/cron.d/x'/></serial>"
    },
    # sockets, devices, folders
    "socket": {
        "devices": "<serial type='unix'><source mode='connect' path='/run/docker.sock'/></serial>"
    },
    "socket that libvirt keeps": {
        "devices": "<serial type='unix'><source mode='connect'"
        " path='/var/lib/libvirt/qemu/domain-1-db1/monitor.sock'/></serial>"
    },
    "port": {
        "devices": "<serial type='tcp'><source mode='connect' host='127.0.0.1' service='22'/>"
        "</serial>"
    },
    "device of a console": {"devices": "<serial type='dev'><source path='/dev/sda'/></serial>"},
    "entropy": {"devices": "<rng model='virtio'><backend model='random'>/dev/sda</backend></rng>"},
    "entropy socket": {
        "devices": "<rng model='virtio'><backend model='egd' type='tcp'>"
        "<source mode='connect' host='127.0.0.1' service='22'/></backend></rng>"
    },
    "keyboard": {"devices": "<input type='evdev'><source dev='/dev/input/event0'/></input>"},
    "TPM": {
        "devices": "<tpm model='tpm-crb'><backend type='passthrough'>"
        "<device path='/dev/tpm0'/></backend></tpm>"
    },
    "screen": {
        "devices": "<graphics type='vnc'><listen type='socket' socket='/run/x'/></graphics>"
    },
    "NIC": {
        "devices": "<interface type='vhostuser'><source type='unix' path='/run/x' mode='client'/>"
        "</interface>"
    },
    "NIC of the hypervisor": {
        "devices": "<interface type='hostdev'><source><address type='pci' domain='0' bus='0'"
        " slot='0' function='0'/></source></interface>"
    },
    "shared memory": {"devices": "<shmem name='db1'><model type='ivshmem-plain'/></shmem>"},
    "sound": {"devices": f"<audio id='1' type='file' path='{_KEY}'/>"},
    "pstore": {"devices": "<pstore backend='acpi-erst'><path>/etc/x</path></pstore>"},
    "lease": {"devices": "<lease><lockspace>a</lockspace><target path='/etc/x'/></lease>"},
    "unknown device": {"devices": "<teleporter/>"},
    "unknown element": {"rest": f"<novelty><where>{_KEY}</where></novelty>"},
    "unknown attribute": {"rest": f"<novelty where='{_KEY}'/>"},
    # who QEMU is
    "label": {"rest": "<seclabel type='static' model='dac'><label>+0:+0</label></seclabel>"},
    "label of a disk": {
        "below": "<seclabel model='dac' relabel='yes'><label>+0:+0</label></seclabel>"
    },
    "no label": {"rest": "<seclabel type='none' model='apparmor'/>"},
    "base label": {
        "rest": "<seclabel type='dynamic' model='selinux'><baselabel>a:b:c</baselabel></seclabel>"
    },
    "encrypted memory": {"rest": "<launchSecurity type='sev'/>"},
    "control group": {"rest": "<resource><partition>/../..</partition></resource>"},
    "time zone": {"rest": "<clock offset='timezone' timezone='../../root/x'/>"},
}


@pytest.mark.parametrize("parts", _HOSTILE.values(), ids=_HOSTILE)
def test_hostile_card_is_refused_with_what_it_names(parts: dict[str, str]) -> None:
    (found, *_more) = named.strangers(_root(**parts), _PLACES)
    assert "which no card decides for another hypervisor; remove that from the card" in found


_MEDIA = {
    "key": f"type='file' device='cdrom'><source file='{_KEY}'/>",
    "disk of another VM": "type='file' device='floppy'><source file='/var/lib/libvirt/db1.img'/>",
    "block device": "type='block' device='cdrom'><source dev='/dev/sda'/>",
    "both": "type='block' device='cdrom'><source file='/srv/shared/a.iso' dev='/dev/sda'/>",
    "server": "type='network' device='cdrom'><source protocol='http' name='x'>"
    "<host name='127.0.0.1'/></source>",
    "below": "type='file' device='cdrom'><source file='/srv/b.iso'/><backingStore type='file'>"
    f"<format type='raw'/><source file='{_KEY}'/></backingStore>",
}


@pytest.mark.parametrize("medium", _MEDIA.values(), ids=_MEDIA)
def test_medium_that_is_on_no_shared_storage_is_left_out(medium: str) -> None:
    drive = f"<disk {medium}<target dev='sda' bus='sata'/><readonly/></disk>"
    root = _root(devices=drive)
    changed = named.without_stray_media(root, ["/srv/shared/a.iso"])
    (_disk, left) = changed.findall("devices/disk")
    assert [child.tag for child in left] == ["target", "readonly"]
    assert named.strangers(changed, _PLACES) == []
    assert len(root.findall("devices/disk/source")) == 2, "the card's own is as it was"


def test_medium_on_shared_storage_stays() -> None:
    drive = "<disk type='file' device='cdrom'><source file='/srv/shared/a.iso'/></disk>"
    root = _root(devices=drive)
    changed = named.without_stray_media(root, ["/srv/shared/a.iso"])
    assert _lxml.tostring(changed) == _lxml.tostring(root)


@pytest.mark.parametrize(
    "disk",
    [
        "type='block' device='disk'><source file='/srv/shared/a' dev='/dev/sda'/>",
        "type='block' device='lun'><source dev='/dev/sda'/>",
        "type='network'><source protocol='nbd' name='x' file='/srv/shared/a'/>",
        "type='dir'><source dir='/root' file='/srv/shared/a'/>",
    ],
)
def test_disk_that_is_no_file_is_refused_whatever_else_it_names(disk: str) -> None:
    root = _root(devices=f"<disk {disk}<target dev='vdb'/></disk>")
    card = Card(CardName("web1", ("hv3",)), _UUID, _lxml.tostring(root), running=True)
    (problem,) = definition.blockers(card, {"/srv/shared"})
    assert problem.endswith("is no file")
