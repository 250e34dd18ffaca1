# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Domains of unlike kinds that virsh and virt-install made, adopted, changed, moved, removed; and
another name."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.fleet.virt.tests.integration.support import blank
from ansible_collections.fleet.virt.tests.integration.support.ansible import Run

from .conftest import IMAGES, Movers

_ADOPT = "ansible-playbook fleet.virt.adopt"
# As the guide shows them, each with what it must print
COMMANDS = {
    f"{_ADOPT} -e virt_output_file=vms.yml --check": r"moves +hv1 +would be adopted",
    f"{_ADOPT} -e virt_output_file=vms.yml": r"moves +hv1 +adopted",
    f"{_ADOPT} -e vm_name=legacy1 -e vm_adopt_disks=true": rf"{IMAGES}/legacy1\.img",
}
_FILE = "/srv/{0}.img"


RENAME = "ansible-playbook fleet.virt.rename -e vm_name=web1 -e vm_new_name=web9"
RENAME_VOLUMES = f"{RENAME} -e vm_rename_volumes=true"


_LOGS = "/var/log/libvirt/qemu"
_NVRAM = "/var/lib/libvirt/qemu/nvram"


def _disk(path: str, target: str, bus: str, kind: str = "raw", more: str = "") -> str:
    return (
        f"<disk type='file' device='disk'><driver name='qemu' type='{kind}'/>"
        f"<source file='{path}'/><target dev='{target}' bus='{bus}'/>{more}</disk>"
    )


def _nic(number: int, more: str = "<model type='virtio'/>", kind: str = "") -> str:
    source = kind or "<interface type='bridge'><source bridge='br0'/>"
    return f"{source}<mac address='52:54:00:aa:00:{number:02x}'/>{more}</interface>"


_CD = "<disk type='file' device='cdrom'><target dev='{}' bus='sata'/><readonly/></disk>"
_VNC = "<graphics type='vnc' port='-1'><listen type='address' address='127.0.0.1'/></graphics>"
_USER = "<interface type='user'>"
_SHARED = f"{IMAGES}/between.img"
# Name: hypervisor, machine, what stands beside devices, devices, disks of 8 MiB to be made
_DOMAINS: dict[str, tuple[str, str, str, str, tuple[str, ...]]] = {
    "moves": (
        "hv1",
        "pc",
        "<title>Counts &lt;on&gt;</title>",
        _disk(f"{IMAGES}/moves.qcow2", "vda", "virtio", "qcow2")
        + _nic(1)
        + "<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>",
        (),
    ),
    "legacy1": (
        "hv1",
        "pc",
        "<description>two\nlines</description>",
        _disk(f"{IMAGES}/legacy1.img", "hda", "ide")
        + _disk(_SHARED, "vdc", "virtio", more="<shareable/>")
        + _nic(2, "<model type='rtl8139'/><link state='down'/>"),
        (f"{IMAGES}/legacy1.img", _SHARED),
    ),
    "between1": ("hv1", "q35", "", _disk(_SHARED, "vda", "virtio", more="<shareable/>"), ()),
    "overlaid": (
        "hv1",
        "q35",
        "<features><acpi/><hyperv><relaxed state='on'/></hyperv></features>",
        _disk(f"{IMAGES}/overlaid.qcow2", "sda", "sata", "qcow2") + _CD.format("sdb") + _VNC,
        (),
    ),
    "outside": (
        "hv1",
        "q35",
        "<clock offset='localtime'/>",
        _disk(_FILE.format("outside"), "vdb", "virtio") + "<sound model='ich9'/>",
        (_FILE.format("outside"),),
    ),
    "scsi1": (
        "hv2",
        "q35",
        "<title>{{ lookup('pipe', 'touch /tmp/fleet-virt-pwned') }}</title>",
        "<controller type='scsi' model='virtio-scsi'/>"
        + _disk(f"{IMAGES}/scsi1.img", "sda", "scsi", more="<boot order='2'/><serial>A1</serial>")
        + _nic(3, "<model type='e1000e'/><boot order='1'/>"),
        (f"{IMAGES}/scsi1.img",),
    ),
    "device1": (
        "hv2",
        "q35",
        "<on_crash>preserve</on_crash>",
        "<watchdog model='i6300esb' action='poweroff'/><rng model='virtio'><backend model='random'>"
        "/dev/urandom</backend></rng><tpm model='tpm-tis'><backend type='emulator' version='2.0'/>"
        f"</tpm>{_VNC}{_nic(4, '', _USER)}",
        (),
    ),
    "large1": (
        "hv2",
        "pc",
        "<vcpu current='2'>3</vcpu><cpu mode='maximum'/>",
        _disk(f"{IMAGES}/large1.img", "vda", "virtio", more="<iotune><total_iops_sec>100"
              "</total_iops_sec></iotune>") + _disk(f"{IMAGES}/gone.img", "vdb", "virtio"),
        (f"{IMAGES}/large1.img",),
    ),
    "direct1": (
        "hv2",
        "q35",
        "",
        _nic(5, "", "<interface type='direct'><source dev='eth0' mode='bridge'/>"),
        (),
    ),
    "auto1": ("hv2", "q35", "", _disk(f"{IMAGES}/auto1.img", "vda", "virtio"), ()),
}  # fmt: skip


