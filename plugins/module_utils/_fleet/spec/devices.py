# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The devices of a VM specification: disks, NICs, console, CPU."""

from __future__ import annotations

import math
import re
import typing as t
from dataclasses import dataclass, field

from ..._errors import Problem
from ..base import ip
from ..base.names import mac_address
from ..base.options import Reader, show
from ..base.settings import fields_of, names, read_generated_fields
from ..images.source import ImageSource, parse_image
from . import settings_devices as settings
from . import settings_encryption as encryption
from . import settings_sources as sources
from . import settings_tuning as tuning
from .profiles import WrittenDevice

_Kind = t.Literal["bridge", "network", "direct"]
_USUAL_BUS = {"disk": "virtio", "cdrom": "scsi", "floppy": "fdc"}
_TOPOLOGY = ("sockets", "dies", "cores", "threads")
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", re.I)


@dataclass(frozen=True)
@fields_of(settings.DISK)
class Disk:
    """A disk, or a drive for CDs or floppies; ``size`` in MiB, None for the image's own size.

    ``overlay``: copy-on-write with the image as backing file, rather than a full copy of it.
    """

    name: str
    size: int | None = None
    format: str = "qcow2"
    bus: str = "virtio"
    device: str = "disk"
    cache: str = "none"
    io: str | None = None
    pool: str = "default"
    image: ImageSource | None = None
    overlay: bool = False
    readonly: bool = False
    volume: str | None = None
    dev: str | None = None
    protocol: str | None = None
    source_name: str | None = None
    hosts: tuple[str, ...] = ()
    auth_user: str | None = None
    auth_secret: str | None = None
    encryption_secret: str | None = None

    @property
    def exists(self) -> bool:
        """Whether the disk already exists: it is attached, never created or removed."""
        return sources.source(self) is not None


@dataclass(frozen=True)
@fields_of(settings.NIC)
class Nic:
    """A network interface on a host's bridge or interface, or on a libvirt network."""

    name: str
    type: _Kind = "bridge"
    source: str = "br0"
    mac: str = ""
    vlan: int | None = None
    virtualport: str | None = None
    portgroup: str | None = None

    @property
    def bridge(self) -> str | None:
        """The bridge that it is attached to."""
        return self.source if self.type == "bridge" else None

    @property
    def network(self) -> str | None:
        """The network that it is attached to."""
        return self.source if self.type == "network" else None


@dataclass(frozen=True)
@fields_of(settings.CONSOLE)
class Console:
    """The graphical console; the serial one is always there."""

    type: str = "none"
    listen: str = "127.0.0.1"
    password: str | None = field(default=None, repr=False)
    port: int | None = None


@dataclass(frozen=True)
@fields_of(settings.CPU)
class Cpu:
    """CPU mode and model; without a mode the fleet's choice."""

    mode: str | None = None
    model: str | None = None
    sockets: int | None = None
    dies: int | None = None
    cores: int | None = None
    threads: int | None = None
    require: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()

    @property
    def topology(self) -> int:
        """The number of vCPUs by sockets, dies, cores and threads; 0 if none of them is given."""
        parts = (self.sockets, self.dies, self.cores, self.threads)
        return math.prod(part or 1 for part in parts) if any(parts) else 0


