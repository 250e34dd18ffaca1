# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How disks, NICs and boot order of an existing VM differ from the request.

A disk is identified by the volume that was created for it, else by its target; a NIC by its MAC
address. Additional devices, attached by other means, are not a difference.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Mapping

from ..base.metadata import Metadata
from ..base.settings import Table
from ..base.xml_values import mib_up
from ..storage.base_name import BaseName, have_same_content
from . import settings_devices as settings
from . import settings_sources as sources
from .devices import Disk, Nic
from .devices_xml import target_names
from .domain import Domain
from .request import Made, made_as
from .settings_tuning import NicTuning

if t.TYPE_CHECKING:
    from ..._lxml import Element

# What a NIC is attached to is compared as a whole; its MAC address identifies it
_PLACE = (
    settings.NicSettings.bridge,
    settings.NicSettings.network,
    settings.NicSettings.type,
    settings.NicSettings.source,
    settings.NicSettings.mac,
)
_REST = [row for row in settings.NIC if row not in _PLACE]


class Comparison(t.Protocol):
    """Collects differences."""

    def written(self, path: str) -> bool:
        """Whether the user wrote this option."""

    def add(self, path: str, asked: object, real: object) -> None:
        """Record one difference."""

    def rows(self, path: str, table: Table, asked: object, element: Element) -> None:
        """Record a difference for every setting that was written and is not in ``element``."""


def own_disks(stored: Metadata) -> dict[str, str]:
    """The names of the VM's own disks by their paths, including one that is being added."""
    return {one.path: one.target for one in stored.volumes if one.role in ("disk", "new")}


def disk_element(root: Element, domain: Domain, disk: Disk, stored: Metadata) -> Element | None:
    """The disk in the definition, None if it has been detached.

    A disk of an adopted VM is named after its target.
    """
    if disk.exists:
        return _existing(root, disk, stored)
    known = own_disks(stored)
    target = None
    if disk.device in sources.DRIVES:
        drives = drive_targets(made_as(stored))
        target = drives.pop(disk.name, None)
    else:
        drives = {}
    if target is None:
        target = disk.name if stored.adopted else target_names(domain.disks)[disk.name]
    second = None
    for element in root.iterfind("devices/disk"):
        source, place = element.find("source"), element.find("target")
        path = source.get("file") if source is not None else None
        if path is not None and known.get(path) == disk.name:
            return element
        same = element.get("device", "disk") == disk.device
        same = same and (bool(stored.adopted) or element.get("type", "file") == "file")
        if same and path not in known and place is not None and place.get("dev") == target:
            second = None if target in drives.values() else element
    return second


def _existing(root: Element, disk: Disk, stored: Metadata) -> Element | None:
    """Find the disk by its source, else by its source when it was attached."""
    made = sources.source_made(made_as(stored).get("disks", {}).get(disk.name) or {})
    by_source = {sources.source_of(element): element for element in root.iterfind("devices/disk")}
    element = by_source.get(sources.source(disk))
    return by_source.get(made) if element is None and made is not None else element


def disks(
    comparison: Comparison,
    domain: Domain,
    root: Element,
    stored: Metadata,
    sizes: Mapping[str, int],
) -> None:
    """Differences of the disks that were written."""
    for disk in domain.disks:
        path = f"disks.{disk.name}"
        if not comparison.written(path):
            continue
        element = disk_element(root, domain, disk, stored)
        if element is None:
            comparison.add(path, sources.DRIVES.get(disk.device, "a disk"), None)
            continue
        comparison.rows(path, settings.DISK, disk, element)
        real_pool = (sources.source_of(element) or ("", ""))[1]
        if (
            disk.volume is not None
            and comparison.written(f"{path}.pool")
            and disk.pool != real_pool
        ):
            comparison.add(f"{path}.pool", disk.pool, real_pool)
        source = element.find("source")
        place = source.get("file") or source.get("dev") if source is not None else None
        real = sizes.get(place or "")
        if disk.size is not None and comparison.written(f"{path}.size"):
            if real is None:
                comparison.add(f"{path}.size", f"{disk.size} MiB", "unknown")
            elif mib_up(real) != disk.size:  # of an adopted VM it may be no whole MiB
                comparison.add(f"{path}.size", f"{disk.size} MiB", f"{mib_up(real)} MiB")


