# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nothing is removed that was not made by the collection, and nothing made without its image."""

from __future__ import annotations

import re

from .conftest import Fleet

_POOL = "/var/lib/libvirt/images"
_BASE = "/var/lib/libvirt/base"
_RUN = "4ff5bd3b-1a79-4f0a-b4a5-3a9a6f0f6f1e"
_DISK = f"{_POOL}/web1_system.qcow2"
_VM = {"name": "web1", "memory": 64, "seed": False, "start": False, "image": "small.img"}
_THEIRS = f"""
<domain type='qemu'><name>theirs</name><memory>65536</memory><os><type>hvm</type></os>
<devices><disk type='file' device='disk'><driver name='qemu' type='qcow2'/>
<source file='{_DISK}'/><target dev='vda' bus='virtio'/></disk></devices></domain>
"""


def _dead_claim(fleet: Fleet, *, noted: bool = True) -> None:
    """A claim of web1 whose run is dead; not ``noted``: of before it was noted what was made."""
    assert not fleet.init("hv1", **_VM)["failed"]  # brings the image
    fleet.sweep()
    claimed = fleet.init("hv1", _work={"stage": "claim", "claimed_by": _RUN}, **_VM)
    assert not claimed["_work"]["end"], claimed
    text = fleet.host("hv1", "virsh metadata web1 urn:fleet.virt:1 --config").strip()
    text = re.sub('boot_id="[^"]*"', 'boot_id="gone"', text)
    assert 'made="no"' in text
    if not noted:
        text = text.replace(' made="no"', "")
    fleet.host("hv1", f"virsh metadata web1 urn:fleet.virt:1 --config --key fleet --set '{text}'")


def _refused(fleet: Fleet, why: str) -> None:
    """Creating it changes nothing, in check mode as well, and says why."""
    before = fleet.files("hv1"), fleet.domains()["hv1"], fleet.host("hv1", f"sha256sum {_DISK}")
    for check in (True, False):
        result = fleet.init("hv1", check=check, **_VM)
        assert result["failed"], result
        assert why in result["msg"]
        assert "purge_vm -e vm_name=web1" in result["msg"]
    after = fleet.files("hv1"), fleet.domains()["hv1"], fleet.host("hv1", f"sha256sum {_DISK}")
    assert after == before


def test_an_administrators_disk_under_the_name_of_a_dead_claim(fleet: Fleet) -> None:
    fleet.raw_image("small.img", 4, b"content")
    _dead_claim(fleet)
    fleet.host(
        "hv1",
        f"qemu-img create -q -f qcow2 {_DISK} 8M; qemu-io -c 'write -P 7 0 4k' {_DISK} >/dev/null",
    )
    _refused(fleet, "it appeared after the name was claimed and before the volume was created")
    fleet.lab.ssh("hv1", "virsh define /dev/stdin", input=_THEIRS)
    fleet.host("hv1", "virsh start --paused theirs")
    _refused(fleet, "used by domain 'theirs'")
    # the claim can be removed, and nothing else goes with it
    purged = fleet.ansible.module("hv1", "virt_purge", {"name": "web1"})["hv1"]
    assert not purged["failed"], purged
    assert [kept["path"] for kept in purged["vms"][0]["kept"]] == [_DISK]
    assert fleet.domains()["hv1"] == ["theirs"]
    assert fleet.files("hv1") == ["web1_system.qcow2"]
    assert fleet.init("hv1", **_VM)["failed"]
    assert fleet.host("hv1", "virsh domstate theirs").strip() == "paused"


def test_what_a_dead_run_was_making_goes(fleet: Fleet) -> None:
    """Of a version that noted nothing: what has content may be anybody's, the rest is no loss."""
    fleet.raw_image("small.img", 4, b"content")
    _dead_claim(fleet, noted=False)
    base = f"$(ls {_BASE}/*-small.*)"
    fleet.host(
        "hv1",
        f"qemu-img create -q -f qcow2 -b {base} -F raw {_DISK} 8M\n"
        f"cp {_DISK} {_DISK}.empty; qemu-io -c 'write -P 7 0 4k' {_DISK} >/dev/null",
    )
    _refused(fleet, "it has content, and may not have been created for this VM")
    fleet.host("hv1", f"mv {_DISK}.empty {_DISK}")
    made = fleet.init("hv1", **_VM)
    assert not made["failed"], made
    assert fleet.files("hv1") == ["web1_system.qcow2"]
    inode = fleet.host("hv1", f"stat -c %i {_DISK}").strip()
    assert f'made="{inode}' in fleet.host("hv1", "virsh metadata web1 urn:fleet.virt:1 --config")
    assert not fleet.init("hv1", **_VM)["changed"]


def test_a_copy_for_which_there_is_no_room_leaves_nothing(fleet: Fleet) -> None:
    fleet.raw_image("full.img", 24).write_bytes(b"x" * (24 << 20))
    vm = {**_VM, "name": "full", "image": "full.img", "overlay": False}
    roomy = {**fleet.variables, "virt_disk_ratio": 100}
    fleet.host("hv1", f"mkdir -p {_POOL}; mount -t tmpfs -o size=8m tmpfs {_POOL}")
    try:
        for kind in ("qcow2", "raw"):
            given = {**vm, "disks": [{"name": "system", "format": kind}]}
            refused = fleet.ansible.module("hv1", "virt_init", given, extra=roomy)["hv1"]
            assert refused["failed"]
            assert "could not be copied" in refused["msg"], refused
            assert fleet.files("hv1") == []
            assert fleet.domains()["hv1"] == []
    finally:
        fleet.host("hv1", f"umount {_POOL}; virsh pool-refresh default")
    assert not fleet.init("hv1", **vm)["failed"]
    assert fleet.files("hv1") == ["full_system.qcow2"]


