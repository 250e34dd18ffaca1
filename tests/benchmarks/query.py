#!/usr/bin/env python3
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long virt_query takes, as a multiple of raw libvirt in the same process.

  python3 tests/benchmarks/query.py [--lab NAME] [--host hv1] [--sizes 10 100 200] [--rounds 7]

On a hypervisor of the laboratory it defines domains with two disks each in a pool (thin qcow2
volumes, the first an overlay on a common base), and takes turns: the module's own function with
opening and closing the connection; then raw libvirt: open, getAllDomainStats(), XMLDesc() and
lxml.fromstring() of every domain, close. Each round measures every size, twice; the last figures
are with ten of the domains started and paused. Wall time, medians; a ratio is the median of the
ratios of neighbouring runs, growth the median of the ratios within a round, so that whatever else
the machine does meanwhile weighs on both sides. Growth is also measured in CPU time, ours and
libvirtd's, which says the same on a machine that is busy with other things. What is the
same on every machine is counted: the requests of one reading to libvirt's daemon, and all its
calls.

Limits, exit status 1 where one is exceeded: a ratio of 2.0 at the largest size; at twice the number
of domains 2.2 times the time, of which the lower of the two figures counts.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import threading
import time
import typing as t
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
RATIO_LIMIT = 2.0
GROWTH_LIMIT = 2.2
_FOLDER = "/var/tmp/fleet-virt-benchmark"
_URI = "qemu:///system"
_POOL = "fleet-virt-benchmark"
_PREFIX = "benchmark-"
_KINDS = ("system", "data")
# what libvirt's client answers by itself (src/libvirt-domain.c and its neighbours)
_LOCAL = ("GetName", "GetUUIDString", "GetKey", "Free")

_DOMAIN = """\
<domain type='qemu'>
  <name>{name}</name>
  <memory unit='MiB'>32</memory>
  <vcpu>2</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <features><acpi/><tcg><tb-cache unit='MiB'>16</tb-cache></tcg></features>
  <devices>
    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2'/><source file='{folder}/{name}-system.qcow2'/>
      <target dev='vda' bus='virtio'/>
    </disk>
    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2'/><source file='{folder}/{name}-data.qcow2'/>
      <target dev='vdb' bus='virtio'/>
    </disk>
    <interface type='bridge'><source bridge='br0'/><model type='virtio'/></interface>
    <serial type='pty'/>
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
    <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
  </devices>
</domain>
"""


class Figures(t.NamedTuple):
    """What was measured with a number of domains: medians, in seconds.

    ``growth`` is the time as a multiple of that for half as many domains, where that was measured,
    ``cpu_growth`` the same for CPU time. ``requests`` are those of one reading to libvirt's
    daemon, ``raw_requests`` the same of raw libvirt's, ``functions`` all calls of ours.
    """

    domains: int
    running: int
    ours: float
    raw: float
    ratio: float
    growth: float | None = None
    cpu_growth: float | None = None
    requests: int = 0
    raw_requests: int = 0
    functions: int = 0


class Run(t.NamedTuple):
    """One run: seconds of the clock, and of CPUs."""

    wall: float
    cpu: float


Pair = tuple[Run, Run]  # ours, raw libvirt's


# On the hypervisor


def _raw() -> int:
    import libvirt
    from lxml import etree

    connection = libvirt.open(_URI)
    try:
        connection.getAllDomainStats()
        return len([etree.fromstring(one.XMLDesc(0)) for one in connection.listAllDomains()])
    finally:
        connection.close()


def _ours() -> int:
    from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
        connect,
    )
    from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.read_domains import (
        DomainQuery,
        read_domains,
    )

    with connect(_URI, 10.0) as connection:
        entries = read_domains(connection, DomainQuery())
    for entry in entries:
        if not is_complete(entry):
            raise SystemExit(f"not read completely: {json.dumps(entry)}")
    return len(entries)


def is_complete(entry: t.Any) -> bool:
    """Whether all was read of a domain that is to be: of one of the benchmark's own the pool and
    what its system disk is based on, of each the sizes of its disks; an empty drive has none."""
    if entry["error"] is not None or not all(d["size_mib"] for d in entry["disks"] if d["source"]):
        return False
    if not entry["name"].startswith(_PREFIX):
        return True
    system = entry["disks"][0]
    return system["pool"] == _POOL and str(system["backing"]).endswith("/base.qcow2")


