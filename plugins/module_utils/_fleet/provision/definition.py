# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A VM's definition with the requested settings, and nothing else changed.

Only the elements of the settings that differ are touched; what no row owns stays as it is.
"""

from __future__ import annotations

import copy
import dataclasses
import typing as t
from collections.abc import Mapping

from ... import _lxml
from ..._records import dataclass, field
from ..base import places
from ..base.json_values import require_type
from ..base.machine_types import family_of
from ..base.metadata import Metadata
from ..base.settings import Change, Group, Setting, names, never, write
from ..base.xml_values import bytes_of, mib_up, number
from ..spec import fragment, settings, settings_devices, settings_sources, settings_tuning
from ..spec.devices import Disk, Nic
from ..spec.devices_xml import device_name, target_names
from ..spec.difference import Difference
from ..spec.difference_devices import (
    absent_disk,
    absent_nic,
    disk_element,
    drive_targets,
    nic_element,
)
from ..spec.domain import Domain
from ..spec.request import made_as, with_drive

if t.TYPE_CHECKING:
    from ..._lxml import Element

_UNKNOWN = never("how it is changed is not known; use virsh edit")
_OTHER_FAMILY = never(
    "devices of one family of machine types do not fit into another; recreate the VM"
)
_KINDS = ("disks", "nics")
_LIMITS = [row for row in settings_devices.DISK if str(row.xml).startswith("iotune/")]
# What goes with the place that a NIC is attached to: another network has other port groups
_OF_THE_SOURCE = (settings_tuning.NicTuning.portgroup, settings_tuning.NicTuning.mode)
LIMITS = tuple(row.name for row in _LIMITS)


@dataclass(frozen=True)
class DefinitionRequest:
    """The request. ``xml`` is the definition that creation would write, with only those disks that
    may be missing, in the order of ``added``; ``bases`` are the paths of images.
    """

    domain: Domain
    xml: str = field(repr=False)
    added: tuple[str, ...] = ()
    bases: Mapping[str, str] = field(default_factory=dict)

    @property
    def root(self) -> Element:
        """``xml``, parsed."""
        return _lxml.parse(self.xml, f"domain {self.domain.name}")


@dataclass(frozen=True)
class Device:
    """The disk or NIC of a difference; ``key`` is the setting, empty for the whole device."""

    kind: str
    name: str
    key: str
    spec: Disk | Nic | None  # None if it should be absent


def device_of(domain: Domain, path: str) -> Device | None:
    """The device that ``path`` is about, if it is a disk or a NIC."""
    kind, _dot, rest = path.partition(".")
    if kind not in _KINDS:
        return None
    specs: t.Sequence[Disk | Nic] = domain.disks if kind == "disks" else domain.nics
    for name in domain.absent_disks if kind == "disks" else domain.absent_nics:
        if rest == name:
            return Device(kind, name, "", None)
    for spec in sorted(specs, key=lambda spec: -len(spec.name)):  # a name may have dots in it
        if rest == spec.name or rest.startswith(f"{spec.name}."):
            return Device(kind, spec.name, rest[len(spec.name) + 1 :], spec)
    return None


def _row(table: t.Iterable[Setting[object]], key: str) -> Setting[object] | None:
    return next((row for row in table if key in names([row])), None)


def change_of(domain: Domain, difference: Difference, root: Element) -> Change:
    """How the setting is changed, as its row says."""
    device = device_of(domain, difference.path)
    if device is not None:
        table = settings_devices.DISK if device.kind == "disks" else settings_devices.NIC
        if not device.key:
            return settings_devices.DISKS.change or _UNKNOWN
        if (
            device.key == "image"
            and isinstance(device.spec, Disk)
            and device.spec.device in settings_sources.DRIVES
        ):
            return settings_devices.DISKS.change or _UNKNOWN  # only the medium changes
        row = _row(table, device.key)
        return (row.change if row else None) or _UNKNOWN
    top, _dot, key = difference.path.partition("[")[0].partition(".")
    row = _row(settings.VM, top)
    if row is settings.Rows.machine and not _same_family(domain, root):
        return _OTHER_FAMILY
    if isinstance(row, Group) and key and _row(row.settings, key):
        row = _row(row.settings, key) if row.name != "seed" else row
    elif isinstance(row, Group) and row.xml and root.find(str(row.xml)) is not None:
        return _change_of_existing(row)
    return (row.change if row else None) or _UNKNOWN


def _change_of_existing(group: Group) -> Change:
    """How a device that exists is changed: never, if none of its settings is."""
    changes = [setting.change for setting in group.settings if setting.change]
    fixed = changes and all(change.when == "never" for change in changes)
    return (changes[0] if fixed else group.change) or _UNKNOWN


def _same_family(domain: Domain, root: Element) -> bool:
    now = root.find("os/type")
    machine = (now.get("machine") or "") if now is not None else ""
    return family_of(str(domain.machine)) == family_of(machine)


def changed(
    xml: str, wanted: DefinitionRequest, differences: t.Iterable[Difference], stored: Metadata
) -> str:
    """The definition ``xml`` with ``differences`` removed."""
    root = _lxml.parse(xml, f"domain {wanted.domain.name}")
    mended(root, wanted, differences, stored)
    return _lxml.tostring(root)


def mended(
    root: Element, wanted: DefinitionRequest, differences: t.Iterable[Difference], stored: Metadata
) -> dict[str, str]:
    """Set all ``differences`` in ``root``; the targets of the VM's drives by name, old and new."""
    targets = drive_targets(made_as(stored))
    for difference in differences:
        device = device_of(wanted.domain, difference.path)
        if device is not None and not device.key and isinstance(device.spec, Disk):
            is_drive = device.spec.device in settings_sources.DRIVES
            if is_drive and located(root, wanted.domain, device, stored) is None:
                target = targets[device.name] = target_of(root, wanted.domain, device.spec)
                mend(
                    root, wanted, difference, stored
                )  # others, such as the boot order, are to find it
                request = with_drive(stored.request, wanted.domain, device.name, target)
                stored = dataclasses.replace(stored, request=request)
                continue
        mend(root, wanted, difference, stored)
    return targets


