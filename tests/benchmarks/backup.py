#!/usr/bin/env python3
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backups of VMs that run, against plain ``borg create`` of the same disks in the same run.

    .venv/bin/python tests/benchmarks/backup.py [--rounds 3] [--size 1024] [--vms 1] [--lab NAME]
        [--encryption repokey-blake2]
    .venv/bin/python tests/benchmarks/backup.py --repositories [--image FILE] [--written 64]

In a laboratory of one hypervisor, of its own or one that is up, VMs run on an overlay and a disk of
SIZE MiB of random numbers. In each round their repositories are new; they are saved twice by the
playbook ``backup``, and their disks twice by ``borg create`` with the same chunker and compression,
as raw files that were made before, in turn, with the same priority, by SSH to the same server. Of
both, the wall time of the command on the controller, and the CPU time of all processes of the
hypervisor (which is the server as well, without the guests' own) and of the controller. Printed are
medians.

Limits, exit status 1 where one is exceeded: 1.3 times the wall or the CPU time of plain borg, first
and second, plus 2 s a VM; 5 MiB more in the repository of a VM that has not changed.

With ``--repositories`` no laboratory is needed: ten disks with the content of one image, and
WRITTEN MiB of their own each, are saved to one repository each and to one of all, and again after a
quarter of that was written; the size, the largest memory of borg, and the time of both.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
import typing as t
from collections.abc import Callable
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
os.environ.setdefault("ANSIBLE_COLLECTIONS_PATH", str(CHECKOUT / ".venv" / "collections"))
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / ".venv" / "collections")]

from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible
from ansible_collections.fleet.virt.tests.integration.support.guests import IMAGES, Guests
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

TIMES_LIMIT, SECONDS_LIMIT, MIB_LIMIT = 1.3, 2.0, 5.0
TURNS = ("first", "second")
_MIB = 1024 * 1024
_HOST = "hv1"
_PLACE, _PLAIN, _RAW = "/srv/bench/ours", "/srv/bench/plain", "/srv/bench/raw"
_SECRET = "of no use"  # noqa: S105
_CREATE = (
    *("create", "--sparse", "--numeric-ids", "--chunker-params", "fixed,262144"),
    *("--files-cache=disabled", "--compression", "lz4"),
)
_DISK = f"""
<disk type='file' device='disk'><driver name='qemu' type='qcow2'/>
<source file='{IMAGES}/{{}}-data.qcow2'/><target dev='vdb' bus='virtio'/></disk>
"""
_KEYS = """
mkdir -p -m 700 /root/.ssh; cd /root/.ssh
[ -f id_ed25519 ] || ssh-keygen -q -t ed25519 -N '' -f id_ed25519
cat id_ed25519.pub >> authorized_keys
ssh-keyscan -t ed25519 {address} >> known_hosts 2>/dev/null
"""
_FILL = f"""
dd if=/dev/urandom of=/var/tmp/random bs=1M count={{size}} status=none
qemu-img convert -f raw -O qcow2 /var/tmp/random {IMAGES}/{{name}}-data.qcow2
rm /var/tmp/random
"""
_RAW_FILES = f"""
mkdir -p {_RAW}/{{name}}
qemu-img convert -U -f qcow2 -O raw {IMAGES}/{{name}}.qcow2 {_RAW}/{{name}}/vda.raw
qemu-img convert -U -f qcow2 -O raw {IMAGES}/{{name}}-data.qcow2 {_RAW}/{{name}}/vdb.raw
"""
_NEW = f"""
rm -rf {_PLACE} {_PLAIN} /var/cache/fleet-virt/borg /root/.cache/borg
mkdir -p {_PLACE} {_PLAIN}
"""
# All processes there are, and those that have ended and were waited for; without guests' own time
_CPU = """
import glob, os
ticks = 0
for path in glob.glob("/proc/[0-9]*/stat"):
    try:
        fields = open(path).read().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
        for thread in glob.glob(path[:-4] + "task/*/comm"):
            if open(thread).read().startswith("CPU "):
                words = open(thread[:-4] + "stat").read().rpartition(")")[2].split()
                ticks -= int(words[11]) + int(words[12])
    except OSError:
        continue
print(ticks / os.sysconf("SC_CLK_TCK"))
"""


class Cost(t.NamedTuple):
    """Seconds by the clock and of processors, and the MiB that a VM's repository grew."""

    wall: float
    cpu: float
    added: float = 0.0


