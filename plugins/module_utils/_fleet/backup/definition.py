# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a definition is like in an archive: it has the disks that are saved, and no other.

Of a VM that runs, libvirt has two definitions, whose disks may differ. What runs is saved, and what
waits for the next start as well, as far as both can be had in one definition.
"""

from __future__ import annotations

import copy
import dataclasses
import typing as t

from ... import _lxml
from ..._records import dataclass, field
from ..base import metadata

if t.TYPE_CHECKING:
    from ..._lxml import Element

DRIVES = ("cdrom", "floppy")
_OF_A_RUN = ("alias", "backingStore", "mirror")


@dataclass(frozen=True)
class DefinedDisk:
    """A disk that is to be saved, and its element in the definition of the archive.

    ``written``: the VM that runs writes to it, so that only libvirt's job has its moment. ``waits``
    for the next start of the VM, so that it is no work of the VM's yet.
    """

    target: str
    element: Element
    written: bool = False
    waits: bool = False

    @property
    def readonly(self) -> bool:
        """Whether the VM may only read it."""
        return self.element.find("readonly") is not None


@dataclass
class Definition:
    """The definition for an archive, its disks, and why others are left out, by target."""

    root: Element
    disks: list[DefinedDisk] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)

    def leave_out(self, target: str, why: str) -> None:
        """Have the archive without this disk."""
        remove_disks(self.root, [target])
        self.disks = [disk for disk in self.disks if disk.target != target]
        self.left_out.append((target, why))


def disks_of(root: Element) -> dict[str, Element]:
    """The disks of a definition by target, without its drives, whose media are no part of a VM."""
    disks = {}
    for disk in root.iterfind("devices/disk"):
        if disk.get("device", "disk") not in DRIVES:
            disks[_target_of(disk)] = disk
    return disks


def _target_of(disk: Element) -> str:
    target = disk.find("target")
    return "" if target is None else target.get("dev", "")


def remove_disks(root: Element, targets: t.Collection[str]) -> None:
    """Remove the disks of these targets from a definition."""
    disks = disks_of(root)
    for target in targets:
        element = disks.get(target)
        devices = root.find("devices")
        if element is not None and devices is not None:
            devices.remove(element)


def for_archive(
    stored: Element, running: Element | None, place: t.Callable[[Element], str]
) -> Definition:
    """The definition of a VM for its archive: of the ``stored`` one, with the disks of the
    ``running`` one. ``place`` says which file or device a disk is."""
    made = Definition(copy.deepcopy(stored))
    own = disks_of(made.root)
    if running is None:
        made.disks = [DefinedDisk(target, element) for target, element in own.items()]
        return made
    now = disks_of(running)
    used = {place(element) for element in now.values()}
    for target, element in now.items():
        same, transient = own.get(target), element.find("transient") is not None
        if same is not None and (transient or place(same) == place(element)):
            # What is written to a transient disk goes at its end; the file below it stays
            written = not transient and element.find("readonly") is None
            made.disks.append(DefinedDisk(target, same, written))
            continue
        if same is not None:
            if place(same) not in used:
                why = f"{place(same)} replaces {place(element)} at the next start only"
                made.left_out.append((target, why))
            remove_disks(made.root, [target])
        if transient:
            made.left_out.append((target, "what is written to it goes when the VM is shut off"))
            continue
        for drive in made.root.findall("devices/disk"):
            devices = drive.getparent()
            if _target_of(drive) == target and devices is not None:
                devices.remove(drive)
                made.left_out.append((target, "a drive takes its place at the next start only"))
        added = _added(made.root, element)
        made.disks.append(DefinedDisk(target, added, element.find("readonly") is None))
    for target, element in own.items():
        if target not in now and place(element) in used:  # it has another target from then on
            remove_disks(made.root, [target])
        elif target not in now:
            made.disks.append(DefinedDisk(target, element, waits=True))
    return made


def _added(root: Element, disk: Element) -> Element:
    """Add a disk of the VM that runs; what the definition has at its address or place in the boot
    order keeps these."""
    added = copy.deepcopy(disk)
    for tag in _OF_A_RUN:
        for element in added.findall(tag):
            added.remove(element)
    for source in added.iterfind("source"):
        source.attrib.pop("index", "")
    address, boot = added.find("address"), added.find("boot")
    addresses = [sorted(one.attrib.items()) for one in root.iterfind("devices/*/address")]
    if address is not None and sorted(address.attrib.items()) in addresses:
        added.remove(address)
    orders = {one.get("order") for one in root.iterfind("devices/*/boot")}
    if boot is not None and boot.get("order") in orders:
        added.remove(boot)
    devices = root.find("devices")
    if devices is None:
        devices = _lxml.add(root, "devices")
    devices.append(added)
    return added


def unmatched(root: Element, saved: t.Collection[str]) -> tuple[list[str], list[str]]:
    """The disks of the definition that are not saved, and those saved that it does not have."""
    disks = disks_of(root)
    return [dev for dev in disks if dev not in saved], [dev for dev in saved if dev not in disks]


def unrestorable(root: Element, saved: t.Collection[str]) -> list[str]:
    """Why no hypervisor restores a VM of this definition and these disks: restoring refuses it, a
    verification fails it, and no such archive is made."""
    missing, unknown = unmatched(root, saved)
    problems = [f"no disk {dev}" for dev in unknown]
    problems += [f"a disk {dev}, which was not saved" for dev in missing]
    problems += [f"no {tag}" for tag in ("name", "uuid") if not root.findtext(tag)]
    stored = metadata.parse(root)
    if stored is not None and stored.broken is not None:
        problems.append(f"metadata that cannot be used ({stored.broken})")
    return [f"the definition in the archive has {'; '.join(problems)}"] if problems else []


def unmarked(root: Element) -> str:
    """The text of a definition without the marks of a run at work."""
    stored = metadata.parse(root)
    if stored is not None and not stored.broken:
        metadata.put(root, dataclasses.replace(stored, phase=None, owner=None, move=None))
    return _lxml.tostring(root)
