#!/usr/bin/env python3
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Moving VMs, against libvirt's own program with the same flags in the same run.

    .venv/bin/python tests/benchmarks/migrate.py [--rounds 2] [--size 1024] [--written 64]
                                                 [--vms 6] [--bandwidth 8]

In a laboratory of its own, two hypervisors with keys, a running VM is moved there and back by
``virt_migrate`` and by ``virsh migrate`` in turn: with its disk on storage that both have, with a
full copy of SIZE MiB of random numbers, and with an overlay of WRITTEN MiB over a base image of
SIZE MiB that both have. Printed are medians of the seconds of the module (without Ansible) and of
virsh (for which the volume is made beforehand and whose old one is removed afterwards), and of the
MiB that travelled. Then a hypervisor with VMS VMs is emptied by the playbook
``evacuate``, one after the other and all at the same time, each stream limited by libvirt itself to
BANDWIDTH MiB a second.

Limits, exit status 1 where one is exceeded: the module takes a second more than virsh; an overlay
sends more than a fifth of the bytes of a full copy; all at the same time is not twice as fast.
Folders that are shared storage are made below TMPDIR.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import sys
import tempfile
import time
import typing as t
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / ".venv" / "collections")]
os.environ.setdefault("ANSIBLE_COLLECTIONS_PATH", str(CHECKOUT / ".venv" / "collections"))

from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    plan as migration_plan,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.types import (
    Destination,
    MigrationOptions,
    MigrationPlan,
    NewVolume,
    Source,
    Target,
)
from ansible_collections.fleet.virt.tests.integration.keys.conftest import Keys
from ansible_collections.fleet.virt.tests.integration.provisioning.conftest import Fleet
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible
from ansible_collections.fleet.virt.tests.integration.support.shared_folder import shared_folder
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

SECONDS_LIMIT = 1.0
BYTES_LIMIT = 5.0
PARALLEL_LIMIT = 2.0
_IMAGES = "/var/lib/libvirt/images"
_SHARED = "/srv/shared"
_OTHER = {"hv1": "hv2", "hv2": "hv1"}
_MIB = 1024 * 1024
_FILL = """
set -e
dd if=/dev/urandom of=/var/tmp/random bs=1M count={size} status=none
qemu-img convert -f raw -O qcow2 /var/tmp/random {path}
rm /var/tmp/random
virsh -q start {name}
"""
_WRITE = """
set -e
qemu-io -f qcow2 -c 'write -q -P 90 0 {written}M' {path}
virsh -q start {name}
"""


class Moved(t.NamedTuple):
    """One move: its seconds, and the bytes that travelled."""

    seconds: float
    sent: int


class Figures(t.NamedTuple):
    """Medians of the seconds and of the bytes of both."""

    ours: float
    virsh: float
    sent: int
    virsh_sent: int


class Disk(t.NamedTuple):
    """The disk of a VM that is moved: where it is, the base image with its format, or that both
    ends have it."""

    path: str
    backing: tuple[str, str] | None = None
    shared: bool = False