class Bench:
    """The hypervisor, its VMs, and both ways to save them."""

    def __init__(self, lab: Laboratory, folder: Path, size: int, vms: int, encryption: str) -> None:
        self.lab, self.size, self.encryption = lab, size, encryption
        self.ansible = Ansible(lab.inventory, folder)
        self.guests = Guests(lab)
        self.names = [f"bench{number}" for number in range(vms)]
        self.address = lab.host(_HOST).address

    def make(self) -> None:
        """The VMs, and their disks as raw files."""
        self.guests.script(_HOST, _KEYS.format(address=self.address))
        for name in self.names:
            self.guests.script(_HOST, _FILL.format(size=self.size, name=name), limit=600)
            self.guests.define(_HOST, name, start=True, devices=_DISK.format(name))
        for name in self.names:
            self.guests.wait_agent(_HOST, name)
            self.guests.script(_HOST, _RAW_FILES.format(name=name), limit=600)

    def remove(self) -> None:
        """All that was made."""
        self.guests.remove_all()
        self.guests.script(_HOST, f"rm -rf /srv/bench {IMAGES}/bench*-data.qcow2")

    def new(self) -> None:
        """Repositories without anything in them."""
        self.guests.script(_HOST, _NEW)
        for name in self.names:
            self._borg("init", "--encryption", self.encryption, self._plain(name))

    def _plain(self, name: str) -> str:
        return f"ssh://root@{self.address}{_PLAIN}/{name}"

    def _borg(self, *words: str, folder: str = "/") -> None:
        script = f"cd {folder}; BORG_PASSPHRASE={shlex.quote(_SECRET)} nice -n 10 borg "
        self.guests.script(_HOST, script + shlex.join(words), limit=1800)

    def plain(self, turn: str) -> Cost:
        """By borg alone."""

        def save() -> None:
            for name in self.names:
                where = f"{self._plain(name)}::{turn}"
                self._borg(*_CREATE, where, "vda.raw", "vdb.raw", folder=f"{_RAW}/{name}")

        return self._cost(save, _PLAIN)

    def ours(self, _turn: str) -> Cost:
        """By the playbook."""

        def save() -> None:
            variables = {
                "virt_names": ",".join(self.names),
                "virt_backup_to": f"ssh://root@{self.address}{_PLACE}",
                "virt_backup_passphrase": _SECRET,
            }
            done = self.ansible.playbook("backup", variables, limit=1800).succeeded()
            if len(re.findall(r" saved ", done.stdout)) != len(self.names):
                raise SystemExit(str(done))

        return self._cost(save, _PLACE)

    def _cost(self, save: Callable[[], None], place: str) -> Cost:
        size, cpu = self._size(place), self._cpu()
        began = time.monotonic()
        save()
        wall = time.monotonic() - began
        return Cost(wall, self._cpu() - cpu, (self._size(place) - size) / _MIB / len(self.names))

    def _cpu(self) -> float:
        """CPU seconds so far, of the hypervisor and of what the controller ran."""
        own = resource.getrusage(resource.RUSAGE_CHILDREN)
        there = float(self.lab.python(_HOST, _CPU, []).stdout)
        return there + own.ru_utime + own.ru_stime

    def _size(self, place: str) -> int:
        return int(self.guests.script(_HOST, f"du -sb {place}").split()[0])


Costs = dict[tuple[str, str], list[Cost]]


def measure(bench: Bench, rounds: int) -> Costs:
    """Both ways in turn."""
    costs: Costs = {}
    for number in range(rounds):
        bench.new()
        ways = {"borg": bench.plain, "backup": bench.ours}
        for turn in TURNS:
            for way in sorted(ways, reverse=number % 2 == 0):
                cost = ways[way](turn)
                print(f"{turn}, {way}: {cost.wall:.2f} s, {cost.cpu:.2f} s", file=sys.stderr)
                costs.setdefault((turn, way), []).append(cost)
    return costs


def median(costs: Costs, turn: str, way: str) -> Cost:
    """Of each figure."""
    return Cost(*(statistics.median(values) for values in zip(*costs[turn, way])))


def excesses(costs: Costs, vms: int) -> list[str]:
    """The limits that are exceeded, in words."""
    exceeded = []
    for turn in TURNS:
        ours, plain = median(costs, turn, "backup"), median(costs, turn, "borg")
        for what, one, other in (("wall", ours.wall, plain.wall), ("CPU", ours.cpu, plain.cpu)):
            ratio = (one - SECONDS_LIMIT * vms) / other
            if ratio > TIMES_LIMIT:
                exceeded.append(
                    f"{turn}: {ratio:.2f} times the {what} time of borg, without 2 s a VM"
                )
    added = median(costs, "second", "backup").added
    if added > MIB_LIMIT:
        exceeded.append(f"{added:.1f} MiB more in the repository of a VM that has not changed")
    return exceeded


def table(costs: Costs, vms: int) -> str:
    """The figures, and the ratios without the seconds that a VM may cost."""
    lines = [
        "        wall: backup    borg  ratio    CPU: backup    borg  ratio    more in repository"
    ]
    for turn in TURNS:
        ours, plain = median(costs, turn, "backup"), median(costs, turn, "borg")
        more = SECONDS_LIMIT * vms
        lines.append(
            f"{turn:12}{ours.wall:8.2f}{plain.wall:8.2f}{(ours.wall - more) / plain.wall:7.2f}"
            f"{ours.cpu:15.2f}{plain.cpu:8.2f}{(ours.cpu - more) / plain.cpu:7.2f}"
            f"{ours.added:13.1f} MiB"
        )
    return "\n".join(lines)


