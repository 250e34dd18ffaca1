#!/usr/bin/env python3
# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long it takes to find out which VMs of a dead hypervisor can be restarted, and where.

  python3 tests/benchmarks/restarting.py [--hosts 200] [--vms 5000]

A folder has the cards and the disks of a fleet, of which one hypervisor is off. With libvirt's test
driver: what each of the others does when it looks, which of the cards it opens (each is a request
to the storage that all of them share, and all look at the same time), what the controller does with
the answers of all, and what the hypervisor does that takes over all VMs, in check mode, which reads
every card and every image once. CPU time, which others on this machine do not change.

Exit status 1 if any of them takes more than a tenth of the 60 seconds that reading a folder has.
"""

from __future__ import annotations

import argparse
import copy
import sys
import tempfile
import time
import typing as t
import uuid
from pathlib import Path

_TREE = tempfile.TemporaryDirectory(prefix="fleet-virt-collections-")
_LINK = Path(_TREE.name) / "ansible_collections" / "fleet" / "virt"
_LINK.parent.mkdir(parents=True)
_LINK.symlink_to(Path(__file__).resolve().parents[2], target_is_directory=True)
sys.path.insert(0, _TREE.name)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    read_caller as caller,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards import (
    effects_cards,
    read_cards,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards.card import Card, CardName
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.hosts import (
    PlacementHost,
    PoolFacts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.types import Policy
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restart import (
    decide,
    effects,
    read,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restart.options import (
    RestartOptions,
    RestartWork,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage import (
    read_file_systems,
)

LIMIT = read._SECONDS / 10
_OFF = "hv1"
_DOMAIN = """\
<domain type='test'>
  <name>{name}</name><uuid>{uuid}</uuid><memory unit='MiB'>64</memory><vcpu>1</vcpu>
  <os><type>hvm</type></os>
  <devices>
    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2'/><source file='{disk}'/><target dev='vda' bus='virtio'/>
    </disk>
    {more}
  </devices>
</domain>
"""
# As long as one that libvirt has completed
_PORTS = "".join(
    f"<controller type='pci' index='{number}' model='pcie-root-port'>"
    f"<model name='pcie-root-port'/><target chassis='{number}' port='0x{number:x}'/>"
    f"<address type='pci' domain='0x0000' bus='0x00' slot='0x02' function='0x{number % 8}'/>"
    "</controller>"
    for number in range(1, 15)
)


class Figures(t.NamedTuple):
    """Seconds of each part, and how many cards one hypervisor opened when it looked."""

    look: float
    opened: int
    decide: float
    take: float


def prepare(folder: Path, hosts: int, vms: int) -> int:
    """Write the cards and the disks; how many VMs the hypervisor that is off has."""
    of_off = 0
    for number in range(vms):
        host, name = f"hv{1 + number % hosts}", f"vm{number:05}"
        of_off += host == _OFF
        disk = folder / f"{name}_system.qcow2"
        disk.touch()
        own = str(uuid.UUID(int=number + (1 << 100)))
        text = _DOMAIN.format(name=name, uuid=own, disk=disk, more=_PORTS)
        effects_cards.write(str(folder), Card(CardName(name, (host,)), own, text, running=True))
    return of_off


def _timed(function: t.Callable[[], t.Any]) -> tuple[float, t.Any]:
    before = time.process_time()
    result = function()
    return time.process_time() - before, result


def _host(name: str, folder: Path) -> PlacementHost:
    pool = PoolFacts("shared", str(folder), 1 << 30, 0, 1 << 29, 1.0)
    return PlacementHost(
        name,
        maintenance=False,
        domain_types=frozenset({"test"}),
        arch="i686",
        memory_total_mib=1 << 20,
        memory_limit_mib=1 << 20,
        vcpus_total=64,
        vcpus_max=64,
        vcpus_limit=512,
        pools=(pool,),
    )


def measure(connection: Connection, folder: Path, hosts: int) -> Figures:
    """All parts on a fleet that was prepared."""
    options: RestartOptions = {
        **{"host": [_OFF], "names": [], "addresses": ["127.0.0.1"], "ports": [1]},
        **{"base_pool": "base", "base_path": str(folder.parent)},
    }
    opened = []
    load = read_cards.load

    def counting(place: str, at: CardName) -> t.Any:
        opened.append(at)
        return load(place, at)

    read_cards.load = counting
    seconds, seen = _timed(lambda: read.look(connection, options))
    read_cards.load = load
    answers = {f"hv{number}": copy.deepcopy(seen) for number in range(2, hosts + 1)}
    places = [_host(name, folder) for name in answers]
    policy = Policy(pool_paths={}, base_pool="base")
    deciding, decision = _timed(lambda: decide.decide([_OFF], [], answers, places, {}, policy))
    names = sorted(entry["name"] for entry in seen["cards"])
    if sorted(name for share in decision.shares.values() for name in share) != names:
        raise SystemExit(f"not all VMs would be restarted: {str(decision.failures)[:500]}")
    work = RestartWork(stage="act", seen=decide.seen_cards(names, seen))
    wanted = t.cast("RestartOptions", {**options, "names": names})
    taking, answer = _timed(lambda: effects.run(connection, wanted, work, check=True))
    if answer.get("failed") or len(answer["vms"]) != len(names):
        raise SystemExit(f"not all VMs would be taken over: {answer.get('msg')}")
    return Figures(seconds, len(opened), deciding, taking)


def main() -> int:
    """Print the figures, and whether one exceeds the limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hosts", type=int, default=200)
    parser.add_argument("--vms", type=int, default=5000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fleet-virt-benchmark-") as place:
        folder = Path(place) / "shared"
        folder.mkdir()
        of_off = prepare(folder, args.hosts, args.vms)
        read_file_systems.has_shared = lambda: True
        read_file_systems.is_shared = lambda path: str(path) == str(folder)
        effects.sign_of_life = read.sign_of_life = lambda *_places: None
        caller.set_host("hv2")
        pool = f"<pool type='dir'><name>s</name><target><path>{folder}</path></target></pool>"
        with connect("test:///default", 10) as connection:
            handle = connection.conn.storagePoolDefineXML(pool, 0)
            handle.create(0)
            type(connection).local = True
            figures = measure(connection, folder, args.hosts)
    print(f"{args.hosts} hypervisors, {args.vms} cards, {of_off} of the one that is off")
    print(f"look, on each of the others:  {figures.look:6.2f} s, {figures.opened} cards opened")
    print(f"decide, on the controller:    {figures.decide:6.2f} s")
    print(f"take all over, in check mode: {figures.take:6.2f} s (limit of each: {LIMIT:g} s)")
    slow = max(figures.look, figures.decide, figures.take) > LIMIT
    return 1 if slow or figures.opened > of_off else 0


if __name__ == "__main__":
    sys.exit(main())
