# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Space: volumes that nothing uses, pools nearly full, what is promised beyond what there is, and
whether the fleet survives a loss."""

from __future__ import annotations

import typing as t
from collections import Counter

from ..._units import format_size
from ..base.findings import Finding
from ..base.names import command_on, playbook_command
from ..foresight import capacity
from ..placement import decide as placement
from ..preflight import decide_host
from ..preflight.decide_host import Limits
from ..storage import huge_pages

if t.TYPE_CHECKING:
    from ..migration.facts import MovingVm
    from .facts import Examined, UnusedVolume

_SHOWN = 3  # VMs that have no place


def unused(answers: t.Mapping[str, Examined]) -> list[Finding]:
    """The volumes that no hypervisor uses; to be asked only if all have answered and looked."""
    used: dict[str, set[str]] = {}
    entries: dict[tuple[str, ...], list[tuple[str, UnusedVolume]]] = {}
    for host, answer in answers.items():
        checkup = answer.get("checkup")
        if checkup is None:
            continue
        used[host] = set(checkup["used"])
        for volume in checkup["unused"] or ():
            # storage that several have is one place, whatever the pool is called there
            shared = (volume["id"] or volume["pool"], volume["name"])
            key = shared if volume["shared"] else (host, volume["path"])
            entries.setdefault(key, []).append((host, volume))
    findings = []
    for several in entries.values():
        host, volume = several[0]
        if volume["shared"] and any(volume["name"] in names for names in used.values()):
            continue
        text = (
            f"no domain, snapshot, image or card refers to {volume['path']} (pool"
            f" {volume['pool']}, {format_size(volume['mib'])} on disk)"
        )
        delete = command_on(host, "virsh", "vol-delete", "--pool", volume["pool"], volume["name"])
        fix = f"once you know that nobody needs it: {delete}"
        findings.append(Finding("volume_unused", tuple(name for name, _one in several), text, fix))
    return findings


def space(
    answers: t.Mapping[str, Examined], hosts: t.Iterable[placement.PlacementHost], limits: Limits
) -> list[Finding]:
    """Pools that are nearly full, and promises beyond what there is."""
    findings = []
    for host in hosts:
        if host.problem is not None:
            continue
        vms = answers[host.name].get("vms") or ()
        for pool in host.pools:
            if pool.problem is not None:
                continue
            findings += decide_host.pool_low(
                host.name, pool.name, (pool.available_mib, None), limits
            )
            if pool.promised_mib > pool.limit_mib:
                text = (
                    f"pool {pool.name} promises {format_size(pool.promised_mib)} of"
                    f" {format_size(pool.limit_mib)}, as its disks may grow to"
                )
                disks = {vm["name"]: _mib_in(vm, pool.path) for vm in vms}
                fix = _leaving("virt_disk_ratio", disks, pool.promised_mib - pool.limit_mib)
                findings.append(Finding("pool_overcommitted", (host.name,), text, fix))
        paged = (
            host.memory_in_pages_mib > 0 == host.memory_promised_mib
        )  # all VMs are in huge pages
        if host.memory_promised_mib > host.memory_limit_mib and not paged:
            aside = " and for huge pages" if host.memory_in_pages_mib else ""
            text = (
                f"{host.memory_promised_mib} MiB are promised to VMs, of {host.memory_limit_mib}"
                f" MiB ({host.memory_total_mib} MiB without what is reserved for itself{aside})"
            )
            memory = {
                vm["name"]: huge_pages.ordinary_mib(vm["memory_mib"], vm.get("hugepages", ()))
                for vm in vms
            }
            excess = host.memory_promised_mib - host.memory_limit_mib
            fix = _leaving("virt_memory_ratio", memory, excess)
            findings.append(Finding("memory_overcommitted", (host.name,), text, fix))
        if host.vcpus_promised > host.vcpus_limit:
            text = f"{host.vcpus_promised} vCPUs are promised to VMs, of {host.vcpus_limit}"
            vcpus = {vm["name"]: vm["vcpus"] for vm in vms}
            fix = _leaving("virt_vcpu_ratio", vcpus, host.vcpus_promised - host.vcpus_limit)
            findings.append(Finding("vcpus_overcommitted", (host.name,), text, fix))
    return findings


def _mib_in(vm: MovingVm, folder: str | None) -> int:
    """What the disks of a VM may grow to in the pool with that folder."""
    own = [d["bytes"] for d in vm["disks"] if str(d["path"]).rpartition("/")[0] == folder]
    return sum(own) >> 20


def _leaving(ratio: str, sizes: t.Mapping[str, int], excess: int) -> str:
    """The remedy that moves away the smallest VM that suffices, else the largest; empty if none
    has any of it."""
    able = sorted((size, name) for name, size in sizes.items() if size)
    if not able:
        return ""
    _size, chosen = next((one for one in able if one[0] >= excess), able[-1])
    move = playbook_command("migrate_vm", vm_name=chosen)
    return f"raise {ratio} if that is meant; else give another hypervisor a VM, such as: {move}"


def losses(
    answers: t.Mapping[str, Examined],
    hosts: t.Sequence[placement.PlacementHost],
    policy: placement.Policy,
) -> list[Finding]:
    """VMs that have no place once their hypervisor is lost."""
    if len(hosts) < 2:  # there is no other place in a fleet of one
        return []
    findings = []
    for loss in capacity.losses(_settled(answers), hosts, 1, policy):
        shown = [*loss.problems[:_SHOWN]]
        if len(loss.problems) > _SHOWN:
            shown.append(f"and {len(loss.problems) - _SHOWN} more VMs")
        (lost,) = loss.lost
        have = "VM has" if len(loss.problems) == 1 else "VMs have"
        text = f"without {lost}, {len(loss.problems)} {have} no place: {'; '.join(shown)}"
        fix = (
            "add a hypervisor, or make VMs smaller, and try that first:"
            f" {playbook_command('what_if', virt_lose=lost)}"
        )
        findings.append(Finding("loss_not_survived", (lost,), text, fix))
    return findings


def _settled(answers: t.Mapping[str, Examined]) -> dict[str, Examined]:
    """The answers without VMs that are on several hypervisors or being worked on: what is wrong
    with those is a finding of its own."""
    names = Counter(vm["name"] for one in answers.values() for vm in one.get("vms") or ())
    settled: dict[str, Examined] = {}
    for host, answer in answers.items():
        vms = [vm for vm in answer.get("vms") or () if names[vm["name"]] == 1 and not vm["phase"]]
        settled[host] = {**answer, "vms": vms}
    return settled
