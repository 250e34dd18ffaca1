#!/usr/bin/env python3
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the inventory of many hypervisors costs.

  python3 tests/benchmarks/inventory.py [--documents 1000] [--connections 20] [--lab NAME]
                                        [--rounds 5] [--only documents|connections]

documents: ``ansible-inventory --graph`` over as many connections, each to a document of libvirt's
test driver with one VM, as a process of its own: wall time and peak memory of all of it, Ansible's
own start included; the same without hypervisors, and raw libvirt in turn (open, XMLDesc(), close)
beside it. Limits, exit status 1 where one is exceeded: 5 seconds and 500 MiB for 1,000.

connections: the plugin's reading of hypervisors of the laboratory over SSH, as many connections
against one, in turn, in one process. The laboratory has two hypervisors, so the connections are
shared between them; sshd there is allowed to have so many begin at once. Reported as the
ratio of the medians, with the time of so many in turn beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import typing as t
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
SECONDS_LIMIT = 5.0
MIB_LIMIT = 500
_DOCUMENT = """\
<node>
  <domain type='test'>
    <name>vm{number}</name>
    <metadata>
      <fleet xmlns='urn:fleet.virt:1'>
        <image name='debian12.qcow2' digest='sha256' format='qcow2'/>
        <group>web</group><tag>ssd</tag><zone>a</zone><user>ansible</user>
      </fleet>
    </metadata>
    <memory unit='MiB'>512</memory><vcpu>1</vcpu><os><type arch='x86_64'>hvm</type></os>
    <devices>
      <interface type='network'>
        <mac address='52:54:00:00:{high:02x}:{low:02x}'/><source network='default'/>
      </interface>
    </devices>
  </domain>
  <network>
    <name>default</name><bridge name='virbr0'/><forward/>
    <ip address='192.168.122.1' netmask='255.255.255.0'/>
  </network>
</node>
"""
_RAW = """\
import json, sys, time
import libvirt
uris = json.load(sys.stdin)
started = time.perf_counter()
for uri in uris:
    connection = libvirt.open(uri)
    for domain in connection.listAllDomains():
        domain.XMLDesc(0)
    connection.close()
print(time.perf_counter() - started)
"""
# A process keeps the peak of the memory that it was forked with, so what is measured is started by
# one that has next to none, whatever the program that measures has come to hold.
_MEASURED = """\
import json, os, subprocess, sys, time
started = time.perf_counter()
process = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL)
_pid, status, usage = os.wait4(process.pid, 0)
seconds = time.perf_counter() - started
process.returncode = os.waitstatus_to_exitcode(status)
with open(sys.argv[1], "w") as file:
    json.dump([process.returncode, seconds, usage.ru_maxrss / 1024], file)
"""
_MANY_LOGINS = "/etc/ssh/sshd_config.d/fleet-virt-benchmark.conf"


class Process(t.NamedTuple):
    """A program that ran: seconds of the clock, peak memory in MiB, what it printed."""

    seconds: float
    mib: float
    output: str


class Documents(t.NamedTuple):
    """Medians: with all documents, of Ansible alone, of raw libvirt; memory is the largest."""

    documents: int
    seconds: float
    mib: float
    ansible: float
    raw: float


class Connections(t.NamedTuple):
    """Medians in seconds: one connection, so many at once, and so many in turn."""

    connections: int
    one: float
    many: float
    in_turn: float

    @property
    def ratio(self) -> float:
        """So many against one."""
        return self.many / self.one


def run(words: t.Sequence[str], environment: t.Mapping[str, str]) -> Process:
    """Run a program to its end.

    :raises SystemExit: it failed.
    """
    with tempfile.TemporaryDirectory(prefix="fleet-virt-inventory-") as folder:
        figures = Path(folder) / "figures"
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _MEASURED, str(figures), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env=dict(environment),
            text=True,
            check=True,
        )
        status, seconds, mib = json.loads(figures.read_text())
    if status:
        raise SystemExit(f"{words[0]} ended with {status}")
    return Process(seconds, mib, done.stdout)


def _collections(folder: Path) -> Path:
    link = folder / "collections" / "ansible_collections" / "fleet" / "virt"
    link.parent.mkdir(parents=True)
    link.symlink_to(CHECKOUT, target_is_directory=True)
    return folder / "collections"


