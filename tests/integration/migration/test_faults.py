# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A move that is hit at a random moment: the VM runs on at most one end, its disk is whole and has
everything that its guest had flushed, and a second run succeeds once the fault is gone.

Environment: FLEET_VIRT_TRIALS is the number of trials of each fault; without it there is one trial
of each that may befall any move. The seed is printed and may be given as FLEET_VIRT_SEED.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable

import pytest
from ansible_collections.fleet.virt.tests.integration.support.killing import kill_tree
from ansible_collections.fleet.virt.tests.integration.support.process import Process
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for

from .conftest import CONSOLE, IMAGES, KILL, Movers

_TRIALS = int(os.environ.get("FLEET_VIRT_TRIALS", "1"))
_ALL = "FLEET_VIRT_TRIALS" in os.environ
_SEED = int(os.environ.get("FLEET_VIRT_SEED", "20261121"))
_BANDWIDTH = 5  # MiB/s: so the move takes about ten seconds
_DATA = 64  # MiB on the disk that has to be copied where space runs out
_NAME = "hit"

# Its data were all there when it was booted again
CRASHED = "its kernel crashed after it had come, as emulated ones may"

First = Process  # the controller's process
Fault = Callable[[Movers, First], None]


def _kill_module(movers: Movers, _first: First) -> None:
    movers.lab.ssh("hv1", KILL.format(name=_NAME), check=False)


def _kill_play(_movers: Movers, first: First) -> None:
    kill_tree(first.pid)


def _kill_libvirtd(host: str) -> Fault:
    def kill(movers: Movers, _first: First) -> None:
        movers.lab.ssh(host, "kill -9 $(cat /run/libvirtd.pid)", check=False)

    return kill


def _cut(movers: Movers, _first: First) -> None:
    movers.lab.cut("hv2")
    time.sleep(60 if _ALL else 40)  # libvirt gives its connection up after 30
    movers.lab.heal("hv2")


def _kill_host(host: str) -> Fault:
    def kill(movers: Movers, _first: First) -> None:
        movers.lab.kill(host)
        time.sleep(5)
        movers.lab.start(host)
        movers.listen(host)

    return kill


FAULTS: dict[str, Fault] = {
    "module killed": _kill_module,
    "play killed": _kill_play,
    "libvirtd of the source killed": _kill_libvirtd("hv1"),
    "libvirtd of the destination killed": _kill_libvirtd("hv2"),
    "link cut": _cut,
    "source killed": _kill_host("hv1"),
    "destination killed": _kill_host("hv2"),
}


def _begin(movers: Movers) -> First:
    args = movers.args(_NAME, bandwidth=_BANDWIDTH)
    words = ("--become", "-m", "fleet.virt.virt_migrate", "-a", json.dumps(args))
    return movers.ansible.begin("ansible", "hv1", *words, heard=True)


def _running(movers: Movers) -> list[str]:
    return [host for host in ("hv1", "hv2") if movers.state(host, _NAME) == "running"]


def _fill(movers: Movers, first: First) -> None:
    """Somebody else takes what is free in the destination's pool."""
    movers.fleet.host("hv2", f"dd if=/dev/zero of={IMAGES}/filler bs=1M status=none || true")
    first.wait(timeout=300)
    movers.fleet.host("hv2", f"rm {IMAGES}/filler")


def _trial(movers: Movers, hit: Fault, moment: float) -> str:
    """One move that is hit ``moment`` seconds after its unit began; what became of it."""
    movers.make(_NAME)
    return _hit(movers, hit, moment)


def _hit(movers: Movers, hit: Fault, moment: float) -> str:
    movers.count(_NAME)
    before = movers.shown("hv1", _NAME)
    movers.fleet.host("hv2", f"rm -f {CONSOLE.format(name=_NAME)}")  # of one before
    first = _begin(movers)
    unit = "systemctl is-active 'fleet-virt-migrate-*' | grep -q . && echo yes"
    wait_for(
        lambda: (
            "yes" in movers.lab.ssh("hv1", unit, check=False).stdout or first.poll() is not None
        ),
        60,
        "the move begins",
    )
    time.sleep(moment)
    hit(movers, first)
    said = first.communicate(timeout=300)[0]
    assert len(_running(movers)) <= 1, said
    return _second(movers, before, said)