# By virt-install on hv1: one that runs, and two as it would make them
_INSTALL = (
    "virt-install --name {name} --virt-type {kind} --network bridge=br0"
    f" --disk {IMAGES}/{{name}}"
)
_INSTALLED = {
    "imported": f"{_INSTALL}.qcow2 --memory 96 --vcpus 1,maxvcpus=2 --import --osinfo debian11"
    " --graphics none --noautoconsole --wait 0",
    "windows1": f"{_INSTALL}.img,size=0.01 --memory 64 --osinfo win10 --import --graphics vnc"
    " --tpm none --print-xml",
    "netboot1": f"{_INSTALL}.img,size=0.01,bus=scsi,discard=unmap --memory 64 --osinfo generic"
    " --pxe --controller scsi,model=virtio-scsi --graphics spice --watchdog i6300esb,action=reset"
    " --print-xml 1",
}
_ALL = 10 + len(_INSTALLED)


def _install(movers: Movers, name: str) -> None:
    command = _INSTALLED[name].format(kind="kvm" if movers.lab.record.kvm else "qemu", name=name)
    if "--print-xml" in command:
        command = (
            f"{command} > /run/domain.xml; virsh -q define /run/domain.xml;"
            f" truncate -s 8M {IMAGES}/{name}.img"
        )
    movers.guests.script("hv1", f"{command} >&2")
    movers.guests.made.append(("hv1", name))


def _define(movers: Movers, name: str, host: str | None = None) -> None:
    where, machine, top, devices, files = _DOMAINS[name]
    vcpu = "" if "<vcpu" in top else "<vcpu>1</vcpu>"
    kind = "kvm" if movers.lab.record.kvm else "qemu"
    xml = (
        f"<domain type='{kind}'><name>{name}</name><memory unit='MiB'>96</memory>{vcpu}{top}"
        f"<os><type arch='x86_64' machine='{machine}'>hvm</type></os>"
        f"<devices>{devices}</devices></domain>"
    )
    make = "".join(f"[ -e {one} ] || truncate -s 8M {one}\n" for one in files)
    script = f"{make}cat > /run/domain.xml; virsh -q define /run/domain.xml"
    movers.guests.script(host or where, script, input=xml)


