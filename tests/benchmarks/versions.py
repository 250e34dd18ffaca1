#!/usr/bin/env python3
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every verb costs in two checkouts of the collection, on a laboratory that is up.

    .venv/bin/python tests/benchmarks/versions.py OLD NEW --lab NAME [--rounds 9] [--only VERB,...]
        [--lacks VERB,...]

OLD and NEW are checkouts. In each round the same commands are run by the collection of OLD, of OLD
once more, and of NEW, in another order each time, with the same Ansible, on the same two
hypervisors: a VM is predicted, made, asked for again, stopped, moved, started and removed, also by
a module alone, and the fleet is read, by the modules and over TLS. ``--batch 50`` makes and removes
so many in the first ``--batch-rounds``. Beside them are Ansible's ping, an empty play, and the same
VM by ``qemu-img``, ``virsh define`` and ``virsh start``. Guests have empty disks, so that they take
no time of the processors.

Printed are, of each command as a whole, medians and minima of the wall time, and medians of the CPU
time of the controller (user and system of the command and what it waited for), which says more on a
machine that others use: NEW as a multiple of OLD, and in brackets the spread, which is OLD once
more as a multiple of OLD. Exit status 1 where NEW takes 5 % more CPU time than OLD, and more than
the spread.
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
from collections.abc import Callable, Sequence
from pathlib import Path

import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / ".venv" / "collections")]

from ansible_collections.fleet.virt.tests.integration.support import tls
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

_MORE = 1.05
ARMS = ("old", "again", "new")
_HOSTS = ("hv1", "hv2")
_OFF = "name=bench-hv1 state=shutoff force=true shutdown_timeout=1"
_SSH_ARGS = "-C -o ControlMaster=auto -o ControlPersist=600s"
_ALONE = "name=bench-alone memory=64 start=false seed=false"
_EMPTY = "- hosts: hypervisors\n  gather_facts: false\n  tasks: []\n"
_PREPARE = """
mkdir -p /var/lib/libvirt/images
virsh -q pool-info default >/dev/null 2>&1 || {
  virsh -q pool-define-as default dir --target /var/lib/libvirt/images; virsh -q pool-start default
}
mkdir -p /etc/pki/qemu && cd /etc/pki/qemu
cp ../CA/cacert.pem ca-cert.pem
for side in server client; do
  cp ../libvirt/${side}cert.pem $side-cert.pem; cp ../libvirt/private/${side}key.pem $side-key.pem
done
chown -R libvirt-qemu . 2>/dev/null || true
"""
_RAW = r"""
set -e
base=$(ls /var/lib/libvirt/base/*blank* | head -n 1)
qemu-img create -q -f qcow2 -b "$base" -F qcow2 /var/lib/libvirt/images/benchraw.qcow2 1G
cat > /run/benchraw.xml <<XML
<domain type='qemu'><name>benchraw</name><memory unit='MiB'>64</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='q35'>hvm</type></os>
<features><acpi/><tcg><tb-cache unit='MiB'>32</tb-cache></tcg></features>
<devices><disk type='file' device='disk'><driver name='qemu' type='qcow2' cache='none'/>
<source file='/var/lib/libvirt/images/benchraw.qcow2'/><target dev='vda' bus='virtio'/></disk>
<interface type='bridge'><source bridge='br0'/><model type='virtio'/></interface>
<serial type='pty'/></devices></domain>
XML
virsh define /run/benchraw.xml >/dev/null
virsh start benchraw >/dev/null
"""
_SWEEP = r"""
for name in $(virsh list --all --name | grep ^bench); do
  virsh destroy $name >/dev/null 2>&1
  virsh undefine $name --nvram >/dev/null
  rm -f /var/lib/libvirt/images/$name[_.]*
done
virsh pool-refresh default >/dev/null 2>&1 || true
"""


class Cost(t.NamedTuple):
    """Seconds of a command: of the clock, and of the controller's processors."""

    wall: float
    cpu: float


