#!/usr/bin/python3
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ways to make a VM's disk and to seed it, against the tools, on a laboratory that is up.

    .venv/bin/python tests/benchmarks/creating.py LABORATORY [--runs 3] [--ways overlay,copy,...]

``provision_vm`` makes a VM of Debian's cloud image, which the hypervisor has, and does not start
it: as overlay or as full copy without a seed, and as overlay with a seed on a medium (nocloud) or
in its disk (offline, for which hv1 needs libguestfs). Each beside the same by ``qemu-img``,
``xorriso`` or ``guestfish`` and ``virsh define`` over ssh, in turn. Printed are medians in seconds,
and what ours takes as a multiple of it and above it.
"""

from __future__ import annotations

import argparse
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

VM = "benchmade"
_DISK = f"/var/lib/libvirt/images/{VM}.qcow2"
_OVERLAY = f'qemu-img create -q -f qcow2 -b "$base" -F qcow2 {_DISK} 8G'
_COPY = f'qemu-img convert -O qcow2 "$base" {_DISK}; qemu-img resize -q {_DISK} 8G'
_MEDIUM = (
    "mkdir -p /run/bench; echo '{}' > /run/bench/user-data; echo '{}' > /run/bench/meta-data;"
    " xorriso -as mkisofs -quiet -V cidata -J -r"
    f" -o /var/lib/libvirt/images/{VM}.iso /run/bench 2>/dev/null; rm -r /run/bench"
)
_WRITE = f"LIBGUESTFS_BACKEND=direct guestfish -a {_DISK} -i write /etc/hostname bench"
_RAW = """
set -e
base=$(ls /var/lib/libvirt/base/*debian12* | head -n 1)
{0}
printf '%s' "<domain type='qemu'><name>benchraw</name><memory unit='MiB'>512</memory><os>\
<type arch='x86_64' machine='q35'>hvm</type></os></domain>" > /run/benchraw.xml
virsh define /run/benchraw.xml >/dev/null
"""
_SWEEP = f"""
virsh undefine benchraw >/dev/null 2>&1
rm -f {_DISK} /var/lib/libvirt/images/{VM}.iso /run/benchraw.xml
"""
# What is asked of provision_vm, and what does the same by hand
WAYS: dict[str, tuple[dict[str, object], str]] = {
    "overlay": ({"vm_seed": False}, _OVERLAY),
    "copy": ({"vm_seed": False, "vm_overlay": False}, _COPY),
    "nocloud": ({"vm_seed": {"method": "nocloud"}}, f"{_OVERLAY}; {_MEDIUM}"),
    "offline": ({"vm_seed": {"method": "offline"}}, f"{_OVERLAY}; {_WRITE}"),
}


class Bench:
    """One VM, made again and again."""

    def __init__(self, name: str, folder: Path) -> None:
        self.lab = Laboratory(name)
        self.ansible = Ansible(self.lab.inventory, folder)
        (folder / "debian12.qcow2").symlink_to(images.image("debian"))
        self.variables = {
            "virt_image_dir": str(folder),
            "virt_ssh_public_key": str(self.lab.key) + ".pub",
            "vm_name": VM,
            "vm_host": "hv1",
            "vm_memory": 512,
            "vm_image": "debian12.qcow2",
            "vm_start": False,
            "vm_wait": False,
        }

    def _playbook(self, name: str, variables: dict[str, object]) -> float:
        began = time.monotonic()
        words = (f"fleet.virt.{name}", "-e", json.dumps(variables))
        self.ansible.run("ansible-playbook", words, limit=900).succeeded()
        return time.monotonic() - began

    def ours(self, way: str) -> float:
        """Seconds of provision_vm."""
        seconds = self._playbook("provision_vm", {**self.variables, **WAYS[way][0]})
        self._playbook("purge_vm", {"vm_name": VM})
        return seconds

    def raw(self, way: str) -> float:
        """Seconds of the tools."""
        began = time.monotonic()
        self.lab.ssh("hv1", _RAW.format(WAYS[way][1]), timeout=900)
        seconds = time.monotonic() - began
        self.lab.ssh("hv1", _SWEEP, check=False)
        return seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("laboratory")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--ways", default=",".join(WAYS))
    given = parser.parse_args()
    ways = given.ways.split(",")
    with tempfile.TemporaryDirectory(prefix="fleet-virt-bench-") as folder:
        bench = Bench(given.laboratory, Path(folder))
        bench.lab.ssh("hv1", _SWEEP, check=False)
        bench.ours("overlay")  # brings the image, and warms up
        found: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        for _run in range(given.runs):
            for way in ways:
                found[way].append((bench.ours(way), bench.raw(way)))
    print(f"{'WAY':10} {'OURS':>8} {'TOOLS':>8} {'TIMES':>6} {'ABOVE':>7}   (of {given.runs})")
    for way, pairs in found.items():
        ours, raw = (statistics.median(times) for times in zip(*pairs, strict=True))
        print(f"{way:10} {ours:6.2f} s {raw:6.2f} s {ours / raw:6.2f} {ours - raw:5.2f} s")


if __name__ == "__main__":
    main()