def _libvirtd() -> Path:
    """The daemon's folder in /proc."""
    for name in ("libvirtd", "virtqemud"):
        done = subprocess.run(["pidof", name], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return Path("/proc", done.stdout.split()[0])
    raise SystemExit("no libvirtd is running here")


def _cpu(daemon: Path) -> float:
    spent = sum(int(path.read_text().split()[0]) for path in daemon.glob("task/*/schedstat"))
    return spent / 1e9 + time.process_time()


def _timed(function: t.Callable[[], int], expected: int) -> Run:
    daemon = _libvirtd()
    cpu, started = _cpu(daemon), time.perf_counter()
    found = function()
    run = Run(time.perf_counter() - started, _cpu(daemon) - cpu)
    if found != expected:
        raise SystemExit(f"{found} domains were read, there are {expected}")
    return run


def _counted(function: t.Callable[[], int]) -> tuple[int, int]:
    """Its requests to the daemon, and all its calls, of every thread.

    In a process of its own: threads of an earlier reading would be used again, and what they call
    is seen by nobody.
    """
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(_count, [function])


def _count(function: t.Callable[[], int]) -> tuple[int, int]:
    found: list[bool] = []

    def note(frame: t.Any, event: str, called: t.Any) -> None:
        # how threads wait for each other depends on the machine's load
        if event in ("call", "c_call") and frame.f_globals["__name__"] != "threading":
            libvirts = event == "c_call" and called.__module__ == "libvirtmod"
            found.append(libvirts and not called.__name__.endswith(_LOCAL))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return sum(found), len(found)


def _pairs(domains: int) -> list[Pair]:
    """Two runs of each, in turn, after one of each that does not count."""
    for function in (_ours, _raw):
        _timed(function, domains)
    pairs = []
    for order in ((_ours, _raw), (_raw, _ours)):
        runs = {function: _timed(function, domains) for function in order}
        pairs.append((runs[_ours], runs[_raw]))
    return pairs


def _figures(domains: int, running: int, pairs: list[Pair]) -> Figures:
    return Figures(
        domains,
        running,
        statistics.median(ours.wall for ours, _ in pairs),
        statistics.median(raw.wall for _, raw in pairs),
        statistics.median(ours.wall / raw.wall for ours, raw in pairs),
    )


def _growth(whole: list[Pair], half: list[Pair]) -> dict[str, float]:
    """Medians over the rounds, which have two pairs each."""
    rounds = [(whole[at : at + 2], half[at : at + 2]) for at in range(0, len(whole), 2)]

    def median(of: t.Callable[[Run], float]) -> float:
        return statistics.median(
            sum(of(ours) for ours, _ in large) / sum(of(ours) for ours, _ in small)
            for large, small in rounds
        )

    return {"growth": median(lambda run: run.wall), "cpu_growth": median(lambda run: run.cpu)}


def _qemu_img(*words: str) -> None:
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *words], check=True)


class _Domains:
    """The benchmark's domains, pool and volumes on this hypervisor."""

    def __init__(self) -> None:
        import libvirt

        libvirt.registerErrorHandler(lambda *_: None, None)
        self.libvirt = libvirt
        self.connection = libvirt.open(_URI)
        self.volumes = Path(_FOLDER) / "volumes"
        self.number = 0
        names = [domain.name() for domain in self.connection.listAllDomains()]
        self.others = len([name for name in names if not name.startswith(_PREFIX)])

    def prepare(self) -> None:
        """The pool, its base, and the two volumes that the others are copies of."""
        self.volumes.mkdir(parents=True)
        base = f"{self.volumes}/base.qcow2"
        _qemu_img(base, "1G")
        _qemu_img("-b", base, "-F", "qcow2", f"{_FOLDER}/system", "8G")
        _qemu_img(f"{_FOLDER}/data", "16G")
        target = f"<target><path>{self.volumes}</path></target>"
        pool = f"<pool type='dir'><name>{_POOL}</name>{target}</pool>"
        self.connection.storagePoolDefineXML(pool).create()

    def resize(self, number: int) -> None:
        """Have ``number`` of them."""
        for index in range(self.number, number):
            name = f"{_PREFIX}{index:04}"
            for kind in _KINDS:
                content = Path(_FOLDER, kind).read_bytes()
                (self.volumes / f"{name}-{kind}.qcow2").write_bytes(content)
            self.connection.defineXML(_DOMAIN.format(name=name, folder=self.volumes))
        for index in range(number, self.number):
            name = f"{_PREFIX}{index:04}"
            self.connection.lookupByName(name).undefine()
            for kind in _KINDS:
                (self.volumes / f"{name}-{kind}.qcow2").unlink()
        self.number = number
        self.connection.storagePoolLookupByName(_POOL).refresh()

    def start(self, number: int) -> None:
        """Start some of them, paused."""
        for index in range(number):
            domain = self.connection.lookupByName(f"{_PREFIX}{index:04}")
            domain.createWithFlags(self.libvirt.VIR_DOMAIN_START_PAUSED)

    def remove(self) -> None:
        """Take everything away."""
        for domain in self.connection.listAllDomains():
            if domain.name().startswith(_PREFIX):
                if domain.isActive():
                    domain.destroy()
                domain.undefine()
        for pool in self.connection.listAllStoragePools():
            if pool.name() == _POOL:
                if pool.isActive():
                    pool.destroy()
                pool.undefine()
        self.connection.close()


