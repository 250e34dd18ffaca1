# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CDs and floppies in the drives of VMs: they boot from them, or read them."""

from __future__ import annotations

import base64

import pytest
from ansible_collections.fleet.virt.tests.integration.support.guests import Guests
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for

from .conftest import Fleet

_TEXT = b"this CD was booted"
# What a PC runs of the CD, in 16 bits: it writes the text to its first serial port, and halts
_LOADER = bytes.fromhex("31c08ed8be167cfcbaf803ac84c07403eeebf8f4ebfd") + _TEXT + b"\r\n\0"
_ISO = "/var/lib/libvirt/images/installer.iso"
_MAKE = f"""
rm -rf /run/cd && mkdir /run/cd && echo {base64.b64encode(_LOADER).decode()} \
| base64 -d > /run/cd/loader && truncate -s 2048 /run/cd/loader
xorriso -as mkisofs -quiet -V INSTALLER -b loader -no-emul-boot -boot-load-size 4 -o {_ISO} /run/cd
"""


@pytest.fixture
def iso(fleet: Fleet) -> str:
    """A CD that boots, on hv1 alone."""
    fleet.host("hv1", _MAKE)
    return _ISO


def test_a_vm_boots_from_its_cd(fleet: Fleet, iso: str) -> None:
    """The first disk is empty, so the CD is next; a second CD comes from the controller."""
    more = fleet.images / "more.iso"
    more.write_bytes(base64.b64decode(fleet.host("hv1", f"base64 {iso}")))
    with more.open("r+b") as file:  # another CD by its content
        file.seek(0x8028)  # the name of the volume
        file.write(b"DRIVERS  ")
    drives = [
        {"name": "cd", "device": "cdrom", "image": iso},
        {"name": "more", "device": "cdrom", "bus": "sata", "image": "more.iso"},
    ]
    vm = {"name": "new", "vcpus": 1, "memory": 64, "machine": "q35"}
    vm["disks"] = [{"name": "system", "size": 8}, *drives]
    packed = [{"name": "cd", "device": "cdrom", "image": "tiny.qcow2"}]
    refused = fleet.init("hv1", **{**vm, "disks": packed})
    assert "is qcow2, and a CD is an ISO image" in refused["msg"]
    predicted = fleet.init("hv1", check=True, **vm)
    assert (predicted["changed"], predicted["failed"]) == (True, False), predicted
    for changed in (True, False):
        result = fleet.init("hv1", **vm)
        assert not result["failed"], result.get("msg")
        assert result["changed"] is changed
    log = "/var/log/libvirt/qemu/new-console.log"
    wait_for(lambda: _TEXT.decode() in fleet.host("hv1", f"cat {log}"), 60, "the CD's loader")
    there = fleet.ansible.module("hv1", "virt_image_info", {})["hv1"]["images"]
    used = {one["name"]: one["volume"] for one in there if one["users"] == ["domain 'new'"]}
    assert sorted(used) == ["installer.iso", "more.iso"], there
    fleet.host("hv1", "virsh change-media new sda --eject --config --live --force")
    (mended,) = fleet.init("hv1", **vm)["vms"]
    assert mended["steps"] == [f"disks.cd.image none -> {iso}, live"]
    assert "installer.iso" in fleet.host("hv1", "virsh domblklist new")
    vm["disks"][1] = {**drives[0], "image": "more.iso"}
    (changed,) = fleet.init("hv1", **vm)["vms"]
    assert changed["steps"] == [f"disks.cd.image {iso} -> more.iso, live"]
    assert not fleet.init("hv1", **vm)["changed"]
    assert "installer.iso" not in fleet.host("hv1", "virsh domblklist new")
    vm["disks"][1] = {"name": "cd", "device": "cdrom", "image": "none"}
    for check in (True, False):
        (ejected,) = fleet.init("hv1", check=check, **vm)["vms"]
        assert ejected["steps"] == ["disks.cd.image more.iso -> none, live"]
    assert not fleet.init("hv1", **vm)["changed"]
    for which in ("", "--inactive"):
        blocks = fleet.host("hv1", f"virsh domblklist new {which}")
        assert [line.split() for line in blocks.splitlines() if " sda" in line] == [["sda", "-"]]
    fleet.host("hv1", "virsh destroy new")
    purged = fleet.ansible.module("hv1", "virt_purge", {"name": "new"})["hv1"]
    assert not purged.get("failed"), purged
    assert set(used.values()) <= set(fleet.files("hv1", "/var/lib/libvirt/base"))


def test_a_guest_reads_its_cd(fleet: Fleet, iso: str, guests: Guests) -> None:
    drive = {"name": "cd", "device": "cdrom", "image": iso}
    vm = {"name": "reader", "memory": 96, "image": "tiny.qcow2", "seed": False}
    made = fleet.init("hv1", **vm, disks=[drive])
    assert not made["failed"], made
    guests.wait_agent("hv1", "reader")
    guests.execute("hv1", "reader", "dd if=/dev/sr0 bs=2048 count=20 | grep -q INSTALLER")


def test_a_vm_boots_from_its_floppy(fleet: Fleet) -> None:
    """Which is changed while the VM runs, as a CD is, and is the same of all who have it."""
    text = b"this floppy was booted"
    for name, more in (("dos.img", b""), ("drivers.img", b"others")):
        sector = _LOADER.replace(_TEXT, text).ljust(510, b"\0") + b"\x55\xaa" + more
        (fleet.images / name).write_bytes(sector.ljust(1440 * 1024, b"\0"))
    floppy = {"name": "floppy", "device": "floppy", "image": "dos.img"}
    vm = {"name": "old", "vcpus": 1, "memory": 64, "boot": ["floppy"]}
    vm["disks"] = [{"name": "system", "size": 8}, floppy]
    for host, machine in (("hv1", "q35"), ("hv2", "pc")):
        vm.update(name=f"old-{machine}", machine=machine)
        for changed in (True, False):
            result = fleet.init(host, **vm)
            assert not result["failed"], result.get("msg")
            assert result["changed"] is changed
        log = f"/var/log/libvirt/qemu/{vm['name']}-console.log"
        wait_for(lambda: text.decode() in fleet.host(host, f"cat {log}"), 60, "the loader")  # noqa: B023
        vm["disks"] = [vm["disks"][0], {**floppy, "image": "drivers.img"}]
        (changed,) = fleet.init(host, **vm)["vms"]
        assert changed["steps"] == ["disks.floppy.image dos.img -> drivers.img, live"]
        assert not fleet.init(host, **vm)["changed"]
        blocks = fleet.host(host, f"virsh qemu-monitor-command {vm['name']} --hmp 'info block'")
        assert "-drivers.img" in blocks
        assert "-dos.img" not in blocks
        vm["disks"] = [vm["disks"][0], floppy]
    packed = {**vm, "name": "new", "disks": [{**floppy, "image": "tiny.qcow2"}]}
    assert "is qcow2, and a floppy is raw" in fleet.init("hv1", **packed)["msg"]
