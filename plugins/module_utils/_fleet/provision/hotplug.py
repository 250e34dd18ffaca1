# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What libvirt and QEMU can change in a running VM, and why a difference waits for the next start.

libvirt adds ports and controllers when a VM is started, never while it runs. Where the live
definition lists no PCI controller it is not that of a running QEMU, and nothing is known.
"""

from __future__ import annotations

import typing as t

from ..base.json_values import require_type
from ..base.xml_values import number
from ..spec import settings
from ..spec.devices import Nic
from . import definition

if t.TYPE_CHECKING:
    from ..._lxml import Element
    from ..base.metadata import Metadata
    from ..spec.difference import Difference
    from .definition import DefinitionRequest, Device

NO_PORT = "no PCI port is free in the running VM"
NO_USB_PORT = "no USB port is free in the running VM"
NO_UNIT = "the running VM has no SCSI controller for it"
NO_BALLOON = "the running VM has no memory balloon"
NO_DRIVER = "its guest has loaded no driver of the memory balloon"
SOLDERED = "its place in the running VM cannot be unplugged"

# Buses from which disks can be removed while the VM runs
UNPLUGGED = ("virtio", "usb", "scsi")
_PCIE_PORTS = ("pcie-root-port", "pcie-switch-downstream-port")
_PCI_BUSES = ("pci-root", "pci-bridge", "pcie-to-pci-bridge")
# What sits in a slot of conventional PCI, even in a machine that has PCI Express
_CONVENTIONAL = ("e1000", "rtl8139", "virtio-transitional", "ne2k_pci", "pcnet")
_SLOTS = range(1, 32)  # of a conventional bus; 0 is reserved
_UNITS = 15  # disks of a SCSI controller by the names of their targets: its own unit is left out
# Ports by USB controller; companions of an ehci share those of it
_USB_PORTS = {"ich9-ehci1": 6, "ehci": 6, "pci-ohci": 3, "nec-xhci": 4, "qemu-xhci": 4}
_COMPANIONS = ("ich9-uhci1", "ich9-uhci2", "ich9-uhci3")
_UHCI_PORTS = 2


def memory_obstacle(live: Element, balloon: bool | None) -> str | None:
    """Why the memory of the running VM cannot be changed; ``balloon`` tells whether its guest has
    a driver, None if that is unknown."""
    if not settings.Rows.balloon.found(live):
        return NO_BALLOON
    return NO_DRIVER if balloon is False else None


def can_take_vcpus(live: Element, count: int) -> bool:
    """Whether the running VM can be given, or can give back, vCPUs up to ``count``."""
    vcpus = live.findall("vcpus/vcpu")
    online = [one for one in vcpus if one.get("enabled") == "yes"]
    now = require_type(settings.Rows.vcpus.found(live), int)
    if count >= now:
        pluggable = [one for one in vcpus if one.get("enabled") != "yes"]
        free = sum(one.get("hotpluggable") == "yes" for one in pluggable)
        return not vcpus or count - len(online) <= free
    removable = [one for one in online if one.get("hotpluggable") == "yes"]
    return bool(online) and len(online) - len(removable) <= count


class Room:
    """The places for more devices in the running VM; what is planned takes them one by one."""

    def __init__(self, live: Element) -> None:
        controllers = live.findall("devices/controller")
        self._known = any(one.get("type") == "pci" for one in controllers)
        self._is_pcie = any(one.get("model") == "pcie-root" for one in controllers)
        used = _used(live)
        free = [one for one in controllers if one.get("type") == "pci" and _is_hotpluggable(one)]
        self._ports = {str(one.get("index")) for one in free if one.get("model") in _PCIE_PORTS}
        self._express = len(self._ports - used.keys())
        self._conventional = sum(
            len(_SLOTS) - len(used.get(str(one.get("index")), set()) & set(_SLOTS))
            for one in free
            if one.get("model") in _PCI_BUSES
        )
        self._usb = _usb_ports(live, controllers)
        self._scsi = {one.get("index") for one in controllers if one.get("type") == "scsi"}

    def free(self, element: Element) -> None:
        """Count the place of a device that will be unplugged before any is added."""
        address = element.find("address")
        if address is None or not self._known:
            return
        if address.get("type") == "usb":
            self._usb += 1
        elif address.get("type") == "pci":
            if str(_value(address.get("bus"))) in self._ports:
                self._express += 1
            else:
                self._conventional += 1

    def disk(self, bus: str, target: str) -> str | None:
        """Take the place of a disk whose target would be ``target``; why there is none."""
        if bus == "scsi":
            if not self._scsi:
                return NO_UNIT
            controller = str(_index(target) // _UNITS)
            return None if not self._known or controller in self._scsi else NO_UNIT
        if bus == "virtio":
            return self._pci(express=True)
        if bus == "usb":
            return self._usb_port()
        return ""  # no other bus takes disks of a running VM

    def nic(self, model: str) -> str | None:
        """Take the place of a NIC of that model; why there is none."""
        if model == "usb-net":
            return self._usb_port()
        return self._pci(express=model not in _CONVENTIONAL)

    def _pci(self, *, express: bool) -> str | None:
        if not self._known:
            return None
        if self._is_pcie and express:
            self._express -= 1
            return None if self._express >= 0 else NO_PORT
        self._conventional -= 1
        return None if self._conventional >= 0 else NO_PORT

    def _usb_port(self) -> str | None:
        if not self._known:
            return None
        self._usb -= 1
        return None if self._usb >= 0 else NO_USB_PORT


def can_be_unplugged(live: Element, element: Element) -> bool:
    """Whether QEMU can unplug the device from where it is."""
    address = element.find("address")
    if address is None or address.get("type") != "pci":
        return True
    if address.get("multifunction") == "on" or _value(address.get("function")):
        return False
    bus = str(_value(address.get("bus")))
    controllers = live.findall("devices/controller[@type='pci']")
    above = [one for one in controllers if one.get("index") == bus]
    return all(one.get("model") != "pcie-root" and _is_hotpluggable(one) for one in above)


def _is_hotpluggable(controller: Element) -> bool:
    target = controller.find("target")
    return target is None or target.get("hotplug") != "off"


def _value(text: str | None) -> int:
    """A number of an address, which libvirt writes in hexadecimal digits."""
    try:
        return int(text or "0", 0)
    except ValueError:
        return 0


def _used(live: Element) -> dict[str, set[int]]:
    """The slots in use, by the index of their controller."""
    slots: dict[str, set[int]] = {}
    for address in live.iterfind("devices/*/address[@type='pci']"):
        bus = str(_value(address.get("bus")))
        slots.setdefault(bus, set()).add(_value(address.get("slot")))
    return slots


def _usb_ports(live: Element, controllers: t.Sequence[Element]) -> int:
    total = 0
    for controller in controllers:
        model = controller.get("model") or ""
        if controller.get("type") != "usb" or model == "none" or model in _COMPANIONS:
            continue
        given = number(controller.get("ports"))
        total += _USB_PORTS.get(model, _UHCI_PORTS) if given is None else given
    used = live.findall("devices/*/address[@type='usb']")
    return total - len(used)


def _index(target: str) -> int:
    """The number of a target: ``sda`` is 0, ``sdaa`` 26."""
    index = 0
    for letter in target[2:]:
        index = index * 26 + ord(letter) - ord("a") + 1
    return max(0, index - 1)


class _Facts(t.Protocol):
    @property
    def metadata(self) -> Metadata: ...
    @property
    def running(self) -> bool: ...
    @property
    def balloon(self) -> bool | None: ...


class Obstacles:
    """The running VM ``live``; each device that is asked about takes a place in it.

    ``stored`` are all differences: what they remove makes room for what they add.
    """

    def __init__(
        self,
        facts: _Facts,
        wanted: DefinitionRequest,
        live: Element,
        stored: t.Iterable[Difference],
    ) -> None:
        self.facts, self.wanted, self.live = facts, wanted, live
        self.room = Room(live)
        for difference in stored:
            device = definition.device_of(wanted.domain, difference.path)
            if device is None or device.spec is not None:
                continue
            element = definition.located(live, wanted.domain, device, facts.metadata)
            if element is not None and self._unplug(device, element) is None:
                self.room.free(element)

    def of(self, difference: Difference, device: Device | None) -> str | None:
        """Why it cannot be done in the running VM, in words where that is not obvious."""
        domain, running, live = self.wanted.domain, self.facts.running, self.live
        if difference.path == "vcpus":
            most = require_type(settings.Rows.vcpus_max.found(live), int)
            can = running and domain.vcpus <= most and can_take_vcpus(live, domain.vcpus)
            return None if can else ""
        if difference.path == "memory":
            most = require_type(settings.Rows.memory_max.found(live), int)
            if not running or domain.memory > most:
                return ""
            return memory_obstacle(live, self.facts.balloon)
        if difference.path == "console.password":  # QEMU accepts one if it had one at its start
            screens = live.findall(f"devices/graphics[@type='{domain.console.type}']")
            return None if all(screen.get("passwd") for screen in screens) else ""
        if device is None or device.key == "size":
            return None
        element = definition.located(live, domain, device, self.facts.metadata)
        if not device.key:
            return self._plug(device, element)
        if device.kind == "nics":
            if device.key == "source" and element is not None and isinstance(device.spec, Nic):
                kind = device.spec.type
                return None if kind != "direct" and element.get("type") == kind else ""
            return None
        # libvirt changes the medium and limits of a running VM's disk
        can = element is not None and device.key in ("image", *definition.LIMITS)
        return None if can else ""

    def _plug(self, device: Device, element: Element | None) -> str | None:
        """Why a device cannot be added to the running VM, or removed from it."""
        spec, live = device.spec, self.live
        if (element is None) == (spec is None):
            return None  # it is already detached, or attached
        if spec is None:
            return "" if element is None else self._unplug(device, element)
        if isinstance(spec, Nic) and not self.facts.running:
            return ""
        if isinstance(spec, Nic):
            return self.room.nic(spec.model)
        threads = number(live.findtext("iothreads")) or 0
        if spec.device != "disk" or (spec.iothread or 0) > threads:
            return ""
        wanted = definition.target_of(live, self.wanted.domain, spec)
        return self.room.disk(spec.bus, wanted)

    def _unplug(self, device: Device, element: Element) -> str | None:
        """Why a device cannot be removed from the running VM."""
        if not self.facts.running:
            return ""
        if device.kind == "disks":
            target = element.find("target")
            bus = str(target.get("bus")) if target is not None else ""
            if element.get("device") != "disk" or bus not in UNPLUGGED:
                return ""
        return None if can_be_unplugged(self.live, element) else SOLDERED
