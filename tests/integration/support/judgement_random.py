# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random definitions and requests: what an administrator's VM has, and what is asked of it.

A definition is a request that created a VM, then changes by hand as virsh edit makes them, among
them what no request describes. A request has any few settings of it, with any values.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from lxml import etree

Options = dict[str, Any]
Element = Any

_DISK = {
    "cache": ["none", "writeback", "directsync"],
    "io": ["native", "threads"],
    "discard": ["unmap", "ignore"],
    "detect_zeroes": ["off", "on", "unmap"],
    "serial": ["A1", "B2"],
    "readonly": [True, False],
    "iothread": [1, 2],
    "queues": [1, 2],
    "error_policy": ["stop", "report"],
    "physical_block_size": [512, 4096],
    "logical_block_size": [512, 4096],
    "total_iops_sec": [0, 100, 200],
    "read_iops_sec": [0, 100],
    "total_bytes_sec": [0, 1 << 20],
    "write_bytes_sec": [0, 1 << 20],
}
_NIC = {
    "model": ["virtio", "e1000", "e1000e", "rtl8139", "virtio-transitional", "usb-net"],
    "link": [True, False],
    "mtu": [1400, 1500],
    "queues": [1, 2],
    "inbound_average": [1000, 2000],
    "outbound_average": [1000],
    "inbound_peak": [3000],
    "bridge": ["br0", "br0", "br0", "nowhere"],
}
_VM: dict[str, list[Any]] = {
    "vcpus": [1, 1, 2, 3, 4, 8, 300],
    "vcpus_max": [2, 4, 8],
    "memory": [64, 96, 128, 160, 256],
    "memory_max": [128, 256, 512],
    "title": ["One", "Two"],
    "description": ["some\ntext", "words"],
    "autostart": [True, False],
    "groups": [["web"], ["db", "web"], []],
    "tags": [["ssd"], []],
    "start_order": [1, 2],
    "on_reboot": ["destroy", "restart"],
    "on_poweroff": ["destroy", "restart"],
    "on_crash": ["preserve", "destroy"],
    "boot_menu": [True, False],
    "rng": [True, False],
    "balloon": [True, False],
    "watchdog": ["poweroff", "reset", True, {"model": "ib700"}],
    "tpm": [True],
    "console": ["none", "vnc", "spice", {"type": "vnc", "password": "secret"},
                {"type": "vnc", "listen": "::1"}, {"type": "vnc", "keymap": "de"}],
    "cpu": ["qemu64", "maximum", "host-passthrough", {"sockets": 2}, {"cores": 2, "threads": 2},
            {"cores": 4}, {"mode": "maximum", "disable": ["svm"]}],
    "cpuset": ["0", "0-1"],
    "machine": ["q35", "pc"],
    "firmware": ["bios", "uefi"],
    "numa": [[{"cpus": "0", "memory": 64}, {"cpus": "1", "memory": 64}]],
    "memtune": [{"hard_limit": 512}],
    "cputune": [{"shares": 512}, {"vcpupin": ["1:0"]}],
    "clock": ["localtime", {"hpet": False}],
    "features": [{"pae": True}, {"smm": True}],
    "video": ["virtio", "vga"],
    "sound": ["ich9", "ac97"],
    "panic": [True],
    "serials": [[{"type": "file", "path": "/var/log/libvirt/qemu/fv.log"}]],
    "channels": [[{"name": "org.example.0"}], [{"name": "com.redhat.spice.0", "type": "spicevmc"}]],
    "memory_backing": [{"hugepages": True}, {"source": "memfd"}, {"nosharepages": True}],
    "xml": ["<domain><devices><input type='keyboard' bus='usb'/></devices></domain>"],
}  # fmt: skip
# What a running guest of a laboratory takes part in, at once or not at all
_RUNNING = (
    *("vcpus", "vcpus_max", "memory", "memory_max", "title", "description", "autostart", "groups"),
    *("tags", "on_reboot", "boot_menu", "rng", "balloon", "watchdog", "console", "cpu", "xml"),
)
# MiB: a guest that has booted keeps some seventy of its memory, whatever its balloon is told
_RETURNED = [96, 112, 128, 160, 256]
# The kernel of the laboratory's hypervisors may lack what libvirt limits bandwidth with
_NOT_HERE = ("inbound_average", "outbound_average", "inbound_peak")


