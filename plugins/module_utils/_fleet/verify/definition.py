# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The VM that runs from a backup: what its guest needs to boot, and nothing of a hypervisor's.

Whoever can write to a place of backups may have written the definition in an archive. It is run on
hypervisors without anyone having looked at it, so what is listed here is taken, and all else left
out: networks, devices, files, sockets, programs and arguments of QEMU. libvirt gives QEMU's user
any file that a definition names, whoever it belongs to. So of what is taken nothing that may be a
path stays, and the result is looked at once more: every path in it is one that was written here.
"""

from __future__ import annotations

import copy
import typing as t

from ... import _lxml
from ..._errors import PlanRefused
from ..._records import dataclass, field
from ..base import xml_values
from ..base.names import PROOF
from ..base.options import show
from ..storage.firmware import ZONE, is_firmware

if t.TYPE_CHECKING:
    from ..._lxml import Element
    from ..backup.archives import SavedDisk

AGENT = "org.qemu.guest_agent.0"
# What is taken as it is, below <domain>
_TAKEN = (
    *("memory", "currentMemory", "maxMemory", "iothreads", "iothreadids", "cpu", "clock", "pm"),
    "on_reboot",
)
_NUMBERED = ("type", "boot", "bootmenu", "bios", "smbios", "firmware")  # below <os>
# Below <disk>; what says where its content is, is made here
_OF_DISK = ("target", "serial", "wwn", "boot", "blockio", "geometry", "vendor", "product")
_ANYWHERE = ("address", "alias")
# Devices without anything of the hypervisor
_DEVICES = ("controller", "hub", "input", "iommu", "memballoon", "panic", "sound", "video")
_INPUTS = ("mouse", "keyboard", "tablet")
# What is the hypervisor's, in whatever it stands
_OF_HOST = ("source", "backend", "protocol", "log", "audio", "acceleration", "rom", "seclabel")
_RANDOM = "/dev/urandom"
_TITLE = "Proof of the backup {archive} of {vm}, removed by itself"


@dataclass(frozen=True)
class ProofPlaces:
    """Where a proof has its files: overlays and what is saved of each disk by target, the state of
    the firmware, and the folder of what its consoles print."""

    overlays: t.Mapping[str, str]
    saved: t.Mapping[str, str]
    nvram: str
    consoles: str


@dataclass(frozen=True)
class ProofVm:
    """The definition, what its consoles' output is in, and whether it has an agent's channel and a
    screen."""

    root: Element
    consoles: tuple[str, ...] = ()
    agent: bool = False
    screen: bool = False
    left_out: tuple[str, ...] = field(default=())


def name_of(uuid: str) -> str:
    """The name of the VM with which a backup is proven."""
    return f"{PROOF}{uuid}"


def blockers(root: Element) -> list[str]:
    """Why no hypervisor can boot it, whatever it has."""
    problems = []
    for tag in ("kernel", "initrd", "dtb"):
        if root.find(f"os/{tag}") is not None:
            problems.append(f"its {tag} is a file of its former hypervisor, and not in the backup")
            break
    loader = (root.findtext("os/loader") or "").strip()
    if loader and not is_firmware(loader):
        problems.append(f"its firmware {show(loader)} is none of a distribution's")
    if root.find("launchSecurity") is not None:
        problems.append("its memory is encrypted for its former hypervisor (launchSecurity)")
    return problems


def proof(
    root: Element,
    uuid: str,
    of: tuple[str, str],
    disks: t.Sequence[SavedDisk],
    places: ProofPlaces,
    *,
    nvram: bool,
) -> ProofVm:
    """The VM ``uuid`` that runs from the archive of the definition ``root``.

    ``of`` are the names of VM and archive. ``nvram``: the archive has the state of its firmware.
    """
    made = _lxml.new("domain", {"type": root.get("type", "kvm")})
    _lxml.add(made, "name", text=name_of(uuid))
    _lxml.add(made, "uuid", text=uuid)
    vm, archive = of
    title = _TITLE.format(archive=archive, vm=vm)
    _lxml.add(made, "title", text="".join(filter(str.isprintable, title.replace("/", " "))))
    for tag in _TAKEN:
        _take(made, root.findall(tag))
    vcpu = root.find("vcpu")
    if vcpu is not None:
        current = {"current": vcpu.get("current", "")} if vcpu.get("current") else {}
        _lxml.add(made, "vcpu", current, vcpu.text)
    made.append(_os(root, places.nvram, nvram=nvram))
    _take(made, root.findall("sysinfo[@type='smbios']")[:1])
    for entry in made.iterfind("sysinfo/system/entry[@name='uuid']"):
        entry.text = uuid
    _take(made, root.findall("features")[:1])
    if root.find("genid") is not None:
        _lxml.add(made, "genid")  # libvirt makes another
    _lxml.add(made, "on_poweroff", text="destroy")
    _lxml.add(made, "on_crash", text="preserve")
    whole = _devices(root, made, disks, places)
    _require_own_paths(whole, places)
    return whole


def _take(made: Element, elements: t.Iterable[Element]) -> None:
    """Append copies without what is of a hypervisor, or may be, wherever it stands in them."""
    for element in elements:
        cleaned = _cleaned(element)
        if cleaned is not None:
            made.append(cleaned)


def _cleaned(element: Element) -> Element | None:
    made = copy.deepcopy(element)
    for item in list(made.iter("*")):
        item.tail = None
        for key, value in list(item.items()):
            if not _is_taken(item, str(key), str(value)):
                item.attrib.pop(key)
        if _is_of_host(item):
            parent = item.getparent()
            if parent is None or item is made:
                return None
            parent.remove(item)
    if made.tag == "clock" and made.get("offset") == "timezone" and not made.get("timezone"):
        made.set("offset", "utc")
    return made


def _is_of_host(item: Element) -> bool:
    tag = str(item.tag)
    program = tag == "driver" and item.get("name") == "vhostuser"
    return program or tag in _OF_HOST or "{" in tag or "/" in (item.text or "")


def _is_taken(item: Element, key: str, value: str) -> bool:
    if (item.tag, key) == ("clock", "timezone"):
        return ZONE.fullmatch(value) is not None
    return "/" not in value and not xml_values.is_host_path(item, key)


def _require_own_paths(vm: ProofVm, places: ProofPlaces) -> None:
    """Raise PlanRefused if a path is in the definition that was not written here."""
    own = {*places.overlays.values(), *places.saved.values(), *vm.consoles, places.nvram, _RANDOM}
    for item, key, text in xml_values.paths(vm.root):
        zone = (item.tag, key) == ("clock", "timezone") and ZONE.fullmatch(text)
        firmware = (item.tag, key) in (("loader", ""), ("nvram", "template")) and is_firmware(text)
        if text not in own and not zone and not firmware:
            raise PlanRefused(
                f"its definition names {show(text)} ({item.tag}), a file of its hypervisor, which"
                " no proof opens"
            )


def _os(root: Element, nvram_path: str, *, nvram: bool) -> Element:
    old, made = root.find("os"), _lxml.new("os")
    if old is None:
        return made
    if old.get("firmware"):
        made.set("firmware", old.get("firmware", ""))
    for element in old:
        if element.tag == "loader":
            path = (element.text or "").strip()
            if is_firmware(path):
                given = ((str(key), str(value)) for key, value in element.items())
                kept = {key: value for key, value in given if "/" not in value}
                # The guest writes to its variables, and never to what all VMs boot by
                _lxml.add(made, "loader", {**kept, "readonly": "yes"}, path)
        elif element.tag in _NUMBERED:
            _take(made, [element])
        elif element.tag == "nvram":
            kept = {}
            if not nvram and is_firmware(element.get("template")):
                kept = {"template": element.get("template", "")}
            _lxml.add(made, "nvram", kept, nvram_path)
    return made


def _devices(
    root: Element, made: Element, disks: t.Sequence[SavedDisk], places: ProofPlaces
) -> ProofVm:
    devices = _lxml.add(made, "devices")
    saved = {disk.target for disk in disks}
    consoles: list[str] = []
    left_out: set[str] = set()
    agent = screen = False
    for device in root.iterfind("devices/*"):
        tag = str(device.tag)
        if tag == "disk":
            target = device.find("target")
            dev = "" if target is None else target.get("dev", "")
            drive = device.get("device", "disk") in ("cdrom", "floppy")
            if dev in saved or drive:
                devices.append(_disk(device, dev, places, drive=drive))
            else:
                left_out.add(tag)
        elif tag in ("serial", "console") and _is_console(device):
            path = f"{places.consoles}/console{len(consoles)}.log"
            consoles.append(path)
            element = _bare(device, {"type": "pty"})
            _lxml.add(element, "log", {"file": path, "append": "on"})
            devices.append(element)
        elif tag == "channel" and device.find(f"target[@name='{AGENT}']") is not None:
            agent = True
            devices.append(_bare(device, {"type": "unix"}))
        elif tag == "tpm" and device.find("backend[@type='emulator']") is not None:
            element = _bare(device, {"model": device.get("model", "")})
            backend = device.find("backend")
            version = "" if backend is None else backend.get("version", "")
            _lxml.add(element, "backend", {"type": "emulator", "version": version or "2.0"})
            devices.append(element)
        elif tag == "rng":
            element = _bare(device, {"model": device.get("model", "virtio")})
            _lxml.add(element, "backend", {"model": "random"}, _RANDOM)
            devices.append(element)
        elif tag == "watchdog":
            devices.append(_bare(device, {"model": device.get("model", ""), "action": "none"}))
        elif tag in _DEVICES and (tag != "input" or device.get("type") in _INPUTS):
            screen = screen or tag == "video"
            _take(devices, [device])
        elif tag not in ("emulator", "graphics", "console", "audio"):
            left_out.add(tag)
    if devices.find("sound") is not None:
        _lxml.add(devices, "audio", {"id": "1", "type": "none"})
    return ProofVm(made, tuple(consoles), agent, screen, tuple(sorted(left_out)))


def _is_console(device: Element) -> bool:
    """Whether it is a console of its own: libvirt repeats the first serial one."""
    target = device.find("target")
    kind = "" if target is None else target.get("type", "")
    return device.tag == "serial" or kind not in ("", "serial")


def _disk(disk: Element, dev: str, places: ProofPlaces, *, drive: bool) -> Element:
    """The disk as an overlay over what is saved, a drive without its medium."""
    kind = disk.get("device", "disk")
    made = _lxml.new("disk", {"type": "file", "device": kind if drive else "disk"})
    if not drive:
        # A disk that cannot be read, or a full one, stops the guest, and is told of
        policy = {"error_policy": "stop", "rerror_policy": "stop"}
        _lxml.add(made, "driver", {"name": "qemu", "type": "qcow2", "cache": "unsafe", **policy})
        _lxml.add(made, "source", {"file": places.overlays[dev]})
        below = _lxml.add(made, "backingStore", {"type": "file"})
        _lxml.add(below, "format", {"type": "raw"})
        source = _lxml.add(below, "source", {"file": places.saved[dev]})
        _lxml.add(source, "seclabel", {"model": "dac", "relabel": "no"})
        _lxml.add(below, "backingStore")
    _take(made, (element for element in disk if element.tag in (*_OF_DISK, *_ANYWHERE)))
    if drive:
        _lxml.add(made, "readonly")
    return made


def _bare(device: Element, attributes: t.Mapping[str, str]) -> Element:
    """The device with its target and address, and ``attributes`` in place of its own."""
    made = _lxml.new(str(device.tag), {key: value for key, value in attributes.items() if value})
    _take(made, (element for element in device if element.tag in ("target", *_ANYWHERE)))
    for target in made.iterfind("target"):
        target.attrib.pop("state", "")
    return made
