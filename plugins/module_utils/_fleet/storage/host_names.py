# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a definition names of its hypervisor: programs, files, folders, sockets, ports, devices,
networks, pools, secrets, filters, NUMA nodes, sizes of huge pages, shared memory.

Every verb that starts a VM, or brings it to a hypervisor, compares this list with what is there
(``hosts/read_host_names.py``). Only that is in it without which libvirt certainly refuses.
"""

from __future__ import annotations

import posixpath
import typing as t

from ..._records import dataclass
from ..base.xml_values import nvram_file

if t.TYPE_CHECKING:
    from ..._lxml import Element

PROGRAM = "program"
FILE = "file"
FOLDER = "folder"
SOCKET = "socket"
DEVICE = "device"
PORT = "port"
ADDRESS = "address"
NETWORK = "network"
BRIDGE = "bridge"
INTERFACE = "interface"
NWFILTER = "nwfilter"
POOL = "pool"
VOLUME = "volume"
SECRET = "secret"  # noqa: S105  (the kind of a name)
HOST_DEVICE = "host device"
HUGEPAGES = "hugepages"
NUMA_NODE = "NUMA node"
CPUS = "CPUs"
SHARED_MEMORY = "shared memory"
VSOCK = "vsock"
VSOCK_ID = "vsock ID"
# What the file system of a machine answers, or its kernel: nobody but the machine itself
OF_MACHINE = (PROGRAM, FILE, FOLDER, SOCKET, DEVICE, PORT, ADDRESS)

DEFINE_NWFILTER = (
    "define it there (virsh nwfilter-dumpxml on a hypervisor that has it, virsh nwfilter-define)"
)
LOAD_VSOCK = "load the kernel's module there (modprobe vhost_vsock)"

_EVERY_MACHINE = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
# Folders that libvirt's daemon makes itself
_OF_LIBVIRT = ("/var/log/libvirt/qemu", "/var/lib/libvirt/qemu", "/run/libvirt/qemu")
_CHANNELS = ("/var/lib/libvirt/qemu/", "/run/libvirt/qemu/")
# Elements of <os> whose text is a file that QEMU opens
_BOOT_FILES = ("loader", "kernel", "initrd", "dtb")
_DISKS = {"file": "file", "block": "dev", "dir": "dir"}
_CHARACTER = ("serial", "parallel", "console", "channel", "smartcard", "redirdev", "rng/backend")
_ANY = ("", "0.0.0.0", "::", "*")  # noqa: S104  (what is named, not bound)
_UNITS_KIB = {"b": 0, "kib": 1, "k": 1, "kb": 1, "mib": 1024, "m": 1024, "gib": 1024**2}
_UNITS_KIB["g"] = 1024**2
_MOST_CPUS = 1 << 16


class HostName(t.NamedTuple):
    """A thing of the hypervisor: its kind, its name there, and what of the VM uses it.

    A port is ``ADDRESS:PORT``, a volume ``POOL/VOLUME``; the size of huge pages is in KiB, 0 for
    the default; CPUs are those of which at least one has to be there.
    """

    kind: str
    value: str
    use: str


@dataclass(frozen=True)
class HostNames:
    """The list, and ``images``: those of its files whose backing files are needed too."""

    names: tuple[HostName, ...]
    images: frozenset[str] = frozenset()

    def of(self, *kinds: str) -> tuple[str, ...]:
        """The names of these kinds."""
        return tuple(dict.fromkeys(name.value for name in self.names if name.kind in kinds))

    @property
    def networks(self) -> tuple[str, ...]:
        """libvirt's networks."""
        return self.of(NETWORK)

    @property
    def bridges(self) -> tuple[str, ...]:
        """Bridges of the hypervisor."""
        return self.of(BRIDGE)

    @property
    def nwfilters(self) -> tuple[str, ...]:
        """libvirt's network filters."""
        return self.of(NWFILTER)

    @property
    def vsock(self) -> bool:
        """Whether it has a vsock device."""
        return bool(self.of(VSOCK))

    def beside(self, *uses: str) -> tuple[HostName, ...]:
        """Those that nothing else compares where a VM is moved or created: without its disks, and
        the networks and devices that choosing a hypervisor asks for."""
        asked = (NETWORK, BRIDGE, INTERFACE, NWFILTER, VSOCK, HOST_DEVICE)
        return tuple(
            name
            for name in self.names
            if name.kind not in asked and not name.use.startswith(("its disk ", *uses))
        )