def mend(
    root: Element, wanted: DefinitionRequest, difference: Difference, stored: Metadata
) -> None:
    """Set one setting in ``root`` as requested."""
    device = device_of(wanted.domain, difference.path)
    if device is not None:
        _device(root, wanted, device, stored)
        return
    top, _dot, key = difference.path.partition(".")
    top, several, number_in = top.partition("[")
    special = _SPECIAL.get(top)
    row = _row(settings.VM, top)
    if special is not None:
        special(root, wanted, key, stored)
    elif isinstance(row, Group) and several:
        _one_more(root, wanted, row, getattr(wanted.domain, top)[int(number_in.rstrip("]"))])
    elif isinstance(row, Group) and row.xml:
        _group(root, wanted, row)
    elif row is not None and row.xml:
        row.rewrite(root, wanted.domain)


def _device(root: Element, wanted: DefinitionRequest, device: Device, stored: Metadata) -> None:
    element = located(root, wanted.domain, device, stored)
    if device.spec is None:
        _drop(element)
    elif element is None:
        new = addition(root, wanted, device)
        insert(root, new)
        if isinstance(device.spec, Disk):
            settings_tuning.DiskTuning.iothread.rewrite(new, device.spec)
            _controller(root, wanted, device.spec)
    else:
        rewrite(element, device, wanted)


def located(root: Element, domain: Domain, device: Device, stored: Metadata) -> Element | None:
    """The disk or NIC in ``root``."""
    spec = device.spec
    if isinstance(spec, Disk):
        return disk_element(root, domain, spec, stored)
    if isinstance(spec, Nic):
        return nic_element(root, spec, made_as(stored))
    if device.kind == "disks":
        return absent_disk(root, device.name, stored, made_as(stored))
    return absent_nic(root, device.name, made_as(stored))


def rewrite(element: Element, device: Device, wanted: DefinitionRequest) -> None:
    """Set one setting of a disk or NIC as requested."""
    spec = device.spec
    if isinstance(spec, Nic) and device.key == "source":
        source = element.find("source")
        if source is not None:
            element.remove(source)
        element.attrib.pop("type", "")
        settings_devices.NicSettings.type.write(element, spec)
        settings_devices.NicSettings.source.write(element, spec)
        for setting in _OF_THE_SOURCE:
            setting.write(element, spec)
    elif isinstance(spec, Disk) and device.key == "image":
        _drop(element.find("source"))
        _drop(element.find("backingStore"))
        path = wanted.bases.get(spec.image.value) if spec.image else None
        if path is not None:
            _lxml.add(element, "source", {"file": path})
    elif device.key:
        row = _row(
            settings_devices.DISK if device.kind == "disks" else settings_devices.NIC, device.key
        )
        if row is not None and row.xml:
            row.rewrite(element, spec)


def limits(element: Element) -> dict[str, int]:
    """The limits of a disk's input and output, as libvirt takes them; 0 is none."""
    return {row.name: require_type(row.found(element), int) for row in _LIMITS}


