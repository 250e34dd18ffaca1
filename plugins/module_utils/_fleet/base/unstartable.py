# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A definition that libvirt itself refuses to start, for any caller."""

from __future__ import annotations

import copy
import typing as t

from ... import _lxml
from . import metadata
from .metadata import BLOCKING_DRIVE, Metadata

if t.TYPE_CHECKING:
    from ..._lxml import Element


_UNITS = 7  # of a SCSI controller that is not wide; the next is its own


def unmark(root: Element) -> None:
    """Take the drive of :func:`marked` out of the ``<domain>`` ``root``."""
    devices = root.find("devices")
    for disk in root.findall("devices/disk"):
        target = disk.find("target")
        if devices is not None and target is not None and target.get("dev") == BLOCKING_DRIVE:
            devices.remove(disk)


def marked(root: Element, stored: Metadata, path: str) -> str:
    """The ``<domain>`` ``root`` with ``stored`` as our metadata and a drive that cannot be opened.

    ``path`` is the drive's medium: a file that never exists. libvirt looks for it before it starts
    anything (startupPolicy mandatory) and fails. A definition that has such a drive keeps it.
    """
    domain = copy.deepcopy(root)
    metadata.put(domain, stored)
    devices = domain.find("devices")
    if devices is None:
        devices = _lxml.add(domain, "devices")
    targets = [target.get("dev") for target in devices.iterfind("disk/target")]
    if BLOCKING_DRIVE not in targets:
        unit = _free_unit(devices)
        drive = _lxml.add(devices, "disk", {"type": "file", "device": "cdrom"})
        _lxml.add(drive, "driver", {"name": "qemu", "type": "raw"})
        _lxml.add(drive, "source", {"file": path, "startupPolicy": "mandatory"})
        _lxml.add(drive, "target", {"dev": BLOCKING_DRIVE, "bus": "scsi"})
        _lxml.add(drive, "readonly")
        if unit is not None:
            place = {"controller": "0", "bus": "0", "target": "0", "unit": str(unit)}
            _lxml.add(drive, "address", {"type": "drive", **place})
    return _lxml.tostring(domain)


def _free_unit(devices: Element) -> int | None:
    """A free unit of the first SCSI controller, in the range of every model.

    Without an address libvirt derives one from the drive's name, and adds the controllers of all
    names before it, which would stay. None: none is free, or libvirt is yet to choose those of
    other devices.
    """
    used = set()
    for device in (*devices.iterfind("disk"), *devices.iterfind("hostdev")):
        if device.get("type") != "scsi" and not _is_scsi(device.find("target")):
            continue
        address = device.find("address")
        if address is None:
            return None
        if address.get("controller", "0") == "0":
            used.add(address.get("unit", "0"))
    return next((unit for unit in range(_UNITS) if str(unit) not in used), None)


def _is_scsi(target: Element | None) -> bool:
    if target is None or not str(target.get("dev")).startswith("sd"):
        return False
    return target.get("bus", "scsi") == "scsi"
