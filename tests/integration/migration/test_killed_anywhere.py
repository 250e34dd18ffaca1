# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks are killed at random moments: their text is true, and run again they end right.

Killed is the module on a hypervisor, every connection to it, or ansible-playbook itself.

Environment: FLEET_VIRT_TRIALS is the number of kills; without it, as in ``make test``, this file is
left out. The seed is printed and may be given as FLEET_VIRT_SEED.
"""

from __future__ import annotations

import collections
import json
import os
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.fleet.virt.tests.integration.support import killing
from ansible_collections.fleet.virt.tests.integration.support.waiting import wait_for

from .conftest import Movers, bring

_TRIALS = int(os.environ.get("FLEET_VIRT_TRIALS", "2"))
_SEED = int(os.environ.get("FLEET_VIRT_SEED", "20261123"))
_HOSTS = ("hv1", "hv2")
_MODULE = "virt_[a-z_]*"
# Every session but the one that this is said in
_CUT = r"""
own=$$; mine=
while [ "$own" -gt 1 ]; do mine="$mine $own "; own=$(awk '{print $4}' /proc/$own/stat); done
for session in $(pgrep -f '^sshd(-session)?: [^/]'); do
  case "$mine" in *" $session "*) ;; *) kill -9 $session && said=killed ;; esac
done
echo $said
"""
_WAYS = {"module": killing.KILL, "connection": _CUT, "playbook": "echo killed"}
# A unit of a move stays, active, once it has ended
_UNITS = "systemctl -q list-units --no-legend --state=running 'fleet-virt-mi*'"
_BUSY = f"pgrep -f '[A]nsiballZ_' || {_UNITS} | grep -q ."
_LEFT = (
    "ls -A /var/lib/libvirt/base | grep '^[.]';"
    " ls -d /var/lib/libvirt/images/.??* 2>/dev/null;"
    " for name in $(virsh -q list --all --name); do"
    " virsh dumpxml --inactive $name | grep -o 'phase>[a-z]*<'; done; :"
)
_DONE = re.compile(r" (created|moved|removed|unchanged|was there)\b")
_REMEDY = re.compile(r"again|repair_vms|virt_hypervisors_lost|did not answer|see that")
_VM = {"image": "tiny.qcow2", "memory": 64, "seed": False, "start": False, "wait": False}
_VMS = {"virt_vms": [{"name": "one", "host": "hv1", **_VM}, {"name": "two", "host": "hv2", **_VM}]}
_MARK = "/var/lib/libvirt/fleet-notes/fleet-virt.maintenance"


@dataclass(frozen=True)
class Scenario:
    """A playbook, what is there before it, and how far it has come for each of its ``names``.

    ``steps`` is how many modules it begins on one hypervisor.
    """

    playbook: str
    variables: Mapping[str, Any]
    prepare: Callable[[Movers], None]
    names: Sequence[str]
    done: Callable[[Movers, str], bool]
    steps: int = 2
    hosts: Sequence[str] = _HOSTS
    label: str = ""

    def __str__(self) -> str:
        return f"{self.playbook} {self.label}".strip()


def _nothing(_movers: Movers) -> None:
    """What every scenario has: two hypervisors without VMs."""


def _off(*names: str) -> Callable[[Movers], None]:
    return lambda movers: [movers.make(name, start=False) for name in names] and None


def _running(name: str) -> Callable[[Movers], None]:
    return lambda movers: movers.make(name)


def _evacuated(movers: Movers) -> None:
    movers.make("one", start=False)
    movers.ansible.playbook("evacuate", {"virt_host": "hv1"}, limit=300).succeeded()


def _interrupted(movers: Movers) -> None:
    movers.make("one")
    (python,) = killing.mortal(movers.lab, "hv1", "virt_migrate.2.moving")
    killed = {"ansible_python_interpreter": python}
    movers.ansible.playbook("migrate_vm", {"vm_name": "one", **killed}, limit=300)


def _marked(movers: Movers) -> None:
    movers.ansible.module("hv1", "virt_maintenance", {"state": "present"})


def _keyed(movers: Movers) -> None:
    """With keys of this test's own controller: a laboratory that is kept has some of another."""
    if not movers.keys.folder.exists():
        movers.keys.forget()
        movers.keys.run().succeeded()
        movers.keys.listen()


def _other_image(movers: Movers) -> None:
    movers.fleet.raw_image("other.raw", 4, b"other")


def _brought(movers: Movers) -> None:
    _other_image(movers)
    movers.ansible.module(
        "hypervisors", "virt_image", {"image": "other.raw"}, extra=movers.fleet.variables
    )


def _whole(host: str, disk_name: str = "system") -> Callable[[Movers, str], bool]:
    """There with its disk, on one hypervisor only."""

    def done(movers: Movers, name: str) -> bool:
        found = [one for one, names in movers.fleet.domains().items() if name in names]
        disk = f"{name}_{disk_name}.qcow2"
        files = [one for one in _HOSTS if disk in movers.fleet.files(one)]
        return found == [host] == files and "phase>" not in movers.metadata(host, name)

    return done