class Bench:
    """Two hypervisors and what is moved between them."""

    def __init__(self, lab: Laboratory, folder: Path, size: int) -> None:
        self.lab = lab
        self.size = size
        self.ansible = Ansible(lab.inventory, folder / "ansible")
        self.fleet = Fleet(lab, self.ansible, folder)
        self.keys = Keys(lab, self.ansible, folder / "keys")
        self.keys.run().succeeded()
        self.keys.listen()
        with (self.fleet.images / "random.raw").open("wb") as file:
            for _ in range(size):
                file.write(os.urandom(_MIB))
        for image in ("tiny.qcow2", "random.raw"):
            brought = self.ansible.module(
                "hypervisors", "virt_image", {"image": image}, extra=self.fleet.variables
            )
            if any(one["failed"] for one in brought.values()):
                raise SystemExit(f"{image}: {brought}")
        pool = (
            f"virsh -q pool-define-as default dir --target {_IMAGES}; virsh -q pool-start default"
        )
        for host in _OTHER:
            self.fleet.host(host, f"virsh -q pool-info default >/dev/null 2>&1 || {{ {pool}; }}")

    def make(self, name: str, **options: t.Any) -> None:
        """A VM on hv1."""
        nics = [{"name": "eth0", "type": "bridge", "source": "br0"}]
        made = self.fleet.init("hv1", name=name, memory=96, seed=False, nics=nics, **options)
        if made["failed"]:
            raise SystemExit(str(made["msg"]))

    def ours(self, name: str, source: str) -> Moved:
        """By the module."""
        args = {"vms": [{"name": name, "destination": {"name": _OTHER[source]}}], "source": source}
        before = self._received(_OTHER[source])
        answer = self.ansible.module(source, "virt_migrate", args, limit=900)[source]
        if answer["failed"]:
            raise SystemExit(str(answer["msg"]))
        (vm,) = answer["vms"]
        return Moved(vm["seconds"], self._received(_OTHER[source]) - before)

    def _received(self, host: str) -> int:
        """Bytes that came to a hypervisor."""
        return int(self.fleet.host(host, "cat /sys/class/net/eth0/statistics/rx_bytes"))

    def virsh(self, name: str, source: str, disk: Disk) -> Moved:
        """By libvirt's program; the volume is made before, and the old one removed after."""
        other = _OTHER[source]
        over = "-b {} -F {}".format(*disk.backing) if disk.backing else ""
        if not disk.shared:
            self.fleet.host(other, f"qemu-img create -q -f qcow2 {over} {disk.path} {self.size}M")
        command = shlex.join(self._command(name, source, disk))
        timed = f"s=$(date +%s.%N); {command} >&2; e=$(date +%s.%N); echo $s $e"
        before = self._received(other)
        begun, ended = map(float, self.lab.ssh(source, timed, timeout=900).stdout.split())
        sent = self._received(other) - before
        if not disk.shared:
            self.fleet.host(source, f"rm {disk.path}; virsh -q pool-refresh default")
            self.fleet.host(other, "virsh -q pool-refresh default")
        return Moved(ended - begun, sent)

    def _command(self, name: str, source: str, disk: Disk) -> list[str]:
        """What the module would have libvirt's program do."""
        address = self.lab.host(_OTHER[source]).address
        uuid = self.fleet.host(source, f"virsh domuuid {name}").strip()
        size = self.size * _MIB
        volume = NewVolume("vda", "default", Path(disk.path).name, disk.path, "qcow2", size, size)
        vm = Source(
            name=name,
            uuid=uuid,
            host=source,
            state="running",
            active=True,
            persistent=True,
            autostart=False,
            metadata=None,
            domain_type="qemu",
            arch="x86_64",
            machine="q35",
            memory_mib=96,
            vcpus=1,
        )
        target = Target(Destination(_OTHER[source], address, listen=address), "", (), ())
        found = MigrationPlan(volumes=[volume], incremental=disk.backing is not None)
        if disk.shared:
            found = MigrationPlan(shared=[disk.path])
        return migration_plan.command(vm, target, found, MigrationOptions(), "qemu:///system")

    def compare(self, name: str, rounds: int, disk: Disk) -> Figures:
        """There and back by each, in turn."""
        ours: list[Moved] = []
        theirs: list[Moved] = []
        for _ in range(rounds):
            ours += [self.ours(name, host) for host in _OTHER]
            theirs += [self.virsh(name, host, disk) for host in _OTHER]
        self.fleet.host("hv1", f"virsh -q destroy {name}")
        for what, moves in (("virt_migrate", ours), ("virsh", theirs)):
            seconds = ", ".join(f"{one.seconds:.1f}" for one in moves)
            print(f"{name}, {what}, there and back in turn: {seconds} s", file=sys.stderr)
        return Figures(
            statistics.median(one.seconds for one in ours),
            statistics.median(one.seconds for one in theirs),
            round(statistics.median(one.sent for one in ours)),
            round(statistics.median(one.sent for one in theirs)),
        )

    def shared(self, folder: Path, rounds: int) -> Figures:
        """A disk on storage that both have, so that only memory travels."""
        folder.mkdir(mode=0o711)
        pool = {"name": "shared", "path": _SHARED}
        with shared_folder(self.lab, folder, _SHARED, tuple(_OTHER)):
            made = self.ansible.module("hypervisors", "virt_pool", {"pools": [pool]})
            if any(one["failed"] for one in made.values()):
                raise SystemExit(f"{_SHARED}: {made}")
            disks = [{"name": "system", "pool": "shared", "size": 256}]
            self.make("both", image="tiny.qcow2", overlay=False, disks=disks)
            for host in _OTHER:  # libvirt finds out once what the QEMU of a hypervisor can do
                self.ours("both", host)
            figures = self.compare(
                "both", rounds, Disk(f"{_SHARED}/both_system.qcow2", shared=True)
            )
            self.fleet.sweep()
            for host in _OTHER:
                self.fleet.host(host, "virsh -q pool-destroy shared; virsh -q pool-undefine shared")
        return figures

    def full(self, rounds: int) -> Figures:
        """A disk full of random numbers."""
        self.make("full", disks=[{"name": "system", "size": self.size}], start=False)
        path = f"{_IMAGES}/full_system.qcow2"
        self.lab.ssh("hv1", _FILL.format(size=self.size, path=path, name="full"), timeout=600)
        return self.compare("full", rounds, Disk(path))

    def overlay(self, rounds: int, written: int) -> Figures:
        """An overlay over a base image as large."""
        disks = [{"name": "system", "size": self.size}]
        self.make("over", image="random.raw", disks=disks, start=False)
        path = f"{_IMAGES}/over_system.qcow2"
        self.lab.ssh("hv1", _WRITE.format(written=written, path=path, name="over"), timeout=600)
        info = json.loads(self.fleet.host("hv1", f"qemu-img info -U --output=json {path}"))
        backing = (info["full-backing-filename"], info["backing-filename-format"])
        return self.compare("over", rounds, Disk(path, backing))

    def evacuate(self, count: int, bandwidth: int, parallel: int) -> float:
        """Seconds of the playbook; the VMs come back afterwards."""
        variables = {"virt_host": "hv1", "virt_bandwidth": bandwidth, "virt_parallel": parallel}
        began = time.monotonic()
        self.ansible.playbook("evacuate", variables, limit=900).succeeded()
        took = time.monotonic() - began
        print(f"{parallel} of {count} VMs at the same time: {took:.1f} s", file=sys.stderr)
        back = {"virt_host": "hv1", "virt_parallel": count}
        self.ansible.playbook("return_vms", back, limit=900).succeeded()
        return took


