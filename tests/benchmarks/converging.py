#!/usr/bin/python3
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""provision_vm of VMs that are as they are asked for, and of one that is changed while it runs.

    .venv/bin/python tests/benchmarks/converging.py LABORATORY [--vms 50] [--rounds 5]

On a laboratory of two hypervisors that is up. Every figure is the wall time of a command from its
start to its end, the median of runs that take turns, and the processor time that it takes on the
controller: ``provision_vm`` of all VMs, none of which has to be changed; ``query`` of them, which
reads as much; two tasks of Ansible's (ping) on both hypervisors; ``provision_vm`` of one VM that
runs, whose title is another each time.

Limits, exit status 1 where one is exceeded: nothing to be done takes 1.5 times as long as reading,
and a change 1 s more than two tasks.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import sys
import tempfile
import time
import typing as t
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
os.environ.setdefault("ANSIBLE_COLLECTIONS_PATH", str(CHECKOUT / ".venv" / "collections"))
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / ".venv" / "collections")]

from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

LIMITS = {"unchanged": 1.5, "change": 1.0}
_HOSTS = ("hv1", "hv2")
_TWO_TASKS = """\
- hosts: hypervisors
  gather_facts: false
  vars: {ansible_pipelining: true}
  tasks: [{ansible.builtin.ping: {}}, {ansible.builtin.ping: {}}]
"""
_SWEEP = r"""
for name in $(virsh list --all --name | grep ^converge); do
  virsh destroy $name >/dev/null 2>&1
  virsh undefine $name --nvram >/dev/null
  rm -f /var/lib/libvirt/images/$name[_.]*
done
virsh pool-refresh default >/dev/null 2>&1 || true
"""


class Time(t.NamedTuple):
    """Seconds by the clock, and of the controller's processors."""

    wall: float
    cpu: float


Figures = dict[str, Time]


class Bench:
    """The commands and their times."""

    def __init__(self, lab: Laboratory, folder: Path, count: int) -> None:
        self.lab, self.folder = lab, folder
        self.ansible = Ansible(lab.inventory, folder)
        self.turn = 0
        self.vms: list[dict[str, object]] = [
            {
                "name": f"converge{number}",
                "host": _HOSTS[number % 2],
                "memory": 64,
                "disks": [{"name": "system", "size": 8}],
                "groups": ["web"],
                "start": number == 0,
                "wait": False,
            }
            for number in range(count)
        ]
        (folder / "two.yml").write_text(_TWO_TASKS, encoding="utf-8")

    def _run(self, playbook: str, **variables: object) -> Time:
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        words = [playbook, "-e", json.dumps(variables)]
        self.ansible.run("ansible-playbook", words, limit=600).succeeded()
        wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Time(wall, cpu)

    def unchanged(self) -> Time:
        """``provision_vm`` of all."""
        return self._run("fleet.virt.provision_vm", virt_vms=self.vms, virt_vcpu_ratio=100)

    def change(self) -> Time:
        """``provision_vm`` of the one that runs."""
        self.turn += 1
        vm = {**self.vms[0], "title": f"Turn {self.turn}"}
        return self._run("fleet.virt.provision_vm", virt_vms=[vm])

    def query(self) -> Time:
        """Reading of all."""
        return self._run("fleet.virt.query")

    def two(self) -> Time:
        """Two of Ansible's tasks."""
        return self._run(str(self.folder / "two.yml"))

    def sweep(self) -> None:
        """Remove what was made."""
        for name in _HOSTS:
            self.lab.ssh(name, _SWEEP)


def measure(lab: Laboratory, folder: Path, count: int, rounds: int) -> Figures:
    """Medians; the first turn does not count."""
    bench = Bench(lab, folder, count)
    bench.sweep()
    try:
        bench.unchanged()  # makes them
        verbs = {
            "unchanged": bench.unchanged,
            "query": bench.query,
            "two tasks": bench.two,
            "change": bench.change,
        }
        times: dict[str, list[Time]] = {name: [] for name in verbs}
        for turn in range(rounds + 1):
            for name, verb in verbs.items():
                taken = verb()
                if turn:
                    times[name].append(taken)
    finally:
        bench.sweep()
    return {
        name: Time(*(statistics.median(one) for one in zip(*some))) for name, some in times.items()
    }


def excesses(found: Figures) -> list[str]:
    """The limits that are exceeded, in words."""
    ratio = found["unchanged"].wall / found["query"].wall
    above = found["change"].wall - found["two tasks"].wall
    problems = []
    if ratio > LIMITS["unchanged"]:
        problems.append(f"unchanged: {ratio:.2f} > {LIMITS['unchanged']} times query")
    if above > LIMITS["change"]:
        problems.append(f"change: {above:.2f} s > {LIMITS['change']:g} s above two tasks")
    return problems


def table(found: Figures, count: int) -> str:
    """The figures for people."""
    lines = [f"{one.wall:7.2f} s {one.cpu:7.2f} s CPU  {name}" for name, one in found.items()]
    ratio = found["unchanged"].wall / found["query"].wall
    cpu = found["unchanged"].cpu / found["query"].cpu
    above = found["change"].wall - found["two tasks"].wall
    lines.append(f"{count} unchanged VMs as a multiple of query: {ratio:.2f} (CPU {cpu:.2f})")
    lines.append(f"a change above two tasks: {above:.2f} s")
    return "\n".join(lines)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lab", help="a laboratory that is up")
    parser.add_argument("--vms", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fleet-virt-converging-") as folder:
        found = measure(Laboratory(options.lab), Path(folder), options.vms, options.rounds)
    print(table(found, options.vms))
    exceeded = excesses(found)
    for line in exceeded:
        print(f"limit exceeded: {line}", file=sys.stderr)
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