def _gone(movers: Movers, name: str) -> bool:
    there = [one for names in movers.fleet.domains().values() for one in names]
    files = [one for host in _HOSTS for one in movers.fleet.files(host)]
    return name not in there and not [one for one in files if one.startswith(f"{name}_")]


def _settled(movers: Movers, name: str) -> bool:
    return _whole("hv1")(movers, name) or _whole("hv2")(movers, name)


def _cloned(movers: Movers, name: str) -> bool:
    """A copy's disks have the names of their targets."""
    return any(_whole(host, "vda")(movers, name) for host in _HOSTS)


def _mark(present: bool) -> Callable[[Movers, str], bool]:
    shown = f"test -e {_MARK} && echo there || :"
    return lambda movers, host: (movers.fleet.host(host, shown) != "") is present


def _image(present: bool) -> Callable[[Movers, str], bool]:
    return lambda movers, host: (
        any("-other." in one for one in movers.fleet.files(host, "/var/lib/libvirt/base"))
        is present
    )


def _reached(movers: Movers, host: str) -> bool:
    other = {"hv1": "hv2", "hv2": "hv1"}[host]
    return movers.keys.virsh(host, source=other).returncode == 0


def _read(_movers: Movers, _name: str) -> bool:
    return True


def _snapshotted(movers: Movers) -> None:
    movers.make("one", start=False)
    movers.ansible.module("hv1", "virt_snapshot", {"names": ["one"], "snapshot": "s1"})


def _snapshot(present: bool) -> Callable[[Movers, str], bool]:
    listed = "virsh -q snapshot-list {} --name"
    return lambda movers, name: (
        ("s1" in movers.fleet.host("hv1", listed.format(name)).split()) is present
    )


def _runs(movers: Movers, name: str) -> bool:
    return movers.state("hv1", name) == "running"


_HOST = {"virt_host": "hv1"}
_ONE = {"vm_name": "one"}
_TO = {**_ONE, "vm_host": "hv2"}
_S1 = {**_ONE, "virt_snapshot": "s1"}
SCENARIOS = [
    Scenario("provision_vm", _VMS, _nothing, ["one", "two"], _settled, 4),
    Scenario("purge_vm", {**_ONE, "vm_force": "true"}, _running("one"), ["one"], _gone, 2, ["hv1"]),
    Scenario("purge_vm", {"virt_names": "one,two"}, _off("one", "two"), ["one", "two"], _gone,
             label="of two"),
    Scenario("migrate_vm", _TO, _off("one"), ["one"], _whole("hv2"), label="off"),
    Scenario("migrate_vm", _TO, _running("one"), ["one"], _whole("hv2"), label="running"),
    Scenario("evacuate", _HOST, _off("one", "two"), ["one", "two"], _whole("hv2"), 3),
    Scenario("return_vms", _HOST, _evacuated, ["one"], _whole("hv1"), 2),
    Scenario("repair_vms", {}, _interrupted, ["one"], _settled),
    Scenario("maintenance", _HOST, _nothing, ["hv1"], _mark(True), 1, ["hv1"]),
    Scenario("maintenance", {**_HOST, "virt_maintenance": "false"}, _marked, ["hv1"], _mark(False),
             1, ["hv1"], "off"),
    Scenario("images", {"virt_image": "other.raw"}, _other_image, _HOSTS, _image(True)),
    Scenario("images", {"virt_images_prune": "true"}, _brought, _HOSTS, _image(False), 3,
             label="prune"),
    Scenario("renew_keys", {"libvirt_keys_renew": "true"}, _keyed, _HOSTS, _reached, 2),
    Scenario("snapshot", _S1, _off("one"), ["one"], _snapshot(True), 2, ["hv1"]),
    Scenario("snapshot", {**_S1, "virt_snapshot_state": "absent"}, _snapshotted, ["one"],
             _snapshot(False), 2, ["hv1"], "absent"),
    Scenario("rename", {**_ONE, "vm_new_name": "uno", "vm_rename_volumes": "true"}, _off("one"),
             ["uno"], _whole("hv1"), 3, ["hv1"]),
    Scenario("clone", {"vm_name": "two", "virt_clone_of": "one", "virt_identity": "keep",
                       "vm_start": "false"}, _off("one"), ["two"], _cloned, 4),
    Scenario("state", {"virt_names": "on*", "vm_state": "running"}, _off("one"), ["one"], _runs, 2,
             ["hv1"]),
    Scenario("list", {}, _off("one"), ["one"], _read, 1),
    Scenario("query", {"virt_names": "one"}, _off("one"), ["one"], _read, 1),
    Scenario("host_info", {}, _nothing, _HOSTS, _read, 1),
    Scenario("preflight", {}, _nothing, _HOSTS, _read, 2),
]  # fmt: skip