def disk_from(
    entry: WrittenDevice,
    problems: list[Problem],
    *,
    pool: str,
    overlay: bool,
    image: t.Any = None,
    image_path: str = "",
) -> Disk:
    """One disk; ``image`` is the VM's own, for the disk that takes it and has none itself."""
    reader = Reader(entry.options, entry.path, problems, entry.origins)
    device = settings.DiskSettings.device.read(reader)
    drive = device in sources.DRIVES
    medium = "floppy" if device == "floppy" else "CD"
    if (
        reader.given("bus")
        and reader.given("model")
        and reader.value("bus") != reader.value("model")
    ):
        reader.problem("model", "bus and model mean the same; give only bus")
    kind = settings.DiskSettings.bus
    bus = kind.read(reader) or reader.choice("model", kind.choices)
    bus = bus or _USUAL_BUS[device]
    if device == "cdrom" and bus == "virtio":
        reader.problem("bus", "'virtio' has no CD drives; use scsi or sata")
    if (device == "floppy") != (bus == "fdc"):
        reader.problem("bus", "floppy drives use fdc, and nothing else does; leave the bus out")
    if reader.given("image"):
        image, image_path = reader.value("image"), reader.at("image")
    existing = sources.check(reader)
    source = None if existing else _image(image, image_path, problems)
    size = settings.DiskSettings.size.read(reader)
    if drive and size is not None:
        reader.problem("size", f"{sources.DRIVES[device]} has no size; leave it out")
    made = not drive and existing is None
    if made and not reader.given("size") and source is None and image is None:
        reader.problem(
            "size",
            f"disk {show(entry.name)} has neither size nor image; "
            "give it a size in MiB, for example 8192",
        )
    disk_format = settings.DiskSettings.format.read(reader) or _usual_format(
        reader, drive, existing
    )
    if drive and source is not None and disk_format != "raw":
        reader.problem("format", f"a {medium} is raw, not {disk_format}; leave the format out")
    if disk_format == "raw" and reader.given("overlay") and source and reader.is_true("overlay"):
        reader.problem(
            "overlay",
            "a raw disk cannot be an overlay; use format qcow2, or overlay false for a full copy",
        )
    overlaid = settings.DiskSettings.overlay.read(reader)
    if overlaid is None:
        overlaid = overlay and disk_format == "qcow2"
    cache = settings.DiskSettings.cache.read(reader)
    io = settings.DiskSettings.io.read(reader)
    readonly = settings.DiskSettings.readonly.read(reader)
    for key in ("iothread", "queues"):
        if bus != "virtio" and reader.given(key):
            reader.problem(
                key, f"only virtio disks have this, not {bus}; use virtio, or leave it out"
            )
    _disk_rules(reader, bus)
    if not drive and bus in ("sata", "ide") and readonly:
        reader.problem("readonly", f"a {bus} disk cannot be read-only; use virtio, scsi or usb")
    if io == "native" and cache not in ("none", "directsync"):
        reader.problem("io", f"io native needs cache none or directsync, not {cache}; change one")
    encryption.check(
        reader,
        drive=drive,
        exists=existing is not None,
        copied=source is not None and not overlaid,
    )
    disk = Disk(
        name=entry.name,
        size=size,
        format=disk_format,
        bus=bus,
        device=device,
        cache=cache,
        io=io,
        pool=settings.DiskSettings.pool.read(reader) or pool,
        image=source,
        overlay=overlaid and source is not None and not drive,
        readonly=readonly or drive,
        volume=sources.DiskSourceSettings.volume.read(reader),
        dev=sources.DiskSourceSettings.dev.read(reader),
        protocol=sources.DiskSourceSettings.protocol.read(reader),
        source_name=sources.DiskSourceSettings.source_name.read(reader),
        hosts=sources.DiskSourceSettings.hosts.read(reader),
        auth_user=sources.DiskSourceSettings.auth_user.read(reader),
        auth_secret=sources.DiskSourceSettings.auth_secret.read(reader),
        encryption_secret=sources.DiskSourceSettings.encryption_secret.read(reader),
        **read_generated_fields(Disk, reader),
    )
    reader.finish(names(settings.DISK))
    return disk


def _usual_format(reader: Reader, drive: bool, existing: str | None) -> str:
    if existing == "volume":
        return "qcow2" if str(reader.value("volume")).endswith(".qcow2") else "raw"
    return "raw" if drive or existing else "qcow2"


