# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of a VM as QEMU has them once it runs; the second run of each changes nothing."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleet.virt.tests.integration.support import blank
from ansible_collections.fleet.virt.tests.integration.support.guests import Guests
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for
from ansible_collections.fleet.virt.tests.lab import (
    images,
    images_disk,
    images_kernel,
    images_tiny,
)
from ansible_collections.fleet.virt.tests.lab.images_disk import run

from .conftest import Fleet

_IMAGES = "/srv/fv-settings"
_RUNNING = {"memory": 64, "image": f"{_IMAGES}/{blank.NAME}", "seed": False}
_BOOTS = {**_RUNNING, "image": f"{_IMAGES}/tiny.qcow2"}  # where the guest itself is asked


@pytest.fixture(scope="module", autouse=True)
def _images(_swept: Fleet) -> Iterator[None]:
    """Images as the hypervisors' own files, which the controller neither asks for nor sends."""
    for host in ("hv1", "hv2"):
        _swept.host(host, f"mkdir -p {_IMAGES}")
        for name in (blank.NAME, "tiny.qcow2"):
            with (_swept.images / name).open("rb") as stream:
                command = [*_swept.lab.login(host), "--", f"sudo tee {_IMAGES}/{name} > /dev/null"]
                subprocess.run(command, stdin=stream, check=True, timeout=60)
    yield
    for host in ("hv1", "hv2"):
        _swept.host(host, f"rm -r {_IMAGES}")


def _runs(fleet: Fleet, host: str = "hv1", **options: Any) -> None:
    """Made, running, and as it was asked for."""
    for changed in (True, False):
        result = fleet.init(host, **{**_RUNNING, **options})
        assert not result["failed"], result.get("msg")
        assert result["changed"] is changed, result
    assert fleet.host(host, f"virsh domstate {options['name']}").strip() == "running"


def _monitor(fleet: Fleet, name: str, command: str, host: str = "hv1") -> str:
    return fleet.host(host, f"virsh qemu-monitor-command {name} --hmp '{command}'")


def test_disks_share_threads_and_detect_zeroes(fleet: Fleet) -> None:
    more = [{"name": "data", "size": 8, "iothread": 2}, {"name": "logs", "size": 8, "iothread": 1}]
    system = {"name": "system", "iothread": 1, "detect_zeroes": "unmap"}
    _runs(fleet, name="threads", disks=[system, *more])
    found = [line.split() for line in _monitor(fleet, "threads", "info block").splitlines()]
    assert ["Detect", "zeroes:", "unmap"] in found
    disks = [f"/machine/peripheral/virtio-disk{number}" for number in range(3)]
    served = [_monitor(fleet, "threads", f"qom-get {disk} iothread").strip() for disk in disks]
    assert served == [f'"/objects/iothread{number}"' for number in (1, 2, 1)]


def test_tpm_without_emulator_is_refused(fleet: Fleet) -> None:
    """Of the laboratory's hypervisors hv2 alone has swtpm; a guest there uses it, below."""
    reason = "needs a TPM, and libvirt finds no emulator there; install the packages swtpm"
    for check in (True, False):
        refused = fleet.init("hv1", check=check, name="sealed", tpm=True, **_RUNNING)
        assert refused["failed"]
        assert reason in refused["msg"]
    vm = {"name": "sealed", "memory": 64, "start": False, "seed": False, "tpm": True}
    run = fleet.alone("hv1").provision(check=True, virt_vms=[{**vm, "host": "hv1"}])
    assert run.returncode != 0
    assert re.search(rf"hv1: [^;]*{reason}", run.stdout), run


