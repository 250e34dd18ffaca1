# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Creation killed at random moments: the same command again ends right and leaves nothing over.

Environment: FLEET_VIRT_TRIALS is the number of kills of the module (default 1); half as many
kills of the playbook follow. The seed is printed and may be given as FLEET_VIRT_SEED.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import time
from typing import Any

import pytest
from ansible_collections.fleet.virt.tests.integration.support import blank, killing
from ansible_collections.fleet.virt.tests.integration.support.killing import (
    kill_tree,
    killer,
    lifetime,
    seconds,
)

from .conftest import Fleet

_TRIALS = int(os.environ.get("FLEET_VIRT_TRIALS", "1"))
_SEED = int(os.environ.get("FLEET_VIRT_SEED", "20261121"))
_NAME = "killed"
_SEEDED = {"files": [{"path": "/etc/motd", "content": "x"}], "commands": ["true"]}
_VM = {"name": _NAME, "memory": 96, "image": blank.NAME, "wait": False, "seed": _SEEDED}
# A stranger who tries to start it all the time; a start while it is in creation is a "theft"
_STRANGER = rf"""
end=$(($(date +%s) + 60))
while [ "$(date +%s)" -lt "$end" ] && [ ! -e /run/stranger-stop ]; do
  if virsh start {_NAME} >/dev/null 2>&1; then
    if virsh dumpxml --inactive {_NAME} | grep -q '>creating<'; then echo theft; fi
    virsh destroy {_NAME} >/dev/null 2>&1
    echo started
    break
  fi
done
"""
# Kills who creates it as soon as its metadata say that its disk exists
_KILLER = rf"""
import os, re, time
import libvirt
libvirt.registerErrorHandler(lambda *_: None, None)
connection, end = libvirt.open("qemu:///system"), time.monotonic() + 60
while time.monotonic() < end:
    try:
        text = connection.lookupByName("{_NAME}").XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    except libvirt.libvirtError:
        continue
    owner = re.search(r':owner [^>]* pid="([1-9][0-9]*)"', text)
    if owner and re.search(r'role="disk" made="[0-9]', text):
        os.kill(int(owner[1]), 9)
        print("killed")
        break
"""


def _orphans(fleet: Fleet, host: str) -> list[str]:
    """What is there besides one whole VM."""
    found = []
    expected = [f"{_NAME}_seed.iso", f"{_NAME}_system.qcow2"]
    files = fleet.files(host)
    if files != expected:
        found.append(f"files {files}")
    if fleet.domains()[host] != [_NAME]:
        found.append(f"domains {fleet.domains()}")
    for which in ("", "--inactive"):
        if "phase>" in fleet.host(host, f"virsh dumpxml {which} {_NAME}"):
            found.append(f"still in creation {which}")
    if fleet.host(host, f"virsh domstate {_NAME}").strip() != "running":
        found.append("it does not run")
    left = fleet.host(
        host,
        "ls -d /run/fleet-virt-seed 2>/dev/null; ls -A /var/lib/libvirt/base | grep '^[.]';"
        " virsh vol-list default | awk 'NR > 2 && $1 {print $1}' | sort | tr '\\n' ' '",
    ).split()
    if left != expected:
        found.append(f"left {left}")
    key = re.search("host_key>([^<]+)<", fleet.host(host, f"virsh dumpxml --inactive {_NAME}"))
    medium = f"/var/lib/libvirt/images/{_NAME}_seed.iso"
    if key is None or not fleet.host(host, f"grep -acF '{key[1]}' {medium} || true").strip("0\n"):
        found.append(f"the host key is not the medium's: {key and key[1]}")
    fleet.host(host, f"virsh destroy {_NAME} 2>&1 || true")
    backing = fleet.host(host, f"qemu-img check -q {'/var/lib/libvirt/images/' + expected[1]}")
    return found + ([backing] if backing else [])