class _Existing(t.Protocol):
    @property
    def metadata(self) -> Metadata: ...
    @property
    def bases(self) -> Mapping[str, str]: ...


def media(
    comparison: Comparison,
    domain: Domain,
    root: Element,
    existing: _Existing,
    request: Made,
) -> None:
    """Compare the media in the drives whose image was written.

    If the base image of the requested medium is unknown, the request is compared with the one that
    created the VM, and any base image in the drive is assumed to be that one.
    """
    seeds = [one.path for one in existing.metadata.volumes if one.role == "seed"]
    for disk in domain.disks:
        path = f"disks.{disk.name}.image"
        if disk.device not in sources.DRIVES or not comparison.written(path):
            continue
        element = disk_element(root, domain, disk, existing.metadata)
        source = element.find("source") if element is not None else None
        real = source.get("file") if source is not None else None
        asked = None if disk.image is None else disk.image.value
        base = existing.bases.get(asked) if asked is not None else None
        made = (request.get("disks", {}).get(disk.name, {}).get("image") or {}).get("value")
        if asked is None:
            same = real is None or real in seeds  # whose first boot ejects it
        elif base is not None:
            same = have_same_content(real, base)
        elif real is None or BaseName.at(real) is None:
            same = False
        else:
            same, real = made == asked, made
        if not same:
            comparison.add(path, asked, made if made not in (None, asked) else real)


def nics(comparison: Comparison, domain: Domain, root: Element, request: Made) -> None:
    """Differences of the NICs that were written; ``request`` is the one that created the VM."""
    for nic in domain.nics:
        path = f"nics.{nic.name}"
        if not comparison.written(path):
            continue
        element = nic_element(root, nic, request)
        if element is None:
            comparison.add(path, f"a NIC with MAC address {nic.mac}", None)
            continue
        mac = str(settings.NicSettings.mac.found(element)).lower()
        if comparison.written(f"{path}.mac") and mac != nic.mac:
            comparison.add(f"{path}.mac", nic.mac, mac)
        _nic(comparison, path, nic, element)


def nic_element(root: Element, nic: Nic, request: Made) -> Element | None:
    """The NIC in the definition, by its address, else by the one it was created with."""
    made = (request.get("nics", {}).get(nic.name) or {}).get("mac")
    return nic_with(root, nic.mac) if made is None else nic_with(root, nic.mac, str(made))


def with_links(domain: Domain, root: Element, stored: Metadata) -> Domain:
    """The request that what runs is compared with: also the link of each NIC that is as the request
    has it in the definition ``root``, since it can be set down in the running VM alone."""
    links, request = set(), made_as(stored)
    for nic in domain.nics:
        element = nic_element(root, nic, request)
        if f"nics.{nic.name}" not in domain.written or element is None:
            continue
        if NicTuning.link.found(element) == nic.link:
            links.add(f"nics.{nic.name}.link")
    return dataclasses.replace(domain, written=domain.written | links)


def added_macs(domain: Domain, root: Element, stored: Metadata) -> list[str]:
    """The addresses of NICs that were written and are not in the definition. That of one which is
    there cannot change."""
    return [
        nic.mac
        for nic in domain.nics
        if f"nics.{nic.name}" in domain.written
        if nic_element(root, nic, made_as(stored)) is None
    ]


def nic_with(root: Element, *macs: str) -> Element | None:
    """The NIC with the first of these addresses that any NIC has."""
    row = settings.NicSettings.mac
    real = {str(row.found(one)).lower(): one for one in root.iterfind("devices/interface")}
    return next((real[mac.lower()] for mac in macs if mac.lower() in real), None)