class Chooser:
    """Random values, all of one seed."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)  # noqa: S311

    def some(self, table: dict[str, list[Any]], most: int, keys: Any = None) -> Options:
        """At most ``most`` settings of a table."""
        names = sorted(keys or table)
        chosen = self.random.sample(names, self.random.randint(0, min(most, len(names))))
        return {name: self.random.choice(table[name]) for name in chosen}

    def created(self, name: str) -> Options:
        """The request that creates a VM, off and without a guest."""
        pick = self.random.choice
        return {
            "name": name,
            "start": False,
            "disk_profile": "none",
            "nic_profile": "none",
            "memory": pick([64, 128]),
            "vcpus": pick([1, 2]),
            **pick([{}, {"vcpus_max": 4, "memory_max": 256}]),
            "machine": pick(["q35", "q35", "pc"]),
            "console": pick(["none", "vnc", "spice"]),
            "disks": [
                {"name": "d0", "size": 8, "bus": pick(["virtio", "virtio", "scsi", "sata"])},
                {"name": "d1", "size": 8, "format": pick(["raw", "qcow2"])},
                *pick([[], [{"name": "cd", "device": "cdrom", "bus": pick(["scsi", "sata"])}]]),
            ],
            "nics": pick([[], [{"name": "n0", "bridge": "br0"}]]),
        }

    def booted(self, name: str, image: str) -> Options:
        """The request that creates a VM with a guest, which the caller starts."""
        pick = self.random.choice
        made = self.created(name)
        disks = [{"name": "system", "size": 64}, *made["disks"]]
        return {
            **made,
            **{"machine": "q35", "memory": 128, "vcpus": 1, "image": image, "seed": False},
            **{"memory_max": 256, "vcpus_max": pick([1, 4])},
            "disks": disks,
            "nics": [{"name": "n0", "bridge": "br0"}],
        }

    def asked(self, name: str, running: bool) -> Options:
        """A request of a few settings."""
        keys = _RUNNING if running else None
        found: Options = {"name": name, "disk_profile": "none", "nic_profile": "none"}
        found.update(self.some({**_VM, "memory": _RETURNED} if running else _VM, 3, keys))
        pick = self.random.choice
        if pick([True, False]):
            found["disks"] = [self._disk(each) for each in self._names(["d0", "d1", "d2", "cd"])]
        if pick([True, False, False]):
            found["nics"] = [self._nic(each, running) for each in self._names(["n0", "n1"])]
        if found.get("disks") and pick([True, False, False, False]):
            present = [one["name"] for one in found["disks"] if one.get("state") != "absent"]
            if present:
                found["boot"] = present[::-1]
        return found

    def _names(self, names: list[str]) -> list[str]:
        return sorted(self.random.sample(names, self.random.randint(1, len(names))))

    def _disk(self, name: str) -> Options:
        pick = self.random.choice
        if name in ("d2", "cd") and pick([True, False, False]):
            return {"name": name, "state": "absent"}
        if name == "cd":
            return {"name": name, "device": "cdrom"}
        found: Options = {"name": name, "size": pick([8, 8, 8, 16, 4])}
        if name == "d2":
            found["bus"] = pick(["virtio", "virtio", "scsi", "usb", "sata", "ide"])
        return {**found, **self.some(_DISK, 2)}

    def _nic(self, name: str, running: bool) -> Options:
        if self.random.random() < 0.2:
            return {"name": name, "state": "absent"}
        keys = [key for key in _NIC if not running or key not in _NOT_HERE]
        return {"name": name, "bridge": "br0", **self.some(_NIC, 2, keys)}

    def edited(self, root: Element, keys: Sequence[str] = ()) -> list[str]:
        """Change a definition by hand; the names of what was done, of ``keys`` if given."""
        names = sorted(keys or _EDITS)
        chosen = self.random.sample(names, self.random.choice([0, 1, 1, 2]))
        for name in chosen:
            _EDITS[name](root, self.random)
        return chosen


def _remove(root: Element, place: str) -> None:
    for element in root.findall(place):
        element.getparent().remove(element)


def _put(root: Element, place: str, text: str) -> None:
    """Replace ``place``, a child of the domain or of its devices."""
    _remove(root, place)
    above = root.find("devices") if place.startswith("devices/") else root
    above.append(etree.fromstring(text))


def _numa(root: Element, _random: random.Random) -> None:
    root.find("vcpu").text = "2"
    root.find("vcpu").attrib.pop("current", None)
    _remove(root, "vcpus")
    for tag in ("memory", "currentMemory"):
        root.find(tag).text = str(128 * 1024)
    cells = "".join(f"<cell id='{n}' cpus='{n}' memory='65536' unit='KiB'/>" for n in (0, 1))
    _put(root, "cpu", f"<cpu><numa>{cells}</numa></cpu>")


def _topology(root: Element, chosen: random.Random) -> None:
    root.find("vcpu").text = "4"
    root.find("vcpu").set("current", chosen.choice(["1", "2", "4"]))
    _remove(root, "vcpus")
    _put(root, "cpu", "<cpu><topology sockets='1' cores='2' threads='2'/></cpu>")


def _pin(root: Element, _random: random.Random) -> None:
    last = int(root.find("vcpu").text) - 1
    _put(root, "cputune", f"<cputune><vcpupin vcpu='{last}' cpuset='0'/></cputune>")


def _limit(root: Element, _random: random.Random) -> None:
    _put(root, "memtune", "<memtune><hard_limit unit='KiB'>262144</hard_limit></memtune>")


def _odd_memory(root: Element, _random: random.Random) -> None:
    if root.find("cpu/numa") is None:
        root.find("memory").text = str(int(root.find("memory").text) + 512)


def _no_balloon(root: Element, _random: random.Random) -> None:
    _put(root, "devices/memballoon", "<memballoon model='none'/>")


def _no_spare_ports(root: Element, _random: random.Random) -> None:
    used = {int(one.get("bus"), 16) for one in root.iterfind("devices/*/address[@bus]")
            if one.get("type") == "pci"}  # fmt: skip
    for one in root.findall("devices/controller[@type='pci']"):
        if one.get("model") == "pcie-root-port" and int(one.get("index")) not in used:
            one.getparent().remove(one)


def _no_usb(root: Element, _random: random.Random) -> None:
    for one in root.findall("devices/*"):
        address = one.find("address")
        if address is not None and address.get("type") == "usb":
            one.getparent().remove(one)
    for one in root.findall("devices/*[@bus='usb']"):
        one.getparent().remove(one)
    if root.find("devices/disk/target[@bus='usb']") is None:
        _put(root, "devices/controller[@type='usb']", "<controller type='usb' model='none'/>")


def _driver(key: str, value: str) -> Callable[[Element, random.Random], None]:
    def edit(root: Element, _random: random.Random) -> None:
        for driver in root.findall("devices/disk[@device='disk']/driver"):
            driver.set(key, value)
            if key == "io":
                driver.set("cache", "none")

    return edit


def _iotune(text: str) -> Callable[[Element, random.Random], None]:
    def edit(root: Element, _random: random.Random) -> None:
        for disk in root.findall("devices/disk[@device='disk']")[:1]:
            for old in disk.findall("iotune"):
                disk.remove(old)
            disk.append(etree.fromstring(f"<iotune>{text}</iotune>"))

    return edit


def _bandwidth(root: Element, _random: random.Random) -> None:
    for nic in root.findall("devices/interface")[:1]:
        for old in nic.findall("bandwidth"):
            nic.remove(old)
        nic.append(etree.fromstring("<bandwidth><inbound average='500' peak='900'/></bandwidth>"))


def _spice(root: Element, _random: random.Random) -> None:
    _put(root, "devices/graphics", "<graphics type='spice'/>")
    channel = "<channel type='spicevmc'><target type='virtio' name='com.redhat.spice.0'/></channel>"
    if root.find("devices/channel[@type='spicevmc']") is None:
        root.find("devices").append(etree.fromstring(channel))


def _soldered(root: Element, _random: random.Random) -> None:
    """A NIC on the root complex, as old virt-install made it."""
    if "q35" not in root.find("os/type").get("machine"):
        return
    for nic in root.findall("devices/interface")[:1]:
        if nic.find("model") is None or nic.find("model").get("type") != "e1000e":
            continue
        for old in nic.findall("address"):
            nic.remove(old)
        place = "domain='0x0000' bus='0x00' slot='0x1a' function='0x0'"
        nic.append(etree.fromstring(f"<address type='pci' {place}/>"))


_EDITS: dict[str, Callable[[Element, random.Random], None]] = {
    "numa": _numa,
    "topology": _topology,
    "pin": _pin,
    "hard_limit": _limit,
    "odd memory": _odd_memory,
    "no balloon": _no_balloon,
    "no spare ports": _no_spare_ports,
    "no usb": _no_usb,
    "cache writeback": _driver("cache", "writeback"),
    "io native": _driver("io", "native"),
    "detect_zeroes": _driver("detect_zeroes", "unmap"),
    "iotune total": _iotune("<total_iops_sec>100</total_iops_sec>"),
    "iotune read": _iotune("<read_bytes_sec>1000000</read_bytes_sec>"),
    "bandwidth": _bandwidth,
    "spice": _spice,
    "soldered": _soldered,
}
# Those with which a guest still boots, and that matter while it runs
BOOTED = ("no balloon", "no spare ports", "no usb", "iotune read", "cache writeback")