def _kernel(fleet: Fleet, host: str, folder: Path) -> dict[str, str]:
    """Debian's kernel, given to a VM: the tiny guest's own knows neither UEFI nor TPM, and its disk
    boots with a BIOS alone."""
    raw, there = folder / "tiny.raw", "/var/lib/libvirt/images"
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(images_kernel.VARIABLE)
        image = images.image("tiny")
    run("qemu-img", "convert", "-O", "raw", image, raw)
    for name in ("vmlinuz", "initrd"):
        run("mcopy", "-o", "-i", f"{raw}@@{images_disk.BOOT_START}", f"::/{name}", folder / name)
        with (folder / name).open("rb") as stream:
            command = [*fleet.lab.login(host), "--", f"sudo tee {there}/{name} > /dev/null"]
            subprocess.run(command, stdin=stream, check=True, timeout=60)
    given = {"kernel": f"{there}/vmlinuz", "initrd": f"{there}/initrd"}
    return {**given, "cmdline": images_tiny.COMMAND_LINE}


def test_a_guest_with_uefi_reports_its_tpm(fleet: Fleet, guests: Guests, tmp_path: Path) -> None:
    """Of the hypervisors hv2 has the firmware."""
    vm = {
        **_BOOTS,
        "name": "modern",
        "memory": 256,
        "firmware": "uefi",
        "tpm": True,
        **_kernel(fleet, "hv2", tmp_path),
    }
    for changed in (True, False):
        result = fleet.init("hv2", **vm)
        assert not result["failed"], result.get("msg")
        assert result["changed"] is changed, result
    found = _monitor(fleet, "modern", "info tpm", "hv2")
    assert "tpm-crb" in found
    assert "emulator" in found
    kept = "/var/lib/libvirt/swtpm"
    assert fleet.files("hv2", kept)
    guests.wait_agent("hv2", "modern", 180)
    guests.execute("hv2", "modern", "test -d /sys/firmware/efi/efivars")
    assert _UNSIGNED not in fleet.host("hv2", "cat /var/log/libvirt/qemu/modern-console.log")
    guests.execute("hv2", "modern", "grep -qx 2 /sys/class/tpm/tpm0/tpm_version_major")
    fleet.host("hv2", "virsh destroy modern")
    purged = fleet.ansible.module("hv2", "virt_purge", {"name": "modern"})
    assert not purged["hv2"].get("failed"), purged
    assert fleet.files("hv2", "/var/lib/libvirt/qemu/nvram") == []
    assert fleet.files("hv2", kept) == []


_UNSIGNED = "OVMF: Secure boot image verification failed"
_FIRMWARE = "/usr/share/OVMF /usr/share/qemu/firmware"


def test_secure_boot_looks_for_signatures(fleet: Fleet, tmp_path: Path) -> None:
    """The firmware says on the console that nobody signed the kernel, which it then loads without
    UEFI; of hypervisors hv1 has no firmware of its own, and gets that of hv2."""
    pack = [*fleet.lab.login("hv2"), "--", f"tar -C / -cf - {_FIRMWARE}"]
    packed = subprocess.run(pack, check=True, stdout=subprocess.PIPE, timeout=60).stdout
    unpack = [*fleet.lab.login("hv1"), "--", "sudo tar -C / -xf -"]
    subprocess.run(unpack, input=packed, check=True, timeout=60)
    try:
        for host in ("hv1", "hv2"):
            kernel = _kernel(fleet, host, tmp_path)
            vm = {"name": f"signed-{host}", "memory": 256, "firmware": "uefi", "secure_boot": True}
            _runs(fleet, host, **{**_BOOTS, **vm, **kernel})
            log = f"cat /var/log/libvirt/qemu/{vm['name']}-console.log"
            wait_for(lambda: _UNSIGNED in fleet.host(host, log), 120, "the firmware")  # noqa: B023
            fleet.host(host, f"virsh destroy {vm['name']}")
    finally:
        fleet.host("hv1", f"rm -r {_FIRMWARE}; systemctl restart libvirtd.service")


_KNOWN_AS = "6b1a4a1e-7d0c-4a43-9d6b-0c2e7f1b5a90"
_USAGE = "disks of a fleet"
_DEFINE = f"""
printf %s '<secret ephemeral="no" private="yes"><uuid>{_KNOWN_AS}</uuid><usage type="volume">\
<volume>{_USAGE}</volume></usage></secret>' > /run/secret.xml
virsh -q secret-define /run/secret.xml
printf 'a passphrase' > /run/value; virsh -q secret-set-value {_KNOWN_AS} --file /run/value --plain
rm /run/value /run/secret.xml
"""