def absent_disk(root: Element, name: str, stored: Metadata, request: Made) -> Element | None:
    """The VM's own disk of that name in the definition, or the drive created under that name."""
    known = own_disks(stored)
    target = drive_targets(request).get(name)
    drive = None
    for element in root.iterfind("devices/disk"):
        source, place = element.find("source"), element.find("target")
        if source is not None and known.get(source.get("file") or "") == name:
            return element
        is_drive = element.get("device") in sources.DRIVES
        if is_drive and place is not None and place.get("dev") == target:
            drive = element
        made = sources.source_made(request.get("disks", {}).get(name) or {})
        if made is not None and sources.source_of(element) == made:
            return element
    return drive


def drive_targets(request: Made) -> dict[str, str]:
    """The targets of the drives in the request that created the VM, by name.

    A drive has no volume that identifies it. One that was added later has its target in the
    request: another device may have had the name that its place in the list stands for.
    """
    made = request.get("disks", {})
    disks = [
        Disk(name, device=str(one.get("device")), bus=str(one.get("bus")))
        for name, one in made.items()
        if one.get("bus") in settings.DiskSettings.bus.choices
    ]
    usual = target_names(disks)
    return {
        disk.name: str(made[disk.name].get("target") or usual[disk.name])
        for disk in disks
        if disk.device in sources.DRIVES
    }


def absent_nic(root: Element, name: str, request: Made) -> Element | None:
    """The NIC that was created under that name."""
    made = (request.get("nics", {}).get(name) or {}).get("mac")
    return None if made is None else nic_with(root, str(made))


def absent(
    comparison: Comparison,
    domain: Domain,
    root: Element,
    stored: Metadata,
    request: Made,
) -> None:
    """Record disks and NICs that exist and should be absent."""
    for name in domain.absent_disks:
        owned = any(volume.target == name for volume in stored.volumes if volume.role != "seed")
        element = absent_disk(root, name, stored, request)
        if element is not None:
            kind = sources.DRIVES.get(element.get("device") or "", "a disk")
            comparison.add(f"disks.{name}", "absent", kind)
        elif owned:
            comparison.add(f"disks.{name}", "absent", "a volume that is not attached")
    for name in domain.absent_nics:
        if absent_nic(root, name, request) is not None:
            comparison.add(f"nics.{name}", "absent", "a NIC")


def _nic(comparison: Comparison, path: str, nic: Nic, element: Element) -> None:
    wanted = (nic.type, nic.source)
    real = tuple(
        row.found(element) for row in (settings.NicSettings.type, settings.NicSettings.source)
    )
    place = any(comparison.written(f"{path}.{key}") for key in ("bridge", "network", "source"))
    if place and wanted != real:
        comparison.add(f"{path}.source", " ".join(wanted), " ".join(map(str, real)))
    comparison.rows(path, _REST, nic, element)


def boot(comparison: Comparison, domain: Domain, root: Element, stored: Metadata) -> None:
    """Whether the firmware tries the named devices in their order, before any other."""
    if not comparison.written("boot"):
        return
    places: dict[int, str] = {}
    for disk in domain.disks:
        _place(places, disk.name, disk_element(root, domain, disk, stored))
    macs = {nic.mac: nic.name for nic in domain.nics}
    for element in root.iterfind("devices/interface"):
        mac = element.find("mac")
        name = macs.get((mac.get("address") or "").lower()) if mac is not None else None
        _place(places, name or "another NIC", element)
    real = [places[number] for number in sorted(places)]
    if real != list(domain.boot):
        comparison.add("boot", ", ".join(domain.boot), ", ".join(real) or None)


def _place(places: dict[int, str], name: str, element: Element | None) -> None:
    boot = element.find("boot") if element is not None else None
    order = (boot.get("order") or "") if boot is not None else ""
    if order.isdigit():
        places[int(order)] = name