@dataclass
class Trial:
    """One kill: what it hit, and what the run said."""

    scenario: Scenario
    way: str
    host: str
    turn: int
    after: float
    status: int = 0
    text: str = ""
    killed: bool = False

    def __str__(self) -> str:
        where = f"{self.way} on {self.host}, module {self.turn} after {self.after:.2f} s"
        return f"{self.scenario}: {where}: exit status {self.status}"


def _variables(movers: Movers, scenario: Scenario) -> dict[str, Any]:
    return {**movers.fleet.variables, **movers.keys.variables, **scenario.variables}


def _words(variables: Mapping[str, Any]) -> list[str]:
    return ["-e", json.dumps(variables)]


def _run(movers: Movers, trial: Trial) -> None:
    variables = {**_variables(movers, trial.scenario), "ansible_pipelining": False}
    process = movers.ansible.begin(
        "ansible-playbook", f"fleet.virt.{trial.scenario.playbook}", *_words(variables), heard=True
    )
    try:
        script = killing.begun(_MODULE, f"sleep {trial.after:.2f}; {_WAYS[trial.way]}", trial.turn)
        said = movers.lab.ssh(trial.host, script, check=False, timeout=120).stdout
        trial.killed = "killed" in said and process.poll() is None
        if trial.way == "playbook":
            killing.kill_tree(process.pid)
        trial.text = process.communicate(timeout=400)[0]
    finally:
        killing.kill_tree(process.pid)
    trial.status = process.returncode
    for host in _HOSTS:  # what was cut off may go on for a while
        wait_for(
            lambda host=host: movers.lab.ssh(host, _BUSY, check=False).returncode != 0,  # type: ignore[misc]
            200,
            f"the end of modules on {host}",
        )


def _untrue(movers: Movers, trial: Trial) -> list[str]:
    """What its status and text say that is not so."""
    if trial.way == "playbook" and trial.killed:
        return []
    found = ["a traceback"] if "Traceback (most" in trial.text else []
    undone = [name for name in trial.scenario.names if not trial.scenario.done(movers, name)]
    if trial.status == 0 and undone:
        found.append(f"exit status 0, and not done: {undone}")
    if trial.status and not _REMEDY.search(trial.text):
        found.append("no remedy")
    for name in trial.scenario.names:
        rows = re.findall(rf"^{name} .*$", trial.text, re.MULTILINE)
        if name in undone and any(_DONE.search(row) for row in rows):
            found.append(f"it says that {name} is done: {rows}")
        if name not in trial.text and trial.host not in trial.text:
            found.append(f"it says nothing of {name}")
    return found


def _again(movers: Movers, trial: Trial) -> list[str]:
    """What is wrong after the same command again, and once more."""
    scenario = trial.scenario
    variables = _variables(movers, scenario)
    run = movers.ansible.playbook(scenario.playbook, variables, limit=400)
    if run.returncode and "repair_vms" in run.stdout:
        movers.ansible.playbook("repair_vms", limit=300)
        run = movers.ansible.playbook(scenario.playbook, variables, limit=400)
    found = [f"run again: {run}"] if run.returncode else []
    undone = [name for name in scenario.names if not scenario.done(movers, name)]
    found += [f"run again, and not done: {undone}\n{run}"] if undone else []
    left = {host: movers.fleet.host(host, _LEFT).split() for host in _HOSTS}
    found += [f"left: {left}"] if any(left.values()) else []
    return found


def _clean(movers: Movers) -> None:
    movers.sweep()
    for host in _HOSTS:
        clear = f"virsh -q vol-delete {_MARK} 2>/dev/null; systemctl reset-failed; :"
        movers.fleet.host(host, clear)


def test_killed_at_random_moments(movers: Movers) -> None:
    chance = random.Random(_SEED)  # noqa: S311 (where to kill, no secret)
    pairs = [(scenario, way) for scenario in SCENARIOS for way in _WAYS]
    chance.shuffle(pairs)
    wrong: list[str] = []
    killed: collections.Counter[str] = collections.Counter()
    for number in range(_TRIALS):
        scenario, way = pairs[number % len(pairs)]
        turn = chance.randint(1, scenario.steps)
        trial = Trial(scenario, way, chance.choice(scenario.hosts), turn, chance.uniform(0, 1.5))
        _clean(movers)
        scenario.prepare(movers)
        try:
            _run(movers, trial)
            found = [*_untrue(movers, trial), *_again(movers, trial)]
        finally:
            _clean(movers)
        killed[way] += trial.killed
        print(
            f"{number + 1}: {trial}{'' if trial.killed else ' (it had ended)'}: {found or 'true'}"
        )
        wrong += [f"{number + 1}: {trial}: {fault}\n{trial.text}" for fault in found]
    print(f"killed {sum(killed.values())} of {_TRIALS} ({dict(killed)}), seed {_SEED}")
    bring(movers.fleet)  # what was pruned
    assert not wrong, "\n\n".join(wrong)
