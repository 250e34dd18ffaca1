# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The devices of a VM specification: disks, NICs, console, CPU, watchdog.

This file is private to the collection.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from ..._errors import Problem
from ..base import ip
from ..base.names import mac_address
from ..base.options import Reader, show, to_boolean
from ..base.settings import fields_of, further, names
from ..images.source import ImageSource, parse_image
from . import settings_devices as settings
from .profiles import Entry

_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", re.I)


@dataclass(frozen=True)
@fields_of(settings.DISK)
class Disk:
    """A disk or CD drive; ``size`` in MiB, None for the image's own size.

    ``overlay``: copy on write on the image, rather than a full copy of it.
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


@dataclass(frozen=True)
@fields_of(settings.NIC)
class Nic:
    """A network interface on a host's bridge or on a libvirt network."""

    name: str
    type: t.Literal["bridge", "network"] = "bridge"
    source: str = "br0"
    mac: str = ""
    vlan: int | None = None

    @property
    def bridge(self) -> str | None:
        """The bridge that it is on."""
        return self.source if self.type == "bridge" else None

    @property
    def network(self) -> str | None:
        """The network that it is on."""
        return self.source if self.type == "network" else None


@dataclass(frozen=True)
class Console:
    """The graphical console; the serial one is always there."""

    type: str = "none"
    listen: str = "127.0.0.1"
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Cpu:
    """CPU mode and model; without mode the fleet's own choice."""

    mode: str | None = None
    model: str | None = None


@dataclass(frozen=True)
@fields_of(settings.WATCHDOG)
class Watchdog:
    """A watchdog device and what the host does when it fires."""

    model: str | None = None


@dataclass(frozen=True)
@fields_of(settings.TPM)
class Tpm:
    """An emulated TPM 2.0."""

    model: str | None = None


def disk_from(
    entry: Entry,
    problems: list[Problem],
    *,
    pool: str,
    overlay: bool,
    image: t.Any = None,
    image_path: str = "",
) -> Disk:
    """One disk; ``image`` is the VM's own, for the disk that takes it and has none itself."""
    reader = Reader(entry.options, entry.path, problems, entry.origins)
    device = settings.Disk.device.read(reader)
    cdrom = device == "cdrom"
    if (
        reader.given("bus")
        and reader.given("model")
        and reader.value("bus") != reader.value("model")
    ):
        reader.problem("model", "bus and model are two names of one thing; give only bus")
    kind = settings.Disk.bus
    bus = kind.read(reader) or reader.choice("model", kind.choices)
    bus = bus or ("scsi" if cdrom else "virtio")
    if cdrom and bus == "virtio":
        reader.problem("bus", "'virtio' has no CD drives; use scsi or sata")
    if reader.given("image"):
        image, image_path = reader.value("image"), reader.at("image")
    source = _image(image, image_path, problems)
    size = settings.Disk.size.read(reader)
    if cdrom and size is not None:
        reader.problem("size", "a CD drive has no size; leave it out")
    if not cdrom and not reader.given("size") and source is None and image is None:
        reader.problem(
            "size",
            f"disk {show(entry.name)} has neither size nor image; "
            "give it a size in MiB, for example 8192",
        )
    disk_format = settings.Disk.format.read(reader) or ("raw" if cdrom else "qcow2")
    if cdrom and source is not None and disk_format != "raw":
        reader.problem("format", f"a CD is raw, not {disk_format}; leave the format out")
    if disk_format == "raw" and reader.given("overlay") and source and _true(reader, "overlay"):
        reader.problem(
            "overlay",
            "a raw disk cannot be an overlay; use format qcow2, or overlay false for a full copy",
        )
    overlaid = settings.Disk.overlay.read(reader)
    if overlaid is None:
        overlaid = overlay and disk_format == "qcow2"
    cache = settings.Disk.cache.read(reader)
    io = settings.Disk.io.read(reader)
    readonly = settings.Disk.readonly.read(reader)
    if bus != "virtio" and reader.given("iothread"):
        reader.problem(
            "iothread", f"only virtio disks have one, not {bus}; use virtio, or leave it out"
        )
    if not cdrom and bus in ("sata", "ide") and readonly:
        reader.problem("readonly", f"a {bus} disk cannot be read-only; use virtio, scsi or usb")
    if io == "native" and cache not in ("none", "directsync"):
        reader.problem(
            "io", f"io native needs cache none or directsync, not {cache}; change either"
        )
    disk = Disk(
        name=entry.name,
        size=size,
        format=disk_format,
        bus=bus,
        device=device,
        cache=cache,
        io=io,
        pool=settings.Disk.pool.read(reader) or pool,
        image=source,
        overlay=overlaid and source is not None and not cdrom,
        readonly=readonly or cdrom,
        **further(Disk, reader),
    )
    reader.finish(names(settings.DISK))
    return disk


def _true(reader: Reader, key: str) -> bool:
    try:
        return to_boolean(reader.value(key))
    except ValueError:
        return False


