#!/usr/bin/env python3
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long virt_query takes, as a multiple of raw libvirt in the same process.

  python3 tests/benchmarks/query.py [--lab NAME] [--host hv1] [--sizes 10 100 200] [--runs 9]

On a hypervisor of the laboratory it defines domains with two disks each in a pool (thin qcow2
volumes, the first an overlay on a common base), and takes turns: the module's own function with
opening and closing the connection; then raw libvirt: open, getAllDomainStats(), XMLDesc() and
lxml.fromstring() of every domain, close. Wall time, medians; the ratio is the median of the ratios
of neighbouring runs. The last line of figures is with ten of the domains started and paused.

Limits, exit status 1 where one is exceeded: a ratio of 2.0 at the largest size, and 2.2 times the
time at twice the number of domains.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
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
    """What was measured with a number of domains: medians, in seconds."""

    domains: int
    running: int
    ours: float
    raw: float
    ratio: float


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
    from ansible_collections.fleet.virt.plugins.module_utils._host.connection import connect
    from ansible_collections.fleet.virt.plugins.module_utils._host.domains import (
        Wanted,
        read_domains,
    )

    with connect(_URI, 10.0) as connection:
        entries = read_domains(connection, Wanted())
    for entry in entries:
        complete = entry["error"] is None and all(disk["size_mib"] for disk in entry["disks"])
        if not complete or entry["disks"][0]["pool"] != _POOL:
            raise SystemExit(f"not read completely: {json.dumps(entry)}")
    return len(entries)


def _timed(function: t.Callable[[], int], expected: int) -> float:
    started = time.perf_counter()
    found = function()
    elapsed = time.perf_counter() - started
    if found != expected:
        raise SystemExit(f"{found} domains were read, there are {expected}")
    return elapsed


def _measured(domains: int, running: int, runs: int) -> Figures:
    pairs = []
    for turn in range(runs + 1):
        order = (_ours, _raw) if turn % 2 else (_raw, _ours)
        times = {function: _timed(function, domains) for function in order}
        if turn:  # the first warms up both
            pairs.append((times[_ours], times[_raw]))
    return Figures(
        domains,
        running,
        statistics.median(ours for ours, _ in pairs),
        statistics.median(raw for _, raw in pairs),
        statistics.median(ours / raw for ours, raw in pairs),
    )


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

    def make(self, number: int) -> None:
        """Have ``number`` of them; volumes are copies of two that qemu-img made."""
        if not self.number:
            self.volumes.mkdir(parents=True)
            base = f"{self.volumes}/base.qcow2"
            _qemu_img(base, "1G")
            _qemu_img("-b", base, "-F", "qcow2", f"{_FOLDER}/system", "8G")
            _qemu_img(f"{_FOLDER}/data", "16G")
            target = f"<target><path>{self.volumes}</path></target>"
            pool = f"<pool type='dir'><name>{_POOL}</name>{target}</pool>"
            self.connection.storagePoolDefineXML(pool).create()
        for index in range(self.number, number):
            name = f"{_PREFIX}{index:04}"
            for kind in ("system", "data"):
                content = Path(_FOLDER, kind).read_bytes()
                (self.volumes / f"{name}-{kind}.qcow2").write_bytes(content)
            self.connection.defineXML(_DOMAIN.format(name=name, folder=self.volumes))
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


def _on_hypervisor(sizes: t.Sequence[int], running: int, runs: int) -> None:
    """Print figures, one JSON list a line."""
    domains = _Domains()
    try:
        for size in sizes:
            domains.make(size)
            print(json.dumps(_measured(size, 0, runs)), flush=True)
        if running:
            domains.start(running)
            print(json.dumps(_measured(sizes[-1], running, runs)), flush=True)
    finally:
        domains.remove()


# On the controller


def measure(
    lab: t.Any, host: str, sizes: t.Sequence[int], running: int = 10, runs: int = 9
) -> list[Figures]:
    """Figures for each size, and for the last with ``running`` domains started, on a lab's host.

    :param lab: a tests.lab.laboratory.Laboratory that is up; the host must have no domains.
    """
    collection = f"{_FOLDER}/ansible_collections/fleet/virt"
    command = f"rm -rf {_FOLDER}; mkdir -p {collection}; tar -x -C {collection}"
    shipped = ["plugins/module_utils", str(Path(__file__).resolve().relative_to(CHECKOUT))]
    with subprocess.Popen(
        ["tar", "-c", "-C", str(CHECKOUT), "--exclude=__pycache__", *shipped],
        stdout=subprocess.PIPE,
    ) as packed:
        subprocess.run([*lab.login(host), "--", command], stdin=packed.stdout, check=True)
    options = ["--sizes", *map(str, sizes), "--running", str(running), "--runs", str(runs)]
    words = ["env", f"PYTHONPATH={_FOLDER}", "PYTHONDONTWRITEBYTECODE=1", "/usr/bin/python3"]
    words += [f"{collection}/{shipped[1]}", "--on-hypervisor", *options]
    try:
        done = lab.ssh(host, words, timeout=900)
    finally:
        lab.ssh(host, ["rm", "-rf", _FOLDER])
    return [Figures(*json.loads(line)) for line in done.stdout.splitlines()]


def excesses(figures: t.Sequence[Figures]) -> list[str]:
    """The limits that are exceeded, in words."""
    shut_off = [one for one in figures if not one.running]
    largest = max(shut_off, key=lambda one: one.domains)
    found = [
        f"{one.domains} domains, {one.running} running: ratio {one.ratio:.2f} > {RATIO_LIMIT}"
        for one in figures
        if one.domains == largest.domains and one.ratio > RATIO_LIMIT
    ]
    for half in shut_off:
        growth = largest.ours / half.ours
        if half.domains * 2 == largest.domains and growth > GROWTH_LIMIT:
            found.append(
                f"{largest.domains} domains take {growth:.2f} times {half.domains},"
                f" more than {GROWTH_LIMIT}"
            )
    return found


def _table(figures: t.Sequence[Figures]) -> str:
    lines = ["domains  running  virt_query  raw libvirt  ratio"]
    lines += [
        f"{one.domains:7}  {one.running:7}  {one.ours * 1000:7.1f} ms  {one.raw * 1000:8.1f} ms"
        f"  {one.ratio:5.2f}"
        for one in figures
    ]
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
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--on-hypervisor", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.on_hypervisor:
        _on_hypervisor(options.sizes, options.running, options.runs)
        return 0
    sys.path.insert(0, str(CHECKOUT))
    from tests.lab.laboratory import Laboratory

    lab = Laboratory(options.lab or f"query{os.getpid()}", None if options.lab else os.getpid())
    if not options.lab:
        lab.up(1)
    try:
        figures = measure(lab, options.host, options.sizes, options.running, options.runs)
    finally:
        if not options.lab:
            lab.down()
    print(_table(figures))
    exceeded = excesses(figures)
    for line in exceeded:
        print(f"limit exceeded: {line}", file=sys.stderr)
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