@pytest.fixture
def theirs(movers: Movers) -> Movers:
    """The domains, two of which run."""
    for host in ("hv1", "hv2"):
        movers.guests.forget()
        movers.guests.prepare(host)
    images = f"cd {IMAGES}; mkdir -p /srv; qemu-img convert -O qcow2 tiny.qcow2 moves.qcow2"
    images += "; cp moves.qcow2 imported.qcow2"
    movers.fleet.host(
        "hv1", f"{images}; qemu-img create -q -f qcow2 -b tiny.qcow2 -F qcow2 overlaid.qcow2"
    )
    movers.fleet.host("hv2", f"truncate -s 8388609 {IMAGES}/auto1.img")
    for name in _DOMAINS:
        _define(movers, name)
    for name in _INSTALLED:
        _install(movers, name)
    movers.fleet.host("hv1", "virsh -q start moves; virsh -q pool-refresh default")
    movers.fleet.host("hv2", "virsh -q autostart auto1; virsh -q pool-refresh default")
    return movers


def _adopt(movers: Movers, check: bool = False, **variables: Any) -> Run:
    return movers.ansible.playbook("adopt", variables, check=check, limit=120)


def _managed(movers: Movers) -> set[str]:
    """The names of all VMs that are marked, which have it where they run as well."""
    found = set()
    hosts = {**{name: one[0] for name, one in _DOMAINS.items()}, **dict.fromkeys(_INSTALLED, "hv1")}
    for name, host in hosts.items():
        text = movers.metadata(host, name)
        assert text.count("adopted>yes<") in (0, 2), text
        found |= {name} if "adopted>yes<" in text else set()
    return found


def _plan(movers: Movers, path: Path) -> Run:
    words = ["fleet.virt.plan", "-e", f"@{path}", "-e", "virt_strict=true"]
    return movers.ansible.run("ansible-playbook", words, limit=120)


def test_a_fleet_is_adopted_and_then_like_any_other(theirs: Movers, tmp_path: Path) -> None:
    path = tmp_path / "vms.yml"
    _define(theirs, "between1", "hv2")
    twice = _adopt(theirs, vm_name="between1")
    assert twice.returncode != 0
    assert "'between1' is defined on hv1 and hv2" in twice.stdout
    theirs.fleet.host("hv2", "virsh -q undefine between1")

    for command, printed in COMMANDS.items():
        program, *words = shlex.split(command.replace("vms.yml", str(path)))
        run = theirs.ansible.run(program, words, limit=120).succeeded()
        assert re.search(printed, run.stdout), str(run)
        if "--check" in command:
            assert _managed(theirs) == set()
            assert not path.exists()
    assert _managed(theirs) == {*_DOMAINS, *_INSTALLED}
    again = _adopt(theirs, virt_output_file=str(path)).succeeded()
    assert "changed=0" in again.stdout, str(again)
    empty = _plan(theirs, path).succeeded()
    assert f"{_ALL} unchanged" in empty.stdout, str(empty)
    theirs.fleet.provision(args=("-e", f"@{path}"), vm_wait=False).succeeded()

    text = path.read_text(encoding="utf-8")
    assert "title: !unsafe" in text
    assert not Path("/tmp/fleet-virt-pwned").exists()
    loaded = yaml.safe_load(text.replace("!unsafe", ""))["virt_vms"]
    specifications = {vm["name"]: vm for vm in loaded}
    assert specifications["scsi1"]["boot"] == ["eth0", "sda"]
    assert specifications["auto1"]["disks"] == [
        {"name": "vda", "size": 9, "format": "raw", "cache": "writeback", "discard": "ignore"}
    ]
    assert [nic["type"] for nic in specifications["direct1"]["nics"]] == ["direct"]
    _drift(theirs, path)
    _change(theirs, specifications)
    _purge(theirs)
    _move(theirs)


def _drift(theirs: Movers, path: Path) -> None:
    """What somebody changes afterwards is seen, on a disk that has no number one before it."""
    theirs.fleet.host("hv1", "virsh -q attach-interface overlaid bridge br0 --config")
    assert f"{_ALL} unchanged" in _plan(theirs, path).succeeded().stdout
    theirs.fleet.host("hv1", "virsh -q detach-disk outside vdb --config")
    drifted = _plan(theirs, path)
    assert drifted.returncode != 0
    assert "disks.vdb added" in drifted.stdout, str(drifted)


