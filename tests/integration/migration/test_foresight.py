# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What capacity and what_if say is tried out: VMs until none fits, and a real evacuation."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

from .conftest import Movers

_CAPACITY = "ansible-playbook fleet.virt.capacity"
_WHAT_IF = "ansible-playbook fleet.virt.what_if"
# As the guide shows them, each with what it must print
COMMANDS = {
    f"{_CAPACITY} -e vm_memory=4GiB -e vm_vcpus=2": r"more VMs of 2 vCPUs, 4096 MiB",
    f"{_CAPACITY} -e vm_memory=128MiB -e virt_require=2 -e virt_output=json": r'"survives": true',
    f"{_WHAT_IF} -e virt_lose=hv1": r"web1 +hv1 +hv2",
    f"{_WHAT_IF} -e virt_add_hosts=hv1 -e virt_strict=true": r"new1 +0 +0",
}
_ROOM = 300  # MiB on each hypervisor: two VMs of the shape
_SHAPE = {"memory": 128, "start": False, "seed": False, "disks": []}
_SHOWN = {"capacity": "Show what fits", "what_if": "Show what would be"}


def _read(movers: Movers, playbook: str, **variables: Any) -> dict[str, Any]:
    given = {"virt_output": "json", **variables}
    run = movers.ansible.playbook(playbook, given).succeeded()
    answer: dict[str, Any] = run.of(_SHOWN[playbook])["hv1"]
    assert answer["changed"] is False
    assert json.loads(answer["output"])["hypervisors"] == answer["hypervisors"]
    return answer


def _vms(count: int) -> list[dict[str, Any]]:
    return [{**_SHAPE, "name": f"fill{number}"} for number in range(count)]


def test_as_many_fit_as_capacity_says(movers: Movers) -> None:
    info = movers.fleet.host("hv1", "virsh nodememstats")
    (total,) = re.findall(r"total *: +(\d+) KiB", info)
    room = {"virt_memory_reserve": int(total) // 1024 - _ROOM, "virt_vcpu_ratio": 100}
    shape = {f"vm_{key}": value for key, value in _SHAPE.items()}

    found = _read(movers, "capacity", **shape, **room)
    assert [(one["name"], one["more"]) for one in found["hypervisors"]] == [("hv1", 2), ("hv2", 2)]
    assert {one["filter"] for one in found["hypervisors"]} == {"memory"}
    more = found["more"]

    too_many = movers.fleet.provision(virt_vms=_vms(more + 1), **room)
    assert too_many.returncode == 2
    assert "fits nowhere" in too_many.stdout
    assert movers.fleet.domains() == {"hv1": [], "hv2": []}
    movers.fleet.provision(virt_vms=_vms(more), **room).succeeded()
    assert sum(map(len, movers.fleet.domains().values())) == more

    full = movers.ansible.playbook("capacity", {**shape, **room, "virt_require": 1}, check=True)
    assert full.returncode == 2
    assert re.search(r"1 more VMs of .* are required, 0 fit", full.stdout), str(full)
    assert "the fleet does not survive the loss of any one hypervisor" in full.stdout


def test_fleet_after_evacuation_is_what_was_foreseen(movers: Movers) -> None:
    for name, host in (("web1", "hv1"), ("db1", "hv1"), ("shop1", "hv2")):
        movers.make(name, host, start=False, memory=96 if name == "web1" else 64)
    for command, pattern in COMMANDS.items():
        program, *words = shlex.split(command)
        run = movers.ansible.run(program, words).succeeded()
        assert re.search(pattern, run.stdout), str(run)

    new = {f"vm_{key}": value for key, value in {**_SHAPE, "name": "extra"}.items()}
    foreseen = _read(movers, "what_if", virt_lose="hv1", **new)
    steps = [(one["name"], one["source"], one["destination"]) for one in foreseen["steps"]]
    assert steps == [("web1", "hv1", "hv2"), ("db1", "hv1", "hv2"), ("extra", None, "hv2")]

    movers.ansible.playbook("evacuate", {"virt_host": "hv1"}).succeeded()
    movers.fleet.provision(**new).succeeded()
    there = {one["name"]: one for one in _read(movers, "what_if")["hypervisors"]}
    assert [there["hv2"]] == foreseen["hypervisors"]
    assert there["hv2"]["vms"] == 4
    unmarked = {"virt_host": "hv1", "virt_maintenance": "false"}
    movers.ansible.playbook("maintenance", unmarked).succeeded()