Costs = dict[str, dict[str, list[Cost]]]  # of each verb, by arm


class Bench:
    """The commands, in a folder of their own."""

    def __init__(self, lab: Laboratory, arms: dict[str, Path], folder: Path) -> None:
        self.lab = lab
        self.folder = folder
        self.arms = arms
        self.costs: Costs = {}
        for arm, checkout in arms.items():
            link = folder / arm / "ansible_collections" / "fleet" / "virt"
            link.parent.mkdir(parents=True)
            link.symlink_to(checkout, target_is_directory=True)
        (folder / "empty.yml").write_text(_EMPTY, encoding="utf-8")
        blank = ("qemu-img", "create", "-q", "-f", "qcow2", str(folder / "blank.qcow2"), "1G")
        subprocess.run(blank, check=True)
        self.inventory = str(folder / "lab")
        (folder / "lab").mkdir()
        for path in Path(lab.inventory).iterdir():
            (folder / "lab" / path.name).symlink_to(path)
        (folder / "guests").mkdir()
        for path in Path(lab.inventory).iterdir():
            (folder / "guests" / path.name).symlink_to(path)
        plugin = json.dumps({"plugin": "fleet.virt.virt"})
        (folder / "guests" / "zz.virt.yml").write_text(plugin, encoding="utf-8")

    def reached(self, pkipath: Path) -> None:
        """Inventories of hypervisors that the controller reaches over TLS, and of documents."""
        uri = f"qemu+tls:///system?pkipath={pkipath}"
        read = next(Path(self.lab.inventory).iterdir()).read_text(encoding="utf-8")
        hosts = yaml.safe_load(read)["hypervisors"]["hosts"]
        many = {f"hv{number}": hosts[_HOSTS[number % 2]] for number in range(20)}
        for name, some in (("tls", hosts), ("one", {"hv1": hosts["hv1"]}), ("many", many)):
            self._inventory(name, some, virt_inventory_uri=uri)
        documents = {}
        for number in range(100):
            path = self.folder / f"{number}.xml"
            path.write_text(
                f"<node><domain type='test'><name>vm{number}</name><memory unit='MiB'>512</memory>"
                "<vcpu>1</vcpu><os><type>hvm</type></os></domain></node>"
            )
            documents[f"hv{number}"] = {"virt_inventory_uri": f"test://{path}"}
        self._inventory("documents", documents)

    def _inventory(self, name: str, hosts: dict[str, dict[str, str]], **variables: str) -> None:
        group = {"hypervisors": {"hosts": hosts, "vars": variables}}
        (self.folder / f"{name}.json").write_text(json.dumps(group), encoding="utf-8")

    def command(self, arm: str, *words: str) -> Cost:
        """One of Ansible's programs."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
        environment = {
            **kept,
            "ANSIBLE_COLLECTIONS_PATH": str(self.folder / arm),
            "ANSIBLE_FORKS": "50",
            "ANSIBLE_HOME": str(self.folder / "home"),
            "ANSIBLE_PIPELINING": "true",
            "ANSIBLE_SSH_ARGS": _SSH_ARGS,
            "LC_ALL": "C.UTF-8",
        }
        program = str(Path(sys.executable).parent / words[0])
        with tempfile.TemporaryFile("w+") as output:
            began = time.perf_counter()
            process = subprocess.Popen(
                [program, *words[1:]],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            _pid, status, usage = os.wait4(process.pid, 0)
            wall = time.perf_counter() - began
            process.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            text = output.read()
        if process.returncode or "no answer" in text:
            raise SystemExit(f"{arm}: {' '.join(words)}\n{text}")
        return Cost(wall, usage.ru_utime + usage.ru_stime)

    def play(
        self, arm: str, name: str, inventory: str = "lab", check: bool = False, **variables: object
    ) -> Cost:
        """A playbook of the collection."""
        given = json.dumps(
            {
                "virt_image_dir": str(self.folder),
                "virt_ssh_public_key": f"{self.lab.key}.pub",
                "virt_vcpu_ratio": 100,
                **variables,
            }
        )
        more = ("--check",) if check else ()
        return self.command(
            arm, "ansible-playbook", "-i", inventory, f"fleet.virt.{name}", *more, "-e", given
        )

    def provision(self, arm: str, number: int = 1, check: bool = False, where: str = "") -> Cost:
        """``provision_vm`` of so many."""
        vm = {"memory": 64, "image": "blank.qcow2", "wait": False}
        chosen = {"host": where} if where else {}
        vms = [{"name": f"bench{index}", **vm, **chosen} for index in range(number)]
        return self.play(arm, "provision_vm", check=check, virt_vms=vms)

    def raw(self) -> Cost:
        """The same VM by the tools."""
        began = time.perf_counter()
        self.lab.ssh("hv1", _RAW)
        return Cost(time.perf_counter() - began, 0.0)

    def sweep(self) -> None:
        """Take away what was made."""
        for name in _HOSTS:
            self.lab.ssh(name, _SWEEP)

    def note(self, arm: str, verb: str, cost: Cost, counts: bool) -> None:
        """Keep what a command cost, if its round counts."""
        if counts:
            self.costs.setdefault(verb, {}).setdefault(arm, []).append(cost)


def verbs(bench: Bench, number: int) -> dict[str, Callable[[str], Cost]]:
    """The commands of a round, in order, by name."""
    names = [f"bench{index}" for index in range(number)]
    read = {
        "list": lambda arm: bench.play(arm, "list"),
        "query": lambda arm: bench.play(arm, "query"),
        "host_info": lambda arm: bench.play(arm, "host_info"),
        "inventory": lambda arm: bench.command(arm, "ansible-inventory", "-i", "guests", "--graph"),
        "list by TLS": lambda arm: bench.play(arm, "list", "tls.json"),
        "list by TLS of one": lambda arm: bench.play(arm, "list", "one.json"),
        "list by TLS of twenty": lambda arm: bench.play(arm, "list", "many.json"),
        "list of 100 documents": lambda arm: bench.play(arm, "list", "documents.json"),
    }
    one: dict[str, Callable[[str], Cost]] = {
        "provision_vm --check": lambda arm: bench.provision(arm, check=True),
        "provision_vm": bench.provision,
        "provision_vm again": bench.provision,
        "provision_vm on hv1": lambda arm: bench.play(
            arm,
            "provision_vm",
            vm_name="bench-hv1",
            vm_host="hv1",
            vm_memory=64,
            vm_image="blank.qcow2",
            vm_seed=False,
            vm_wait=False,
        ),
        "virt_init": lambda arm: bench.command(
            arm, "ansible", "-i", "lab", "hv1", "-b", "-m", "fleet.virt.virt_init", "-a", _ALONE
        ),
        "virt_state": lambda arm: bench.command(
            arm, "ansible", "-i", "lab", "hv1", "-b", "-m", "fleet.virt.virt_state", "-a", _OFF
        ),
        "state": lambda arm: bench.play(arm, "state", vm_name="bench-hv1", vm_state="shutoff"),
        "migrate_vm": lambda arm: bench.play(arm, "migrate_vm", vm_name="bench-hv1", vm_host="hv2"),
        "purge_vm": lambda arm: bench.play(arm, "purge_vm", vm_name="bench0", vm_force=True),
        "purge_vm moved": lambda arm: bench.play(arm, "purge_vm", vm_name="bench-hv1"),
    }
    many: dict[str, Callable[[str], Cost]] = {
        f"provision_vm of {number}": lambda arm: bench.provision(arm, number),
        f"list of {number}": read["list"],
        f"state of {number}": lambda arm: bench.play(
            arm, "state", virt_names=names, vm_state="paused"
        ),
        f"purge_vm of {number}": lambda arm: bench.play(
            arm, "purge_vm", virt_names=names, vm_force=True
        ),
    }
    return {**read, **one, **(many if number else {})}


def measure(bench: Bench, options: argparse.Namespace) -> None:
    """All rounds; the one before the first does not count."""
    chosen = verbs(bench, options.batch)
    if options.only:
        chosen = {name: chosen[name] for name in options.only.split(",")}
    arms = list(bench.arms)
    for turn in range(options.rounds + 1):
        order = [arms[(turn + place) % len(arms)] for place in range(len(arms))]
        for arm in order:
            for name, command in chosen.items():
                if name.removesuffix(f" of {options.batch}") in options.lacks and arm != "new":
                    continue
                if name.endswith(f" of {options.batch}") and not 0 < turn <= options.batch_rounds:
                    continue
                bench.note(arm, name, command(arm), turn > 0)
            bench.sweep()
        words = ("-i", "lab", "hypervisors", "-m", "ansible.builtin.ping")
        bench.note("floor", "ansible -m ping", bench.command("new", "ansible", *words), turn > 0)
        for inventory in ("lab", "documents.json"):
            cost = bench.command("new", "ansible-playbook", "-i", inventory, "empty.yml")
            bench.note("floor", f"empty play, {inventory}", cost, turn > 0)
        if turn or not options.only:
            bench.note("floor", "qemu-img, define, start", bench.raw(), turn > 0)
            bench.sweep()
        print(f"round {turn} of {options.rounds}, load {os.getloadavg()[0]:.1f}", file=sys.stderr)


def _figures(costs: Sequence[Cost]) -> tuple[float, float, float]:
    walls = [cost.wall for cost in costs]
    return statistics.median(walls), min(walls), statistics.median(cost.cpu for cost in costs)


def show(costs: Costs) -> list[str]:
    """Print the figures; the verbs that take too long."""
    head = "".join(
        f"{what + ' ' + arm:>16}" for what in ("WALL", "MIN", "CPU") for arm in ("OLD/NEW",)
    )
    print(f"{'VERB':24}{head}   WALL  MIN   CPU, AND SPREAD OF EACH")
    slower = []
    for verb, arms in costs.items():
        if set(arms) != set(ARMS):
            wall, least, cpu = _figures(next(iter(arms.values())))
            print(f"{verb:24}{wall:16.2f}{least:16.2f}{cpu:16.2f}")
            continue
        old, again, new = (_figures(arms[arm]) for arm in ARMS)
        pairs = "".join(
            f"{f'{one:.2f} {other:.2f}':>16}" for one, other in zip(old, new, strict=True)
        )
        ratios = [other / one for one, other in zip(old, new, strict=True)]
        spreads = [other / one for one, other in zip(old, again, strict=True)]
        said = "  ".join(
            f"{ratio:.2f} ({spread:.2f})" for ratio, spread in zip(ratios, spreads, strict=True)
        )
        print(f"{verb:24}{pairs}   {said}")
        if ratios[2] > _MORE + abs(spreads[2] - 1):
            slower.append(f"{verb}: {ratios[2]:.2f} times the CPU time")
    return slower


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--lab", required=True, help="a laboratory of two that is up")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--batch-rounds", type=int, default=3)
    parser.add_argument("--only", help="these verbs")
    parser.add_argument(
        "--lacks", type=lambda words: words.split(","), default=[], help="verbs that OLD has not"
    )
    options = parser.parse_args()
    old, new = options.old.resolve(), options.new.resolve()
    lab = Laboratory(options.lab)
    with tempfile.TemporaryDirectory(prefix="fleet-virt-versions-") as name:
        bench = Bench(lab, {"old": old, "again": old, "new": new}, Path(name))
        bench.sweep()
        with tls.trusting(lab, _HOSTS) as authority:
            for host in _HOSTS:
                lab.ssh(host, _PREPARE)
            bench.reached(tls.client(authority, bench.folder / "keys"))
            try:
                measure(bench, options)
            finally:
                bench.sweep()
                slower = show(bench.costs)  # of what there is
    for line in slower:
        print(f"slower: {line}", file=sys.stderr)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
