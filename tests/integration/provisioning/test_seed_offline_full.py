# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks that fill up while a seed is written into them: the guest's own, and the hypervisor's.

Only with FLEET_VIRT_TRIALS: every look into a disk takes many seconds where there is no KVM.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from ansible_collections.fleet.virt.tests.integration.support import offline
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

from .conftest import Fleet

_SMALL = "/run/small"  # a pool on a file system of its own
_SEED = {"method": "offline", "files": [{"path": "/opt/large", "content": "x" * 90_000}]}
_VM: dict[str, Any] = {"name": "vm", "memory": 64, "start": False, "seed": _SEED}
_DISKS = [{"name": "system", "size": "32MiB", "pool": "small"}]
# Somebody else takes the space of the pool, all but so many KiB, as soon as the VM's disk is there
_TAKE = r"""
for turn in $(seq 1200); do [ -e {0}/vm_system.qcow2 ] && break; sleep 0.05; done
free=$(df -k --output=avail {0} | tail -n 1)
fallocate -l $((free - {1}))K {0}/taken
"""
# All but some blocks of the guest's file system are taken
_FILL = (
    "debug sh 'dd if=/dev/zero of=/sysroot/filler bs=4096 2>/dev/null; sync;"
    " truncate -s -61440 /sysroot/filler; sync'"
)


@contextmanager
def _pool(fleet: Fleet) -> Iterator[None]:
    """The pool small, with a little more space than has to stay free."""
    fleet.host(
        "hv1",
        f"mkdir -p {_SMALL}; mount -t tmpfs -o size=600m tmpfs {_SMALL};"
        f" virsh pool-define-as small dir --target {_SMALL}; virsh pool-start small",
    )
    try:
        yield
    finally:
        fleet.sweep()
        fleet.host(
            "hv1", f"virsh pool-destroy small; virsh pool-undefine small; umount {_SMALL}; :"
        )


def _init_while_filled(fleet: Fleet, kib: int, options: dict[str, Any]) -> dict[str, Any]:
    """``virt_init``, with so much space for its disk to grow."""
    other = subprocess.Popen(
        [*fleet.lab.login("hv1", user_root=True), _TAKE.format(_SMALL, kib)],
        stdin=subprocess.DEVNULL,
    )
    try:
        return fleet.init("hv1", **options)
    finally:
        assert other.wait(timeout=90) == 0


def _kib(fleet: Fleet, name: str) -> int:
    return int(fleet.host("hv1", f"stat -c %b {_SMALL}/{name}")) // 2


def _read(fleet: Fleet) -> list[str]:
    """Host name and length of the seed's file, as they are in the disk."""
    drive = f"--ro -a {_SMALL}/vm_system.qcow2"
    commands = ("mount-ro /dev/sda /", "cat /etc/hostname", "filesize /opt/large")
    return offline.guestfish(fleet.lab, drive, *commands).split()


if "FLEET_VIRT_TRIALS" in os.environ:

    @pytest.fixture(scope="module")
    def _prepared(lab: Laboratory) -> Iterator[None]:
        with offline.libguestfs(lab):
            offline.build(lab, {"roomy": (), "full": (_FILL,)})
            yield

    @pytest.mark.usefixtures("_prepared")
    def test_the_guests_file_system_is_full(fleet: Fleet) -> None:
        image = f"{offline.FOLDER}/full.raw"
        refused = fleet.init("hv1", **_VM, image=image)
        assert refused["failed"], refused
        assert "/opt/large in the guest could not be written" in refused["msg"], refused["msg"]
        assert "No space left on device" in refused["msg"], refused["msg"]
        free = re.search(r"Free space: (\d+) KiB in the guest's file system", refused["msg"])
        assert free, refused["msg"]
        assert int(free[1]) < 88, refused["msg"]
        assert fleet.files("hv1") == []
        assert fleet.domains()["hv1"] == []
        # it was the one file: without it there is room
        smaller = {**_VM, "seed": {"method": "offline"}}
        made = fleet.init("hv1", **smaller, image=image)
        assert not made["failed"], made

    @pytest.mark.usefixtures("_prepared")
    def test_the_pool_is_full_while_the_disk_grows(fleet: Fleet) -> None:
        options = {**_VM, "disks": _DISKS, "image": f"{offline.FOLDER}/roomy.raw"}
        with _pool(fleet):
            made = fleet.init("hv1", **{**options, "seed": False})
            assert not made["failed"], made["msg"]
            empty = _kib(fleet, "vm_system.qcow2")
            fleet.sweep()
            fleet.host("hv1", f"rm -f {_SMALL}/*; virsh pool-refresh small")
            made = fleet.init("hv1", **options)
            assert not made["failed"], made["msg"]
            growth = _kib(fleet, "vm_system.qcow2") - empty
            assert _read(fleet) == ["vm", "90000"]
        # full in the middle, and with the last that is written
        for kib in (growth // 2, growth - 64):
            with _pool(fleet):
                failed = _init_while_filled(fleet, kib, options)
                print(f"{kib} KiB of {growth}: {failed.get('msg')}")
                assert failed["failed"], f"{kib} of {growth} KiB: {failed}"
                assert f"{_SMALL}/vm_system.qcow2" in failed["msg"], failed["msg"]
                assert fleet.files("hv1", _SMALL) == ["taken"]
                assert fleet.domains()["hv1"] == []
                if kib == growth // 2:
                    fleet.host("hv1", f"rm {_SMALL}/taken")
                    made = fleet.init("hv1", **options)
                    assert not made["failed"], made["msg"]
                    assert _read(fleet) == ["vm", "90000"]
                    assert not fleet.init("hv1", **options)["changed"]

    @pytest.mark.usefixtures("_prepared")
    def test_a_vm_that_is_there_is_not_started_half_seeded(fleet: Fleet) -> None:
        """virt_seed keeps the disk, which is somebody's, and nobody can start it."""
        options = {**_VM, "disks": _DISKS, "image": f"{offline.FOLDER}/roomy.raw"}
        with _pool(fleet):
            made = fleet.init("hv1", **{**options, "seed": False})
            assert not made["failed"], made["msg"]
            fleet.host("hv1", _TAKE.format(_SMALL, 256))
            wanted = {"name": "vm", **_SEED}

            def seed() -> dict[str, Any]:
                return fleet.ansible.module("hv1", "virt_seed", wanted, extra=fleet.variables)[
                    "hv1"
                ]

            failed = seed()
            assert failed["failed"], failed
            assert f"KiB on the hypervisor for {_SMALL}/vm_system.qcow2." in failed["msg"]
            started = fleet.lab.ssh("hv1", "virsh start vm", check=False)
            assert started.returncode != 0
            assert "Cannot access storage file" in started.stderr
            fleet.host("hv1", f"rm {_SMALL}/taken")
            done = seed()
            assert not done["failed"], done
            assert _read(fleet) == ["vm", "90000"]
            assert not seed()["changed"]
