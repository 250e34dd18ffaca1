# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of a VM as QEMU has them once it runs; the second run of each changes nothing."""

from __future__ import annotations

from typing import Any

from .conftest import Fleet

_RUNNING = {"memory": 64, "image": "tiny.qcow2", "seed": False}


def _runs(fleet: Fleet, **options: Any) -> None:
    """Made, running, and as it was asked for."""
    for changed in (True, False):
        result = fleet.init("hv1", **_RUNNING, **options)
        assert not result["failed"], result.get("msg")
        assert result["changed"] is changed, result
    assert fleet.host("hv1", f"virsh domstate {options['name']}").strip() == "running"


def _monitor(fleet: Fleet, name: str, command: str) -> str:
    return fleet.host("hv1", f"virsh qemu-monitor-command {name} --hmp '{command}'")


def test_zeroes_are_looked_for(fleet: Fleet) -> None:
    _runs(fleet, name="zeroes", disks=[{"name": "system", "detect_zeroes": "unmap"}])
    found = [line.split() for line in _monitor(fleet, "zeroes", "info block").splitlines()]
    assert ["Detect", "zeroes:", "unmap"] in found


def test_disks_share_threads(fleet: Fleet) -> None:
    more = [{"name": "data", "size": 8, "iothread": 2}, {"name": "logs", "size": 8, "iothread": 1}]
    _runs(fleet, name="threads", disks=[{"name": "system", "iothread": 1}, *more])
    disks = [f"/machine/peripheral/virtio-disk{number}" for number in range(3)]
    served = [_monitor(fleet, "threads", f"qom-get {disk} iothread").strip() for disk in disks]
    assert served == [f'"/objects/iothread{number}"' for number in (1, 2, 1)]