def of_definition(root: Element) -> HostNames:
    """What a definition names, that of a VM that runs or of one that does not."""
    reader = _Reader()
    reader.read(root)
    return HostNames(tuple(dict.fromkeys(reader.names)), frozenset(reader.images))


def union(first: HostNames, second: HostNames) -> HostNames:
    """What either names."""
    return HostNames(
        tuple(dict.fromkeys((*first.names, *second.names))), first.images | second.images
    )


def port_of(value: str) -> tuple[str, int]:
    """The address, empty for any, and the port of a name of this kind."""
    address, _colon, port = value.rpartition(":")
    return address, int(port)


def overlap(first: str, second: str) -> bool:
    """Whether two sockets on a port, of these addresses, are in each other's way."""
    return first == second or first in _ANY or second in _ANY


def collide(first: HostName, second: HostName) -> bool:
    """Whether two VMs cannot both have these at a time: a port, or the ID of a vsock."""
    if first.kind != second.kind:
        return False
    if first.kind != PORT:
        return first.value == second.value
    (here, port), (there, other) = port_of(first.value), port_of(second.value)
    return port == other and overlap(here, there)


class _Reader:
    def __init__(self) -> None:
        self.names: list[HostName] = []
        self.images: set[str] = set()

    def add(self, kind: str, value: str | None, use: str) -> None:
        text = (value or "").strip()
        if not text or text in _EVERY_MACHINE:
            return
        if kind in (PROGRAM, FILE, FOLDER, SOCKET, DEVICE) and not text.startswith("/"):
            return
        if kind == FOLDER and (text in _OF_LIBVIRT or f"{text}/".startswith(_CHANNELS)):
            return
        self.names.append(HostName(kind, text, use))

    def port(self, address: str | None, port: str | None, use: str) -> None:
        """A port that QEMU listens on, if it is a fixed one, and the address, if it is one."""
        host = (address or "").strip()
        if port is not None and port.strip().isdigit() and int(port) > 0:
            self.add(PORT, f"{'' if host in _ANY else host}:{int(port)}", use)
        self.address(host, use)

    def address(self, address: str | None, use: str) -> None:
        host = (address or "").strip()
        if host not in _ANY and not host.startswith(("127.", "::1", "localhost")):
            self.add(ADDRESS, host, use)

    def read(self, root: Element) -> None:
        running = root.get("id") is not None
        self._machine(root)
        for disk in root.iterfind("devices/disk"):
            self._disk(disk)
        for nic in root.iterfind("devices/interface"):
            self._nic(nic)
        for path in _CHARACTER:
            for device in root.iterfind(f"devices/{path}"):
                tag = path.partition("/")[0]
                self._character(device, f"its {tag}")
        for screen in root.iterfind("devices/graphics"):
            self._screen(screen, running=running)
        for filesystem in root.iterfind("devices/filesystem"):
            self._filesystem(filesystem)
        self._devices(root)
        self._memory(root)
        for encryption in root.iter("encryption"):
            self.add(SECRET, encryption.get("secret"), "its TPM")
            for secret in encryption.iterfind("secret"):
                self.add(SECRET, secret.get("uuid") or secret.get("usage"), "its encrypted disk")
        for secret in root.iterfind("devices//auth/secret"):
            self.add(SECRET, secret.get("uuid"), "its storage")

    def _machine(self, root: Element) -> None:
        self.add(PROGRAM, root.findtext("devices/emulator"), "its emulator")
        for tag in _BOOT_FILES:
            self.add(FILE, root.findtext(f"os/{tag}"), f"its {tag}")
        for table in root.iterfind("os/acpi/table"):
            self.add(FILE, table.text, "its ACPI table")
        nvram = root.find("os/nvram")
        if nvram is not None and nvram_file(nvram) is None:  # made of it at the first start
            self.add(FILE, nvram.get("template"), "its template of UEFI variables")
        for entry in root.iterfind("sysinfo/entry"):
            self.add(FILE, entry.get("file"), "its firmware configuration")

    def _disk(self, disk: Element) -> None:
        source, target = disk.find("source"), disk.find("target")
        name = (target.get("dev") if target is not None else None) or "?"
        use, kind = f"its disk {name}", disk.get("type") or "file"
        if source is None or source.get("startupPolicy") == "optional":
            return
        if kind in _DISKS:
            path = source.get(_DISKS[kind])
            self.add(FILE, path, use)
            driver = disk.find("driver")
            if path and driver is not None and driver.get("type") == "qcow2":
                self.images.add(path)
        elif kind == "volume" and source.get("pool"):
            self.add(VOLUME, f"{source.get('pool')}/{source.get('volume') or ''}", use)
        elif kind == "vhostuser":
            self.add(SOCKET, source.get("path"), use)
        elif kind == "nvme":
            self.add(HOST_DEVICE, _pci(source.find("address")), use)
        elif kind == "vhostvdpa":
            self.add(DEVICE, source.get("dev"), use)
        for helper in source.iterfind("reservations[@managed='no']/source"):
            self.add(SOCKET, helper.get("path"), use)

    def _nic(self, nic: Element) -> None:
        source, kind = nic.find("source"), nic.get("type")
        for script in ("script", "downscript"):
            for element in nic.iterfind(script):
                self.add(PROGRAM, element.get("path"), "the script of its NIC")
        for backend in nic.iterfind("backend"):
            for key in ("tap", "vhost"):
                self.add(DEVICE, backend.get(key), "its NIC")
        for reference in nic.iterfind("filterref"):
            self.add(NWFILTER, reference.get("filter"), "its NIC")
        target = nic.find("target")
        if kind == "ethernet" and target is not None and target.get("managed") == "no":
            self.add(INTERFACE, target.get("dev"), "its NIC")
        if source is None:
            return
        if kind == "network":
            self.add(NETWORK, source.get("network"), "its NIC")
        elif kind == "bridge":
            self.add(BRIDGE, source.get("bridge"), "its NIC")
        elif kind == "direct":
            self.add(INTERFACE, source.get("dev"), "its NIC")
        elif kind == "vhostuser":
            self._unix(source, "its NIC")
        elif kind == "vdpa":
            self.add(DEVICE, source.get("dev"), "its NIC")
        elif kind == "hostdev":
            self.add(HOST_DEVICE, _pci(source.find("address")), "its NIC")
        elif kind == "server":
            self.port(source.get("address"), source.get("port"), "its NIC")

    def _unix(self, source: Element, use: str) -> None:
        """A socket that QEMU connects to exists before it; of one that it makes, the folder."""
        path = source.get("path") or ""
        if source.get("mode") in ("connect", "client"):
            self.add(SOCKET, path, use)
        else:
            self.add(FOLDER, posixpath.dirname(path), use)

    def _character(self, device: Element, use: str) -> None:
        kind = device.get("type") or device.get("model")
        for log in device.iterfind("log"):
            self.add(FOLDER, posixpath.dirname(log.get("file") or ""), f"the log of {use}")
        if kind == "random":
            self.add(DEVICE, device.text, use)
        for source in device.iterfind("source"):
            if kind == "unix":
                self._unix(source, use)
            elif kind in ("dev", "pipe"):
                self.add(DEVICE, source.get("path"), use)
            elif kind == "file":
                self.add(FOLDER, posixpath.dirname(source.get("path") or ""), use)
            elif kind == "tcp" and source.get("mode") == "bind":
                self.port(source.get("host"), source.get("service"), use)
            elif kind == "udp" and source.get("mode") == "bind":
                self.address(source.get("host"), use)
        for certificates in device.iterfind("database"):
            self.add(FOLDER, certificates.text, use)

    def _screen(self, screen: Element, *, running: bool) -> None:
        """Of a VM that runs libvirt also writes what it chose itself, and does not say so."""
        use = f"its {screen.get('type')} console"
        address = screen.get("listen") or ""
        for listen in screen.iterfind("listen"):
            if listen.get("type") == "address":
                address = listen.get("address") or ""
            elif listen.get("type") == "network":
                self.add(NETWORK, listen.get("network"), use)
            socket = listen.get("socket") or ""
            self.add(FOLDER, posixpath.dirname(socket), use)
        self.add(FOLDER, posixpath.dirname(screen.get("socket") or ""), use)
        fixed = ("port", "tlsPort") if screen.get("autoport") != "yes" else ()
        for key in fixed if running else (*fixed, "websocket"):
            self.port("" if running else address, screen.get(key), use)
        if not running:
            self.address(address, use)
        for gl in screen.iterfind("gl"):
            self.add(DEVICE, gl.get("rendernode"), use)

    def _filesystem(self, filesystem: Element) -> None:
        use = "its file system"
        for program in filesystem.iterfind("binary"):
            self.add(PROGRAM, program.get("path"), use)
        for source in filesystem.iterfind("source"):
            self.add(FOLDER, source.get("dir"), use)
            self.add(SOCKET, source.get("socket"), use)
            self.add(FILE, source.get("file"), use)
            self.add(DEVICE, source.get("dev"), use)

    def _devices(self, root: Element) -> None:
        for device in root.iterfind("devices/hostdev"):
            self._host_device(device)
        for device in root.iterfind("devices/input/source"):
            self.add(DEVICE, device.get("evdev") or device.get("dev"), "its input")
        for device in root.iterfind("devices/tpm/backend/device"):
            self.add(DEVICE, device.get("path"), "its TPM")
        for state in root.iterfind("devices/tpm/backend/source"):
            self.add(FOLDER, posixpath.dirname(state.get("path") or ""), "its TPM")
        for driver in root.iterfind("devices/video/driver"):
            self.add(PROGRAM, driver.get("vgaconf"), "its video")
        for acceleration in root.iterfind("devices/video/model/acceleration"):
            self.add(DEVICE, acceleration.get("rendernode"), "its video")
        for shared in root.iterfind("devices/shmem"):
            server = shared.find("server")
            if server is not None:
                self.add(SOCKET, server.get("path"), "its shared memory")
            else:
                self.add(SHARED_MEMORY, shared.get("name"), "its shared memory")
        for _vsock in root.iterfind("devices/vsock"):
            self.add(VSOCK, "/dev/vhost-vsock", "its vsock device")
        for cid in root.iterfind("devices/vsock/cid"):
            if cid.get("auto") != "yes":
                self.add(VSOCK_ID, cid.get("address"), "its vsock device")

    def _host_device(self, device: Element) -> None:
        kind, source, use = device.get("type"), device.find("source"), "its host device"
        if device.get("mode") == "capabilities" and source is not None:
            for path in ("block", "char"):
                self.add(DEVICE, source.findtext(path), use)
        elif kind == "pci" and source is not None:
            self.add(HOST_DEVICE, _pci(source.find("address")), use)
        elif kind == "mdev" and source is not None:
            address = source.find("address")
            self.add(HOST_DEVICE, f"mdev {address.get('uuid')}" if address is not None else "", use)
        else:
            self.add(HOST_DEVICE, str(kind), use)

    def _memory(self, root: Element) -> None:
        hugepages = root.find("memoryBacking/hugepages")
        if hugepages is not None:
            pages = hugepages.findall("page")
            for page in pages:
                self.add(HUGEPAGES, _kib(page.get("size"), page.get("unit")), "its memory")
            if not pages:
                self.add(HUGEPAGES, "0", "its memory")
        for size in root.iterfind("devices/memory/source/pagesize"):
            self.add(HUGEPAGES, _kib(size.text, size.get("unit")), "its memory")
        for path in root.iterfind("devices/memory/source/path"):
            self.add(FILE, path.text, "its memory")
        sets = [(one.get("nodeset"), one) for one in root.iterfind("numatune/*")]
        sets += [(one.text, one) for one in root.iterfind("devices/memory/source/nodemask")]
        for nodes, _element in sets:
            for node in sorted(numbers(nodes)):
                self.add(NUMA_NODE, str(node), "its memory")
        pinned = [root.find("vcpu"), *root.iterfind("cputune/*[@cpuset]")]
        for element in pinned:
            cpus = None if element is None else element.get("cpuset")
            self.add(CPUS, cpus, "its vCPUs")


def _pci(address: Element | None) -> str | None:
    """A PCI address as the kernel writes it."""
    if address is None:
        return None
    words = [address.get(key) or "0x0" for key in ("domain", "bus", "slot", "function")]
    try:
        domain, bus, slot, function = (int(word, 0) for word in words)
    except ValueError:
        return None
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"


def _kib(size: str | None, unit: str | None) -> str | None:
    if size is None or not size.strip().isdigit():
        return None
    factor = _UNITS_KIB.get((unit or "KiB").lower(), 0)
    return str(int(size) * factor) if factor else None


def numbers(text: str | None) -> set[int]:
    """The numbers of a set as libvirt writes it (``0-3,^2``); none of what is no set."""
    chosen: set[int] = set()
    for part in (text or "").replace(" ", "").split(","):
        first, _dash, last = part.lstrip("^").partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            continue
        span = range(int(first), min(int(last or first), _MOST_CPUS) + 1)
        chosen = chosen - set(span) if part.startswith("^") else chosen | set(span)
    return chosen