def documents(number: int, rounds: int) -> Documents:
    """Read ``number`` documents, and what there is to compare with, in turn."""
    with tempfile.TemporaryDirectory(prefix="fleet-virt-inventory-") as name:
        folder = Path(name)
        kept = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
        environment = {
            **kept,
            "ANSIBLE_COLLECTIONS_PATH": str(_collections(folder)),
            "ANSIBLE_HOME": str(folder / "home"),
        }
        uris = []
        for index in range(number):
            path = folder / f"{index}.xml"
            path.write_text(_DOCUMENT.format(number=index, high=index // 256, low=index % 256))
            uris.append(f"test://{path}")
        plugin = {"plugin": "fleet.virt.virt", "uris": uris}
        keyed = [{"key": "virt_zone", "prefix": "zone"}, {"key": "virt_image", "prefix": "image"}]
        whole = folder / "whole.virt.yml"
        whole.write_text(json.dumps({**plugin, "keyed_groups": keyed}))
        program = str(Path(sys.executable).parent / "ansible-inventory")
        read: list[Process] = []
        alone: list[Process] = []
        raw: list[float] = []
        for _round in range(rounds):
            read.append(run([program, "-i", str(whole), "--graph"], environment))
            listed = read[-1].output.partition("@image_debian12_qcow2:")[2].count("--vm")
            if listed < number:
                raise SystemExit(f"{listed} VMs of {number} were listed")
            alone.append(run([program, "-i", "localhost,", "--graph"], environment))
            done = subprocess.run(
                [sys.executable, "-c", _RAW],
                input=json.dumps(uris),
                capture_output=True,
                text=True,
                check=True,
            )
            raw.append(float(done.stdout))
        return Documents(
            number,
            statistics.median(one.seconds for one in read),
            max(one.mib for one in read),
            statistics.median(one.seconds for one in alone),
            statistics.median(raw),
        )


def connections(lab: t.Any, number: int, rounds: int) -> Connections:
    """Read the laboratory's hypervisors by ``number`` connections and by one, in turn.

    :param lab: a tests.lab.laboratory.Laboratory that is up.
    """
    from ansible_collections.fleet.virt.plugins.plugin_utils.reading import _reading
    from ansible_collections.fleet.virt.plugins.plugin_utils.ssh import _ssh

    hosts = [host for host in lab.hosts if host.state == "running" and not host.bare]
    reload = "systemctl reload ssh"
    for host in hosts:
        more = f"MaxStartups {10 * number}:30:{20 * number}"
        lab.ssh(host.name, f"echo '{more}' > {_MANY_LOGINS}; {reload}")
    options = (
        *("-o", f"UserKnownHostsFile={lab.known_hosts}", "-o", "GlobalKnownHostsFile=/dev/null"),
        *("-o", "StrictHostKeyChecking=yes", "-o", "IdentitiesOnly=yes"),
    )
    settings = _reading.ReadingSettings()
    timings: dict[str, list[float]] = {"one": [], "many": [], "in turn": []}
    try:
        with tempfile.TemporaryDirectory(prefix="fleet-virt-inventory-") as folder:
            chosen = []
            for index in range(number):
                host = hosts[index % len(hosts)]
                ssh = _ssh.Ssh(
                    host.address,
                    host.user,
                    key_file=str(lab.key),
                    arguments=options,
                    become=host.user != "root",
                )
                uri = _ssh.write_script(ssh, "qemu:///system", Path(folder), index)
                chosen.append(_reading.Hypervisor(f"hv{index}", _ssh.Reached(uri, ssh)))

            def timed(some: t.Sequence[t.Any]) -> float:
                started = time.perf_counter()
                outcomes = _reading.read_all(some, settings)
                seconds = time.perf_counter() - started
                failed = [str(one) for one in outcomes if not hasattr(one, "value")]
                if failed:
                    raise SystemExit(f"{len(failed)} connections failed: {failed[0]}")
                return seconds

            timed(chosen[: len(hosts)])  # does not count
            for _round in range(rounds):
                timings["one"].append(timed(chosen[:1]))
                timings["many"].append(timed(chosen))
                timings["in turn"].append(sum(timed([one]) for one in chosen))
    finally:
        for host in hosts:
            lab.ssh(host.name, f"rm -f {_MANY_LOGINS}; {reload}")
    return Connections(number, *(statistics.median(some) for some in timings.values()))


def excesses(found: Documents) -> list[str]:
    """The limits that are exceeded, in words; they are for 1,000 documents."""
    problems = []
    if found.seconds > SECONDS_LIMIT:
        problems.append(f"{found.documents} documents: {found.seconds:.2f} s > {SECONDS_LIMIT} s")
    if found.mib > MIB_LIMIT:
        problems.append(f"{found.documents} documents: {found.mib:.0f} MiB > {MIB_LIMIT} MiB")
    return problems


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--connections", type=int, default=20)
    parser.add_argument("--lab", help="a laboratory that is up (default: one of its own)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=["documents", "connections"])
    options = parser.parse_args()
    problems: list[str] = []
    if options.only != "connections":
        read = documents(options.documents, options.rounds)
        print(
            f"{read.documents} documents: {read.seconds:.2f} s, {read.mib:.0f} MiB"
            f" (of it Ansible alone {read.ansible:.2f} s; raw libvirt in turn {read.raw:.2f} s)"
        )
        problems = excesses(read)
    if options.only != "documents":
        with tempfile.TemporaryDirectory(prefix="fleet-virt-inventory-") as name:
            sys.path[:0] = [str(_collections(Path(name))), str(CHECKOUT)]
            found = _on_laboratory(options)
        print(
            f"{found.connections} connections: {found.many:.2f} s, one: {found.one:.2f} s,"
            f" ratio {found.ratio:.2f} (in turn {found.in_turn:.2f} s)"
        )
    for line in problems:
        print(f"limit exceeded: {line}", file=sys.stderr)
    return 1 if problems else 0


def _on_laboratory(options: argparse.Namespace) -> Connections:
    from tests.lab.laboratory import Laboratory

    name = options.lab or f"inventory{os.getpid()}"
    lab = Laboratory(name, None if options.lab else os.getpid())
    if not options.lab:
        lab.up(2)
    try:
        return connections(lab, options.connections, options.rounds)
    finally:
        if not options.lab:
            lab.down()


if __name__ == "__main__":
    sys.exit(main())