def _on_hypervisor(sizes: t.Sequence[int], running: int, rounds: int) -> None:
    """Print figures, one JSON list a line."""
    domains = _Domains()
    pairs: dict[int, list[Pair]] = {size: [] for size in sizes}
    counted: dict[int, dict[str, int]] = {}
    paused: list[Pair] = []
    try:
        domains.prepare()
        for _ in range(rounds):
            for size in sizes:
                domains.resize(size)
                pairs[size] += _pairs(size + domains.others)
                ours, functions = _counted(_ours)
                raws, _ = _counted(_raw)
                counted[size] = {"requests": ours, "raw_requests": raws, "functions": functions}
        if running:
            domains.start(running)
            paused = [pair for _ in range(rounds) for pair in _pairs(sizes[-1] + domains.others)]
    finally:
        domains.remove()
    for size, found in pairs.items():
        half = pairs.get(size // 2)
        growth = _growth(found, half) if half else {}
        print(json.dumps(_figures(size, 0, found)._replace(**counted[size], **growth)))
    if paused:
        print(json.dumps(_figures(sizes[-1], running, paused)))


# On the controller


def measure(
    lab: t.Any, host: str, sizes: t.Sequence[int], running: int = 10, rounds: int = 7
) -> list[Figures]:
    """Figures for each size, and for the last with ``running`` domains started, on a lab's host.

    :param lab: a tests.lab.laboratory.Laboratory that is up; other domains of the host count too.
    """
    collection = f"{_FOLDER}/ansible_collections/fleet/virt"
    command = f"rm -rf {_FOLDER}; mkdir -p {collection}; tar -x -C {collection}"
    shipped = ["plugins/module_utils", str(Path(__file__).resolve().relative_to(CHECKOUT))]
    with subprocess.Popen(
        ["tar", "-c", "-C", str(CHECKOUT), "--exclude=__pycache__", *shipped],
        stdout=subprocess.PIPE,
    ) as packed:
        subprocess.run([*lab.login(host), "--", command], stdin=packed.stdout, check=True)
    options = ["--sizes", *map(str, sizes), "--running", str(running), "--rounds", str(rounds)]
    words = ["env", f"PYTHONPATH={_FOLDER}", "PYTHONDONTWRITEBYTECODE=1", "/usr/bin/python3"]
    words += [f"{collection}/{shipped[1]}", "--on-hypervisor", *options]
    try:
        done = lab.ssh(host, words, timeout=900)
    finally:
        lab.ssh(host, ["rm", "-rf", _FOLDER])
    return [Figures(*json.loads(line)) for line in done.stdout.splitlines()]


def excesses(figures: t.Sequence[Figures]) -> list[str]:
    """The limits that are exceeded, in words."""
    largest = max(one.domains for one in figures)
    found = []
    for one in figures:
        what = f"{one.domains} domains, {one.running} running"
        if one.domains == largest and one.ratio > RATIO_LIMIT:
            found.append(f"{what}: ratio {one.ratio:.2f} > {RATIO_LIMIT}")
        if one.growth is None or one.cpu_growth is None:
            continue
        growth = min(one.growth, one.cpu_growth)
        if growth > GROWTH_LIMIT:
            found.append(f"{what}: {growth:.2f} > {GROWTH_LIMIT} times half of them")
    return found


def table(figures: t.Sequence[Figures]) -> str:
    """The figures for people, one line each."""
    titles = ("domains  running  virt_query  raw libvirt  ratio", "requests", "times half of them")
    lines = [f"{titles[0]}  {titles[1]:>14}  {titles[2]}  (CPU time)"]
    for one in figures:
        requests = f"{one.requests} to {one.raw_requests}" if one.requests else ""
        line = (
            f"{one.domains:7}  {one.running:7}  {one.ours * 1000:7.1f} ms  {one.raw * 1000:8.1f} ms"
            f"  {one.ratio:5.2f}  {requests:>14}"
        )
        if one.growth is not None and one.cpu_growth is not None:
            line += f"  {one.growth:18.2f}  {one.cpu_growth:10.2f}"
        lines.append(line)
    return "\n".join(lines)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lab", help="a laboratory that is up (default: one of its own)")
    parser.add_argument("--host", default="hv1")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 100, 200])
    parser.add_argument("--running", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--on-hypervisor", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.on_hypervisor:
        _on_hypervisor(options.sizes, options.running, options.rounds)
        return 0
    sys.path.insert(0, str(CHECKOUT))
    from tests.lab.laboratory import Laboratory

    lab = Laboratory(options.lab or f"query{os.getpid()}", None if options.lab else os.getpid())
    if not options.lab:
        lab.up(1)
    try:
        figures = measure(lab, options.host, options.sizes, options.running, options.rounds)
    finally:
        if not options.lab:
            lab.down()
    print(table(figures))
    exceeded = excesses(figures)
    for line in exceeded:
        print(f"limit exceeded: {line}", file=sys.stderr)
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