# QEMU stretches a passphrase for two seconds of the processor for each disk, and again whenever one
# is opened; here it is for a moment. It is the same format.
_STRETCHED_LESS = """
cat > /usr/local/bin/qemu-img <<'END'
#!/bin/bash
exec /usr/bin/qemu-img "${@/encrypt.format=luks/encrypt.format=luks,encrypt.iter-time=20}"
END
chmod 755 /usr/local/bin/qemu-img
"""


@pytest.mark.parametrize("host", ["hv1", "hv2"])
def test_disks_are_encrypted(fleet: Fleet, guests: Guests, host: str) -> None:
    """A guest boots from one; what it writes is not to be found in the file of the other."""
    name, folder = f"sealed-{host}", "/var/lib/libvirt/images"
    system = {"name": "system", "encryption_secret": _KNOWN_AS}
    data = {"name": "data", "size": 8, "encryption_secret": _USAGE}
    vm = {**_BOOTS, "name": name, "memory": 96, "disks": [system, data]}
    for check in (True, False):
        refused = fleet.init(host, check=check, **vm)
        assert f"has no secret '{_KNOWN_AS}' for volumes" in refused["msg"], refused
        assert f"has no secret '{_USAGE}'" in refused["msg"]
    assert name not in fleet.domains()[host]
    fleet.host(host, _DEFINE + _STRETCHED_LESS)
    try:
        for changed in (True, False):
            result = fleet.init(host, **vm)
            assert not result["failed"], result.get("msg")
            assert result["changed"] is changed, result
        guests.wait_agent(host, name)
        guests.execute(host, name, "yes FINDME | dd of=/dev/vdb bs=64k count=16 conv=fsync")
        for disk in ("system", "data"):
            path = f"{folder}/{name}_{disk}.qcow2"
            assert "format: luks" in fleet.host(host, f"qemu-img info -U {path}")
            assert "FINDME" not in fleet.host(host, f"strings -n 6 {path} | sort -u | head -n 99")
        more = {**data, "name": "more"}
        (added,) = fleet.init(host, **{**vm, "disks": [system, {**data, "size": 16}, more]})["vms"]
        steps = ["disks.data.size 8 MiB -> 16 MiB, live", "disks.more added, live"]
        assert sorted(added["steps"]) == steps, added
        # a guest sees what is plugged in a moment after QEMU
        seen = "test $(cat /sys/block/vdb/size) = 32768 -a -e /dev/vdc"
        guests.execute(
            host, name, f"for n in 1 2 3 4 5 6 7 8 9; do {seen} && exit; sleep 1; done; {seen}"
        )
        options: dict[str, dict[str, Any]] = {
            "virt_snapshot": {"name": name, "snapshot": "one"},
            "virt_template": {"name": name, "image": "golden"},
        }
        for module, given in options.items():
            refused = fleet.ansible.module(host, module, given, extra=fleet.variables)[host]
            assert "encrypted" in refused["msg"], refused
        fleet.host(host, f"virsh destroy {name}")
        refused = fleet.init(host, **{**vm, "disks": [{**data, "size": 24}]})
        assert "grows an encrypted disk only while the VM runs" in refused["msg"], refused
        purged = fleet.ansible.module(host, "virt_purge", {"name": name})[host]
        assert not purged.get("failed"), purged
        assert not [one for one in fleet.files(host) if one.startswith(name)]
    finally:
        fleet.host(host, f"virsh -q secret-undefine {_KNOWN_AS}; rm /usr/local/bin/qemu-img")


_MOUSE = "<domain><devices><input type='mouse' bus='virtio'/></devices></domain>"