def _disk_rules(reader: Reader, bus: str) -> None:
    """Report what QEMU or libvirt would refuse only later."""
    if bus in ("virtio", "usb") and reader.given("wwn"):
        reader.problem("wwn", f"a {bus} disk has no WWN; use scsi, sata or ide, or leave it out")
    for unit in ("bytes", "iops"):
        parts = [key for key in (f"read_{unit}_sec", f"write_{unit}_sec") if reader.given(key)]
        if parts and reader.given(f"total_{unit}_sec"):
            reader.problem(
                f"total_{unit}_sec", f"it excludes {' and '.join(parts)}; give one or the other"
            )
    sizes = {}
    for key in ("logical_block_size", "physical_block_size"):
        size = sizes[key] = reader.integer(key, None, 512, 32768) or 512
        if size & (size - 1):
            reader.problem(key, f"{size} is not a power of two; use for example 512 or 4096")
            return
    logical, physical = sizes["logical_block_size"], sizes["physical_block_size"]
    if physical < logical:
        reader.problem(
            "physical_block_size",
            f"QEMU has no disk whose physical blocks, of {physical} bytes, are smaller than its"
            f" logical ones; give at least {logical}",
        )


def _image(value: object, path: str, problems: list[Problem]) -> ImageSource | None:
    if value is None:
        return None
    try:
        return parse_image(value)
    except ValueError as error:
        problems.append(Problem(path, str(error)))
        return None


def nic_from(entry: WrittenDevice, problems: list[Problem], *, fleet: str, vm: str) -> Nic:
    """One NIC; without a fixed MAC address it gets the one of ``names.mac_address``."""
    reader = Reader(entry.options, entry.path, problems, entry.origins)
    kind = t.cast("_Kind | None", settings.NicSettings.type.read(reader))
    places = {
        "bridge": settings.NicSettings.bridge.read(reader),
        "network": settings.NicSettings.network.read(reader),
    }
    written = [key for key in ("bridge", "network", "source") if reader.given(key)]
    if len(written) > 1:
        reader.problem(
            written[0],
            f"{' and '.join(written)} are given together; a NIC has one source: give one",
        )
    if kind is None:
        kind = "network" if reader.given("network") else "bridge"
    elif any(reader.given(key) for key in places if key != kind):
        reader.problem("type", f"type {kind} excludes {written[0]}; give only one of them")
    rule = settings.NicSettings.network if kind == "network" else settings.NicSettings.bridge
    source = places.get(kind) or reader.text("source", None, rule.pattern, rule.rule)
    if not written:
        reader.problem(
            kind,
            f"NIC {show(entry.name)} is not attached to anything; give it a bridge or a network, "
            "for example bridge: br0",
        )
    nic = Nic(
        name=entry.name,
        type=kind,
        source=source or "",
        mac=_mac(reader) or mac_address(fleet, vm, entry.name),
        vlan=settings.NicSettings.vlan.read(reader),
        virtualport=tuning.NicTuning.virtualport.read(reader),
        portgroup=tuning.NicTuning.portgroup.read(reader),
        **read_generated_fields(Nic, reader),
    )
    _nic_rules(reader, nic)
    reader.finish(names(settings.NIC))
    return nic


def _nic_rules(reader: Reader, nic: Nic) -> None:
    if reader.given("queues") and not str(settings.NicSettings.model.read(reader)).startswith(
        "virtio"
    ):
        reader.problem("queues", "only virtio has queues; use model virtio, or leave them out")
    for way in ("inbound", "outbound"):
        for key in ("peak", "burst"):
            if reader.given(f"{way}_{key}") and not reader.given(f"{way}_average"):
                reader.problem(f"{way}_{key}", f"it needs {way}_average; give that too")
    if reader.given("mode") and nic.type != "direct":
        reader.problem("mode", "it needs type direct; set that, or leave it out")
    if reader.given("virtualport") and nic.type != "bridge":
        reader.problem("virtualport", f"it is for a bridge, not for type {nic.type}; leave it out")
    if nic.type == "direct" and nic.vlan is not None:
        reader.problem("vlan", "libvirt tags no host interface; give the interface of that VLAN")
    if reader.given("portgroup") and nic.type != "network":
        reader.problem("portgroup", f"only a network has port groups; give network, not {nic.type}")
    if reader.given("isolated") and nic.type != "bridge":
        reader.problem("isolated", "only a NIC on a bridge can be isolated; leave it out")


