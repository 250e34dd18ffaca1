# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the definition in a card may name of the hypervisor that takes the VM over.

Every hypervisor can write cards, and none governs another. libvirt is root: it runs the programs
that a definition names, copies its templates, and gives QEMU's user any file in it. So only that is
taken which is on the storage that whoever wrote the card has anyway, or which is there for every
VM: the base images, firmware, QEMU itself, and places that libvirt keeps for it. The rest is
refused, whatever element it stands in.
"""

from __future__ import annotations

import copy
import posixpath
import re
import typing as t

from ..._records import dataclass
from ..base import xml_values
from ..base.options import show
from ..cell.requirements import NO_PATH, has_label
from ..storage.firmware import ZONE, is_firmware

if t.TYPE_CHECKING:
    from ..._lxml import Element

_DRIVES = ("cdrom", "floppy")
_LOGS = "/var/log/libvirt/qemu"
_SOCKETS = re.compile(r"/(var/lib|run|var/run)/libvirt/qemu/[\w.+@-]+(/[\w.+@-]+){0,4}")
_EMULATOR = re.compile(r"/usr/(bin|libexec|local/bin)/(qemu-system-\w+|qemu-kvm|kvm)", re.ASCII)
_PARTITION = re.compile(r"/machine(/[\w-][\w.-]*)*", re.ASCII)
_RENDERER = re.compile(r"/dev/dri/renderD[0-9]+", re.ASCII)
# Devices that each machine has for all
_COMMON = ("/dev/random", "/dev/urandom", "/dev/hwrng", "/dev/net/tun", "/dev/vhost-net")
_KEPT_BESIDE = ("nvram", "kernel", "initrd", "dtb", "table", "shim")  # files below <os>
_BELOW = ("backingStore", "dataStore")
_DEVICES = (
    *("emulator", "disk", "controller", "interface", "input", "graphics", "video", "sound"),
    *("audio", "tpm", "hub", "memballoon", "rng", "watchdog", "panic", "memory", "vsock", "iommu"),
    *("crypto", "nvram", "redirdev", "redirfilter", "smartcard", "parallel", "serial", "console"),
    *("channel", "hostdev"),  # a hostdev has a reason of its own
)
_NICS = ("network", "bridge", "direct", "ethernet", "user", "internal", "null")
_CHARACTER = ("serial", "parallel", "console", "channel", "redirdev")
_CHARACTERS = (
    *("pty", "null", "file", "unix", "tcp", "spicevmc", "spiceport", "dbus"),
    "qemu-vdagent",
)
_OF_FILES = {"file", "startupPolicy", "index"}
_AUDIO = ("none", "spice", "vnc", "dbus")
_EMPTIED = ("source", "backingStore", "dataStore", "mirror", "auth", "encryption")


@dataclass(frozen=True)
class Places:
    """Of this hypervisor: the folders of storage that is ``shared``, and those of its ``bases``,
    the images that many VMs have below their disks."""

    shared: frozenset[str] = frozenset()
    bases: frozenset[str] = frozenset()

    def has(self, path: str) -> bool:
        """Whether a file of that path is on shared storage."""
        return _is_in(path, self.shared)

    def has_base(self, path: str) -> bool:
        """Whether a disk may have it below."""
        return _is_in(path, self.shared) or _is_in(path, self.bases)


def strangers(root: Element, places: Places) -> list[str]:
    """Why the definition is not taken from a card: what it names of the hypervisor."""
    name = (root.findtext("name") or "").strip()
    named = [f"it has {what}" for what in _kinds(root)]
    parents = {child: parent for parent in root.iter("*") for child in parent}
    for item, key, text in xml_values.paths(root):
        if not _is_taken(item, key, text, _above(item, parents), name, places):
            named.append(f"it names {show(text)} ({item.tag})")
    return [stranger(one) for one in dict.fromkeys(named)]


def stranger(what: str) -> str:
    """Why a VM stays of which a card says ``what``."""
    return (
        f"{what}, which no card decides for another hypervisor; remove that from the card if the VM"
        " works without it, or bring back the hypervisor that had it"
    )


def files(root: Element) -> list[str]:
    """The files on shared storage that it names, media aside: each has to be a regular file, since
    whoever writes cards can make links there as well."""
    parents = {child: parent for parent in root.iter("*") for child in parent}
    return sorted(
        {
            text
            for item, key, text in xml_values.paths(root)
            if _is_beside(item, key, _above(item, parents))
        }
    )


def without_stray_media(root: Element, usable: t.Collection[str]) -> Element:
    """A copy with empty drives where their media are none of the files ``usable``."""
    changed = copy.deepcopy(root)
    for disk in changed.iterfind("devices/disk"):
        source = disk.find("source")
        if disk.get("device") not in _DRIVES or source is None:
            continue
        if disk.get("type", "file") == "file" and source.get("file") in usable:
            continue
        disk.set("type", "file")
        for child in [child for child in disk if child.tag in _EMPTIED]:
            disk.remove(child)
    return changed


def _above(item: Element, parents: t.Mapping[Element, Element]) -> tuple[str, ...]:
    """The tags of the elements that it stands in, from the nearest to the outermost."""
    tags = []
    at = parents.get(item)
    while at is not None:
        tags.append(str(at.tag))
        at = parents.get(at)
    return tuple(tags)


def _is_beside(item: Element, key: str, above: t.Sequence[str]) -> bool:
    """Whether it is a file that may be kept beside the disks."""
    if "metadata" in above:
        return False
    if (item.tag, key) in (("source", "file"), ("mirror", "file")):
        return ("disk" in above or "nvram" in above) and not {*_BELOW} & {*above}
    return (item.tag in _KEPT_BESIDE and not key and "os" in above) or (
        (item.tag, key) == ("entry", "file") and "sysinfo" in above
    )


def _is_taken(
    item: Element, key: str, text: str, above: t.Sequence[str], name: str, places: Places
) -> bool:
    tag, within = str(item.tag), above[0] if above else ""
    if (tag, key, within) == ("partition", "", "resource"):
        return _PARTITION.fullmatch(text) is not None
    if "metadata" in above or (tag, key) in NO_PATH:
        return True
    if _is_beside(item, key, above):
        return places.has(text)
    if (tag, key) == ("source", "file") and {*_BELOW} & {*above}:
        return places.has_base(text)
    if (tag, key) in (("loader", ""), ("nvram", "template"), ("rom", "file")):
        return is_firmware(text)
    if tag == "emulator":
        return _EMULATOR.fullmatch(text) is not None
    if (tag, key) == ("clock", "timezone"):
        return ZONE.fullmatch(text) is not None
    if (tag, key) in (("log", "file"), ("source", "path")) and within in _CHARACTER:
        own = posixpath.basename(text).startswith(name)
        if own and posixpath.dirname(text) == _LOGS:
            return True
    if (tag, key) in (("source", "path"), ("graphics", "socket"), ("listen", "socket")):
        return _SOCKETS.fullmatch(text) is not None and ".." not in text.split("/")
    if (tag, key) in (("gl", "rendernode"), ("acceleration", "rendernode")):
        return _RENDERER.fullmatch(text) is not None
    return (tag, key) in (("backend", ""), ("backend", "tap"), ("backend", "vhost")) and (
        text in _COMMON
    )


def _is_in(path: str, folders: t.Collection[str]) -> bool:
    return posixpath.dirname(path) in folders and posixpath.basename(path) not in ("", ".", "..")


def _kinds(root: Element) -> t.Iterator[str]:
    """Parts that reach out to a hypervisor without a path."""
    own = {item for metadata in root.iterfind("metadata") for item in metadata.iter()}
    for item in root.iter("*"):
        if "{" in str(item.tag) and item not in own:
            yield f"settings for QEMU alone ({str(item.tag).rpartition('}')[2]})"
    if has_label(root):
        yield "a security label of its own (seclabel)"
    for nvram in root.iterfind("os/nvram"):
        if nvram.get("type", "file") != "file":
            yield "UEFI variables that are no file"
    if root.find("launchSecurity") is not None:
        yield "memory that is encrypted for its hypervisor (launchSecurity)"
    for device in root.iterfind("devices/*"):
        yield from _of_device(device)


def _of_device(device: Element) -> t.Iterator[str]:
    tag, kind = str(device.tag), device.get("type")
    if "{" not in tag and tag not in _DEVICES:
        yield f"a device <{tag}>"
    elif tag == "disk":
        sources = {str(key) for source in device.iter("source") for key in source.attrib}
        if len(device.findall("source")) > 1 or not sources <= _OF_FILES:
            yield "a disk whose source is more than a file"
    elif tag == "interface" and kind not in _NICS:
        yield f"a NIC of the type {show(kind)}"
    elif tag in _CHARACTER:
        yield from _of_character(device, tag, kind)
    elif tag == "smartcard" and (device.get("mode") != "passthrough" or kind != "spicevmc"):
        yield "a smartcard of its hypervisor"
    elif tag == "rng":
        for backend in device.iterfind("backend"):
            if backend.get("model") not in ("random", "builtin"):
                yield f"random numbers from {show(backend.get('model'))}"
    elif tag == "tpm":
        for backend in device.iterfind("backend"):
            if backend.get("type") != "emulator":
                yield "a TPM of its hypervisor"
    elif tag == "audio" and kind not in _AUDIO:
        yield f"audio of the type {show(kind)}"


def _of_character(device: Element, tag: str, kind: str | None) -> t.Iterator[str]:
    if kind not in _CHARACTERS:
        yield f"a {tag} device of the type {show(kind)}"
    for source in device.iterfind("source"):
        if kind in ("unix", "tcp") and source.get("mode") != "bind":
            yield f"a {tag} device that connects to a socket of its hypervisor"