def _second(movers: Movers, before: int, said: str) -> str:
    """The second run, once the fault is gone, and everything that has to be right then."""
    last = {}
    for _attempt in range(3):
        last = movers.module(_NAME)
        assert len(_running(movers)) <= 1, last
        if not last["failed"]:
            break
    assert not last["failed"], f"{said}\n{last}"
    assert movers.state("hv1", _NAME) == ""
    if movers.state("hv2", _NAME) != "running":  # its hypervisor's power was cut when it had come
        for line in last["kept"]:
            path, _, why = line.partition(": ")
            assert why.startswith(f"{_NAME!r} does not run on hv2, so what it had here stays"), line
            movers.fleet.host("hv1", f"virsh -q vol-delete {path}")
    movers.clean("hv1", _NAME)
    assert "migrating" not in movers.fleet.host("hv2", f"virsh dumpxml --inactive {_NAME}")
    domains = movers.fleet.domains()["hv2"]
    assert domains == [_NAME], domains
    if movers.state("hv2", _NAME) != "running":
        movers.fleet.host("hv2", f"virsh -q start {_NAME}")
    after, went_on = movers.last_number("hv2", _NAME)
    assert after >= before, "what the guest had flushed is there"
    movers.fleet.host("hv2", f"virsh -q destroy {_NAME}")
    movers.qemu_check("hv2", _NAME)
    return str(last["flow"]) if went_on else CRASHED


@pytest.mark.parametrize("fault", FAULTS)
def test_a_move_that_is_hit(movers: Movers, fault: str) -> None:
    chance = random.Random(f"{_SEED} {fault}")  # noqa: S311
    ends: dict[str, int] = {}
    for _number in range(_TRIALS):
        end = _trial(movers, FAULTS[fault], chance.uniform(0, 10))
        ends[end] = ends.get(end, 0) + 1
        movers.sweep()
    print(f"{fault}: {_TRIALS} of {_TRIALS} right, second run: {ends}, seed {_SEED}")
    assert ends.get(CRASHED, 0) <= max(1, _TRIALS // 5)


if _ALL:

    def test_only_a_kernel_that_says_that_it_crashed_is_excused(movers: Movers) -> None:
        movers.make(_NAME)
        movers.count(_NAME)
        movers.fleet.host("hv1", f"virsh -q suspend {_NAME}")
        with pytest.raises(AssertionError, match="agent of hit on hv1: not within"):
            movers.last_number("hv1", _NAME, limit=5)
        movers.fleet.host("hv1", f"virsh -q resume {_NAME}")
        assert movers.last_number("hv1", _NAME)[1]
        crash = "echo 1 > /proc/sys/kernel/sysrq; echo c > /proc/sysrq-trigger"
        movers.guests.execute("hv1", _NAME, crash, wait=False)
        number, went_on = movers.last_number("hv1", _NAME, limit=5)
        assert number > 0
        assert not went_on

    def test_a_move_whose_destination_has_no_space_left(movers: Movers) -> None:
        """Its pool is a small file system, and the VM has a disk that takes some time to copy."""
        chance = random.Random(f"{_SEED} space")  # noqa: S311
        data = f"{IMAGES}/{_NAME}_data.qcow2"
        disks = [{"name": "system"}, {"name": "data", "size": 128}]
        whole = f"qemu-io -f qcow2 -c 'read -P 90 0 {_DATA}M' {data}"
        for _number in range(_TRIALS):
            movers.fleet.host("hv2", f"mount -t tmpfs -o size=400m,mode=711 tmpfs {IMAGES}")
            try:
                movers.fleet.host("hv2", "virsh -q pool-refresh default")
                movers.make(_NAME, disks=disks, start=False)
                write = f"qemu-io -f qcow2 -c 'write -q -P 90 0 {_DATA}M' {data}"
                movers.fleet.host("hv1", f"{write}; virsh -q start {_NAME}")
                # While its disks are copied: afterwards nothing more has to be written there
                said = _hit(movers, _fill, chance.uniform(0, _DATA / _BANDWIDTH / 2))
                assert said == "overlay"
                assert "verification failed" not in movers.fleet.host("hv2", whole)
            finally:
                movers.sweep()
                movers.fleet.host("hv2", f"umount -l {IMAGES}; virsh -q pool-refresh default")
        print(f"destination's disk full: {_TRIALS} of {_TRIALS} right, seed {_SEED}")

    def test_a_move_to_one_whose_certificate_was_revoked(movers: Movers) -> None:
        """It does not begin; once the hypervisor is readmitted, it does."""
        for _number in range(_TRIALS):
            movers.make(_NAME)
            movers.count(_NAME)
            before = movers.shown("hv1", _NAME)
            movers.keys.run(libvirt_keys_revoke="hv2").succeeded()
            try:
                vm = movers.module(_NAME)
                assert "hv2 cannot be reached from hv1 over TLS" in vm["msg"], vm
                assert _running(movers) == ["hv1"]
                assert "migrating" not in movers.metadata("hv1", _NAME)
            finally:
                movers.keys.run(libvirt_keys_readmit="hv2").succeeded()
            assert _second(movers, before, vm["msg"]) != CRASHED
            movers.sweep()
        print(f"certificate revoked: {_TRIALS} of {_TRIALS} right")