def _mac(reader: Reader) -> str | None:
    value = reader.value("mac")
    if value is None:
        return None
    text = str(value).lower()
    if not isinstance(value, str) or _MAC.fullmatch(text) is None:
        reader.problem(
            "mac",
            f"{show(value)} is not a MAC address; write six pairs of hexadecimal "
            "digits in quotes, for example '52:54:00:12:34:56'",
        )
    elif int(text[:2], 16) & 1 or text == "00:00:00:00:00:00" or text.startswith("fe"):
        reader.problem(
            "mac",
            f"{show(text)} cannot be a guest's address: it is a group address, zero, or "
            "begins with fe (the host's side); use for example 52:54:00:12:34:56",
        )
    else:
        return text
    return None


def console_from(value: object, path: str, problems: list[Problem]) -> Console:
    """The console; a bare word is its type. Any listening address is accepted here."""
    if isinstance(value, str):
        value = {"type": value}
    elif value is False:
        value = None
    reader = Reader(value, path, problems)
    kind = settings.ConsoleSettings.type.read(reader) or ("none" if value is None else "vnc")
    listen = settings.ConsoleSettings.listen.read(reader)
    try:
        listen = str(ip.address(listen))
    except ValueError:
        reader.problem("listen", f"{show(listen)} is not an IP address; leave it out for 127.0.0.1")
    password = reader.value("password")
    if password is not None:
        if password == "":
            reader.problem(
                "password", "this is empty; leave it out for a screen without a password"
            )
            password = None
        elif not isinstance(password, str) or not password.isprintable():
            reader.problem("password", "this is not printable text (not shown); put it in quotes")
            password = None
        elif kind == "vnc" and len(password) > 8:
            reader.problem(
                "password",
                f"this has {len(password)} characters (not shown); VNC checks "
                "only the first 8: use at most 8, and an SSH tunnel",
            )
            password = None
    port, more = settings.ConsoleSettings.port.read(reader), read_generated_fields(Console, reader)
    reader.finish(names(settings.CONSOLE))
    return Console(kind, listen, None if password is None else str(password), port, **more)


def cpu_from(value: object, path: str, problems: list[Problem]) -> Cpu:
    """The CPU; a bare word is a mode if there is one of that name, else a model."""
    if isinstance(value, str):
        value = {"mode" if value in settings.CpuSettings.mode.choices else "model": value}
    reader = Reader(value, path, problems)
    mode = settings.CpuSettings.mode.read(reader)
    model = settings.CpuSettings.model.read(reader)
    if mode is None and model is not None:
        mode = "custom"
    if mode == "custom" and not reader.given("model"):
        reader.problem("model", "mode custom needs a model, for example EPYC")
    if mode not in (None, "custom") and model is not None:
        reader.problem("model", f"mode {mode} takes no model; give only one of them")
    sockets, dies, cores, threads = (reader.integer(key, None, 1, 4096) for key in _TOPOLOGY)
    if sockets or dies or cores or threads:  # libvirt requires all but the dies
        sockets, cores, threads = sockets or 1, cores or 1, threads or 1
    require, disable = tuning.CpuTuning.require.read(reader), tuning.CpuTuning.disable.read(reader)
    cpu = Cpu(mode, model, sockets, dies, cores, threads, require, disable)
    both = sorted(set(cpu.require) & set(cpu.disable))
    if both:
        reader.problem("disable", f"{', '.join(both)} cannot be required and disabled; give one")
    reader.finish(names(settings.CPU))
    return cpu
