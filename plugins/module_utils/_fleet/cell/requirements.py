# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a VM must be, and must not have, so that any member of a cell can start it.

The agent ``ocf:fleet:domain`` refuses the same when it starts one; here it is said before.
"""

from __future__ import annotations

import posixpath
import typing as t

from ..base import xml_values
from ..base.names import playbook_command
from ..cards.card import disk_files

if t.TYPE_CHECKING:
    from ..._lxml import Element

_QEMU = "http://libvirt.org/schemas/domain/qemu/1.0"
_TIES = (
    ("os/nvram", "it has UEFI variables, which are its hypervisor's"),
    ("devices/tpm", "it has a TPM, whose state is its hypervisor's"),
    ("devices/hostdev", "it has a device of its hypervisor"),
    ("devices/filesystem", "it has a folder of its hypervisor"),
    ("devices/disk/shareable", "it has a disk that is shareable, so others may write to it"),
    ("devices/interface/script", "it has a script of its hypervisor"),
    (f"{{{_QEMU}}}*", "it has arguments of QEMU's own"),
)
# What the agent lets a definition name beside files in pools
_SYSTEM = (
    "/usr/",
    "/dev/random",
    "/dev/urandom",
    "/dev/hwrng",
    "/var/lib/libvirt/qemu/channel/",
    "/run/libvirt/qemu/",
)
_LOG = "/var/log/libvirt/qemu/{}-console.log"
# What may have a slash and is no path, as element and attribute, empty for its text
NO_PATH = {(tag, "") for tag in ("title", "description", "partition", "cmdline", "entry")}
NO_PATH |= {(tag, "") for tag in ("serial", "vendor", "product")} | {("entry", "name")}
_DRIVES = ("cdrom", "floppy")
_OF_DISKS = ("source", "backingStore", "mirror")


def of_definition(domain: Element) -> list[str]:
    """What in a definition ties the VM to one hypervisor."""
    ties = [text for path, text in _TIES if domain.find(path) is not None]
    if domain.get("firmware") == "efi" or domain.find("os[@firmware='efi']") is not None:
        ties.insert(0, _TIES[0][1])
    if has_label(domain):
        ties.append("it has a label of its own that QEMU runs with (seclabel)")
    return list(dict.fromkeys(ties))


def of_autostart(autostart: bool) -> list[str]:
    """What libvirt starts at boot may run elsewhere by then."""
    text = "it starts with its hypervisor, and its cell decides where it starts; give autostart:"
    return [f"{text} false"] if autostart else []


def has_label(domain: Element) -> bool:
    """Whether it says what QEMU runs as."""
    labels = domain.iter("seclabel")
    return any(label.get("type", "dynamic") != "dynamic" or len(label) for label in labels)


def has_arguments(domain: Element) -> bool:
    """Whether it has arguments of QEMU's own."""
    return domain.find(f"{{{_QEMU}}}*") is not None


def of_paths(domain: Element, shared: t.Collection[str]) -> list[str]:
    """Other files that it names: a kernel, a log, an emulator. The agent takes none that are not
    the distribution's, since any host that has the storage can write cards."""
    return [
        f"it names {text}, which is neither in a pool that is shared nor the distribution's own"
        for text in foreign_paths(domain, shared)
    ]


def foreign_paths(domain: Element, folders: t.Collection[str], *, media: bool = False) -> list[str]:
    """The files that it names beside its disks, but for those in ``folders``, those of the
    distribution and its own log. ``media``: also those in its drives, which a cell empties."""
    own = _LOG.format(domain.findtext("name"))
    skipped = [*domain.iterfind("metadata")]
    for disk in domain.iterfind("devices/disk"):
        if not media or disk.get("device", "disk") not in _DRIVES:
            skipped += [child for child in disk if child.tag in _OF_DISKS]
    known = {item for root in skipped for item in root.iter("*")}
    named = (
        (item.tag, text)
        for item, key, text in xml_values.paths(domain)
        if item not in known and (item.tag, key) not in NO_PATH
    )
    foreign = (
        text
        for tag, text in named
        # A program is none that whoever has the storage could have put there
        if (tag == "emulator" or posixpath.dirname(text) not in folders) and text != own
        if posixpath.normpath(text) != text or not text.startswith(_SYSTEM)
    )
    return list(dict.fromkeys(foreign))


def foreign_hosts(domain: Element) -> list[str]:
    """Where it connects to, or listens, beside its consoles' screens and its NICs: sources of its
    character devices and media, with their ports."""
    sources = [
        source
        for device in domain.iterfind("devices/*")
        if device.tag not in ("interface", "graphics")
        if device.tag != "disk" or device.get("device", "disk") in _DRIVES
        for source in device.iter("source", "host")
    ]
    places = [
        f"{source.get('host') or source.get('name')}:{source.get('service') or source.get('port')}"
        for source in sources
        if source.get("host") or (source.tag == "host" and source.get("name"))
    ]
    return list(dict.fromkeys(places))


def of_disks(domain: Element, chains: t.Iterable[str], shared: t.Collection[str]) -> list[str]:
    """Which of its disks, and of the files below them (``chains``), are on no storage of the
    folders that are ``shared``."""
    files = disk_files(domain)
    if files is None:
        return ["it has no disk, so no other hypervisor would know of it"]
    if None in files:
        return ["it has a disk that is no file"]
    paths = dict.fromkeys([*(path for path in files if path), *chains])
    return [
        f"{path} is on no storage that is shared (the role fleet.virt.storage declares that)"
        for path in paths
        if posixpath.dirname(path) not in shared
    ]


def of_snapshots(name: str, number: int) -> list[str]:
    """Snapshots are its hypervisor's, and a cell does not take them along."""
    remove = playbook_command("snapshots", vm_name=name)
    return [f"it has {number} snapshots; remove them ({remove} shows them)"] if number else []


def refusal(name: str, problems: t.Iterable[str]) -> str:
    """What a VM that is to be one of a cell is refused with."""
    return f"{name!r} can be none of a cell (ha): {'; '.join(problems)}"
