#!/usr/bin/env python3
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the playbooks that read cost where the controller reaches libvirt, as whole commands.

  .venv/bin/python tests/benchmarks/reading.py [--documents 100] [--lab NAME] [--rounds 9]

Every figure is the wall time of a command from its start to its end: the median of runs that take
turns with those of its floor, which is Ansible with the same inventory.

documents: ``list``, ``query`` and ``host_info`` over documents of libvirt's test driver with one VM
each. Floor: a play without tasks.

With ``--lab``, a laboratory of two hypervisors that is up: ``list`` over libvirt's TLS, and by the
module. Floor: ``ansible -m ping``, by connections that ssh keeps, as the module is. Then twenty
connections over TLS, shared by the two, against one.

Limits, exit status 1 where one is exceeded: ``list`` over 100 documents takes 2.5 times its floor,
over two hypervisors 1.2 times, and over twenty connections 1.5 times one connection.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import typing as t
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
PLAYBOOKS = ("list", "query", "host_info")
LIMITS = {"documents": 2.5, "hypervisors": 1.2, "connections": 1.5}
_DOCUMENT = """\
<node><domain type='test'>
  <name>vm{number}</name><memory unit='MiB'>512</memory><vcpu>1</vcpu><os><type>hvm</type></os>
</domain></node>
"""
_EMPTY = "- hosts: hypervisors\n  gather_facts: false\n  tasks: []\n"
_SSH_ARGS = "-o ControlMaster=auto -o ControlPersist=60s"

Command = tuple[str, ...]
Figures = dict[str, float]


class Bench:
    """Commands of Ansible's in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        link = folder / "collections" / "ansible_collections" / "fleet" / "virt"
        link.parent.mkdir(parents=True)
        link.symlink_to(CHECKOUT, target_is_directory=True)
        kept = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
        self.environment = {
            **kept,
            "ANSIBLE_COLLECTIONS_PATH": str(folder / "collections"),
            "ANSIBLE_FORKS": "50",
            "ANSIBLE_HOME": str(folder / "home"),
            "ANSIBLE_SSH_ARGS": _SSH_ARGS,
        }
        (folder / "empty.yml").write_text(_EMPTY, encoding="utf-8")

    def inventory(self, name: str, hosts: t.Any, **variables: str) -> str:
        """An inventory of this name with these hypervisors."""
        path = self.folder / f"{name}.json"
        group = {"hypervisors": {"hosts": hosts, "vars": variables}}
        path.write_text(json.dumps(group), encoding="utf-8")
        return str(path)

    def medians(self, commands: t.Mapping[str, Command], rounds: int) -> Figures:
        """Seconds of each, which take turns; the first turn does not count."""
        timings: dict[str, list[float]] = {name: [] for name in commands}
        for turn in range(rounds + 1):
            for name, command in commands.items():
                seconds = self._run(command)
                if turn:
                    timings[name].append(seconds)
        return {name: statistics.median(some) for name, some in timings.items()}

    def _run(self, command: Command) -> float:
        program = str(Path(sys.executable).parent / command[0])
        started = time.perf_counter()
        done = subprocess.run(
            [program, *command[1:]],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.perf_counter() - started
        if done.returncode or "no answer" in done.stdout:
            raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        return seconds


def _read(inventory: str, playbook: str = "list", *words: str) -> Command:
    return ("ansible-playbook", "-i", inventory, f"fleet.virt.{playbook}", *words)


def documents(bench: Bench, number: int, rounds: int) -> Figures:
    """Each playbook over so many documents, and the floor ("empty")."""
    hosts = {}
    for index in range(number):
        path = bench.folder / f"{index}.xml"
        path.write_text(_DOCUMENT.format(number=index), encoding="utf-8")
        hosts[f"hv{index}"] = {"virt_inventory_uri": f"test://{path}"}
    inventory = bench.inventory("documents", hosts)
    commands = {name: _read(inventory, name) for name in PLAYBOOKS}
    commands["empty"] = ("ansible-playbook", "-i", inventory, "empty.yml")
    return bench.medians(commands, rounds)


def laboratory(bench: Bench, lab: t.Any, connections: int, rounds: int) -> Figures:
    """``list`` on two hypervisors over TLS and by the module, and by many connections.

    :param lab: a tests.lab.laboratory.Laboratory with two hypervisors that are up.
    """
    from tests.integration.support import tls

    names = ("hv1", "hv2")
    with tls.trusting(lab, names) as authority:
        keys = tls.client(authority, bench.folder / "keys")
        uri = f"qemu+tls:///system?pkipath={keys}"
        hosts = {name: {"ansible_host": lab.host(name).address} for name in names}
        both = bench.inventory("both", hosts, virt_inventory_uri=uri)
        one = bench.inventory("one", {"hv1": hosts["hv1"]}, virt_inventory_uri=uri)
        several = {f"hv{index}": hosts[names[index % 2]] for index in range(connections)}
        many = bench.inventory("many", several, virt_inventory_uri=uri)
        usual = str(lab.inventory)
        return bench.medians(
            {
                "two over TLS": _read(both),
                "two by the module": _read(usual),
                "ping": ("ansible", "-i", usual, "hypervisors", "-m", "ansible.builtin.ping"),
                "one connection": _read(one),
                "many connections": _read(many),
            },
            rounds,
        )


def excesses(found: t.Mapping[str, Figures]) -> list[str]:
    """The limits that are exceeded, in words."""
    pairs = {
        "documents": ("list", "empty"),
        "hypervisors": ("two over TLS", "ping"),
        "connections": ("many connections", "one connection"),
    }
    problems = []
    for what, (name, floor) in pairs.items():
        for figures in found.values():
            if name in figures and figures[name] > LIMITS[what] * figures[floor]:
                ratio = figures[name] / figures[floor]
                problems.append(f"{name}: {ratio:.2f} > {LIMITS[what]} times {floor}")
    return problems


def table(figures: Figures) -> str:
    """The figures for people, one line each."""
    return "\n".join(f"{seconds:7.2f} s  {name}" for name, seconds in figures.items())


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=100)
    parser.add_argument("--connections", type=int, default=20)
    parser.add_argument("--lab", help="a laboratory that is up")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    found: dict[str, Figures] = {}
    with tempfile.TemporaryDirectory(prefix="fleet-virt-reading-") as name:
        bench = Bench(Path(name))
        found["documents"] = documents(bench, options.documents, options.rounds)
        print(f"{options.documents} documents\n{table(found['documents'])}", flush=True)
        if options.lab:
            sys.path[:0] = [str(bench.folder / "collections"), str(CHECKOUT)]
            from tests.lab.laboratory import Laboratory

            lab = Laboratory(options.lab)
            found["lab"] = laboratory(bench, lab, options.connections, options.rounds)
            print(f"laboratory\n{table(found['lab'])}")
    exceeded = excesses(found)
    for line in exceeded:
        print(f"limit exceeded: {line}", file=sys.stderr)
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
