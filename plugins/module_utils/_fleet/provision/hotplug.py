# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What libvirt and QEMU can change in a running VM: free ports for devices, what can be unplugged.

libvirt adds ports and controllers when a VM is started, never while it runs. Where the live
definition lists no PCI controller it is not that of a running QEMU, and nothing is known.
"""

from __future__ import annotations

import typing as t

from ..base.json_values import require_type
from ..base.xml_values import number
from ..spec import settings

if t.TYPE_CHECKING:
    from ..._lxml import Element

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
