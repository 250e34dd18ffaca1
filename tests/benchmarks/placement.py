#!/usr/bin/env python3
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long placement takes, as a multiple of one plain pass over the same hypervisors.

  python3 tests/benchmarks/placement.py [--hosts 40 100 1000 10000] [--batch 1000]

CPU seconds, the best of a few runs. The baseline is a loop that adds up what is promised by what
there is of memory, CPUs and disk on every hypervisor: what any answer must at least look at.
Four figures a fleet: reading the facts (virt_host_info's data to hosts), one VM, a batch of VMs,
and how even the fleet was before and after it (the sum over memory, CPU and disk of the standard
deviation of their ratios); then the most memory that the process has had so far. Fleets are
random, uneven (a tenth of the hosts is empty), and the same for the same seed. It sets no limits.
"""

from __future__ import annotations

import argparse
import math
import random
import resource
import sys
import tempfile
import time
import typing as t
from pathlib import Path

if t.TYPE_CHECKING:
    from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import (
        decide as library,
    )
else:
    _TREE = tempfile.TemporaryDirectory(prefix="fleet-virt-collections-")
    _LINK = Path(_TREE.name) / "ansible_collections" / "fleet" / "virt"
    _LINK.parent.mkdir(parents=True)
    _LINK.symlink_to(Path(__file__).resolve().parents[2], target_is_directory=True)
    sys.path.insert(0, _TREE.name)
    from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import (
        decide as library,
    )

# memory MiB, CPUs, disk MiB, how often
HOST_TYPES = [(131072, 32, 4 << 20, 5), (262144, 64, 8 << 20, 4), (393216, 64, 8 << 20, 1)]
# memory MiB, vCPUs, disk MiB, how often
VM_TYPES = [
    (2048, 1, 20480, 3),
    (4096, 2, 40960, 4),
    (8192, 4, 81920, 3),
    (16384, 4, 163840, 2),
    (32768, 8, 327680, 1),
]


def pick(rng: random.Random, table: t.Sequence[tuple[int, int, int, int]]) -> tuple[int, int, int]:
    """One row of the table, as often as its last column says."""
    memory, cpus, disk, _weight = rng.choices(table, weights=[row[-1] for row in table])[0]
    return memory, cpus, disk


def fleet(count: int, seed: int) -> list[dict[str, t.Any]]:
    """What virt_host_info would return of ``count`` hypervisors with ten VMs each, on average."""
    rng = random.Random(seed)  # noqa: S311
    infos = []
    for index in range(count):
        memory, cpus, disk = pick(rng, HOST_TYPES)
        wanted = 0 if rng.random() < 0.1 else rng.randint(2, 18)
        vms = []
        used = [0, 0, 0]
        for number in range(wanted):
            needs = pick(rng, VM_TYPES)
            if used[0] + needs[0] > memory * 0.9 or used[1] + needs[1] > cpus * 4:
                break
            used = [before + need for before, need in zip(used, needs)]
            service = f"svc{(index * 10 + number) // 30:05}"
            vms.append({"name": f"vm{index:05}-{number}", "groups": ["linux", service]})
        infos.append(
            {
                "name": f"hv{index:05}",
                "domain_types": ["kvm", "qemu"],
                "arch": "x86_64",
                "cpu": {"total": cpus, "defined": used[1]},
                "memory_mib": {"total": memory, "defined": used[0]},
                "pools": [
                    {
                        "name": name,
                        "state": "running",
                        "path": f"/var/lib/libvirt/{folder}",
                        "capacity_mib": disk,
                        "available_mib": disk - used[2] // 2,
                        "promised_mib": promised,
                    }
                    for name, folder, promised in (
                        ("default", "images", used[2]),
                        ("base", "base", 8192),
                    )
                ],
                "networks": [{"name": "default", "active": True, "bridge": "virbr0"}],
                "bridges": ["br0", "virbr0"],
                "maintenance": False,
                "vms": vms,
                "images": ["debian"] if index % 3 else [],
            }
        )
    return infos


def batch(count: int, seed: int) -> list[library.Request]:
    """That many VMs, every third of them apart from its two fellows."""
    rng = random.Random(seed)  # noqa: S311
    requests = []
    for index in range(count):
        memory, vcpus, disk = pick(rng, VM_TYPES)
        service = f"new{index // 3}"
        requests.append(
            library.Request(
                f"new{index:05}",
                vcpus,
                memory,
                disks=(library.DiskNeed("default", disk),),
                bridges=("br0",),
                groups=("linux", service),
                anti_affinity=(service,),
                image="debian",
                image_mib=400,
            )
        )
    return requests


Result = t.TypeVar("Result")


def timed(function: t.Callable[..., Result], *args: t.Any) -> tuple[float, Result]:
    """CPU seconds of the fastest of up to five runs, fewer if they take long, and the result."""
    best, started = math.inf, time.process_time()
    for _ in range(5):
        before = time.process_time()
        result = function(*args)
        best = min(best, time.process_time() - before)
        if time.process_time() - started > 1.0:
            break
    return best, result


def read_all(infos: t.Sequence[t.Mapping[str, t.Any]]) -> list[library.PlacementHost]:
    """From facts to hosts."""
    return [library.host_from_info(info, {}) for info in infos]


def one_sum(infos: t.Sequence[t.Mapping[str, t.Any]]) -> float:
    """The baseline: one plain look at every hypervisor."""
    total = 0.0
    for info in infos:
        memory, cpu, pool = info["memory_mib"], info["cpu"], info["pools"][0]
        total += memory["defined"] / memory["total"]
        total += cpu["defined"] / cpu["total"]
        total += pool["promised_mib"] / pool["capacity_mib"]
    return total


def unevenness(load: library.FleetLoad) -> float:
    """The sum of the standard deviations of the ratios of memory, CPU and disk."""
    measures = [load.memory, load.cpu, load.disk["default"]]
    return sum(math.sqrt(measure.value() / measure.count) for measure in measures)


def mebibytes() -> int:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def main() -> None:
    """Print one line a fleet."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hosts", type=int, nargs="+", default=[40, 100, 1000, 10000])
    parser.add_argument("--batch", type=int, default=1000, help="VMs in a batch")
    parser.add_argument("--seed", type=int, default=42)
    args = parser.parse_args()
    print("CPU seconds (and multiples of one plain pass over the same hosts)")
    head = f"{'hosts':>6} {'pass':>9} {'read':>18} {'one VM':>18} {f'{args.batch} VMs':>20}"
    print(f"{head} {'placed':>7} {'uneven before -> after':>24} {'MiB':>5}")
    for count in args.hosts:
        infos, requests = fleet(count, args.seed), batch(args.batch, args.seed)
        base, _ = timed(one_sum, infos)
        read, hosts = timed(read_all, infos)
        one, _ = timed(library.place, hosts, requests[:1])
        many, found = timed(library.place, hosts, requests)
        load = library.FleetLoad(hosts, library.Policy())
        before = unevenness(load)
        placed = 0
        for placement, request in zip(found, requests):
            if placement.host is not None:
                load.add(placement.host, request)
                placed += 1
        print(
            f"{count:>6} {base:>9.6f} {read:>9.4f} ({read / base:>5.0f}x) {one:>9.4f} "
            f"({one / base:>5.0f}x) {many:>9.4f} ({many / base:>7.0f}x) {placed:>7} "
            f"{before:>14.4f} -> {unevenness(load):.4f} {mebibytes():>5}"
        )


if __name__ == "__main__":
    main()