def _change(theirs: Movers, specifications: dict[str, Any]) -> None:
    """What adoption wrote, with another word here and there; one runs, by virt-install."""
    theirs.guests.wait_agent("hv1", "imported")
    theirs.guests.wait_agent("hv1", "moves")
    wishes: dict[str, dict[str, Any]] = {
        "imported": {"vcpus": 2, "title": "Imported"},
        "moves": {"description": "It counts"},
        "windows1": {"memory": 96, "watchdog": "poweroff"},
    }
    vms = [{**specifications[name], **wish} for name, wish in wishes.items()]
    fleet = theirs.fleet.alone("hv1")
    shown = fleet.provision(check=True, virt_vms=vms, vm_wait=False).succeeded()
    assert "would be changed" in shown.stdout, str(shown)
    fleet.provision(virt_vms=vms, vm_wait=False).succeeded()
    for words, shown_now in (
        (("vcpucount", "imported", "--live", "--current"), "2"),
        (("desc", "imported", "--title"), "Imported"),
        (("desc", "moves"), "It counts"),
    ):
        assert theirs.guests.virsh("hv1", *words).strip() == shown_now
    windows = theirs.guests.virsh("hv1", "dumpxml", "windows1")
    for words in ("<memory unit='KiB'>98304</memory>", "i6300esb", "localtime", "hypervclock"):
        assert words in windows, windows
    again = fleet.provision(virt_vms=vms, vm_wait=False).succeeded()
    assert "changed=0" in again.stdout, str(again)


def _purge(theirs: Movers) -> None:
    """Disks stay with whom they were not taken for; nobody's is taken that others have."""
    alone = theirs.ansible.alone("hv1")
    purged = alone.playbook("purge_vm", {"virt_names": "overlaid,legacy1"}).succeeded()
    assert f"{IMAGES}/overlaid.qcow2" in purged.stdout
    there = theirs.fleet.host("hv1", f"ls {IMAGES}")
    assert "overlaid.qcow2" in there
    assert "between.img" in there
    assert "legacy1.img" not in there
    taken = _adopt(theirs, vm_adopt_disks=True).succeeded()
    assert f"{_SHARED}: shareable, so other VMs may use it" in taken.stdout
    assert "in no active directory pool" not in taken.stdout  # it was detached above
    assert "/large1.img" in taken.stdout


def _move(theirs: Movers) -> None:
    """Those that were changed, and then none of them is left."""
    names = ["imported", "moves", "windows1"]
    theirs.playbook(virt_names=names, vm_host="hv2", virt_vcpu_ratio=16).succeeded()
    there = theirs.fleet.host("hv1", f"virsh list --all; ls {IMAGES}")
    assert not [name for name in names if name in there]
    assert [theirs.state("hv2", name) for name in names] == ["running", "running", "shut off"]
    theirs.ansible.playbook("purge_vm", {"virt_names": names, "vm_force": True}).succeeded()
    there = theirs.fleet.host("hv2", f"virsh list --all; ls {IMAGES}")
    assert not [name for name in names if name in there]


_EFI = (
    "<domain type='qemu'><name>efi1</name><memory unit='MiB'>64</memory><os>"
    "<type arch='x86_64' machine='q35'>hvm</type>"
    "<loader readonly='yes' type='pflash'>/usr/share/none.fd</loader>"
    f"<nvram>{_NVRAM}/efi1_VARS.fd</nvram></os><features><acpi/></features></domain>"
)


