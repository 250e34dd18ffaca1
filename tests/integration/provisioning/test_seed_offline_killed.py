# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""virt_init killed while it seeds offline: nobody can start what is left, the same call ends it.

Only with FLEET_VIRT_TRIALS, which is the number of kills: half of them at any moment before it
begins to write into the disk, half of them while it writes. The seed is printed and may be given
as FLEET_VIRT_SEED.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.fleet.virt.tests.integration.support import offline
from ansible_collections.fleet.virt.tests.integration.support.killing import (
    KILL,
    begun,
    killer,
    meanwhile,
)
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

from .conftest import Fleet

_SEED = int(os.environ.get("FLEET_VIRT_SEED", "20261122"))
_NAME = "killed"
_IMAGE = f"{offline.FOLDER}/small.raw"
_DISK = f"/var/lib/libvirt/images/{_NAME}_system.qcow2"
_VM: dict[str, Any] = {
    "name": _NAME,
    "memory": 64,
    "image": _IMAGE,
    "start": False,
    "seed": {
        "method": "offline",
        "files": [{"path": "/etc/motd", "content": "once\n"}],
        "commands": ["true"],
    },
}
_WRITING = rf"""
runs() {{ sleep 0.01; kill -0 $pid 2>/dev/null || exit 0; }}
until [ -e {_DISK} ]; do runs; done
empty=$(stat -c %b {_DISK})
until [ "$(stat -c %b {_DISK})" != "$empty" ]; do runs; done
"""
# When the module began, began to write into the disk, and ended
_MEASURE = rf"""
begun=$(date +%s.%N)
{_WRITING}
writing=$(date +%s.%N)
while kill -0 $pid 2>/dev/null; do sleep 0.01; done
echo "$begun $writing $(date +%s.%N)"
"""
# Kills it as soon as the VM is whole, if it has not ended by then
_WHOLE = rf"""
while kill -0 $pid 2>/dev/null; do
  virsh dumpxml --inactive {_NAME} 2>/dev/null | grep -q host_key && break
done
{KILL}
"""
# The disk as somebody would read it who has it in hand: an ext4 without partitions
_READ = rf"""
qemu-img check -q {_DISK} && qemu-img convert -O raw {_DISK} /run/killed.raw || exit 1
e2fsck -fn /run/killed.raw >/run/killed.check 2>&1 || {{ cat /run/killed.check; exit 1; }}
for file in /etc/passwd /etc/hosts /etc/motd /etc/ssh/ssh_host_ed25519_key.pub; do
  echo "== $file"; debugfs -R "cat $file" /run/killed.raw 2>/dev/null
done
rm -f /run/killed.raw /run/killed.check
"""


def _left(fleet: Fleet) -> list[str]:
    """What is there besides one whole VM that was seeded once."""
    found = []
    expected = [f"{_NAME}_system.qcow2"]
    if fleet.files("hv1") != expected:
        found.append(f"files {fleet.files('hv1')}")
    if fleet.domains()["hv1"] != [_NAME]:
        found.append(f"domains {fleet.domains()}")
    xml = fleet.host("hv1", f"virsh dumpxml --inactive {_NAME}")
    if "phase>" in xml:
        found.append("still in creation")
    disks = fleet.host("hv1", f"virsh -q domblklist --inactive {_NAME}").split()
    if disks[1::2] != [_DISK]:
        found.append(f"disks {disks}")
    left = fleet.host(
        "hv1",
        "ls -d /run/fleet-virt-seed 2>/dev/null; ls -A /var/lib/libvirt/base | grep '^[.]';"
        " virsh vol-list default | awk 'NR > 2 && $1 {print $1}' | sort | tr '\\n' ' '",
    ).split()
    if left != expected:
        found.append(f"left {left}")
    _empty, passwd, hosts, motd, key = re.split("== .*\n", fleet.host("hv1", _READ))
    if [line.split(":")[0] for line in passwd.splitlines()] != ["root", "ansible"]:
        found.append(f"users {passwd}")
    if (motd, hosts.count("127.0.1.1")) != ("once\n", 1):
        found.append(f"seeded otherwise: {motd} {hosts}")
    if key.strip() not in xml:
        found.append(f"the host key is not the disk's: {key}")
    return found


def _meanwhile(fleet: Fleet, script: str) -> str:
    """What a script says that runs on the hypervisor while the VM is created."""
    return meanwhile(fleet.begin("hv1", "virt_init", _VM), fleet.lab, "hv1", script)


def _state(fleet: Fleet) -> str:
    """What a kill left: nothing, a claim that nobody can start, or the whole VM."""
    if not fleet.domains()["hv1"]:
        return "nothing"
    if "phase>" not in fleet.host("hv1", f"virsh dumpxml --inactive {_NAME}"):
        return "whole"
    started = fleet.lab.ssh("hv1", f"virsh start {_NAME}", check=False)
    assert started.returncode != 0
    assert "Cannot access storage file" in started.stderr, started.stderr
    return "claim"


if "FLEET_VIRT_TRIALS" in os.environ:
    _TRIALS = int(os.environ["FLEET_VIRT_TRIALS"])

    @pytest.fixture(scope="module")
    def _prepared(lab: Laboratory) -> Iterator[None]:
        with offline.libguestfs(lab):
            offline.build(lab, {"small": ()})
            yield

    @pytest.mark.usefixtures("_prepared")
    def test_killed_at_random_moments(fleet: Fleet) -> None:
        chance = random.Random(_SEED)  # noqa: S311 (where to kill, no secret)
        assert fleet.init("hv1", **_VM)["changed"]  # brings the image, makes the appliance
        assert _left(fleet) == []
        fleet.sweep()
        said = _meanwhile(fleet, begun("virt_init", _MEASURE, turn=2))
        start, writing, end = map(float, said.split())
        fleet.sweep()
        before, during = writing - start, end - writing
        kills = {"before": 0, "writing": 0}
        states: list[str] = []
        for trial in range(_TRIALS):
            if trial % 2:
                which, after = "writing", chance.uniform(0.0, 0.9 * during)
                script = begun("virt_init", f"{_WRITING}sleep {after:.2f}; {KILL}", turn=2)
            else:
                which, after = "before", chance.uniform(0.0, before)
                script = killer("virt_init", after, turn=2)
            where = f"seed {_SEED}, trial {trial}, {which} {after:.2f} s"
            killed = "killed" in _meanwhile(fleet, script)
            kills[which] += killed
            states.append(_state(fleet))
            again = fleet.init("hv1", **_VM)
            assert not again["failed"], f"{where}: {again}"
            assert again["changed"] is (states[-1] != "whole"), where
            assert _left(fleet) == [], where
            assert not fleet.init("hv1", **_VM)["changed"], where
            fleet.sweep()
        print(
            f"virt_init killed {kills} of {_TRIALS}, {before:.1f} s before it writes and"
            f" {during:.1f} s while it does; left: {states} (seed {_SEED})"
        )
        assert kills["before"] >= (_TRIALS + 1) // 2 * 0.6
        assert kills["writing"] >= _TRIALS // 2 * 0.6
        assert "claim" in states

    @pytest.mark.usefixtures("_prepared")
    def test_killed_after_its_work_is_done(fleet: Fleet) -> None:
        killed = "killed" in _meanwhile(fleet, begun("virt_init", _WHOLE, turn=2))
        assert _state(fleet) == "whole"
        again = fleet.init("hv1", **_VM)
        assert not again["failed"], again
        assert not again["changed"]
        assert _left(fleet) == []
        print(f"killed when the VM was whole: {killed}")
