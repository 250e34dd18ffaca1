# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the steps of creating and moving VMs make of the fleet, as it would be read afterwards.

The state is what hypervisors answer, so that whatever is decided from answers is decided from it
alike. Nothing given is changed; each function returns the fleet as it is then.
"""

from __future__ import annotations

import copy
import posixpath
import typing as t

from ..._errors import Problem, SpecError
from ..._records import dataclass
from ..._units import MIB
from ..migration.facts import MigrateLook, MovingVm
from ..placement.hosts import image_keys
from ..placement.types import Policy, Request
from ..storage import huge_pages

if t.TYPE_CHECKING:
    from ..base.answers import InPages
    from ..base.snapshot import HugepagesEntry, PlacedEntry, PlacementEntry, PoolEntry

Answers = dict[str, MigrateLook]


@dataclass(frozen=True)
class NewHost:
    """A hypervisor to be added: ``like`` one that there is, but for what is given."""

    name: str
    like: str
    memory_mib: int | None = None
    cpus: int | None = None


def host_of(answer: MigrateLook) -> PlacementEntry:
    """All that a hypervisor said of itself."""
    return t.cast("PlacementEntry", answer["host"])


def _vms(answer: MigrateLook) -> list[MovingVm]:
    vms = answer["vms"]
    return [] if vms is None else vms


def added(answers: Answers, new: NewHost) -> Answers:
    """The fleet with one more hypervisor, which has no VMs and no files."""
    if new.like not in answers:
        known = ", ".join(answers) or "none"
        text = f"{new.like} did not answer, or is no hypervisor of this play; there are: {known}"
        raise SpecError([Problem("virt_add_hosts", text)])
    if new.name in answers:
        raise SpecError([Problem("virt_add_hosts", f"{new.name} is a hypervisor that there is")])
    answer = copy.deepcopy(answers[new.like])
    answer["vms"] = []
    host = host_of(answer)
    host["vms"], host["images"], host["maintenance"] = [], [], False
    host["memory_mib"]["defined"] = host["memory_mib"]["running"] = 0
    for pages in host["memory_mib"].get("hugepages", ()):
        pages["defined"] = pages["running"] = 0
    for free in _free_pages(host):
        free["free"] = free["total"]
    host["cpu"]["defined"] = host["cpu"]["running"] = 0
    if new.memory_mib is not None:
        host["memory_mib"]["total"] = new.memory_mib
    if new.cpus is not None:
        host["cpu"]["total"] = new.cpus
    for pool in host["pools"]:
        pool["promised_mib"] = pool["claimed_mib"] = pool["volume_allocation_mib"] = 0
        pool["available_mib"] = pool["capacity_mib"]
    return {**answers, new.name: answer}


def without(answers: Answers, lost: t.Collection[str]) -> Answers:
    """The fleet without these hypervisors and what is on them."""
    return {name: answer for name, answer in answers.items() if name not in lost}


def unmarked(answers: Answers, host: str) -> Answers:
    """The fleet once ``host`` is in maintenance no longer."""
    answers = {**answers, host: copy.deepcopy(answers[host])}
    host_of(answers[host])["maintenance"] = False
    return answers


def created(
    answers: Answers, host: str, request: Request, policy: Policy, uuid: str = ""
) -> Answers:
    """The fleet once the VM is created on ``host``."""
    answers = {**answers, host: copy.deepcopy(answers[host])}
    entry = host_of(answers[host])
    paths: list[tuple[str, int]] = []
    for number, disk in enumerate(request.disks):
        pool = _pool(entry, disk.pool, policy)
        if pool is not None:
            _promise(pool, disk.size_mib)
            path = posixpath.join(str(pool["path"]), f"{request.name}_{number}")
            paths.append((path, disk.size_mib * MIB))
    if request.image is not None and request.image not in _images(entry):
        base = _pool(entry, policy.base_pool, policy)
        if base is not None:
            _promise(base, request.image_mib)
        entry["images"].append(request.image)
    vm: MovingVm = {
        "name": request.name,
        "uuid": uuid,
        "persistent": True,
        "phase": None,
        "move": None,
        "groups": [*request.groups],
        "affinity": [*request.affinity],
        "anti_affinity": [*request.anti_affinity],
        "tags": [*request.tags],
        "zone": request.zone,
        "evacuated_from": [],
        "ha": request.wants.cell is not None,
        "active": False,
        "vcpus": request.vcpus,
        "memory_mib": request.memory_mib,
        "domain_type": request.domain_type,
        "arch": request.arch,
        "bridges": [*request.bridges],
        "networks": [*request.networks],
        "nwfilters": [*request.wants.nwfilters],
        "vsock": False,
        "disks": [{"path": path, "bytes": size, "backing": None} for path, size in paths],
        "media": [],
        "names": [],
        "error": None,
    }
    if request.wants.hugepages:
        vm["hugepages"] = [
            {"size_kib": size, "memory_mib": memory} for size, memory in request.wants.hugepages
        ]
    _take(answers[host], vm, 1)
    return answers


def moved(answers: Answers, name: str, source: str, destination: str) -> Answers:
    """The fleet once the VM is on ``destination`` with its disks."""
    if source == destination:
        return answers
    answers = {**answers}
    for host in (source, destination):
        answers[host] = copy.deepcopy(answers[host])
    (vm,) = [one for one in _vms(answers[source]) if one["name"] == name]
    for host, sign in ((source, -1), (destination, 1)):
        for disk in vm["disks"]:
            folder = posixpath.dirname(str(disk["path"]))
            for pool in host_of(answers[host])["pools"]:
                if pool["path"] == folder:
                    _promise(pool, sign * -(-disk["bytes"] // MIB))
        _take(answers[host], vm, sign)
    return answers


def _take(answer: MigrateLook, vm: MovingVm, sign: int) -> None:
    """Count the VM in, or out."""
    host = host_of(answer)
    in_pages = vm.get("hugepages", [])
    memory, active = huge_pages.ordinary_mib(vm["memory_mib"], in_pages), vm["active"]
    host["memory_mib"]["defined"] += sign * memory
    host["cpu"]["defined"] += sign * vm["vcpus"]
    if active:
        host["memory_mib"]["running"] += sign * memory
        host["cpu"]["running"] += sign * vm["vcpus"]
    if in_pages:
        _take_pages(host, in_pages, sign, active)
    host["vms"] = [one for one in host["vms"] if one["name"] != vm["name"]]
    answer["vms"] = others = [one for one in _vms(answer) if one["name"] != vm["name"]]
    if sign > 0:
        entry = {key: vm[key] for key in ("name", "uuid", "phase", "groups", "anti_affinity")}
        host["vms"].append(t.cast("PlacedEntry", {**entry, "active": vm["active"], "macs": []}))
        host["vms"].sort(key=lambda vm_entry: vm_entry["name"])
        answer["vms"] = sorted([*others, vm], key=lambda vm_entry: vm_entry["name"])


def _free_pages(host: PlacementEntry) -> list[HugepagesEntry]:
    """Huge pages by their number; none where only libvirt was asked."""
    offers = host.get("offers")
    return [] if offers is None else offers["hugepages"] or []


def _take_pages(
    host: PlacementEntry, in_pages: t.Sequence[InPages], sign: int, active: bool
) -> None:
    """Count what is in huge pages in, or out; a VM that runs has its pages from the free ones."""
    known = {one["size_kib"]: one for one in host["memory_mib"].get("hugepages", [])}
    for entry in huge_pages.entries(dict.fromkeys(known, 0), [(active, in_pages)]):
        there = known.get(entry["size_kib"])
        if there is not None:
            there["defined"] += sign * entry["defined"]
            there["running"] += sign * entry["running"]
        for free in _free_pages(host):
            if free["size_kib"] == entry["size_kib"]:
                free["free"] -= sign * (entry["running"] * 1024 // free["size_kib"])


def _promise(pool: PoolEntry, mib: int) -> None:
    pool["promised_mib"] = (pool.get("promised_mib") or 0) + mib


def _pool(host: PlacementEntry, name: str, policy: Policy) -> PoolEntry | None:
    """The pool of that name, or the one in its place; None if it is made only then."""
    target = policy.pool_paths.get(name)
    for pool in host["pools"]:
        if pool["name"] == name:
            return pool
    for pool in host["pools"]:
        if target is not None and pool["path"] == (target.rstrip("/") or target):
            return pool
    return None


def _images(host: PlacementEntry) -> frozenset[str]:
    return image_keys(host["images"])