class Repositories(t.NamedTuple):
    """What saving all disks once cost: bytes of the repositories, the largest memory of a borg."""

    size: int
    memory_mib: float
    wall: float
    cpu: float


def disks(folder: Path, image: Path, count: int, written: int) -> list[Path]:
    """Raw files with the same image, each with MiB of its own at places of its own."""
    first, numbers = folder / "0.raw", random.Random(1)  # noqa: S311
    subprocess.run(["qemu-img", "convert", "-O", "raw", image, first], check=True)
    paths = [folder / f"{number}.raw" for number in range(count)]
    for path in paths[1:]:
        subprocess.run(["cp", "--sparse=always", first, path], check=True)
    for path in paths:
        write(path, written, numbers)
    return paths


def write(path: Path, mib: int, numbers: random.Random) -> None:
    """Random numbers at random places of a disk, 64 KiB each."""
    block = 64 * 1024
    with path.open("r+b") as file:
        for _ in range(mib * _MIB // block):
            file.seek(numbers.randrange(path.stat().st_size // block) * block)
            file.write(numbers.randbytes(block))


def save_all(folder: Path, paths: t.Sequence[Path], repositories: t.Sequence[Path]) -> Repositories:
    """Save each disk to its repository; those of one VM may be that of another."""
    borg = {**os.environ, "BORG_PASSPHRASE": _SECRET, "BORG_BASE_DIR": str(folder / "base")}
    archive = str(time.monotonic_ns())
    memory, cpu, began = 0.0, 0.0, time.monotonic()
    for path, repository in zip(paths, repositories):
        if not repository.exists():
            words = ["borg", "init", "--encryption", "repokey-blake2", str(repository)]
            subprocess.run(words, check=True, env=borg, stderr=subprocess.DEVNULL)
        words = ["borg", *_CREATE, f"{repository}::{archive}-{path.stem}", path.name]
        running = subprocess.Popen(words, cwd=folder, env=borg)
        _pid, status, used = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
        if running.returncode:
            raise SystemExit(f"borg create ended with {running.returncode}")
        memory = max(memory, used.ru_maxrss / 1024)
        cpu += used.ru_utime + used.ru_stime
    wall = time.monotonic() - began
    size = sum(
        file.stat().st_size
        for repository in set(repositories)
        for file in repository.rglob("*")
        if file.is_file()
    )
    return Repositories(size, memory, wall, cpu)


def compare_repositories(folder: Path, image: Path, written: int, count: int = 10) -> str:
    """One repository a VM, and one of all, twice; a table."""
    paths = disks(folder, image, count, written)
    numbers = random.Random(2)  # noqa: S311
    lines = [f"{'':24}{'MiB':>8}{'memory':>9}{'wall':>9}{'CPU':>9}"]
    ways = {
        "one a VM": [folder / f"repository-{path.stem}" for path in paths],
        "one of all": [folder / "repository"] * count,
    }
    for turn in TURNS:
        for way, repositories in ways.items():
            cost = save_all(folder, paths, repositories)
            lines.append(
                f"{turn}, {way:16}{cost.size / _MIB:8.0f}{cost.memory_mib:9.0f}"
                f"{cost.wall:9.1f}{cost.cpu:9.1f}"
            )
        for path in paths:
            write(path, written // 4, numbers)
    return "\n".join(lines)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=1024, help="MiB of the disk of each VM")
    parser.add_argument("--vms", type=int, default=1)
    parser.add_argument(
        "--encryption", default="repokey-blake2", help="mode of plain borg's repositories"
    )
    parser.add_argument("--lab", help="a laboratory that is up")
    parser.add_argument("--repositories", action="store_true")
    parser.add_argument("--image", type=Path, help="by default the laboratory's Debian")
    parser.add_argument("--written", type=int, default=64, help="MiB of each VM's own")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fleet-virt-backup-") as folder:
        if options.repositories:
            command = [sys.executable, "-m", "tests.lab.images", "debian"]
            made = (
                subprocess.run(command, cwd=CHECKOUT, check=True, stdout=subprocess.PIPE, text=True)
                if options.image is None
                else None
            )
            image = options.image if made is None else Path(made.stdout.split()[-1])
            print(compare_repositories(Path(folder), image, options.written))
            return 0
        lab = Laboratory(
            options.lab or f"backup{os.getpid()}", None if options.lab else os.getpid()
        )
        if not options.lab:
            lab.up(1)
        bench = Bench(lab, Path(folder), options.size, options.vms, options.encryption)
        try:
            bench.make()
            costs = measure(bench, options.rounds)
        finally:
            bench.remove()
            if not options.lab:
                lab.down()
    print(table(costs, options.vms))
    exceeded = excesses(costs, options.vms)
    for line in exceeded:
        print(f"limit exceeded: {line}", file=sys.stderr)
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
