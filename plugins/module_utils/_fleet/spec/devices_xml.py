# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ``<devices>`` of a domain."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ... import _lxml
from ..._records import dataclass
from ..base.settings import write
from . import settings_devices as settings
from . import settings_sources as sources
from .devices import Disk, Nic
from .domain import Domain

if t.TYPE_CHECKING:
    from ..._lxml import Element

_PREFIXES = {"virtio": "vd", "scsi": "sd", "sata": "sd", "usb": "sd", "ide": "hd", "fdc": "fd"}
_PCS = ("x86_64", "i686")
# PCI Express takes one device for each root port, and ports cannot be added while a VM runs.
# libvirt leaves one free; this is how many disks and NICs can be added to a running VM.
_SPARE_PORTS = 8


@dataclass(frozen=True)
class VolumeRef:
    """Where a disk's volume is: its path and format, and those of its backing file, if any."""

    path: str
    format: str
    backing_path: str | None = None
    backing_format: str | None = None


def device_name(prefix: str, index: int) -> str:
    """``vda`` for 0, ``vdz`` for 25, ``vdaa`` for 26, as libvirt and the kernel count."""
    letters = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        letters = chr(ord("a") + rest) + letters
    return prefix + letters


def target_names(disks: t.Sequence[Disk]) -> dict[str, str]:
    """The target of each disk by its name: ``system`` is ``vda``."""
    used: dict[str, int] = {}
    names: dict[str, str] = {}
    for disk in disks:
        prefix = _PREFIXES[disk.bus]
        names[disk.name] = device_name(prefix, used.get(prefix, 0))
        used[prefix] = used.get(prefix, 0) + 1
    return names


def is_pci_express(machine: str, arch: str) -> bool:
    """Whether this machine type is built on PCI Express (qemu's q35, and virt on ARM)."""
    return "q35" in machine or (arch == "aarch64" and machine.partition("-")[0] == "virt")


def _express_devices(domain: Domain) -> int:
    """The most ports that the VM's own devices can take."""
    disks = sum(disk.bus == "virtio" for disk in domain.disks)
    disks += len(domain.filesystems) + len(domain.hostdevs)
    others = 6  # controllers for SCSI, USB and virtio-serial; balloon, RNG, video
    return disks + len(domain.nics) + others


def add_devices(
    devices: Element,
    domain: Domain,
    *,
    machine: str,
    arch: str,
    volumes: Mapping[str, VolumeRef],
    seed_path: str | None,
    log_path: str | None,
) -> None:
    """Append everything but the emulator."""
    order = {name: str(number) for number, name in enumerate(domain.boot, 1)}
    targets = target_names(domain.disks)
    for disk in domain.disks:
        made = disk.device not in sources.DRIVES and not disk.exists
        volume = volumes[disk.name] if made else volumes.get(disk.name)
        _add_disk(devices, disk, volume, targets[disk.name], order.get(disk.name))
    if seed_path is not None:
        target = device_name("sd", sum(name.startswith("sd") for name in targets.values()))
        _add_seed(devices, seed_path, target)
    if seed_path is not None or any(disk.bus == "scsi" for disk in domain.disks):
        _lxml.add(devices, "controller", {"type": "scsi", "index": "0", "model": "virtio-scsi"})
    if is_pci_express(machine, arch):
        _lxml.add(devices, "controller", {"type": "pci", "index": "0", "model": "pcie-root"})
        for _dummy in range(_express_devices(domain) + _SPARE_PORTS):
            _lxml.add(devices, "controller", {"type": "pci", "model": "pcie-root-port"})
    for nic in domain.nics:
        _add_nic(devices, nic, order.get(nic.name))
    _add_serial(devices, log_path)
    agent = _lxml.add(devices, "channel", {"type": "unix"})
    _lxml.add(agent, "target", {"type": "virtio", "name": "org.qemu.guest_agent.0"})
    if domain.console.type != "none":
        _add_graphics(devices, domain, arch)


def _add_disk(
    devices: Element, disk: Disk, volume: VolumeRef | None, target: str, order: str | None
) -> None:
    element = _lxml.add(devices, "disk", {"type": sources.kind(disk)})
    kind = volume.format if volume else disk.format
    _lxml.add(element, "driver", {"name": "qemu", "type": kind})
    if volume is not None:
        _lxml.add(element, "source", {"file": volume.path})
        _add_backing(element, volume)
    _lxml.add(element, "target", {"dev": target})
    write(settings.DISK, element, disk)
    if order is not None:
        _lxml.add(element, "boot", {"order": order})


def _add_backing(element: Element, volume: VolumeRef) -> None:
    """Add the complete backing chain, ended by an empty element, so that QEMU probes nothing."""
    backing = _lxml.add(element, "backingStore")
    if volume.backing_path is not None:
        backing.set("type", "file")
        _lxml.add(backing, "format", {"type": volume.backing_format or "qcow2"})
        _lxml.add(backing, "source", {"file": volume.backing_path})
        _lxml.add(backing, "backingStore")


def _add_seed(devices: Element, path: str, target: str) -> None:
    """Add the seed medium on virtio-scsi: cloud kernels have no driver for q35's SATA."""
    element = _lxml.add(devices, "disk", {"type": "file", "device": "cdrom"})
    _lxml.add(element, "driver", {"name": "qemu", "type": "raw"})
    _lxml.add(element, "source", {"file": path})
    _lxml.add(element, "backingStore")
    _lxml.add(element, "target", {"dev": target, "bus": "scsi"})
    _lxml.add(element, "readonly")


def _add_nic(devices: Element, nic: Nic, order: str | None) -> None:
    element = _lxml.add(devices, "interface", {"type": nic.type})
    _lxml.add(element, "mac", {"address": nic.mac})
    write(settings.NIC, element, nic)
    if order is not None:
        _lxml.add(element, "boot", {"order": order})


def _add_serial(devices: Element, log_path: str | None) -> None:
    """Add the serial console; its log is emptied at each start and covers only this run."""
    serial = _lxml.add(devices, "serial", {"type": "pty"})
    if log_path is not None:
        _lxml.add(serial, "log", {"file": log_path, "append": "off"})
    _lxml.add(serial, "target", {"port": "0"})
    console = _lxml.add(devices, "console", {"type": "pty"})
    _lxml.add(console, "target", {"type": "serial", "port": "0"})


def _add_graphics(devices: Element, domain: Domain, arch: str) -> None:
    console = domain.console
    # the tablet gives absolute positions: without it the viewer's pointer drifts from the guest's
    _lxml.add(devices, "input", {"type": "tablet", "bus": "usb"})
    if arch not in _PCS:
        _lxml.add(devices, "input", {"type": "keyboard", "bus": "usb"})
    automatic = "yes" if console.port is None else "no"
    graphics = _lxml.add(devices, "graphics", {"type": console.type, "autoport": automatic})
    write(settings.CONSOLE, graphics, console)