def addition(root: Element, wanted: DefinitionRequest, device: Device) -> Element:
    """The element of a disk or NIC to add to ``root``."""
    spec = device.spec
    if isinstance(spec, Disk):
        element = wanted.root.findall("devices/disk")[wanted.added.index(spec.name)]
        target = element.find("target")
        if target is not None:
            target.set("dev", target_of(root, wanted.domain, spec))
    else:
        nics = wanted.root.findall("devices/interface")
        (element,) = [one for one in nics if isinstance(spec, Nic) and _mac(one) == spec.mac]
    boot = element.find("boot")
    if boot is not None:  # the order is a setting of its own
        element.remove(boot)
    return copy.deepcopy(element)


def keep_addresses(root: Element, live: Element) -> None:
    """Keep the address of a hot-plugged device for the next start, if it is free there."""
    keys = (("devices/disk", "target", "dev"), ("devices/interface", "mac", "address"))
    used = [one.items() for one in root.iterfind("devices/*/address")]
    for place, tag, key in keys:
        running = {attribute(one, tag, key): one.find("address") for one in live.iterfind(place)}
        for element in root.iterfind(place):
            address = running.get(attribute(element, tag, key))
            if address is None or element.find("address") is not None:
                continue
            if address.items() not in used:
                element.append(copy.deepcopy(address))


def attribute(element: Element, tag: str, key: str) -> str | None:
    """The attribute ``key`` of the child ``tag``."""
    place = element.find(tag)
    return place.get(key) if place is not None else None


def target_of(root: Element, domain: Domain, disk: Disk) -> str:
    """The target that a disk gets when it is added to ``root``."""
    return free_target(root, target_names(domain.disks)[disk.name])


def free_target(root: Element, name: str) -> str:
    """``name`` if no disk has it, else the first free target of that kind."""
    used = {str(one.get("dev")) for one in root.iterfind("devices/disk/target")}
    candidates = [name, *(device_name(name[:2], index) for index in range(len(used) + 1))]
    return next(one for one in candidates if one not in used)


def _mac(element: Element) -> str:
    return str(settings_devices.NicSettings.mac.found(element)).lower()


def insert(root: Element, element: Element) -> None:
    """Put a device after the last of its kind."""
    devices = root.find("devices")
    if devices is None:
        devices = _lxml.add(root, "devices")
    same = devices.findall(element.tag)
    devices.insert(devices.index(same[-1]) + 1 if same else len(devices), element)


def _controller(root: Element, wanted: DefinitionRequest, disk: Disk) -> None:
    """Add the controller of a SCSI disk: libvirt's own choice has no driver in cloud kernels."""
    if disk.bus == "scsi" and root.find("devices/controller[@type='scsi']") is None:
        controller = wanted.root.find("devices/controller[@type='scsi']")
        if controller is not None:
            insert(root, copy.deepcopy(controller))


def _drop(element: Element | None) -> None:
    above = element.getparent() if element is not None else None
    if element is not None and above is not None:
        above.remove(element)


def _replace(root: Element, wanted: Element, place: str) -> None:
    for old in root.findall(place):
        _drop(old)
    for new in wanted.findall(place):
        if place.startswith("devices/"):
            insert(root, copy.deepcopy(new))
        else:
            places.reach(root, place.rpartition("/")[0]).append(copy.deepcopy(new))


def _asked(group: Group, whole: object) -> list[Setting[object]]:
    """The rows for which a value is requested."""
    return [row for row in group.settings if getattr(whole, row.name, None) not in (None, ())]


def _group(root: Element, wanted: DefinitionRequest, group: Group) -> None:
    """Write the requested settings of a group that exists once; the rest of it stays."""
    place, whole = str(group.xml), getattr(wanted.domain, group.name)
    asked, elements = _asked(group, whole), root.findall(place)
    if not elements or not asked:
        _replace(root, wanted.root, place)
        return
    differing = [(_differing(asked, element, whole), element) for element in elements]
    rows, element = min(differing, key=lambda pair: len(pair[0]))  # the closest match
    _rewrite(rows, element, whole)


def _differing(
    rows: t.Iterable[Setting[object]], element: Element, whole: object
) -> list[Setting[object]]:
    """The rows whose value in ``element`` is not the requested one. What accompanies an equal one
    (how libvirt checks a CPU model) stays."""
    return [row for row in rows if not row.same(getattr(whole, row.name), row.found(element))]


def _rewrite(rows: t.Sequence[Setting[object]], element: Element, whole: object) -> None:
    for row in rows:
        row.clear(element)
    write(rows, element, whole)


def _one_more(root: Element, wanted: DefinitionRequest, group: Group, whole: object) -> None:
    """Add another device of a list to those that exist."""
    rows = _asked(group, whole)
    for element in wanted.root.findall(str(group.xml)):
        if all(row.same(getattr(whole, row.name), row.found(element)) for row in rows):
            insert(root, copy.deepcopy(element))
            return


