# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The seed medium in the definition of an existing domain, and the record of its seed."""

from __future__ import annotations

import dataclasses
import json
import typing as t

from ... import _lxml
from ..base import metadata
from ..base.metadata import Metadata
from ..seed import first_boot
from ..seed.types import Seed, SeededNic
from ..spec.devices_xml import device_name

if t.TYPE_CHECKING:
    from ..._lxml import Element
    from ..base.json_values import Json


def nics_of(domain: Element, stored: Metadata | None) -> list[SeededNic]:
    """The domain's NICs in order, with the names they have in the request, else eth0, eth1..."""
    names = _names(stored)
    nics: list[SeededNic] = []
    for interface in domain.findall("devices/interface"):
        mac = interface.find("mac")
        address = (mac.get("address") or "").lower() if mac is not None else ""
        if address:
            nics.append(SeededNic(names.get(address, f"eth{len(nics)}"), address))
    return nics


def _names(stored: Metadata | None) -> dict[str, str]:
    nics = _request(stored).get("nics")
    names = {}
    for nic in nics if isinstance(nics, list) else ():
        if isinstance(nic, dict):
            names[str(nic.get("mac")).lower()] = str(nic.get("name"))
    return names


def _request(stored: Metadata | None) -> dict[str, Json]:
    try:
        request = json.loads(stored.request or "{}") if stored is not None else {}
    except ValueError:
        return {}
    return request if isinstance(request, dict) else {}


def as_plain(seed: Seed, name: str) -> dict[str, Json]:
    """The seed of the VM ``name`` as JSON types, without secrets."""
    text = json.dumps(dataclasses.asdict(seed.without_secrets(name)))
    plain: dict[str, Json] = json.loads(text)
    return plain


def recorded(stored: Metadata | None) -> dict[str, Json] | None:
    """The seed that the VM had before, as of :func:`as_plain`; None if it never had one."""
    if stored is None:
        return None
    seed = _request(stored).get("seed")
    if stored.request is None and stored.seed is not None:
        try:
            seed = json.loads(stored.seed)
        except ValueError:
            return {}
    return seed if isinstance(seed, dict) else None


def with_record(stored: Metadata, seed: Seed, name: str) -> Metadata:
    """The metadata with this seed: in the request, if the VM was created by one."""
    plain = as_plain(seed, name)
    stored = dataclasses.replace(
        stored,
        user=seed.user,
        addresses=seed.static_addresses,
        first_boot=first_boot.expected(seed),
    )
    if stored.request is not None:
        request = {**_request(stored), "seed": plain}
        text = json.dumps(request, sort_keys=True, separators=(",", ":"))
        return dataclasses.replace(stored, request=text)
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return dataclasses.replace(stored, seed=text)


def drive_with(domain: Element, paths: t.Collection[str]) -> Element | None:
    """The CD drive whose medium is one of ``paths``."""
    for disk in domain.findall("devices/disk"):
        source = disk.find("source")
        if source is not None and source.get("file") in paths:
            return disk
    return None


def with_medium(domain: Element, stored: Metadata, path: str, before: t.Collection[str]) -> str:
    """The definition with the medium ``path`` in a drive, and ``stored`` as our metadata.

    The drive is the one that has a medium of ``before``, else an empty one on SCSI, else a new one.
    ``domain`` is changed.
    """
    devices = domain.find("devices")
    if devices is None:
        devices = _lxml.add(domain, "devices")
    drive = drive_with(domain, before)
    if drive is None:
        drive = next((disk for disk in devices.findall("disk") if _is_empty(disk)), None)
    if drive is None:
        _add_drive(devices, path)
    else:
        for child in list(drive):
            if child.tag in ("source", "backingStore"):
                drive.remove(child)
        drive.append(_lxml.new("source", {"file": path}))
        drive.append(_lxml.new("backingStore"))
    metadata.put(domain, stored)
    return _lxml.tostring(domain)


def _is_empty(disk: Element) -> bool:
    target = disk.find("target")
    return (
        disk.get("device") == "cdrom"
        and disk.find("source") is None
        and target is not None
        and target.get("bus") == "scsi"
    )


def _add_drive(devices: Element, path: str) -> None:
    """Add a drive on virtio-scsi: cloud kernels have no driver for q35's SATA."""
    taken = {target.get("dev") for target in devices.iterfind("disk/target")}
    index = 0
    while device_name("sd", index) in taken:
        index += 1
    drive = _lxml.add(devices, "disk", {"type": "file", "device": "cdrom"})
    _lxml.add(drive, "driver", {"name": "qemu", "type": "raw"})
    _lxml.add(drive, "source", {"file": path})
    _lxml.add(drive, "backingStore")
    _lxml.add(drive, "target", {"dev": device_name("sd", index), "bus": "scsi"})
    _lxml.add(drive, "readonly")
    controllers = [one for one in devices.findall("controller") if one.get("type") == "scsi"]
    if not controllers:
        _lxml.add(devices, "controller", {"type": "scsi", "index": "0", "model": "virtio-scsi"})
