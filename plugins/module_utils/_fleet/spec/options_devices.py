# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of disks, NICs, console and CPU, read into their specifications."""

from __future__ import annotations

import re
import typing as t

from ..._errors import Problem
from ..base import ip
from ..base.names import mac_address
from ..base.options import Reader, show
from ..base.settings import names, read_rows
from ..images.source import ImageSource, parse_image
from . import settings_devices as settings
from . import settings_encryption as encryption
from . import settings_sources as sources
from .devices import Console, Cpu, Disk, Nic, NicType
from .profiles import WrittenDevice

_USUAL_BUS = {"disk": "virtio", "cdrom": "scsi", "floppy": "fdc"}
_TOPOLOGY = ("sockets", "cores", "threads")
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", re.I)


def disk_from(
    entry: WrittenDevice,
    problems: list[Problem],
    *,
    pool: str,
    overlay: bool,
    image: object = None,
    image_path: str = "",
) -> Disk:
    """One disk; ``image`` is the VM's own, for the disk that takes it and has none itself."""
    reader = Reader(entry.options, entry.path, problems, entry.origins)
    device = settings.DiskSettings.device.read(reader)
    bus = _bus(reader, device)
    if reader.given("image"):
        image, image_path = reader.value("image"), reader.at("image")
    existing = sources.check(reader)
    drive = device in sources.DRIVES
    empty = drive and image == sources.EMPTY
    source = None if existing or empty else _image(image, image_path, problems)
    size = _size(reader, entry.name, device, needed=existing is None and image is None)
    disk_format = _format(reader, device, existing, source)
    overlaid = _overlaid(reader, disk_format, source, overlay)
    disk = Disk(
        name=entry.name,
        size=size,
        format=disk_format,
        bus=bus,
        device=device,
        cache=settings.DiskSettings.cache.read(reader),
        io=settings.DiskSettings.io.read(reader),
        pool=settings.DiskSettings.pool.read(reader) or pool,
        image=source,
        overlay=overlaid and source is not None and not drive,
        readonly=settings.DiskSettings.readonly.read(reader) or drive,
        **read_rows(Disk, reader),
    )
    _disk_rules(reader, bus)
    _check_modes(reader, disk)
    copied = source is not None and not overlaid
    encryption.check(reader, drive=drive, exists=existing is not None, copied=copied)
    reader.finish(names(settings.DISK))
    return disk


def _bus(reader: Reader, device: str) -> str:
    both = reader.given("bus") and reader.given("model")
    if both and reader.value("bus") != reader.value("model"):
        reader.problem("model", "bus and model mean the same; give only bus")
    kind = settings.DiskSettings.bus
    bus = kind.read(reader) or reader.choice("model", kind.choices) or _USUAL_BUS[device]
    if device == "cdrom" and bus == "virtio":
        reader.problem("bus", "'virtio' has no CD drives; use scsi or sata")
    if (device == "floppy") != (bus == "fdc"):
        reader.problem("bus", "floppy drives use fdc, and nothing else does; leave the bus out")
    return bus


def _size(reader: Reader, name: str, device: str, *, needed: bool) -> int | None:
    size = settings.DiskSettings.size.read(reader)
    if device in sources.DRIVES:
        if size is not None:
            reader.problem("size", f"{sources.DRIVES[device]} has no size; leave it out")
    elif needed and not reader.given("size"):
        reader.problem(
            "size",
            f"disk {show(name)} has neither size nor image; "
            "give it a size in MiB, for example 8192",
        )
    return size


def _format(reader: Reader, device: str, existing: str | None, source: ImageSource | None) -> str:
    drive = device in sources.DRIVES
    disk_format = settings.DiskSettings.format.read(reader) or _usual_format(
        reader, drive, existing
    )
    if drive and source is not None and disk_format != "raw":
        medium = "floppy" if device == "floppy" else "CD"
        reader.problem("format", f"a {medium} is raw, not {disk_format}; leave the format out")
    return disk_format


def _usual_format(reader: Reader, drive: bool, existing: str | None) -> str:
    if existing == "volume":
        return "qcow2" if str(reader.value("volume")).endswith(".qcow2") else "raw"
    return "raw" if drive or existing else "qcow2"


def _overlaid(reader: Reader, disk_format: str, source: ImageSource | None, usual: bool) -> bool:
    if disk_format == "raw" and reader.given("overlay") and source and reader.is_true("overlay"):
        reader.problem(
            "overlay",
            "a raw disk cannot be an overlay; use format qcow2, or overlay false for a full copy",
        )
    overlaid = settings.DiskSettings.overlay.read(reader)
    return usual and disk_format == "qcow2" if overlaid is None else overlaid


def _disk_rules(reader: Reader, bus: str) -> None:
    """Report what QEMU or libvirt would refuse only later."""
    for key in ("iothread", "queues"):
        if bus != "virtio" and reader.given(key):
            reader.problem(
                key, f"only virtio disks have this, not {bus}; use virtio, or leave it out"
            )
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


def _check_modes(reader: Reader, disk: Disk) -> None:
    if disk.device == "disk" and disk.bus in ("sata", "ide") and disk.readonly:
        reader.problem(
            "readonly", f"a {disk.bus} disk cannot be read-only; use virtio, scsi or usb"
        )
    if disk.io == "native" and disk.cache not in ("none", "directsync"):
        reader.problem(
            "io", f"io native needs cache none or directsync, not {disk.cache}; change one"
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
    kind: NicType | None = t.cast("NicType | None", settings.NicSettings.type.read(reader))
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
        **read_rows(Nic, reader),
    )
    _nic_rules(reader, nic)
    reader.finish(names(settings.NIC))
    return nic


def _nic_rules(reader: Reader, nic: Nic) -> None:
    if reader.given("queues") and not nic.model.startswith("virtio"):
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
    more = read_rows(Console, reader)
    reader.finish(names(settings.CONSOLE))
    return Console(kind, listen, None if password is None else str(password), **more)


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
    values = read_rows(Cpu, reader)
    if values["dies"] or any(values[key] for key in _TOPOLOGY):  # libvirt requires all but the dies
        values.update({key: values[key] or 1 for key in _TOPOLOGY})
    cpu = Cpu(mode, model, **values)
    both = sorted(set(cpu.require) & set(cpu.disable))
    if both:
        reader.problem("disable", f"{', '.join(both)} cannot be required and disabled; give one")
    reader.finish(names(settings.CPU))
    return cpu
