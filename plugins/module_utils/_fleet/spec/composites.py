# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write and read settings that are more than a single value in libvirt's XML.

A row names its two functions. The specification that is written already contains the hypervisor's
decisions (machine type, architecture, domain type).
"""

from __future__ import annotations

import typing as t

from ... import _lxml
from ..base import places
from ..base.machine_types import uses_uefi
from ..base.places import Pair
from ..base.xml_values import attribute, bytes_of, first_children, mib_up, number, text_of
from ..hosts import domain_info

if t.TYPE_CHECKING:
    from ..._lxml import Element

_STATS_SECONDS = 10
_FIRMWARE = {"efi": "uefi", "bios": "bios"}


class _Domain(t.Protocol):
    vcpus: int
    vcpus_max: int | None
    memory: int
    memory_max: int | None
    firmware: str | None
    arch: str | None
    rng: bool
    secure_boot: bool
    balloon: bool


class _DiskWithThread(t.Protocol):
    iothread: int | None


class _Nic(t.Protocol):
    type: str
    source: str


class _Console(t.Protocol):
    listen: str


class _Cpu(t.Protocol):
    mode: str | None


def _write_vcpus(root: Element, domain: _Domain) -> None:
    places.put(root, "vcpu/@placement", "static")
    if domain.vcpus_max is not None and domain.vcpus_max > domain.vcpus:
        places.put(root, "vcpu/@current", str(domain.vcpus))
    places.put(root, "vcpu", str(domain.vcpus_max or domain.vcpus))


def _read_vcpus(root: Element) -> int | None:
    """The vCPUs that the VM starts with, out of its maximum."""
    vcpu = first_children(root).get("vcpu")
    current = number(attribute(vcpu, "current"))
    return number(text_of(vcpu)) if current is None else current


def _written_by_other_row(_element: Element, _whole: object) -> None:
    """Write nothing: the value is written with another setting."""


def _read_vcpus_max(root: Element) -> int | None:
    return number(text_of(first_children(root).get("vcpu")))


def _write_memory(root: Element, domain: _Domain) -> None:
    places.put(root, "currentMemory/@unit", "KiB")
    places.put(root, "currentMemory", str(domain.memory * 1024))


def _read_memory(root: Element) -> int | None:
    current = mib_up(bytes_of(first_children(root).get("currentMemory"), "KiB"))
    return _read_memory_max(root) if current is None else current


def _write_memory_max(root: Element, domain: _Domain) -> None:
    places.put(root, "memory/@unit", "KiB")
    places.put(root, "memory", str((domain.memory_max or domain.memory) * 1024))


def _read_memory_max(root: Element) -> int | None:
    return mib_up(bytes_of(first_children(root).get("memory"), "KiB"))


def _write_firmware(root: Element, domain: _Domain) -> None:
    if not uses_uefi(domain.firmware, domain.arch or ""):
        return
    places.put(root, "os/@firmware", "efi")
    # else libvirt takes the first firmware that is installed, which on some hosts boots signed
    # images only
    firmware = _lxml.add(places.reach(root, "os"), "firmware")
    if domain.secure_boot:
        _lxml.add(firmware, "feature", {"enabled": "yes", "name": "enrolled-keys"})
        places.put(root, "os/loader/@secure", "yes")
        places.put(root, "features/smm/@state", "on")
    secure = "yes" if domain.secure_boot else "no"
    _lxml.add(firmware, "feature", {"enabled": secure, "name": "secure-boot"})


def _read_firmware(root: Element) -> str | None:
    kind = domain_info.firmware(root)
    return None if kind is None else _FIRMWARE.get(kind, kind)


def _read_secure_boot(root: Element) -> bool:
    asked = root.findall("os/firmware/feature")
    named = [one.get("enabled") for one in asked if one.get("name") == "secure-boot"]
    return "yes" in (*named, *places.texts(root, "os/loader/@secure"))


def _write_balloon(root: Element, domain: _Domain) -> None:
    devices = places.reach(root, "devices")
    if domain.balloon:
        balloon = _lxml.add(devices, "memballoon", {"model": "virtio"})
        _lxml.add(balloon, "stats", {"period": str(_STATS_SECONDS)})
    else:  # by default libvirt adds one
        _lxml.add(devices, "memballoon", {"model": "none"})


def _read_balloon(root: Element) -> bool:
    return places.texts(root, "devices/memballoon/@model") != ["none"]


def _write_rng(root: Element, domain: _Domain) -> None:
    if domain.rng:
        rng = _lxml.add(places.reach(root, "devices"), "rng", {"model": "virtio"})
        _lxml.add(rng, "backend", {"model": "random"}, "/dev/urandom")


def _read_rng(root: Element) -> bool:
    return root.find("devices/rng") is not None


def _write_iothread(element: Element, disk: _DiskWithThread) -> None:
    """Set the disk's I/O thread; the domain gets as many threads as its disks need."""
    if disk.iothread is None:
        return
    places.put(element, "driver/@iothread", str(disk.iothread))
    for root in element.iterancestors("domain"):
        known = number(root.findtext("iothreads")) or 0
        places.reach(root, "iothreads").text = str(max(known, disk.iothread))


def _read_iothread(element: Element) -> int | None:
    return number(attribute(first_children(element).get("driver"), "iothread"))


def _write_source(element: Element, nic: _Nic) -> None:
    where = "dev" if nic.type == "direct" else nic.type
    places.put(element, f"source/@{where}", nic.source)


def _read_source(element: Element) -> object:
    return domain_info.nic_source(element)


def _write_listen(element: Element, console: _Console) -> None:
    places.put(element, "listen/@type", "address")
    places.put(element, "listen/@address", console.listen)


def _read_listen(element: Element) -> object:
    return domain_info.listens_on(element)


def _write_mode(element: Element, cpu: _Cpu) -> None:
    if cpu.mode is None:
        return
    places.put(element, "@mode", str(cpu.mode))
    if cpu.mode == "custom":
        places.put(element, "@match", "exact")
        places.put(element, "model/@fallback", "forbid")


def _read_mode(element: Element) -> str | None:
    """The CPU mode; a CPU with only a model is ``custom``."""
    model = text_of(first_children(element).get("model"))
    return attribute(element, "mode") or ("custom" if model else None)


VCPUS = Pair(_write_vcpus, _read_vcpus, ("vcpu",))
VCPUS_MAX = Pair(_write_vcpus, _read_vcpus_max, ("vcpu",))
MEMORY = Pair(_write_memory, _read_memory, ("currentMemory",))
MEMORY_MAX = Pair(_write_memory_max, _read_memory_max, ("memory",))
FIRMWARE = Pair(_write_firmware, _read_firmware)
SECURE_BOOT = Pair(_written_by_other_row, _read_secure_boot)
BALLOON = Pair(_write_balloon, _read_balloon, ("devices/memballoon",))
RNG = Pair(_write_rng, _read_rng, ("devices/rng",))
IOTHREAD = Pair(_write_iothread, _read_iothread, ("driver/@iothread",))
NIC_SOURCE = Pair(_write_source, _read_source, ("source",))
LISTEN = Pair(_write_listen, _read_listen, ("listen", "@listen"))
CPU_MODE = Pair(_write_mode, _read_mode, ("@mode", "@match", "@check", "model"))