@pytest.mark.trials
def test_the_module_killed_at_random_moments(fleet: Fleet) -> None:
    chance = random.Random(_SEED)  # noqa: S311 (where to kill, no secret)

    def meanwhile(script: str) -> str:
        return killing.meanwhile(fleet.begin("hv1", "virt_init", _VM), fleet.lab, "hv1", script)

    assert fleet.init("hv1", **_VM)["changed"]  # brings the image, which is not what is killed
    fleet.sweep()
    durations: list[float] = []
    for turn in (1, 2):  # it claims, then it makes what it claimed
        durations.append(seconds(meanwhile(lifetime("virt_init", turn))))
        fleet.sweep()
    kills = [0, 0]
    for trial in range(_TRIALS):
        which = trial % 2
        after = chance.uniform(0.0, 0.95 * durations[which])
        where = f"seed {_SEED}, trial {trial}, run {which + 1}, {after:.2f} s"
        kills[which] += "killed" in meanwhile(killer("virt_init", after, which + 1))
        again = fleet.init("hv1", **_VM)
        assert not again["failed"], f"{where}: {again}"
        assert _orphans(fleet, "hv1") == [], where
        assert not fleet.init("hv1", **_VM)["changed"]
        fleet.sweep()
    within = " and ".join(f"{duration:.1f}" for duration in durations)
    print(f"module killed {kills} times of {_TRIALS} within {within} s (seed {_SEED})")
    assert sum(kills) >= _TRIALS // 2
    # of few trials one run may have been missed
    assert _TRIALS < 10 or min(kills) >= _TRIALS // 4


@pytest.mark.usefixtures("trusting")
def test_the_playbook_killed_at_random_moments(fleet: Fleet) -> None:
    chance = random.Random(_SEED + 1)  # noqa: S311
    variables: dict[str, Any] = {"virt_vms": [{**_VM, "host": "hv1"}]}
    started = time.monotonic()
    fleet.provision(**variables).succeeded()
    duration = time.monotonic() - started
    fleet.sweep()
    trials = max(1, _TRIALS // 2)
    for trial in range(trials):
        after = chance.uniform(0.2 * duration, duration)
        words = ("fleet.virt.provision_vm", "-e", json.dumps({**fleet.variables, **variables}))
        process = fleet.ansible.begin("ansible-playbook", *words, ANSIBLE_PIPELINING="false")
        try:
            process.wait(timeout=after)
        except subprocess.TimeoutExpired:
            kill_tree(process.pid)
        process.wait(timeout=30)
        run = fleet.provision(**variables)
        assert run.returncode == 0, f"seed {_SEED}, trial {trial}, {after:.1f} s\n{run}"
        assert _orphans(fleet, "hv1") == [], f"seed {_SEED}, trial {trial}, {after:.1f} s"
        fleet.sweep()
    print(f"playbook killed {trials} times within {duration:.1f} s (seed {_SEED})")


@pytest.mark.usefixtures("trusting")
def test_the_playbook_goes_on_when_its_module_is_killed_in_mid_creation(fleet: Fleet) -> None:
    """It withdraws claims then, but not what was begun: without the definition the disk would be
    nobody's, and stand in the way of the next run."""
    login = fleet.lab.login("hv1", user_root=True)
    variables: dict[str, Any] = {"virt_vms": [{**_VM, "host": "hv1"}]}
    with subprocess.Popen(
        [*login, "exec /usr/bin/python3 -"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as killing_one:
        assert killing_one.stdin is not None
        killing_one.stdin.write(_KILLER)
        killing_one.stdin.close()
        run = fleet.provision(**variables)
        assert killing_one.stdout is not None
        assert killing_one.stdout.read().strip() == "killed", str(run)
    assert run.returncode == 2, str(run)
    assert f"{_NAME} on hv1: its module returned no result: it was killed (SIGKILL)" in run.stdout
    assert fleet.domains()["hv1"] == [_NAME]
    fleet.provision(**variables).succeeded()
    assert _orphans(fleet, "hv1") == []


def test_a_stranger_cannot_start_what_is_in_creation(fleet: Fleet) -> None:
    vm = {**_VM, "start": False}
    assert fleet.init("hv1", **vm)["changed"]
    fleet.sweep()
    login = fleet.lab.login("hv1", user_root=True)
    stranger = subprocess.Popen(
        [*login, _STRANGER], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    try:
        fleet.alone("hv1").provision(virt_vms=[{**vm, "host": "hv1"}]).succeeded()
    finally:
        output, _ = stranger.communicate(timeout=90)
    assert "theft" not in output
    assert "started" in output, "the finished VM can be started by anybody: the loop did work"