def test_a_vm_gets_another_name(movers: Movers) -> None:
    """With what is called after it; the name is nobody's before and after."""
    movers.make("web1", image=blank.NAME, start=False)
    movers.make("other", host="hv2", start=False)
    movers.fleet.host("hv1", f"echo a word > {_LOGS}/web1-console.log")
    before = movers.listed("hv1", "web1")
    alone = movers.ansible.alone("hv1")
    program, *words = shlex.split(RENAME)
    predicted = alone.run(program, [*words, "--check"], limit=120).succeeded()
    done = alone.run(program, words, limit=120).succeeded()
    (steps,) = re.findall(r"^web1 to web9 +hv1 +renamed +(.+)$", done.stdout, re.M)
    assert re.search(rf"web1 to web9 +hv1 +would be renamed +{re.escape(steps)}", predicted.stdout)
    after = movers.listed("hv1", "web9")
    assert (after["uuid"], after["metadata"]) == (before["uuid"], before["metadata"])
    there = movers.fleet.host("hv1", f"cat {_LOGS}/web9-console.log; ls {_LOGS}; virsh list --all")
    assert there.startswith("a word")
    assert "web1-console" not in there
    assert " web1 " not in there
    again = alone.run(program, words, limit=120).succeeded()
    assert "changed=0" in again.stdout, str(again)

    # its volumes later, unless others lie on them
    before = [one for one in movers.fleet.files("hv1") if one.startswith("web1_")]
    assert before
    copy = f"{IMAGES}/copy.qcow2"
    movers.fleet.host(
        "hv1", f"cd {IMAGES}; qemu-img create -qf qcow2 -b {before[0]} -F qcow2 {copy}"
    )
    program, *words = shlex.split(RENAME_VOLUMES)
    refused = alone.run(program, words, limit=120)
    assert refused.returncode != 0
    assert f"{before[0]}: backs {copy}" in refused.stdout, str(refused)
    movers.fleet.host("hv1", f"rm {copy}")
    for changed in (True, False):
        done = alone.run(program, words, limit=120).succeeded()
        assert bool(re.search(r"web1 to web9 +hv1 +renamed", done.stdout)) == changed, str(done)
    there = movers.fleet.files("hv1")
    assert {one.replace("web1_", "web9_", 1) for one in before} <= set(there)
    assert not [one for one in there if one.startswith("web1_")]
    assert "web9_" in movers.fleet.host("hv1", "virsh vol-list default; virsh domblklist web9")

    taken = movers.ansible.playbook("rename", {"vm_name": "web9", "vm_new_name": "Other"})
    assert taken.returncode != 0
    assert "'other' is on hv2" in taken.stdout, str(taken)
    movers.ansible.module("hv1", "virt_state", {"name": "web9", "state": "running"})
    runs = alone.playbook("rename", {"vm_name": "web9", "vm_new_name": "web1"})
    assert runs.returncode != 0
    assert "'web9' is running; libvirt renames only what is shut off" in runs.stdout, str(runs)
    gone = alone.playbook("purge_vm", {"vm_name": "web9", "vm_force": True}).succeeded()
    assert f"{_LOGS}/web9-console.log" in gone.stdout
    movers.clean("hv1", "web1", "web9")


def test_the_variables_of_its_firmware_go_along(movers: Movers) -> None:
    movers.fleet.host("hv1", f"mkdir -p {_NVRAM}; echo variables > {_NVRAM}/efi1_VARS.fd")
    movers.guests.define_xml("hv1", "efi1", _EFI)
    alone = movers.ansible.alone("hv1")
    alone.playbook("adopt", {"vm_name": "efi1"}).succeeded()
    alone.playbook("rename", {"vm_name": "efi1", "vm_new_name": "efi2"}).succeeded()
    listed = movers.listed("hv1", "efi2")
    uuid = listed["uuid"]
    assert listed["firmware"]["nvram"] == f"{_NVRAM}/{uuid}_VARS.fd"
    assert movers.fleet.host("hv1", f"cat {_NVRAM}/{uuid}_VARS.fd") == "variables\n"
    assert "efi1" not in movers.fleet.host("hv1", f"ls {_NVRAM}")
    alone.playbook("purge_vm", {"vm_name": "efi2"}).succeeded()
    assert uuid not in movers.fleet.host("hv1", f"ls {_NVRAM}")
