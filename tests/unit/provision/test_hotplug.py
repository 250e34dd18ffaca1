# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a running VM has room for, by the controllers and addresses of its live definition."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _lxml
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import hotplug
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.hotplug import Room


def _pci(bus: int, slot: int = 0, more: str = "") -> str:
    return f"<address type='pci' domain='0x0000' bus='{bus:#04x}' slot='{slot:#04x}' {more}/>"


def _controller(kind: str, index: int, model: str, inside: str = "") -> str:
    return f"<controller type='{kind}' index='{index}' model='{model}'>{inside}</controller>"


def _root(*devices: str) -> _lxml.Element:
    return _lxml.parse(f"<domain><devices>{''.join(devices)}</devices></domain>", "x")


def _q35(ports: int, *devices: str) -> _lxml.Element:
    """A q35 with that many root ports, the first of which has a disk."""
    made = [_controller("pci", n + 1, "pcie-root-port") for n in range(ports)]
    disk = f"<disk><target dev='vda' bus='virtio'/>{_pci(1)}</disk>" if ports else ""
    return _root(_controller("pci", 0, "pcie-root"), *made, disk, *devices)


def test_free_root_ports_of_q35_are_taken_one_by_one() -> None:
    room = Room(_q35(3))
    assert [room.disk("virtio", "vdb"), room.nic("virtio")] == [None, None]
    assert room.disk("virtio", "vdc") == hotplug.NO_PORT
    assert room.nic("e1000e") == hotplug.NO_PORT


def test_port_of_what_is_unplugged_is_free() -> None:
    live = _q35(1)
    room = Room(live)
    room.free(live.findall("devices/disk")[0])
    assert [room.nic("virtio"), room.nic("virtio")] == [None, hotplug.NO_PORT]


def test_root_port_without_hotplug_is_not_free() -> None:
    port = _controller("pci", 9, "pcie-root-port", "<target chassis='9' hotplug='off'/>")
    assert Room(_q35(1, port)).disk("virtio", "vdb") == hotplug.NO_PORT


@pytest.mark.parametrize("model", ["e1000", "rtl8139", "virtio-transitional"])
def test_conventional_nic_needs_a_conventional_slot(model: str) -> None:
    assert Room(_q35(4)).nic(model) == hotplug.NO_PORT
    bridge = _controller("pci", 9, "pcie-to-pci-bridge", _pci(2))
    assert Room(_q35(4, bridge)).nic(model) is None


def test_slots_of_i440fx_are_counted() -> None:
    nics = "".join(f"<interface>{_pci(0, slot)}</interface>" for slot in range(1, 30))
    room = Room(_root(_controller("pci", 0, "pci-root"), nics))
    assert [room.nic("virtio"), room.disk("virtio", "vdb")] == [None, None]
    assert room.nic("e1000") == hotplug.NO_PORT


def test_usb_ports_are_counted_by_their_controller() -> None:
    tablet = "<input type='tablet' bus='usb'><address type='usb' bus='0' port='1'/></input>"
    room = Room(_q35(1, _controller("usb", 0, "piix3-uhci"), tablet))
    assert room.disk("usb", "sda") is None
    assert room.disk("usb", "sdb") == hotplug.NO_USB_PORT
    assert Room(_q35(1, _controller("usb", 0, "none"))).nic("usb-net") == hotplug.NO_USB_PORT


def test_scsi_disk_needs_the_controller_of_its_unit() -> None:
    assert Room(_q35(1)).disk("scsi", "sda") == hotplug.NO_UNIT
    room = Room(_q35(1, _controller("scsi", 0, "virtio-scsi")))
    assert room.disk("scsi", "sdo") is None
    assert room.disk("scsi", "sdp") == hotplug.NO_UNIT


@pytest.mark.parametrize("bus", ["sata", "ide", "fdc"])
def test_disk_on_a_bus_without_hotplug_waits(bus: str) -> None:
    assert Room(_q35(4)).disk(bus, "sda") == ""


def test_what_is_not_of_a_running_qemu_has_room() -> None:
    assert Room(_root("<disk/>")).disk("virtio", "vda") is None


@pytest.mark.parametrize(
    ("place", "can"),
    [(_pci(1), True), (_pci(0, 3), False), (_pci(2), False),
     (_pci(1, 0, "function='0x1'"), False), (_pci(1, 0, "multifunction='on'"), False),
     ("<address type='usb' bus='0' port='1'/>", True), ("", True)],
)  # fmt: skip
def test_device_is_unplugged_from_a_port_alone(place: str, can: bool) -> None:
    fixed = _controller("pci", 2, "pcie-root-port", "<target hotplug='off'/>")
    live = _root(
        _controller("pci", 0, "pcie-root"),
        _controller("pci", 1, "pcie-root-port"),
        fixed,
        f"<disk>{place}</disk>",
    )
    (disk,) = live.findall("devices/disk")
    assert hotplug.can_be_unplugged(live, disk) == can


def test_memory_needs_a_balloon_and_its_driver() -> None:
    none = _root("<memballoon model='none'/>")
    virtio = _root("<memballoon model='virtio'/>")
    assert hotplug.memory_obstacle(none, None) == hotplug.NO_BALLOON
    assert hotplug.memory_obstacle(virtio, False) == hotplug.NO_DRIVER
    assert hotplug.memory_obstacle(virtio, None) is None
    assert hotplug.memory_obstacle(virtio, True) is None


def test_vcpus_are_plugged_as_far_as_they_can_be() -> None:
    def vcpu(number: int, enabled: str, pluggable: str) -> str:
        return f"<vcpu id='{number}' enabled='{enabled}' hotpluggable='{pluggable}'/>"

    vcpus = (
        vcpu(0, "yes", "no") + vcpu(1, "yes", "yes") + vcpu(2, "no", "yes") + vcpu(3, "no", "no")
    )
    text = f"<domain><vcpu current='2'>4</vcpu><vcpus>{vcpus}</vcpus></domain>"
    live = _lxml.parse(text, "x")
    assert [hotplug.can_take_vcpus(live, count) for count in (1, 2, 3, 4)] == [
        True,
        True,
        True,
        False,
    ]
