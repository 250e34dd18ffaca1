# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks meet a libvirt that stands still at a random moment, a file system without inodes and
one that is read-only: their text is true, nothing is lost, and run again they end right.

Environment: FLEET_VIRT_TRIALS is the number of trials; without it, as in ``make test``, this file
is left out. The seed is printed and may be given as FLEET_VIRT_SEED.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.fleet.virt.tests.integration.support import blank, killing

from .conftest import Fleet

_TRIALS = int(os.environ.get("FLEET_VIRT_TRIALS", "2"))
_SEED = int(os.environ.get("FLEET_VIRT_SEED", "20261127"))
_HOSTS = ("hv1", "hv2")
_IMAGES = "/var/lib/libvirt/images"
_STAND_STILL = "systemctl kill -s {} libvirtd"
# Seconds; a minute is more than what a module waits for libvirt
_STANDING = (0.5, 3.0, 75.0)
_FILL = f"i=0; while touch {_IMAGES}/filler.$i 2>/dev/null; do i=$((i+1)); done"
_EMPTY = f"rm -f {_IMAGES}/filler.*"
_REFRESH = "[ ! -e /etc/libvirt/storage/default.xml ] || virsh -q pool-refresh default"
_MOUNT = f"mkdir -p {_IMAGES}; mount -t tmpfs -o nr_inodes=40,size=40G tmpfs {_IMAGES}; {_REFRESH}"
_UNMOUNT = f"umount {_IMAGES}; {_REFRESH}"
_NO_TEMPLATE = (
    "for file in /var/lib/libvirt/base/*-t1.*; do"
    " [ -e $file ] || continue; chattr -i $file; rm $file; virsh -q pool-refresh base; done"
)
_NO_LOGS = "rm -f /var/log/libvirt/qemu/*-console.log*"
_LEFT = (
    f"ls -d {_IMAGES}/.??* /var/lib/libvirt/base/.??* 2>/dev/null;"
    " for name in $(virsh -q list --all --name); do"
    " virsh dumpxml --inactive $name | grep -o 'phase>[a-z]*<'; done; :"
)
_SNAPSHOTS = "virsh -q snapshot-list {} --name 2>/dev/null || :"
_STATE = "virsh -q domstate {} 2>/dev/null || :"
_WHAT = "virsh -q list --all --name"


@dataclass(frozen=True)
class Verb:
    """A playbook for the VM one, which is off, and when it is done; ``snapshot``: it has one."""

    playbook: str
    variables: Mapping[str, Any]
    done: Callable[[Fleet, str], bool]
    snapshot: bool = False
    label: str = ""

    def __str__(self) -> str:
        return f"{self.playbook} {self.label}".strip()


def _has_snapshot(present: bool) -> Callable[[Fleet, str], bool]:
    return lambda fleet, host: (
        ("s1" in fleet.host(host, _SNAPSHOTS.format("one")).split()) is present
    )


def _exists(name: str) -> Callable[[Fleet, str], bool]:
    return lambda fleet, host: (
        name in fleet.host(host, _WHAT).split()
        and any(file.startswith(f"{name}_") for file in fleet.files(host))
    )


def _gone(fleet: Fleet, host: str) -> bool:
    return "one" not in fleet.host(host, _WHAT).split() and not [
        file for file in fleet.files(host) if file.startswith("one")
    ]


def _runs(fleet: Fleet, host: str) -> bool:
    return fleet.host(host, _STATE.format("one")).strip() == "running"


def _template(fleet: Fleet, host: str) -> bool:
    return any("-t1." in file for file in fleet.files(host, "/var/lib/libvirt/base"))


_ONE = {"vm_name": "one"}
_KEEP = {"virt_identity": "keep"}
_S1 = {**_ONE, "virt_snapshot": "s1"}
_ABSENT = {"virt_snapshot_state": "absent"}
_REVERTED = {"virt_snapshot_state": "reverted"}
_NEW = {
    "vm_name": "two", "vm_image": blank.NAME, "vm_memory": 64, "vm_seed": False, "vm_start": False
}  # fmt: skip
VERBS = [
    Verb("snapshot", _S1, _has_snapshot(True)),
    Verb("snapshot", {**_S1, "virt_snapshot_disk_only": True}, _has_snapshot(True),
         label="in files"),
    Verb("snapshot", {**_S1, **_ABSENT}, _has_snapshot(False), snapshot=True, label="absent"),
    Verb("snapshot", {**_S1, **_REVERTED}, _has_snapshot(True), snapshot=True, label="reverted"),
    Verb("rename", {**_ONE, "vm_new_name": "uno", "vm_rename_volumes": True}, _exists("uno")),
    Verb("clone", {"vm_name": "two", "virt_clone_of": "one", "vm_start": False, **_KEEP},
         _exists("two")),
    Verb("template", {**_ONE, "virt_template": "t1", **_KEEP}, _template),
    Verb("state", {"virt_names": "on[e]", "vm_state": "running"}, _runs),
    Verb("provision_vm", _NEW, _exists("two")),
    Verb("purge_vm", {"virt_names": "one", "virt_confirm": 1}, _gone),
]  # fmt: skip
FAULTS = ("libvirt stands still", "no inodes", "read-only")


