#!/usr/bin/python3
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bringing an image to 1, 2 and 5 hypervisors against one scp of the same bytes.

    .venv/bin/python tests/benchmarks/images.py LABORATORY [--mib 256] [--runs 3] [--link MBIT]
        [--only alone|helping]

On a laboratory that is up, of as many of these numbers as it has hypervisors. Timed in turn: one
copy over ssh to the first hypervisor, as scp makes it, and flushed there; ``ansible -m ping`` of
the hypervisors; ``virt_image`` of the file from the controller, of the same file by https, and of
it again where it is already. The content is random, its digest known to the controller, and the
hypervisors have none of it before. Printed are medians in seconds, and each as a multiple of scp.

All of it twice: hypervisors that get the image each from the controller (alone), and such that
trust each other's keys and help each other (helping). ``--link`` limits what leaves the controller
to so many megabits a second, as the link of a controller far away would: all the laboratory's
hypervisors are on this machine's processors, so without it more of them always take longer, whoever
sends.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
os.environ.setdefault("ANSIBLE_COLLECTIONS_PATH", str(CHECKOUT / ".venv" / "collections"))
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / ".venv" / "collections")]

from ansible_collections.fleet.virt.tests.integration.support import tls
from ansible_collections.fleet.virt.tests.integration.support.ansible import Ansible
from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory
from ansible_collections.fleet.virt.tests.unit import _https

NUMBERS = (1, 2, 5)
_POOL = "benchmark-images"
_FOLDER = "/var/lib/libvirt/benchmark-images"
_CLEAN = f"""
chattr -i {_FOLDER}/* 2>/dev/null
virsh -q pool-destroy {_POOL} 2>/dev/null
virsh -q pool-undefine {_POOL} 2>/dev/null
rm -rf {_FOLDER} /var/tmp/benchmark-image
sync
"""
_TRUSTED = "/usr/lib/ssl/certs"


class Bench:
    """The laboratory, a folder with an image of random content, and a server that has it too."""

    def __init__(self, lab: Laboratory, folder: Path, mib: int, server: _https.Server) -> None:
        self.lab = lab
        self.hosts = [host.name for host in lab.hosts if host.state == "running"]
        self.ansible = Ansible(lab.inventory, folder)
        self.image = folder / "image.raw"
        with self.image.open("wb") as file:
            file.write(bytes(512))
            for _ in range(mib):
                file.write(os.urandom(1 << 20))
            file.truncate(mib << 20)
        self.url = server.put("/image.raw", self.image.read_bytes())
        command = ["openssl", "x509", "-noout", "-hash", "-in", str(server.ca)]
        name = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        for host in self.hosts:
            take = f"mkdir -p {_TRUSTED}; cat > {_TRUSTED}/{name}.0"
            lab.ssh(host, take, input=server.ca.read_text())

    def clean(self) -> None:
        for host in self.hosts:
            self.lab.ssh(host, _CLEAN)

    def scp(self) -> float:
        """One copy over ssh, until it is on the disk."""
        self.clean()
        command = [*self.lab.login(self.hosts[0]), "--", "dd of=/var/tmp/benchmark-image bs=1M"]
        started = time.perf_counter()
        with self.image.open("rb") as content:
            subprocess.run(
                [*command[:-1], f"{command[-1]} conv=fsync status=none"], stdin=content, check=True
            )
        return time.perf_counter() - started

    def module(self, pattern: str, module: str, args: dict[str, str]) -> float:
        started = time.perf_counter()
        done = self.ansible.module(pattern, module, args)
        spent = time.perf_counter() - started
        failed = {host: one for host, one in done.items() if one["failed"] or one["unreachable"]}
        if failed:
            raise SystemExit(json.dumps(failed, indent=1, default=str))
        return spent

    def round(self, number: int) -> dict[str, float]:
        """Each way once, to the first ``number`` hypervisors."""
        pattern = ",".join(self.hosts[:number])
        place = {"base_pool": _POOL, "base_path": _FOLDER, "image_dir": str(self.image.parent)}
        found = {"scp": self.scp(), "ping": self.module(pattern, "ansible.builtin.ping", {})}
        for name, image in (("controller", self.image.name), ("https", self.url)):
            self.clean()
            found[name] = self.module(pattern, "virt_image", {**place, "image": image})
        found["again"] = self.module(pattern, "virt_image", {**place, "image": self.image.name})
        return found


@contextlib.contextmanager
def limited(lab: Laboratory, mbit: int) -> Iterator[None]:
    """What goes over the laboratory's cable from here is limited; 0: it is not."""
    place = ["dev", lab.record.link, "root"]
    if mbit:
        shape = ["tbf", "rate", f"{mbit}mbit", "burst", "256kb", "latency", "100ms"]
        subprocess.run(["tc", "qdisc", "replace", *place, *shape], check=True)
    try:
        yield
    finally:
        if mbit:
            subprocess.run(["tc", "qdisc", "del", *place], check=True)


def report(bench: Bench, runs: int) -> None:
    bench.round(1)  # does not count: the digest of the file is found out
    print("hypervisors " + "".join(f"{key:>20}" for key in bench.round(1)))
    for number in [one for one in NUMBERS if one <= len(bench.hosts)]:
        rounds = [bench.round(number) for _ in range(runs)]
        line = f"{number:11} "
        for key in rounds[0]:
            seconds = statistics.median(one[key] for one in rounds)
            ratio = statistics.median(one[key] / one["scp"] for one in rounds)
            line += f"{seconds:10.2f} s {ratio:5.2f} x"
        print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("laboratory")
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--link", type=int, default=0)
    parser.add_argument("--only", choices=["alone", "helping"])
    given = parser.parse_args()
    lab = Laboratory(given.laboratory)
    with (
        tempfile.TemporaryDirectory() as name,
        _https.serving(lab.gateway, Path(name)) as server,
        limited(lab, given.link),
    ):
        bench = Bench(lab, Path(name), given.mib, server)
        try:
            if given.only != "helping":
                print("alone")
                report(bench, given.runs)
            if given.only != "alone":
                print("helping each other")
                with tls.trusting(lab, bench.hosts):
                    report(bench, given.runs)
        finally:
            bench.clean()


if __name__ == "__main__":
    main()
