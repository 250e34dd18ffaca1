# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rules across the settings of a VM: report early what libvirt or QEMU would refuse."""

from __future__ import annotations

import typing as t

from ..base.options import Reader
from . import cpusets

if t.TYPE_CHECKING:
    from .domain import Domain


_SERIALS = 4  # what a PC has, the console among them


def check(domain: Domain, host: str | None, reader: Reader) -> None:
    """Report all settings that exclude each other; ``host`` is the hypervisor it must be on."""
    _cpus(domain, reader)
    _memory(domain, reader)
    if domain.seed is not None and domain.disks and all(one.exists for one in domain.disks):
        reader.problem(
            "seed", "it is stored beside a disk created for the VM, and there is none; set it false"
        )
    encrypted = [one.name for one in domain.disks if one.encryption_secret]
    if encrypted and domain.seed and domain.seed.method == "offline":
        reader.problem(
            "seed",
            f"a seed cannot be written into an encrypted disk ({', '.join(encrypted)}); use"
            " method nocloud",
        )
    secure = reader.is_true("secure_boot")
    if secure and domain.firmware != "uefi":
        reader.problem("secure_boot", "it needs firmware uefi; set that too")
    pcie = "q35" in (domain.machine or "q35")
    if secure and not pcie:
        reader.problem("secure_boot", f"it needs machine q35, not {domain.machine}; leave that out")
    if secure and domain.features and domain.features.smm is False:
        reader.problem("features", "secure_boot needs smm; leave it out")
    if domain.iommu and not pcie and domain.arch in (None, "x86_64", "i686"):
        reader.problem("iommu", f"it needs machine q35, not {domain.machine}; leave that out")
    timed = domain.hyperv is not None and domain.hyperv.stimer
    if timed and domain.clock and domain.clock.hypervclock is False:
        reader.problem("hyperv", "stimer needs hypervclock; do not disable it")
    if domain.ha:
        _of_cell(domain, reader)
    for key in ("initrd", "cmdline"):
        if reader.given(key) and not reader.given("kernel"):
            reader.problem(key, "it needs kernel; give that too, or leave it out")
    if reader.value("on_poweroff") == "restart" and reader.value("on_reboot") == "destroy":
        reader.problem(
            "on_poweroff", "restart excludes on_reboot destroy; use destroy or restart for both"
        )
    if domain.hostdevs and host is None:
        reader.problem("hostdevs", "they tie the VM to one hypervisor; set host to it")
    if len(domain.serials) >= _SERIALS and domain.arch in (None, "x86_64", "i686"):
        reader.problem("serials", f"a PC has {_SERIALS} serial ports, the first for the console")
    if any(one.type == "spicevmc" for one in domain.channels) and domain.console.type != "spice":
        reader.problem("channels", "spicevmc needs console spice; set that, or use unix")
    targets = [filesystem.target for filesystem in domain.filesystems]
    channels = [channel.name for channel in domain.channels]
    for kind, key, values in (("filesystems", "target", targets), ("channels", "name", channels)):
        twice = sorted({str(value) for value in values if values.count(value) > 1})
        if twice:
            reader.problem(kind, f"{', '.join(twice)} is given twice; each {key} is unique")


def _of_cell(domain: Domain, reader: Reader) -> None:
    """What ties a VM to one hypervisor, so that no other could restart it."""
    ties = [
        ("autostart", domain.autostart, "its cell decides where it starts"),
        ("firmware", domain.firmware == "uefi", "UEFI variables are its hypervisor's; use bios"),
        ("tpm", domain.tpm, "the state of a TPM is its hypervisor's"),
        ("hostdevs", domain.hostdevs, "a device is its hypervisor's"),
        ("filesystems", domain.filesystems, "a folder is its hypervisor's"),
    ]
    for key, given, why in ties:
        if given:
            reader.problem(key, f"{why}; leave that out, or ha")


def _cpus(domain: Domain, reader: Reader) -> None:
    most = max(domain.vcpus, domain.vcpus_max or 0)
    if domain.cpu.topology not in (0, most):
        reader.problem(
            "cpu",
            f"sockets, dies, cores and threads make {domain.cpu.topology}, but the VM has {most}"
            " vCPUs; make them equal",
        )
    pins = domain.cputune.vcpupin if domain.cputune else ()
    for pin in pins:
        vcpu = int(pin.partition(":")[0])
        if vcpu >= most:
            reader.problem("cputune", f"there is no vCPU {vcpu}; they are 0 to {most - 1}")
    if domain.numa and all(cell.cpus for cell in domain.numa):
        cells = [cpusets.numbers(cell.cpus) for cell in domain.numa if cell.cpus]
        counted = sum(len(cell) for cell in cells)
        if frozenset().union(*cells) != frozenset(range(most)) or counted != most:
            reader.problem(
                "numa", f"each of the vCPUs 0 to {most - 1} must be in one node; adjust cpus"
            )


def _memory(domain: Domain, reader: Reader) -> None:
    most = domain.memory_max or domain.memory
    total = sum(cell.memory or 0 for cell in domain.numa)
    if total not in (0, most):
        reader.problem(
            "numa", f"its nodes have {total} MiB in total, but the VM {most} MiB; make them equal"
        )
    limit = domain.memtune.hard_limit if domain.memtune else None
    if limit is not None and limit < most:
        reader.problem(
            "memtune",
            f"hard_limit is {limit} MiB, less than the VM's memory ({most} MiB); QEMU"
            " needs more than that",
        )
    backing = domain.memory_backing
    if backing is None:
        return
    shared = any(one.driver == "virtiofs" for one in domain.filesystems)
    if shared and (backing.access == "private" or backing.source == "anonymous"):
        reader.problem(
            "memory_backing", "virtiofs needs shared memory; leave out source and access"
        )
    if backing.page_size and backing.hugepages is False:
        reader.problem("memory_backing", "page_size implies huge pages; leave out hugepages")
    if backing.source == "file" and (backing.hugepages or backing.page_size):
        reader.problem("memory_backing", "huge pages exclude source file; leave that out")