def _image(value: t.Any, path: str, problems: list[Problem]) -> ImageSource | None:
    if value is None:
        return None
    try:
        return parse_image(value)
    except ValueError as error:
        problems.append(Problem(path, str(error)))
        return None


def nic_from(entry: Entry, problems: list[Problem], *, fleet: str, vm: str) -> Nic:
    """One NIC; without a fixed MAC address it has that of ``names.mac_address``."""
    reader = Reader(entry.options, entry.path, problems, entry.origins)
    kind = settings.Nic.type.read(reader)
    places = {
        "bridge": settings.Nic.bridge.read(reader),
        "network": settings.Nic.network.read(reader),
    }
    written = [key for key in ("bridge", "network", "source") if reader.given(key)]
    if len(written) > 1:
        reader.problem(
            written[0],
            f"{' and '.join(written)} are given together; a NIC is in one place: give one",
        )
    if kind is None:
        kind = "network" if reader.given("network") else "bridge"
    elif reader.given("bridge" if kind == "network" else "network"):
        reader.problem("type", f"type {kind} does not go with {written[0]}; give either alone")
    rule = settings.Nic.bridge if kind == "bridge" else settings.Nic.network
    source = places[kind] or reader.text("source", None, rule.pattern, rule.rule)
    if not written:
        reader.problem(
            kind,
            f"NIC {show(entry.name)} has no place; give it a bridge or a network, "
            "for example bridge: br0",
        )
    nic = Nic(
        name=entry.name,
        type="network" if kind == "network" else "bridge",
        source=source or "",
        mac=_mac(reader) or mac_address(fleet, vm, entry.name),
        vlan=settings.Nic.vlan.read(reader),
        **further(Nic, reader),
    )
    reader.finish(names(settings.NIC))
    return nic


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
            f"{show(text)} cannot be a guest's: it is a group address, zero, or "
            "begins with fe (the host's side); for example 52:54:00:12:34:56 can",
        )
    else:
        return text
    return None


def console_from(value: t.Any, path: str, problems: list[Problem]) -> Console:
    """The console; a bare word is its type. A listening address other than loopback stands."""
    if isinstance(value, str):
        value = {"type": value}
    elif value is False:
        value = None
    reader = Reader(value, path, problems)
    kind = settings.Console.type.read(reader) or ("none" if value is None else "vnc")
    listen = settings.Console.listen.read(reader)
    try:
        listen = str(ip.address(listen))
    except ValueError:
        reader.problem("listen", f"{show(listen)} is not an IP address; leave it out for 127.0.0.1")
    password = reader.value("password")
    if password is not None:
        if not isinstance(password, str) or not password or not password.isprintable():
            reader.problem("password", "this is not printable text (not shown); put it in quotes")
            password = None
        elif kind == "vnc" and len(password) > 8:
            reader.problem(
                "password",
                f"this has {len(password)} characters (not shown); VNC looks "
                "at the first 8 only: use at most 8, and an SSH tunnel",
            )
            password = None
    reader.finish(names(settings.CONSOLE))
    return Console(kind, listen, None if password is None else str(password))


def cpu_from(value: t.Any, path: str, problems: list[Problem]) -> Cpu:
    """The CPU; a bare word is a mode if there is one of that name, else a model."""
    if isinstance(value, str):
        value = {"mode" if value in settings.Cpu.mode.choices else "model": value}
    reader = Reader(value, path, problems)
    mode = settings.Cpu.mode.read(reader)
    model = settings.Cpu.model.read(reader)
    if mode is None and model is not None:
        mode = "custom"
    if mode == "custom" and not reader.given("model"):
        reader.problem("model", "mode custom needs a model, for example EPYC")
    if mode not in (None, "custom") and model is not None:
        reader.problem("model", f"mode {mode} takes no model; give either alone")
    reader.finish(names(settings.CPU))
    return Cpu(mode, model)


def watchdog_from(value: t.Any, path: str, problems: list[Problem]) -> Watchdog | None:
    """The watchdog; a bare word is its action."""
    reader = _one(value, path, problems, "action")
    if reader is None:
        return None
    model = settings.Watchdog.model.read(reader)
    watchdog = Watchdog(model, **further(Watchdog, reader))
    reader.finish(names(settings.WATCHDOG))
    return watchdog


def tpm_from(value: t.Any, path: str, problems: list[Problem]) -> Tpm | None:
    """The TPM; a bare word is its model."""
    reader = _one(value, path, problems, "model")
    if reader is None:
        return None
    tpm = Tpm(settings.Tpm.model.read(reader), **further(Tpm, reader))
    reader.finish(names(settings.TPM))
    return tpm


def _one(value: t.Any, path: str, problems: list[Problem], word: str) -> Reader | None:
    """What a device is read from that is there or not; a bare word is its setting ``word``."""
    if isinstance(value, str):
        try:
            value = to_boolean(value)  # as the command line gives it
        except ValueError:
            value = {word: value}
    if value is None or value is False:
        return None
    return Reader(None if value is True else value, path, problems)
