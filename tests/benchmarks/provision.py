#!/usr/bin/python3
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""provision_vm against the tools it stands on, on a laboratory that is up.

    .venv/bin/python tests/benchmarks/provision.py LABORATORY [RUNS]

Timed in turn, the image being present: ``provision_vm`` of one overlay VM that is not waited for,
the same VM by ``qemu-img create -b``, ``virsh define`` and ``virsh start`` over ssh, and
``ansible -m ping``. Then ten VMs in one run. Printed are medians in seconds and how they relate.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
os.environ.setdefault("ANSIBLE_COLLECTIONS_PATH", str(CHECKOUT / ".venv" / "collections"))
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / ".venv" / "collections")]

from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible
from ansible_collections.fleet.virt.tests.lab import images
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

_SWEEP = r"""
for name in $(virsh list --all --name | grep ^bench); do
  virsh destroy $name >/dev/null 2>&1
  virsh undefine $name --nvram >/dev/null
  for file in /var/lib/libvirt/images/$name[_.]*; do rm -f "$file"; done
done
virsh pool-refresh default >/dev/null 2>&1 || true
"""
_RAW = r"""
set -e
base=$(ls /var/lib/libvirt/base/*tiny* | head -n 1)
qemu-img create -q -f qcow2 -b "$base" -F qcow2 /var/lib/libvirt/images/benchraw.qcow2 8G
cat > /run/benchraw.xml <<XML
<domain type='qemu'><name>benchraw</name><memory unit='MiB'>96</memory><vcpu>1</vcpu>
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


class Bench:
    """The commands and their times."""

    def __init__(self, name: str, folder: Path) -> None:
        self.lab = Laboratory(name)
        self.ansible = Ansible(self.lab.inventory, folder)
        (folder / "tiny.qcow2").symlink_to(images.image("tiny"))
        self.variables = {
            "virt_image_dir": str(folder),
            "virt_ssh_public_key": str(self.lab.key) + ".pub",
        }

    def _ansible(self, program: str, *words: str) -> float:
        started = time.monotonic()
        self.ansible.run(program, words).succeeded()
        return time.monotonic() - started

    def provision(self, count: int) -> float:
        """Seconds of provision_vm for ``count`` VMs."""
        vms = [
            {"name": f"bench{number}", "memory": 96, "image": "tiny.qcow2", "wait": False}
            for number in range(count)
        ]
        extra = json.dumps({**self.variables, "virt_vms": vms})
        return self._ansible("ansible-playbook", "fleet.virt.provision_vm", "-e", extra)

    def ping(self) -> float:
        """Seconds of Ansible's ping of both hypervisors."""
        return self._ansible("ansible", "hypervisors", "-m", "ansible.builtin.ping")

    def raw(self) -> float:
        """Seconds of qemu-img, virsh define and virsh start."""
        started = time.monotonic()
        self.lab.ssh("hv1", _RAW)
        return time.monotonic() - started

    def sweep(self) -> None:
        """Remove what was made."""
        for host in self.lab.hosts:
            self.lab.ssh(host.name, _SWEEP)


def main() -> int:
    """Measure and print."""
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    runs = int(sys.argv[2]) if len(sys.argv) == 3 else 5
    with tempfile.TemporaryDirectory(prefix="fleet-virt-bench-") as folder:
        bench = Bench(sys.argv[1], Path(folder))
        bench.sweep()
        bench.provision(2)  # brings the image to both, and warms up
        bench.sweep()
        times: dict[str, list[float]] = {"one": [], "raw": [], "ping": [], "ten": []}
        for run in range(runs):
            times["one"].append(bench.provision(1))
            bench.sweep()
            times["raw"].append(bench.raw())
            times["ping"].append(bench.ping())
            bench.sweep()
            if run < 2:
                times["ten"].append(bench.provision(10))
                bench.sweep()
    median = {key: statistics.median(values) for key, values in times.items()}
    for key, what in (
        ("one", "provision_vm of one VM"),
        ("raw", "qemu-img create -b, virsh define, virsh start"),
        ("ping", "ansible -m ping"),
        ("ten", "provision_vm of ten VMs"),
    ):
        print(f"{what:48} {median[key]:6.2f} s  (of {len(times[key])})")
    above = median["one"] - median["raw"] - median["ping"]
    print(f"one VM above raw and ping together: {above:.2f} s")
    print(f"ten VMs as a multiple of one: {median['ten'] / median['one']:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