def test_a_base_image_that_libvirt_lists_and_that_is_gone_is_brought_again(fleet: Fleet) -> None:
    fleet.raw_image("small.img", 4, b"content")
    first = {**_VM, "name": "first", "host": "hv1", "overlay": False}
    fleet = fleet.alone("hv1")
    fleet.provision(virt_vms=[first]).succeeded()
    fleet.host("hv1", f"chattr -i {_BASE}/*-small.* 2>/dev/null; rm {_BASE}/*-small.*")
    assert "-small." in fleet.host("hv1", "virsh vol-list base")
    fleet.provision(virt_vms=[first, {**_VM, "host": "hv1"}]).succeeded()
    info = fleet.host("hv1", f"qemu-img info --backing-chain {_DISK}")
    assert f"backing file: {_BASE}/" in info
    again = fleet.provision(virt_vms=[first, {**_VM, "host": "hv1"}]).succeeded()
    assert all(not event.result.get("changed") for event in again.events), str(again)


_VOLUME = f"{_POOL}/theirs.qcow2"
_RAW = f"{_POOL}/raw.img"
# The first VM that is made there would make it
_POOL_THERE = (
    "virsh -q pool-info default >/dev/null 2>&1"
    f" || {{ virsh -q pool-define-as default dir --target {_POOL}"
    " && virsh -q pool-start default; }; virsh pool-refresh default"
)
_DISKS = (
    {"name": "system", "size": 8},
    {"name": "theirs", "volume": "theirs.qcow2", "serial": "THEIRS"},
    {"name": "block", "bus": "scsi"},
    {"name": "far", "protocol": "nbd", "hosts": ["127.0.0.1:10810"], "source_name": "far"},
)


def test_disks_that_exist_are_attached_and_stay(fleet: Fleet) -> None:
    """A volume, a block device and a disk over the network, on both versions of libvirt."""
    serve = "qemu-nbd -f raw -x far -b 127.0.0.1 -p 10810 -t --fork --pid-file=/run/far"
    for host, number in (("hv1", 6), ("hv2", 7)):
        device = f"/dev/loop{number}"
        try:
            fleet.host(
                host,
                f"qemu-img create -q -f qcow2 {_VOLUME} 8M; truncate -s 8M {_RAW} /srv/far.img;"
                f"{_POOL_THERE}; test -e {device} || mknod {device} b 7 {number};"
                f"losetup {device} {_RAW}; {serve} /srv/far.img",
            )
            _attached(fleet, host, device)
        finally:
            fleet.host(host, f"kill $(cat /run/far); losetup -d {device}; rm {device}")
        assert {"theirs.qcow2", "raw.img"} <= set(fleet.files(host))


def _attached(fleet: Fleet, host: str, device: str) -> None:
    name = f"owner-{host}"
    disks = [{**one, "dev": device} if one["name"] == "block" else one for one in _DISKS]
    vm = {"name": name, "memory": 64, "seed": False, "disk_profile": "none", "disks": disks}
    wrong = {**vm, "disks": [{**disks[1], "format": "raw"}, {"name": "no", "dev": "/dev/none"}]}
    refused = fleet.init(host, check=True, **wrong)
    assert "is qcow2, not raw; set format: qcow2" in refused["msg"], refused
    assert "there is no /dev/none" in refused["msg"]
    for changed in (True, False):
        result = fleet.init(host, **vm)
        assert not result["failed"], result
        assert result["changed"] is changed, result
    for check in (True, False):
        taken = {**vm, "name": "second", "disks": [disks[1], disks[2]]}
        refused = fleet.init(host, check=check, **taken)
        assert f"{_VOLUME}: used by domain '{name}'" in refused["msg"], refused
        assert f"{device}: used by domain" in refused["msg"]
    blocks = fleet.host(host, f"virsh qemu-monitor-command {name} --hmp 'info block'")
    assert all(one in blocks for one in (_VOLUME, device, "nbd://127.0.0.1:10810/far")), blocks
    fleet.host(host, f"virsh destroy {name}")  # no guest is there that would let go of it
    less = {**vm, "disks": [disks[0], {"name": "theirs", "state": "absent"}, *disks[2:]]}
    done = fleet.init(host, **less)
    assert done["vms"][0]["steps"] == ["disks.theirs removed"], done
    (again,) = fleet.init(host, **less)["vms"]
    assert again["changed"] is False
    assert "theirs" not in fleet.host(host, f"virsh domblklist --inactive {name}")
    (entry,) = fleet.init(host, **vm)["vms"]
    assert entry["steps"] == ["disks.theirs added"]
    purged = fleet.ansible.module(
        host, "virt_purge", {"names": [name], "force": True}, extra=fleet.variables
    )[host]
    assert not purged["failed"], purged
    kept = {one["path"] for vm in purged["vms"] for one in vm["kept"]}
    assert {_VOLUME, device} <= kept
