#!/usr/bin/python3
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the command to a new VM's first successful ping, by step, on a laboratory that is up.

    .venv/bin/python tests/benchmarks/first_ping.py LABORATORY [--runs 3] [--seed '{}']

``provision_vm`` creates a VM from Debian's cloud image, which the hypervisors have by then, and
waits until it answers; then Ansible pings it through the inventory. The guest's own boot is the
time from the start of its QEMU process until its SSH port greets, which is asked for from here ten
times a second; the rest is the collection's and Ansible's. Printed are medians in seconds.
``--seed`` is ``vm_seed``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
PROGRAMS = CHECKOUT / ".venv" / "bin"
sys.dont_write_bytecode = True
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / ".venv" / "collections")]

from ansible_collections.fleet.virt.tests.lab import fabric, images
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

VM = "benchping"
_GUESTS = """
plugin: fleet.virt.virt
compose:
  ansible_ssh_private_key_file: "'{key}'"
"""
STEPS = ("to the start of QEMU", "the guest's own boot", "to the end of provision_vm", "ping")


class Greeting(threading.Thread):
    """When the new VM's SSH port greeted for the first time (``at``, of time.monotonic())."""

    def __init__(self, lab: Laboratory) -> None:
        super().__init__(daemon=True)
        self.lab = lab
        self.before = set(fabric.leases(lab.record))
        self.at = 0.0
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.1):
            for lease in fabric.leases(self.lab.record):
                if lease not in self.before and self._greets(lease[1]):
                    self.at = time.monotonic()
                    return

    @staticmethod
    def _greets(address: str) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((address, 22), 2) as there:
            return there.recv(4) == b"SSH-"
        return False


class Bench:
    """One VM, again and again."""

    def __init__(self, name: str, folder: Path, seed: str) -> None:
        self.lab = Laboratory(name)
        self.folder = folder
        (folder / "debian12.qcow2").symlink_to(images.image("debian"))
        guests = self.lab.inventory / "20-guests.virt.yml"
        guests.write_text(_GUESTS.format(key=self.lab.key), encoding="utf-8")
        self.variables = {
            "virt_image_dir": str(folder),
            "virt_ssh_public_key": str(self.lab.key) + ".pub",
            "virt_wait_timeout": 600,
            "vm_name": VM,
            "vm_memory": 512,
            "vm_host": "hv1",
            "vm_image": "debian12.qcow2",
            "vm_seed": json.loads(seed),
        }
        self.environment = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / ".venv" / "collections"),
            "ANSIBLE_PIPELINING": "true",
        }

    def _ansible(self, program: str, *words: str) -> None:
        command = [str(PROGRAMS / program), "-i", str(self.lab.inventory), *words]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{shlex.join(command)}\n{done.stdout}{done.stderr}")

    def _started(self) -> float:
        """When its QEMU process began, of time.monotonic()."""
        read = f"cut -d' ' -f22 /proc/$(cat /run/libvirt/qemu/{VM}.pid)/stat; cat /proc/uptime"
        now = time.monotonic()
        ticks, uptime = self.lab.ssh("hv1", read).stdout.split()[:2]
        return now - (float(uptime) - int(ticks) / os.sysconf("SC_CLK_TCK"))

    def once(self) -> list[float]:
        """Seconds of each of STEPS."""
        self.purge()
        greeting = Greeting(self.lab)
        greeting.start()
        begun = time.monotonic()
        try:
            self._ansible(
                "ansible-playbook", "fleet.virt.provision_vm", "-e", json.dumps(self.variables)
            )
        finally:
            greeting.over.set()
        waited = time.monotonic()
        self._ansible("ansible", VM, "-m", "ansible.builtin.ping")
        pinged = time.monotonic()
        started = self._started()
        if not greeting.at:
            raise SystemExit(f"{VM} was reached without a lease of the laboratory")
        moments = [begun, started, greeting.at, waited, pinged]
        return [after - before for before, after in zip(moments, moments[1:], strict=False)]

    def purge(self) -> None:
        """Remove the VM, if it is there."""
        extra = json.dumps({"vm_name": VM, "vm_force": True})
        self._ansible("ansible-playbook", "fleet.virt.purge_vm", "-e", extra)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("laboratory")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", default="{}")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fleet-virt-bench-") as folder:
        bench = Bench(given.laboratory, Path(folder), given.seed)
        bench.once()  # brings the image, and warms up
        rounds = [bench.once() for _run in range(given.runs)]
        bench.purge()
    for step, times in zip(STEPS, zip(*rounds, strict=True), strict=True):
        print(f"{step:30} {statistics.median(times):7.2f} s")
    above = statistics.median(sum(one) - one[1] for one in rounds)
    print(f"{'all but the guest itself':30} {above:7.2f} s  (of {given.runs})")


if __name__ == "__main__":
    main()