def excesses(
    shared: Figures, full: Figures, overlay: Figures, one_by_one: float, together: float
) -> list[str]:
    """The limits that are exceeded, in words."""
    found = []
    for what, one in (("shared storage", shared), ("full copy", full), ("overlay", overlay)):
        if one.ours - one.virsh > SECONDS_LIMIT:
            found.append(f"{what}: {one.ours - one.virsh:.2f} s more than virsh")
    if full.sent < BYTES_LIMIT * overlay.sent:
        times = full.sent / overlay.sent
        found.append(f"the full copy sends only {times:.1f} times as much as the overlay")
    if one_by_one < PARALLEL_LIMIT * together:
        found.append(f"all at the same time is {one_by_one / together:.2f} times as fast")
    return found


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--size", type=int, default=1024, help="MiB of the disks")
    parser.add_argument("--written", type=int, default=64, help="MiB of the overlay")
    parser.add_argument("--vms", type=int, default=6)
    parser.add_argument("--bandwidth", type=int, default=8, help="MiB a second, each")
    options = parser.parse_args()
    lab = Laboratory(f"migrate{os.getpid()}", os.getpid())
    lab.up(2)
    try:
        with tempfile.TemporaryDirectory(prefix="fleet-virt-bench-") as folder:
            bench = Bench(lab, Path(folder), options.size)
            shared = bench.shared(Path(folder) / "shared", options.rounds)
            full = bench.full(options.rounds)
            overlay = bench.overlay(options.rounds, options.written)
            bench.fleet.sweep()
            for number in range(options.vms):
                bench.make(f"vm{number}", image="tiny.qcow2")
            one_by_one = bench.evacuate(options.vms, options.bandwidth, 1)
            together = bench.evacuate(options.vms, options.bandwidth, options.vms)
    finally:
        lab.down()
    print(
        "move                          virt_migrate  virsh migrate     more      MiB    virsh MiB"
    )
    for what, one in (
        ("shared storage", shared),
        (f"full copy of {options.size} MiB", full),
        (f"overlay with {options.written} MiB", overlay),
    ):
        print(
            f"{what:30}{one.ours:10.2f} s  {one.virsh:11.2f} s  {one.ours - one.virsh:5.2f} s"
            f"  {one.sent / _MIB:7.1f}  {one.virsh_sent / _MIB:11.1f}"
        )
    print(
        f"{options.vms} VMs leave in {one_by_one:.1f} s one after the other, in {together:.1f} s at"
        f" the same time: {one_by_one / together:.2f} times as fast"
    )
    exceeded = excesses(shared, full, overlay, one_by_one, together)
    for line in exceeded:
        print(f"limit exceeded: {line}", file=sys.stderr)
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
