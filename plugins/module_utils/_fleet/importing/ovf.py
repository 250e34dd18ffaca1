# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The VM that an OVF descriptor describes (DSP0243, versions 1 and 2), as far as it is imported.

Elements are found by their local names: VirtualBox, VMware and oVirt use different namespaces and
prefixes for the same ones. What is left out is named, so that nobody takes it for imported.
"""

from __future__ import annotations

import re
import shlex
import typing as t
from urllib.parse import unquote

from ... import _lxml
from ..._errors import PlanRefused
from ..._records import dataclass
from ..._units import MIB
from ..base.options import show
from . import archive, disk_format

if t.TYPE_CHECKING:
    from ..._lxml import Element

_EDIT = (
    "correct the descriptor (tar -xf unpacks an OVA), remove its manifest (.mf), and import the"
    " .ovf; or import the disk by the name of its file alone"
)
# CIM_ResourceAllocationSettingData.ResourceType
_CPU, _MEMORY, _NIC, _DISK = "3", "4", "10", "17"
_CONTROLLERS = ("5", "6", "19", "20")  # a VM gets those that its disks need
_LEFT_OUT = {
    "1": "other device",
    "14": "floppy drive",
    "15": "CD drive",
    "16": "CD drive",
    "18": "tape drive",
    "21": "serial port",
    "22": "parallel port",
    "23": "USB controller",
    "26": "USB device",
    "35": "sound card",
}
# What a VM has anyway: controllers, and a screen
_ANYWAY = (_CPU, _MEMORY, _NIC, _DISK, *_CONTROLLERS, "24")
_UNITS = {"byte": 1, "bytes": 1, "b": 1}
_PREFIXES = {"k": 10, "m": 20, "g": 30, "t": 40, "p": 50}
_NAMES = {"kilo": "k", "mega": "m", "giga": "g", "tera": "t", "peta": "p"}
_NAMES.update({"kibi": "k", "mebi": "m", "gibi": "g", "tebi": "t", "pebi": "p"})
for _name, _prefix in _NAMES.items():
    _UNITS.update({f"{_name}byte{plural}": 1 << _PREFIXES[_prefix] for plural in ("", "s")})
for _prefix, _power in _PREFIXES.items():
    _UNITS.update({f"{_prefix}b": 1 << _power, f"{_prefix}ib": 1 << _power})
_FACTOR = re.compile(r"(\d{1,19})(?:\s*\^\s*(\d{1,2}))?", re.ASCII)
_MOST_BYTES = 1 << 63
_PROPERTY = re.compile(r"\$\{([^{}]+)\}")
# By what each writes; a guest has drivers for its own, or for virtio where it had that
_NIC_MODELS = {
    "e1000": "e1000",
    "e1000e": "e1000e",
    "vmxnet3": "vmxnet3",
    "virtio": "virtio",
    "2": "e1000",
    "3": "virtio",
    "6": "e1000e",
}
_ANY_NIC = "e1000"
_VIRTIO = ("virtio", "virtio_scsi")
_UEFI_BIOS = ("3", "4")  # oVirt's BiosType: Q35 with OVMF, and with secure boot
_MOST_DEVICES = 64
_TPM = "TPM (what is sealed in it, such as the key of an encrypted disk)"
_NOWHERE = 1 << 31


@dataclass(frozen=True)
class OvfDisk:
    """A disk: the ``file`` with its content, None for an empty one of ``capacity`` bytes."""

    file: str | None
    capacity: int
    virtio: bool = False


@dataclass(frozen=True)
class OvfNic:
    """A NIC in ``network``, a name of where the VM comes from."""

    network: str
    model: str


@dataclass(frozen=True)
class OvfVm:
    """A VM; what is None is not described. ``left_out`` is not imported."""

    name: str
    vcpus: int | None = None
    memory_mib: int | None = None
    disks: tuple[OvfDisk, ...] = ()
    nics: tuple[OvfNic, ...] | None = None
    uefi: bool = False
    secure_boot: bool = False
    left_out: tuple[str, ...] = ()


def parse(data: bytes) -> OvfVm:
    """The VM of a descriptor. Raises PlanRefused, and XmlError for what is no plain XML."""
    root = _lxml.parse(data, "the OVF descriptor")
    if _local(root) != "Envelope":
        raise PlanRefused(
            f"the descriptor is {show(_local(root))} and no OVF Envelope; name the .ovf or .ova"
            " file of an exported VM"
        )
    systems = [*_all(root, "VirtualSystem"), *_all(root, "Content")]
    if len(systems) != 1:
        raise PlanRefused(
            f"the descriptor has {len(systems)} VMs; one is imported at a time: leave one in it and"
            f" {_EDIT}"
        )
    system = systems[0]
    configuration = _configuration(root)
    files = _files(root)
    disks = _disks(root, files, _properties(root, configuration))
    items = _items(system, configuration)
    quantities = {kind: _quantity(items, kind) for kind in (_CPU, _MEMORY)}
    left = [*filter(None, map(_left_device, items)), *_tpms(system)]
    left += _left_files(root, system, files)
    attached = {_identifier(item) for item in items if _text(item, "ResourceType") == _DISK}
    left += [
        f"disk {show(disk.file)}, which no drive of the VM has"
        for identifier, disk in disks.items()
        if disk.file is not None and identifier not in attached
    ]
    memory = quantities[_MEMORY]
    uefi, secure = _firmware(system)
    return OvfVm(
        name=_text(system, "Name") or _attribute(system, "id") or "",
        vcpus=quantities[_CPU],
        memory_mib=None if memory is None else -(-memory // MIB),
        disks=tuple(_attached(_ordered(root, items), disks)),
        nics=tuple(_nics(items)),
        uefi=uefi,
        secure_boot=secure,
        left_out=tuple(dict.fromkeys(left)),
    )


def _local(element: Element) -> str:
    return str(element.tag).rpartition("}")[2]


def _all(root: Element, name: str) -> list[Element]:
    return list(root.iterfind(f".//{{*}}{name}"))


def _attribute(element: Element, name: str) -> str | None:
    """An attribute, of whatever namespace, as tools write it."""
    for key, value in element.attrib.items():
        if str(key).rpartition("}")[2] == name:
            return str(value)
    return None


def _text(element: Element, name: str) -> str:
    child = element.find(f"{{*}}{name}")
    return "" if child is None else (child.text or "").strip()


def _left_device(item: Element) -> str | None:
    """What a VM would lose with a device that is not imported."""
    kind = _text(item, "ResourceType")
    if "tpm" in _text(item, "ResourceSubType").lower():
        return _TPM
    return None if kind in _ANYWAY else _LEFT_OUT.get(kind, f"device of type {show(kind)}")


def _tpms(system: Element) -> list[str]:
    """The TPM, as VirtualBox describes it."""
    kinds = [_attribute(entry, "type") for entry in _all(system, "TrustedPlatformModule")]
    return [_TPM for kind in kinds if (kind or "None").lower() != "none"]


def _files(root: Element) -> dict[str, str]:
    """The names of the files by their identifiers."""
    files: dict[str, str] = {}
    for entry in _all(root, "File"):
        name = (_attribute(entry, "href") or "").removeprefix("./")
        problem = "is on a server" if "://" in name else archive.name_problem(name)
        problem = problem or archive.name_problem(unquote(name))
        if problem:
            raise PlanRefused(
                f"the descriptor refers to the file {show(name)}, which {problem}; put it beside"
                f" the descriptor, and {_EDIT}"
            )
        if _attribute(entry, "chunkSize"):
            raise PlanRefused(
                f"the file {show(name)} is split into several; unpack an OVA (tar -xf), join them"
                f" (cat {shlex.quote(name)}.0* >{shlex.quote(name)}), and import that alone"
            )
        if (_attribute(entry, "compression") or "identity") != "identity":
            raise PlanRefused(
                f"the file {show(name)} is compressed; unpack an OVA (tar -xf), then the file"
                f" (gunzip <{shlex.quote(name)} >disk.vmdk), and import that alone"
            )
        files[_attribute(entry, "id") or ""] = name
    return files


def _left_files(root: Element, system: Element, files: t.Mapping[str, str]) -> list[str]:
    """What is lost of files that no disk has: UEFI variables, and what nobody knows."""
    used = {_attribute(entry, "fileRef") for entry in _all(root, "Disk")}
    # VirtualBox has them in a file beside its own, and names it in its own part of the descriptor
    lost = {_attribute(entry, "path") for entry in _all(system, "NVRAM")} - {None, ""}
    others = {name for identifier, name in files.items() if identifier not in used}
    lost |= {name for name in others if name.lower().endswith((".nvram", ".fd", "_vars"))}
    for entry in (*_all(system, "Config"), *_all(system, "ExtraConfig")):
        if _attribute(entry, "key") == "nvram":
            value = _attribute(entry, "value") or ""
            lost.add(files.get(value.rpartition("/")[2], value))
    named = [
        f"NVRAM ({show(name)}: the firmware's settings, boot entries and keys)"
        for name in sorted(map(str, lost))
    ]
    return named + [f"file {show(name)}" for name in sorted(others - lost)]


def _properties(root: Element, configuration: str | None) -> dict[str, str]:
    """The values of properties, in this configuration, by key and by qualified key."""
    values: dict[str, str] = {}
    for section in _all(root, "ProductSection"):
        kind, instance = (_attribute(section, name) or "" for name in ("class", "instance"))
        for entry in section.iterfind("{*}Property"):
            key, value = _attribute(entry, "key") or "", _attribute(entry, "value")
            for other in entry.iterfind("{*}Value"):
                if _attribute(other, "configuration") in (None, configuration):
                    value = _attribute(other, "value")
            if value is not None:
                values.setdefault(key, value)
                values[".".join(filter(None, (kind, key, instance)))] = value
    return values


def _disks(
    root: Element, files: t.Mapping[str, str], properties: t.Mapping[str, str]
) -> dict[str, OvfDisk]:
    """The disks by their identifiers."""
    disks: dict[str, OvfDisk] = {}
    for entry in _all(root, "Disk"):
        identifier = _attribute(entry, "diskId") or ""
        reference = _attribute(entry, "fileRef")
        if _attribute(entry, "parentRef"):
            raise PlanRefused(
                f"the disk {show(identifier)} is the difference to another (a snapshot); remove"
                " the VM's snapshots where it comes from, and export it after that; or"
                f" {disk_format.ONE_FILE}"
            )
        if reference and reference not in files:
            raise PlanRefused(
                f"the disk {show(identifier)} is in the file {show(reference)}, which the"
                f" descriptor does not have; {_EDIT}"
            )
        units = _attribute(entry, "capacityAllocationUnits") or "byte"
        capacity = (_attribute(entry, "capacity") or "0").strip()
        variable = _PROPERTY.fullmatch(capacity)
        if variable:
            if variable[1] not in properties:
                raise PlanRefused(
                    f"the capacity of the disk {show(identifier)} is the property"
                    f" {show(variable[1])}, which has no value; give it one (ovf:value): {_EDIT}"
                )
            capacity = properties[variable[1]].strip()
        disks[identifier] = OvfDisk(
            files[reference] if reference else None,
            _number(capacity, "capacity") * _factor(units),
            (_attribute(entry, "disk-interface") or "").lower() in _VIRTIO,
        )
    return disks


def _configuration(root: Element) -> str | None:
    """The configuration that a deployment without a choice has."""
    options = _all(root, "Configuration")
    chosen = [one for one in options if _attribute(one, "default") in ("true", "1")]
    for option in (*chosen, *options):
        return _attribute(option, "id")
    return None


def _items(system: Element, configuration: str | None) -> list[Element]:
    """The devices of the hardware; those of other configurations, and bounds, are none."""
    items = []
    for section in (*_all(system, "VirtualHardwareSection"), *_sections(system)):
        for item in section:
            if not _local(item).endswith("Item") or _attribute(item, "bound"):
                continue
            of = (_attribute(item, "configuration") or "").split()
            if not of or configuration in of:
                items.append(item)
    if len(items) > 4 * _MOST_DEVICES:
        raise PlanRefused(f"the descriptor has {len(items)} devices; no VM has that many")
    return items


def _sections(system: Element) -> list[Element]:
    """Sections as older versions write them, with their kind in an attribute."""
    kinds = [(section, _attribute(section, "type") or "") for section in _all(system, "Section")]
    return [section for section, kind in kinds if "VirtualHardwareSection" in kind]


def _quantity(items: t.Sequence[Element], kind: str) -> int | None:
    """How many CPUs, or bytes of memory; of several items the last counts, as it overrides."""
    for item in reversed(items):
        if _text(item, "ResourceType") != kind:
            continue
        number = _text(item, "VirtualQuantity")
        if kind == _MEMORY:
            units = _text(item, "AllocationUnits") or "megabytes"
            return _number(number, "memory") * _factor(units)
        if number:
            return _number(number, "number of CPUs")
        count = 1
        for part in ("num_of_sockets", "cpu_per_socket", "threads_per_cpu"):
            count *= _number(_text(item, part) or "1", part)
        return count
    return None


def _ordered(root: Element, items: t.Sequence[Element]) -> list[Element]:
    """The items of disks as a guest's firmware finds them: what is said to boot, then by the
    address of their controller, and by theirs on it. What has no address keeps its place."""
    controllers = {
        _text(item, "InstanceID") or _text(item, "InstanceId"): (_address(item, "Address"), place)
        for place, item in enumerate(items)
        if _text(item, "ResourceType") in _CONTROLLERS
    }
    first = {
        str(_attribute(entry, "instanceId")): place
        for place, entry in enumerate(_all(root, "BootOrderSection"))
        if _attribute(entry, "instanceId")
    }
    boots = {
        _attribute(entry, "diskId")
        for entry in _all(root, "Disk")
        if (_attribute(entry, "boot") or "").lower() in ("true", "1")
    }
    last = len(items)

    def rank(item: Element) -> tuple[int, int, int, int]:
        order = _address(item, "BootOrder")
        chosen = first.get(_text(item, "InstanceID") or _text(item, "InstanceId"), last)
        if _identifier(item) in boots:
            chosen = -1
        elif 0 < order < _NOWHERE:
            chosen = min(chosen, order)
        nowhere = (_NOWHERE, last)
        controller = controllers.get(_text(item, "Parent"), nowhere)
        return (chosen, *controller, _address(item, "AddressOnParent"))

    return sorted((item for item in items if _text(item, "ResourceType") == _DISK), key=rank)


def _address(item: Element, name: str) -> int:
    text = _text(item, name)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else _NOWHERE


def _identifier(item: Element) -> str:
    return _text(item, "HostResource").rpartition("/disk/")[2]


def _attached(items: t.Sequence[Element], disks: t.Mapping[str, OvfDisk]) -> t.Iterator[OvfDisk]:
    """The disks of these items. Each that names an empty one gets one of its own."""
    seen: list[str] = []
    for item in items:
        identifier = _identifier(item)
        if len(item.findall("{*}HostResource")) > 1:
            raise PlanRefused(f"a disk of the VM is in several places; leave one of them: {_EDIT}")
        if identifier not in disks:
            raise PlanRefused(
                f"the VM has a disk {show(_text(item, 'HostResource'))} that the descriptor does"
                f" not describe; {_EDIT}"
            )
        if identifier in seen and disks[identifier].file is not None:
            raise PlanRefused(
                f"the VM has the disk {show(identifier)} twice; remove one of the items: {_EDIT}"
            )
        seen.append(identifier)
        yield disks[identifier]


def _nics(items: t.Sequence[Element]) -> t.Iterator[OvfNic]:
    for item in items:
        if _text(item, "ResourceType") == _NIC:
            model = _NIC_MODELS.get(_text(item, "ResourceSubType").lower(), _ANY_NIC)
            yield OvfNic(_text(item, "Connection"), model)


def _firmware(system: Element) -> tuple[bool, bool]:
    """Whether the VM boots by UEFI, and whether with secure boot."""
    settings = {
        _attribute(entry, "key"): (_attribute(entry, "value") or "").lower()
        for entry in (*_all(system, "Config"), *_all(system, "ExtraConfig"))
    }
    kinds = [_attribute(entry, "type") or "" for entry in _all(system, "Firmware")]
    bios = _text(system, "BiosType")
    secure = settings.get("bootOptions.efiSecureBootEnabled") == "true" or bios == _UEFI_BIOS[1]
    efi = settings.get("firmware") == "efi" or any(kind.startswith("EFI") for kind in kinds)
    return efi or bios in _UEFI_BIOS, secure


def _number(text: str, what: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise PlanRefused(f"the descriptor's {what} is {show(text)} and no number; {_EDIT}")
    return int(text)


def _factor(units: str) -> int:
    """How many bytes a unit of CIM has, as ``byte * 2^20``, ``byte*1024*1024`` or ``MegaBytes``."""
    name, *factors = (part.strip() for part in units.lower().split("*"))
    result = _UNITS.get(name, 0)
    for factor in factors:
        match = _FACTOR.fullmatch(factor)
        result = result * int(match[1]) ** int(match[2] or 1) if match else 0
        if not 0 < result < _MOST_BYTES:
            break  # a descriptor may have any number of factors
    if not 0 < result < _MOST_BYTES:
        raise PlanRefused(f"the descriptor has the unit {show(units)}, which is none; {_EDIT}")
    return result
