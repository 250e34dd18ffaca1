#!/usr/bin/env python3
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fill a cluster with VMs of one size, beside hspace of Ganeti's htools (Debian: ganeti-htools).

  python3 tests/benchmarks/filling.py [--nodes 40 100] [--without-hspace]

Both get the same cluster of shared storage, ten VMs a node on average, and VMs of 8 GiB with 4
vCPUs until none fits: CPU seconds, VMs placed, and the ratios. hspace gets it as a file in its text
format, with --no-capacity-checks: what N+1 costs is not compared.
"""

from __future__ import annotations

import argparse
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import typing as t
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from placement import HOST_TYPES, VM_TYPES, library, pick

_VCPU_RATIO = 4
_MEMORY, _VCPUS, _DISK = 8192, 4, 80 << 10


class Node(t.NamedTuple):
    """A node: what it has, in MiB and CPUs, and what its VMs take of it."""

    name: str
    memory: int
    reserved: int
    disk: int
    cpus: int
    used_memory: int
    used_cpus: int


class Vm(t.NamedTuple):
    """A VM and where it is."""

    name: str
    memory: int
    disk: int
    cpus: int
    node: str
    tag: str


def cluster(count: int, seed: int) -> tuple[list[Node], list[Vm]]:
    """``count`` nodes, some of them empty, the others unevenly full."""
    rng = random.Random(seed)  # noqa: S311
    types, weights = [], []
    for _ in range(count):
        memory, cpus, disk = pick(rng, HOST_TYPES)
        types.append((memory, 8192 if memory == HOST_TYPES[2][0] else 4096, disk, cpus))
        weights.append(0.0 if rng.random() < 0.10 else rng.uniform(0.2, 1.8))
    used = [(0, 0)] * count
    vms = []
    for number in range(count * 10):
        memory, vcpus, disk = pick(rng, VM_TYPES)
        for _ in range(50):
            node = rng.choices(range(count), weights=weights)[0]
            has, reserved, _disk, cpus = types[node]
            after = used[node][0] + memory, used[node][1] + vcpus
            if after[0] <= (has - reserved) * 0.9 and after[1] <= cpus * _VCPU_RATIO:
                break
        else:
            continue
        used[node] = after
        tag = f"app:svc{number // 10:06d}" if number % 10 < 3 else ""
        vms.append(Vm(f"vm{number:06d}", memory, disk, vcpus, f"node{node:05d}", tag))
    nodes = [Node(f"node{i:05d}", *types[i], *used[i]) for i in range(count)]
    return nodes, vms


def text(nodes: t.Sequence[Node], vms: t.Sequence[Vm]) -> str:
    """The cluster in the text format of htools."""
    spec = f"4096,2,40960,1,1,1|128,1,1024,1,1,0;65536,16,1048576,16,8,12|ext|{_VCPU_RATIO}.0|64.0"
    group = "group000"
    sections = [
        [f"{group}|uuid|preferred||"],
        [
            f"{one.name}|{one.memory}|{one.reserved}|{one.memory - one.reserved - one.used_memory}"
            f"|{one.disk}|{one.disk}|{one.cpus}|N|uuid|64||N|0|0|1.0"
            for one in nodes
        ],
        [
            f"{one.name}|{one.memory}|{one.disk}|{one.cpus}|running|Y|{one.node}||ext|{one.tag}"
            "|1|-|N"
            for one in vms
        ],
        ["htools:iextags:app"],
        [f"|{spec}", f"{group}|{spec}"],
    ]
    return "\n\n".join("\n".join(lines) for lines in sections) + "\n"


def hosts_of(nodes: t.Sequence[Node]) -> list[library.PlacementHost]:
    """The cluster as placement sees it."""
    return [
        library.host_from_info(
            {
                "name": node.name,
                "domain_types": ["kvm"],
                "arch": "x86_64",
                "cpu": {"total": node.cpus, "defined": node.used_cpus},
                "memory_mib": {"total": node.memory, "defined": node.used_memory},
                "pools": [],
                "networks": [],
                "maintenance": False,
                "vms": [],
            },
            {"virt_memory_reserve": f"{node.reserved}MiB", "virt_vcpu_ratio": _VCPU_RATIO},
        )
        for node in nodes
    ]


def fill(nodes: t.Sequence[Node]) -> tuple[float, int]:
    """CPU seconds, from facts to answers, and how many VMs were placed of more than fit."""
    most = sum(node.memory // _MEMORY for node in nodes)
    requests = [library.Request(f"new{number:06d}", _VCPUS, _MEMORY) for number in range(most)]
    before = time.process_time()
    found = library.place(hosts_of(nodes), requests)
    return time.process_time() - before, sum(one.host is not None for one in found)


def hspace(nodes: t.Sequence[Node], vms: t.Sequence[Vm]) -> tuple[float, int]:
    """The same of hspace."""
    with tempfile.NamedTemporaryFile("w", suffix=".data") as file:
        file.write(text(nodes, vms))
        file.flush()
        size = f"{_DISK >> 10}g,{_MEMORY >> 10}g,{_VCPUS}"
        before = _children()
        done = subprocess.run(
            f"hspace -t {file.name} --machine-readable --disk-template ext --standard-alloc {size}"
            " --no-capacity-checks".split(),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    said = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    return _children() - before, int(said["HTS_ALLOC_INSTANCES"].strip("'\""))


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print one line a cluster."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[40, 100])
    parser.add_argument("--without-hspace", action="store_true")
    parser.add_argument("--seed", type=int, default=42)
    args = parser.parse_args()
    if not args.without_hspace and shutil.which("hspace") is None:
        parser.error(
            "missing: ganeti-htools (hspace, to compare with); as root: apt-get install"
            " --no-install-recommends ganeti-htools, or give --without-hspace"
        )
    print(f"{'nodes':>6} {'VMs':>6} {'CPU s':>8} {'hspace VMs':>11} {'CPU s':>8} {'ratio':>7}")
    for count in args.nodes:
        nodes, vms = cluster(count, args.seed)
        seconds, placed = fill(nodes)
        line = f"{count:>6} {placed:>6} {seconds:>8.3f}"
        if not args.without_hspace:
            theirs, others = hspace(nodes, vms)
            line += f" {others:>11} {theirs:>8.2f} {theirs / seconds:>6.0f}x"
        print(line)


if __name__ == "__main__":
    main()