def _vcpus(root: Element, wanted: DefinitionRequest, _key: str, _kept: Metadata) -> None:
    """Set the vCPUs; a maximum that was not requested follows their number."""
    domain, vcpu = wanted.domain, root.find("vcpu")
    if vcpu is None:
        vcpu = _lxml.add(root, "vcpu", text="1")
    most = number(vcpu.text) or 1
    current = number(vcpu.get("current")) or most
    count = domain.vcpus if "vcpus" in domain.written else current
    most = count if current == most else max(most, count)
    if domain.vcpus_max is not None and "vcpus_max" in domain.written:
        most = max(domain.vcpus_max, count)
    vcpu.text = str(most)
    vcpu.attrib.pop("current", "")
    if count < most:
        vcpu.set("current", str(count))
    _drop(root.find("vcpus"))  # lists for each whether it is enabled


def _memory(root: Element, wanted: DefinitionRequest, _key: str, _kept: Metadata) -> None:
    domain = wanted.domain
    most = require_type(settings.Rows.memory_max.found(root) or 0, int)
    current = require_type(settings.Rows.memory.found(root) or most, int)
    count = domain.memory if "memory" in domain.written else current
    most = count if current == most else max(most, count)
    if domain.memory_max is not None and "memory_max" in domain.written:
        most = max(domain.memory_max, count)
    for tag, value in (("memory", most), ("currentMemory", count)):
        element = root.find(tag)
        if element is None:
            element = _lxml.add(root, tag)
        if mib_up(bytes_of(element, "KiB")) == value:
            continue  # edited by hand, it may not be whole MiB
        element.set("unit", "KiB")
        element.text = str(value * 1024)


def _machine(root: Element, wanted: DefinitionRequest, _key: str, _kept: Metadata) -> None:
    now, then = root.find("os/type"), wanted.root.find("os/type")
    if now is not None and then is not None:
        now.set("machine", str(then.get("machine")))


def _cpu(root: Element, wanted: DefinitionRequest, _key: str, _kept: Metadata) -> None:
    element = root.find("cpu")
    if element is None:
        element = _lxml.add(root, "cpu")
    cpu = wanted.domain.cpu
    rows = _differing(_asked(settings_devices.CPUS, cpu), element, cpu)
    chosen = (settings_devices.CpuSettings.mode, settings_devices.CpuSettings.model)
    if any(row in chosen for row in rows):  # one is read together with the other
        rows = [*chosen, *(row for row in rows if row not in chosen)]
    _rewrite(rows, element, cpu)


def _console(root: Element, wanted: DefinitionRequest, key: str, _kept: Metadata) -> None:
    console = wanted.domain.console
    if key:
        row = _row(settings_devices.CONSOLE, key)
        for element in root.iterfind(f"devices/graphics[@type='{console.type}']"):
            if row is not None:
                row.rewrite(element, console)
        return
    _replace(root, wanted.root, "devices/graphics")
    if console.type == "none":
        return
    for place in ("devices/video", "devices/input[@type='tablet']"):
        if root.find(place) is None:
            _replace(root, wanted.root, place)


def _watchdog(root: Element, wanted: DefinitionRequest, _key: str, _kept: Metadata) -> None:
    """Set the watchdog; libvirt adds the one built into a machine type, which stays."""
    new = wanted.root.find("devices/watchdog")
    for old in root.findall("devices/watchdog"):
        if new is not None and (old.get("model") != "itco" or new.get("model") == "itco"):
            _drop(old)
    if new is not None:
        insert(root, copy.deepcopy(new))


def _fragment(root: Element, wanted: DefinitionRequest, _key: str, _kept: Metadata) -> None:
    fragment.merge(root, wanted.domain.xml)


def _boot(root: Element, wanted: DefinitionRequest, _key: str, stored: Metadata) -> None:
    for old in [*root.findall("devices/*/boot"), *root.findall("os/boot")]:
        _drop(old)
    domain = wanted.domain
    devices = [Device("disks", one.name, "", one) for one in domain.disks]
    devices += [Device("nics", one.name, "", one) for one in domain.nics]
    for order, name in enumerate(domain.boot, 1):
        device = next(one for one in devices if one.name == name)
        element = located(root, domain, device, stored)
        if element is not None:
            _lxml.add(element, "boot", {"order": str(order)})


_SPECIAL: Mapping[str, t.Callable[[Element, DefinitionRequest, str, Metadata], None]] = {
    "vcpus": _vcpus,
    "vcpus_max": _vcpus,
    "memory": _memory,
    "memory_max": _memory,
    "machine": _machine,
    "cpu": _cpu,
    "console": _console,
    "watchdog": _watchdog,
    "boot": _boot,
    "xml": _fragment,
}
