#!/usr/bin/python3
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the command to a new VM's first successful ping, by step, on a laboratory that is up.

    .venv/bin/python tests/benchmarks/first_ping.py LABORATORY [--runs 3] [--seed '{}']

The laboratory's hypervisors are set up as any fleet's are, by ``setup_hypervisors``, so that they
have keys. Then one playbook: ``provision_vm`` creates a VM from Debian's cloud image, which the
hypervisors have by then, and waits until it answers; the next play pings the VM. The guest's own
boot is the time from the start of its QEMU process until its SSH port greets, which is asked for
from here ten times a second.

To be pinged the guest has to do more: it encrypts, logs in, starts Python, all that on an emulated
processor that is busy with the rest of its boot. So each run has a baseline: the same VM is made
once more, and as soon as its port greets, ``ssh`` with the same strict options sends it the program
that Ansible's ping is, and nobody else asks it for anything. Both are told where its Python is, as
the laboratory's inventory says it of hypervisors. What the collection and Ansible add to that is
the last line. Printed are medians in seconds. ``--seed`` is ``vm_seed``.
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
import typing as t
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
os.environ.setdefault("ANSIBLE_COLLECTIONS_PATH", str(CHECKOUT / ".venv" / "collections"))
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / ".venv" / "collections")]

from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible
from ansible_collections.fleet.virt.tests.lab import fabric, images
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

VM = "benchping"
_GUESTS = """
plugin: fleet.virt.virt
compose:
  ansible_ssh_private_key_file: "'{key}'"
  ansible_python_interpreter: "'{python}'"
"""
_PLAYBOOK = f"""
- ansible.builtin.import_playbook: fleet.virt.provision_vm

- name: Ping it
  hosts: {VM}
  gather_facts: false
  tasks:
    - ansible.builtin.ping:
"""
_PYTHON = "/usr/bin/python3"
STEPS = ("to the start of QEMU", "the guest's own boot", "to the end of provision_vm", "ping")
_WAITED, _PINGED = "PLAY [Ping it]", f"ok: [{VM}]"
_PATIENCE = 600.0


class Greeting(threading.Thread):
    """When the new VM's SSH port greeted for the first time (``at``, of time.monotonic())."""

    def __init__(self, lab: Laboratory) -> None:
        super().__init__(daemon=True)
        self.lab = lab
        self.before = set(fabric.leases(lab.record))
        self.at = 0.0
        self.address = ""
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.1):
            for lease in fabric.leases(self.lab.record):
                if lease not in self.before and self._greets(lease[1]):
                    self.at = time.monotonic()
                    self.address = lease[1]
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
        self.ansible = Ansible(self.lab.inventory, folder)
        (folder / "debian12.qcow2").symlink_to(images.image("debian"))
        guests = self.lab.inventory / "20-guests.virt.yml"
        guests.write_text(_GUESTS.format(key=self.lab.key, python=_PYTHON), encoding="utf-8")
        self.playbook = folder / "site.yml"
        self.playbook.write_text(_PLAYBOOK, encoding="utf-8")
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
        # They go with the laboratory, so that it may be used again
        keys = {"libvirt_keys_dir": str(self.lab.inventory.parent / "keys")}
        self.ansible.playbook("setup_hypervisors", keys).succeeded()
        self.program = self._program()

    def _program(self) -> str:
        """What Ansible sends for a ping, as a hypervisor keeps it when it is told to."""
        keep = {"ANSIBLE_KEEP_REMOTE_FILES": "true", "ANSIBLE_PIPELINING": "false"}
        ping = ("hv1", "-m", "ansible.builtin.ping")
        self.ansible.run("ansible", ping, environment=keep).succeeded()
        folder = "/root/.ansible/tmp"
        return self.lab.ssh(
            "hv1", f"cat {folder}/*/AnsiballZ_ping.py; rm -rf {folder}/ansible-tmp-*"
        ).stdout

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
            said = self._play(self.variables)
        finally:
            greeting.over.set()
        waited, pinged = (at for at, line in said if line in (_WAITED, _PINGED))
        started = self._started()
        if not greeting.at:
            raise SystemExit(f"{VM} was reached without a lease of the laboratory")
        moments = [begun, started, greeting.at, waited, pinged]
        return [after - before for before, after in zip(moments, moments[1:], strict=False)]

    def _play(self, variables: dict[str, t.Any]) -> list[tuple[float, str]]:
        """The lines that the playbook printed, and when."""
        words = (str(self.playbook), "-e", json.dumps(variables))
        with self.ansible.begin("ansible-playbook", *words, heard=True) as process:
            assert process.stdout is not None
            said = [(time.monotonic(), line.rstrip(" *\n")) for line in process.stdout]
        if {_WAITED, _PINGED} - {line for _at, line in said}:
            raise SystemExit("\n".join(line for _at, line in said))
        return said

    def bare(self) -> float:
        """Seconds from its greeting to its answer when bare ssh asks the same, as soon as can be.

        provision_vm waits a moment only, which it calls a failure, and is gone by then.
        """
        self.purge()
        greeting = Greeting(self.lab)
        greeting.start()
        try:
            variables = {**self.variables, "virt_wait_timeout": 1}
            self.ansible.playbook("provision_vm", variables)
            shown = self.ansible.run("ansible-inventory", ["--host", VM]).succeeded()
            known = json.loads(shown.stdout)
            greeting.join(_PATIENCE)
        finally:
            greeting.over.set()
        words = [*shlex.split(known["ansible_ssh_args"]), "-o", "ControlPath=none"]
        words += ["-i", str(self.lab.key), "-l", known["ansible_user"]]
        while time.monotonic() < greeting.at + _PATIENCE:
            done = subprocess.run(
                ["ssh", *words, greeting.address, _PYTHON],
                input=self.program,
                capture_output=True,
                text=True,
                check=False,
            )
            if '"pong"' in done.stdout:
                return time.monotonic() - greeting.at
        raise SystemExit(f"{VM} does not answer: {done.stderr}")

    def purge(self) -> None:
        """Remove the VM, if it is there."""
        self.ansible.playbook("purge_vm", {"vm_name": VM, "vm_force": True}).succeeded()


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
        rounds, bare = [], []
        for _run in range(given.runs):
            rounds.append(bench.once())
            bare.append(bench.bare())
        bench.purge()
    for step, times in zip(STEPS, zip(*rounds, strict=True), strict=True):
        print(f"{step:42} {statistics.median(times):7.2f} s")
    above = statistics.median(sum(one) - one[1] for one in rounds)
    print(f"{'all but the boot until SSH greets':42} {above:7.2f} s  (of {given.runs})")
    alone = statistics.median(bare)
    print(f"{'from there to the ping by bare ssh':42} {alone:7.2f} s")
    print(f"{'all that is not the guest itself':42} {above - alone:7.2f} s")


if __name__ == "__main__":
    main()