@dataclass
class Trial:
    """What was tried, and what came of it."""

    verb: Verb
    fault: str
    host: str
    after: float
    seconds: float
    status: int = 0
    text: str = ""
    hit: bool = False

    def __str__(self) -> str:
        when = f" for {self.seconds} s, {self.after:.2f} s after the first module began"
        return (
            f"{self.verb}: {self.fault}{when if self.fault == FAULTS[0] else ''} on {self.host}:"
            f" exit status {self.status}"
        )


def _prepare(fleet: Fleet, trial: Trial) -> None:
    fleet.host(trial.host, _MOUNT)
    wanted = {"memory": 64, "image": blank.NAME, "seed": False, "nics": [], "start": False}
    made = fleet.init(trial.host, name="one", **wanted)
    assert not made["failed"], made["msg"]
    if trial.verb.snapshot:
        options = {"names": ["one"], "snapshot": "s1"}
        made = fleet.ansible.module(trial.host, "virt_snapshot", options)[trial.host]
        assert made["changed"], made


@contextlib.contextmanager
def _fault(fleet: Fleet, trial: Trial) -> Iterator[None]:
    """What is wrong with the file system of the disks."""
    fault, heal = {
        "no inodes": (_FILL, _EMPTY),
        "read-only": (f"mount -o remount,ro {_IMAGES}", f"mount -o remount,rw {_IMAGES}"),
    }.get(trial.fault, (":", ":"))
    fleet.host(trial.host, fault)
    try:
        yield
    finally:
        fleet.host(trial.host, heal)


def _run(fleet: Fleet, trial: Trial) -> None:
    variables = {**fleet.variables, **trial.verb.variables, "ansible_pipelining": False}
    process = fleet.ansible.begin(
        "ansible-playbook",
        f"fleet.virt.{trial.verb.playbook}",
        "-e",
        json.dumps(variables),
        heard=True,
    )
    stop, go = _STAND_STILL.format("STOP"), _STAND_STILL.format("CONT")
    try:
        if trial.fault == FAULTS[0]:
            script = f"sleep {trial.after:.2f}; {stop}; sleep {trial.seconds}; {go}; echo stopped"
            said = fleet.lab.ssh(
                trial.host, killing.begun("virt_[a-z_]*", script), check=False, timeout=200
            ).stdout
            trial.hit = "stopped" in said
        else:
            trial.hit = True
        trial.text = process.communicate(timeout=400)[0]
    finally:
        killing.kill_tree(process.pid)
        fleet.lab.ssh(trial.host, go, check=False)
    trial.status = process.returncode


def _untrue(fleet: Fleet, trial: Trial) -> list[str]:
    """What its status and text say that is not so, and what is lost."""
    detected = ["a traceback"] if "Traceback (most" in trial.text else []
    done = trial.verb.done(fleet, trial.host)
    if trial.status == 0 and not done:
        detected.append("exit status 0, and not done")
    if trial.status and not any(word in trial.text for word in ("one", "two", trial.host)):
        detected.append("it does not say what failed")
    names = fleet.host(trial.host, _WHAT).split()
    if not {"one", "uno"} & set(names) and trial.verb.playbook != "purge_vm":
        detected.append(f"the VM is lost: {names}")
    return detected


def _again(fleet: Fleet, trial: Trial) -> list[str]:
    """What is wrong after the same command again."""
    variables = {**fleet.variables, **trial.verb.variables}
    if trial.verb.playbook == "purge_vm" and trial.verb.done(fleet, trial.host):
        del variables["virt_confirm"]  # there is none left to count
    run = fleet.ansible.playbook(trial.verb.playbook, variables, limit=400)
    detected = [f"run again: {run}"] if run.returncode else []
    if not trial.verb.done(fleet, trial.host):
        detected.append(f"run again, and not done\n{run}")
    left = fleet.host(trial.host, _LEFT).split()
    return [*detected, *([f"left: {left}"] if left else [])]


def _clean(fleet: Fleet) -> None:
    fleet.sweep()
    for host in _HOSTS:
        fleet.host(
            host, f"while mountpoint -q {_IMAGES}; do {_UNMOUNT}; done; {_NO_TEMPLATE}; {_NO_LOGS}"
        )
    fleet.sweep()


def test_faults_at_random_moments_are_reported_and_repaired(fleet: Fleet) -> None:
    chance = random.Random(_SEED)  # noqa: S311 (what to try, no secret)
    pairs = [(verb, fault) for verb in VERBS for fault in FAULTS]
    chance.shuffle(pairs)
    wrong: list[str] = []
    hit: collections.Counter[str] = collections.Counter()
    for number in range(_TRIALS):
        verb, fault = pairs[number % len(pairs)]
        seconds = chance.choice(_STANDING)
        trial = Trial(verb, fault, chance.choice(_HOSTS), chance.uniform(0, 1.0), seconds)
        single = fleet.alone(trial.host)
        _clean(fleet)
        try:
            _prepare(single, trial)
            with _fault(single, trial):
                _run(single, trial)
                detected = _untrue(single, trial)
            detected += _again(single, trial)
        finally:
            _clean(fleet)
        hit[fault] += trial.hit
        print(f"{number + 1}: {trial}{'' if trial.hit else ' (not hit)'}: {detected or 'true'}")
        wrong += [f"{number + 1}: {trial}: {one}\n{trial.text}" for one in detected]
    print(f"hit {sum(hit.values())} of {_TRIALS} ({dict(hit)}), seed {_SEED}")
    assert not wrong, "\n\n".join(wrong)