def test_a_fragment_is_merged(fleet: Fleet) -> None:
    """Refused by the schema in check mode too, and where libvirt keeps it otherwise; else kept."""
    for check in (True, False):
        wrong = _MOUSE.replace("mouse", "mice")
        refused = fleet.init("hv1", check=check, name="merged", xml=wrong, **_RUNNING)
        assert "does not match libvirt's schema" in refused["msg"], refused
    other = "<domain><pm><suspend-to-mem enabled='no'/></pm><devices>"
    other += "<controller type='usb' index='3' model='qemu-xhci' ports='04'/></devices></domain>"
    refused = fleet.init("hv1", name="merged", xml=other, **_RUNNING)
    assert "libvirt does not keep devices/controller of the fragment" in refused["msg"], refused
    assert fleet.host("hv1", "virsh list --all --name").strip() == ""
    _runs(fleet, name="merged", os="debian12", xml=_MOUSE)
    assert "VirtIO Mouse" in _monitor(fleet, "merged", "info mice") or (
        "virtio-mouse" in _monitor(fleet, "merged", "info qtree")
    )
    vm = {**_RUNNING, "name": "merged", "os": "ubuntu24.04", "xml": other.replace("04", "4")}
    for check in (True, False):
        (entry,) = fleet.init("hv1", check=check, **vm)["vms"]
        assert entry["steps"] == [
            "os debian12 -> ubuntu24.04, live",
            "xml not there -> pm, devices/controller, at the next start",
        ]
        assert entry["pending"] == ["xml"]
    (entry,) = fleet.init("hv1", **vm)["vms"]
    assert (entry["changed"], entry["pending"]) == (False, ["xml"])
    for kind in ("", "--inactive"):
        assert "http://ubuntu.com/ubuntu/24.04" in fleet.host("hv1", f"virsh dumpxml {kind} merged")
    assert "virtio" in fleet.host("hv1", "virsh dumpxml --inactive merged | grep mouse")
    fleet.host("hv1", "virsh destroy merged && virsh start merged")
    (entry,) = fleet.init("hv1", **vm)["vms"]
    assert (entry["changed"], entry["pending"]) == (False, [])


def test_what_a_hypervisor_has_not_is_said(fleet: Fleet) -> None:
    """Placement leaves it out, and itself refuses, in check mode too."""
    shared = {"source": "/srv", "target": "srv", "driver": "virtiofs"}
    wants: list[tuple[dict[str, Any], str]] = [
        ({"memory_backing": {"hugepages": True}}, "needs 64 MiB in huge pages of"),
        ({"nics": [{"name": "eth0", "type": "direct", "source": "none9"}]}, "interface none9"),
        ({"nics": [{"name": "eth0", "bridge": "br0", "virtualport": "openvswitch"}]}, "ovs-vsctl"),
        ({"disks": [{"name": "more", "volume": "none"}]}, "on hv1 has no volume 'none'"),
        ({"os": "win11", "vcpus": 1, "memory": 64}, "needs UEFI firmware"),
    ]
    fleet.host("hv1", "mv /usr/share/qemu/vhost-user /usr/share/qemu/vhost-user.away")
    try:
        wants.append(({"filesystems": [shared]}, "install the package virtiofsd"))
        vms = [
            {**_RUNNING, "name": f"wants{number}", "start": False, **options}
            for number, (options, _reason) in enumerate(wants)
        ]
        for check in (True, False):
            refused = fleet.init("hv1", check=check, vms=vms)
            assert refused["failed"], refused
            for number, (_options, reason) in enumerate(wants):
                assert reason in refused["msg"], refused
                assert f"wants{number}" in refused["msg"], refused
    finally:
        fleet.host("hv1", "mv /usr/share/qemu/vhost-user.away /usr/share/qemu/vhost-user")
    vm = {"name": "wants", "seed": False, "memory_backing": {"page_size": "2MiB"}, "memory": 64}
    run = fleet.provision(check=True, virt_vms=[vm])
    assert run.returncode != 0
    for host in ("hv1", "hv2"):
        assert re.search(rf"{host}: [^;]*huge pages of 2 MiB", run.stdout), run
