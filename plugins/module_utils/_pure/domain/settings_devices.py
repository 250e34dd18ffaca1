# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings of a VM's devices, one row each: disks, NICs, console, CPU, watchdog.

A place in XML is one below the device's element.

This file is private to the collection.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..base.settings import (
    AT_BOOT,
    LIVE,
    Boolean,
    Choice,
    Group,
    Integer,
    Size,
    Text,
    Value,
    never,
    rows,
)
from ..hardware import settings_sources, settings_tuning
from . import composites


class _Disk(t.Protocol):
    device: str


MAX_MIB = 1 << 33  # 8 PiB: far above any disk, far below where libvirt's numbers end
_MAX_THREADS = 64  # more than QEMU can use well
LABEL = r"[A-Za-z0-9][^/\\<>&\"']{0,127}"
LABEL_RULE = (
    "1 to 128 characters without '/', quotes or angle brackets, the first a letter or digit"
)
MADE_ONCE = "a disk is made from its image once; make another VM, or another disk"
_ANOTHER = "a disk keeps its kind and format; add another disk"
_INTERFACE = r"[A-Za-z0-9_][A-Za-z0-9_.:@-]{0,14}"
_INTERFACE_RULE = "a network interface has 1 to 15 letters, digits or '_.:@-'"


def _is_disk(disk: _Disk) -> bool:
    return disk.device == "disk"


class Disk:
    """The settings of one disk, without its name."""

    state = Choice(
        "state",
        "Whether the VM has it. V(absent) takes it out of a VM that exists, and removes its volume"
        " with all that is on it if it was made for this VM. A disk that is not mentioned stays.",
        default="present",
        choices=("present", "absent"),
    )
    size = Size(
        "size",
        "Size. Left out for a disk with an image, that of the image.",
        default=None,
        high=MAX_MIB,
        change=LIVE,
    )
    device = Choice(
        "device",
        "What it is. A V(cdrom) or V(floppy), which PCs alone have, is a drive. It has its O(image)"
        " in it, which is raw (of a CD an ISO image), or is empty, and takes no size.",
        default="disk",
        xml="@device",
        absent="disk",
        choices=("disk", "cdrom", "floppy"),
        change=never(_ANOTHER),
    )
    format = Choice(
        "format",
        "Format of its volume. Left out, V(qcow2), and V(raw) for a drive.",
        default=None,
        xml="driver/@type",
        choices=("qcow2", "raw"),
        change=never(_ANOTHER),
    )
    bus = Choice(
        "bus",
        "What it is attached to. Left out, V(virtio), V(scsi) for a V(cdrom), and V(fdc) for a"
        " V(floppy), which nothing else is on. Machine types such as V(q35) have no V(ide).",
        default=None,
        xml="target/@bus",
        aliases=("model",),
        choices=("virtio", "scsi", "sata", "ide", "usb", "fdc"),
        change=never("the guest would find it under another name; add another disk"),
    )
    cache = Choice(
        "cache",
        "How the hypervisor caches it. V(none) and V(directsync) bypass the host's page cache.",
        default="none",
        xml="driver/@cache",
        absent="writeback",
        choices=("none", "writeback", "writethrough", "directsync", "unsafe"),
        change=AT_BOOT,
    )
    io = Choice(
        "io",
        "How QEMU does its input and output; QEMU's choice if left out. V(native) needs O(cache)"
        " V(none) or V(directsync).",
        default=None,
        xml="driver/@io",
        choices=("native", "threads", "io_uring"),
        change=AT_BOOT,
    )
    discard = Choice(
        "discard",
        "Whether what the guest discards is given back to the pool.",
        default="unmap",
        xml="driver/@discard",
        absent="ignore",
        applies=_is_disk,
        choices=("unmap", "ignore"),
        change=AT_BOOT,
    )
    detect_zeroes = Choice(
        "detect_zeroes",
        "Whether QEMU looks for zeroes in what the guest writes. V(on) writes them without taking"
        " space where the format can; V(unmap) gives the space back, for which O(discard) must be"
        " V(unmap).",
        default=None,
        xml="driver/@detect_zeroes",
        absent="off",
        choices=("off", "on", "unmap"),
        change=AT_BOOT,
    )
    iothread = Integer(
        "iothread",
        "Number of the thread of QEMU that does its input and output, beside those of the vCPUs."
        " Disks with the same number share it. The VM has as many as the highest number. Only for"
        " O(bus) V(virtio).",
        default=None,
        xml=composites.IOTHREAD,
        low=1,
        high=_MAX_THREADS,
        change=AT_BOOT,
    )
    pool = Text(
        "pool",
        "Pool its volume is made in; the variable C(virt_pool) if left out.",
        default=None,
        pattern=LABEL,
        rule=LABEL_RULE,
        change=never("a disk stays in the pool that it was made in; add another disk"),
    )
    image = Value(
        "image",
        "What it is made from, written as the VM's own C(image). Left out, that one for the first"
        " disk, and none for the others. That of a drive is read where it is, among the base"
        " images, by all VMs that have it in one; a VM without a system on its first disk boots"
        " from its V(cdrom).",
        default=None,
        change=never(MADE_ONCE),
    )
    overlay = Boolean(
        "overlay",
        "Make it copy-on-write over its image, instead of a full copy. Left out, as the VM's own"
        " C(overlay), and false for V(raw).",
        default=None,
        change=never(MADE_ONCE),
    )
    readonly = Boolean(
        "readonly",
        "Keep the guest from writing to it. A V(cdrom) or V(floppy) always is.",
        default=False,
        xml="readonly",
        change=AT_BOOT,
    )
    serial = Text(
        "serial",
        "Serial number that the guest sees, at most 20 letters, digits or C(_.+-).",
        default=None,
        xml="serial",
        pattern=r"[A-Za-z0-9_.+-]{1,20}",
        rule="a serial is 1 to 20 letters, digits or '_.+-'",
        change=AT_BOOT,
    )


class Nic:
    """The settings of one NIC, without its name."""

    state = dataclasses.replace(Disk.state, description="Whether the VM has it.")
    bridge = Text(
        "bridge",
        "Bridge of the hypervisor it is attached to. Either this or O(network) has to be given,"
        " here or by the profile.",
        default=None,
        xml="source/@bridge",
        pattern=_INTERFACE,
        rule=_INTERFACE_RULE,
        change=LIVE,
    )
    network = Text(
        "network",
        "Network of libvirt it is attached to.",
        default=None,
        xml="source/@network",
        pattern=LABEL,
        rule=LABEL_RULE,
        change=LIVE,
    )
    mac = Value(
        "mac",
        "MAC address, in quotes. Left out, it follows from the names of fleet, VM and NIC.",
        default=None,
        xml="mac/@address",
        change=never(
            "a guest knows its NIC by its MAC address; add another NIC, and remove this one"
        ),
    )
    vlan = Integer(
        "vlan",
        "VLAN tag. Refused where libvirt sets no VLAN tags, as on a Linux bridge without"
        " C(vlan_filtering), or on any before libvirt 11. Give the NIC a bridge that is on that"
        " VLAN, or one of Open vSwitch (O(virtualport)).",
        default=None,
        xml="vlan/tag/@id",
        low=1,
        high=4094,
        change=AT_BOOT,
    )
    model = Choice(
        "model",
        "Device that the guest sees.",
        default="virtio",
        xml="model/@type",
        choices=(
            "virtio",
            "virtio-transitional",
            "virtio-non-transitional",
            "e1000",
            "e1000e",
            "igb",
            "rtl8139",
            "vmxnet3",
            "usb-net",
        ),
        change=AT_BOOT,
    )
    link = Boolean(
        "link",
        "Whether its cable is plugged in.",
        default=True,
        xml="link/@state",
        absent=True,
        words=("up", "down"),
        change=LIVE,
    )
    type = Choice(
        "type",
        "What O(source) names; V(bridge) if left out. V(direct) is an interface of the hypervisor"
        " (macvtap), which has to be there; a VM with such a NIC is not moved.",
        default=None,
        xml="@type",
        choices=("bridge", "network", "direct"),
        change=AT_BOOT,
    )
    source = Value(
        "source",
        "Name of the bridge or network, another way to write O(bridge) or O(network), or of the"
        " interface of O(type) V(direct).",
        default=None,
        xml=composites.NIC_SOURCE,
        change=LIVE,
    )


class Console:
    """The settings of the graphical console."""

    type = Choice(
        "type",
        "What it speaks; V(vnc) if only the others are given.",
        default=None,
        xml="@type",
        choices=("none", "vnc", "spice"),
        change=AT_BOOT,
    )
    listen = Text(
        "listen",
        "Address of the hypervisor it listens on. On loopback it is reached through SSH. Any other"
        " is refused where the hypervisor's C(qemu.conf) has no C(vnc_tls) with"
        " C(vnc_tls_x509_verify), or for SPICE C(spice_tls).",
        default="127.0.0.1",
        xml=composites.LISTEN,
        change=AT_BOOT,
    )
    port = Integer(
        "port",
        "Port it listens on. Left out, the first that is free; a fixed one may be taken where the"
        " VM is moved to.",
        default=None,
        xml="@port",
        change=AT_BOOT,
        low=1024,
        high=65535,
    )
    keymap = Text(
        "keymap",
        "Layout of the viewer's keyboard, such as V(de); needed for old viewers only.",
        default=None,
        xml="@keymap",
        change=AT_BOOT,
        pattern=r"[a-z]{2}(-[a-z0-9]{2,8})?",
        rule="write two small letters, for example de",
        secret=False,
    )
    password = Value(
        "password",
        "Password it asks for, none if left out. VNC takes at most 8 characters.",
        default=None,
        xml="@passwd",
        secret=True,
        change=LIVE,
    )


class Cpu:
    """The settings of the CPU."""

    mode = Choice(
        "mode",
        "How it is chosen; V(custom) if only a model is given.",
        default=None,
        xml=composites.CPU_MODE,
        choices=("host-model", "host-passthrough", "maximum", "custom"),
        change=AT_BOOT,
    )
    model = Text(
        "model",
        "Model, such as V(EPYC); needed for O(mode) V(custom), and not taken with the others.",
        default=None,
        xml="model",
        pattern=r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}",
        rule="a CPU model has letters, digits and '_.-', for example EPYC",
        change=AT_BOOT,
    )


class Watchdog:
    """The settings of the watchdog."""

    model = Choice(
        "model",
        "Device that the guest sees; the one that fits the machine type if left out. V(itco) needs"
        " libvirt 9.1.",
        default=None,
        xml="@model",
        choices=("i6300esb", "ib700", "itco", "diag288"),
        change=AT_BOOT,
    )
    action = Choice(
        "action",
        "What the hypervisor does when it fires.",
        default="reset",
        xml="@action",
        absent="reset",
        choices=("reset", "shutdown", "poweroff", "pause", "none", "dump"),
        change=AT_BOOT,
    )


class Tpm:
    """The settings of the TPM."""

    model = Choice(
        "model",
        "Device that the guest sees. Left out, V(tpm-crb) on PCs, else V(tpm-tis).",
        default=None,
        xml="@model",
        choices=("tpm-crb", "tpm-tis"),
        change=never("what the guest keeps in its TPM would be lost; make the VM anew"),
    )


DISK = (*rows(Disk), *rows(settings_sources.Disk), *rows(settings_tuning.Disk))
NIC = (*rows(Nic), *rows(settings_tuning.Nic))
CONSOLE = rows(Console)
CPU = (*rows(Cpu), *rows(settings_tuning.Cpu))
WATCHDOG, TPM = rows(Watchdog), rows(Tpm)
_NAME = "Name; one that the profile has changes that of the profile."
DISKS = Group(
    "disks",
    "Disks beside those of the profile; one of the same name changes that of the profile.",
    settings=(Value("name", _NAME, default=None, required=True), *DISK),
    xml="devices/disk",
    of="list",
    change=LIVE,
)
NICS = Group(
    "nics",
    "NICs beside those of the profile; one of the same name changes that of the profile.",
    settings=(Value("name", _NAME, default=None, required=True), *NIC),
    xml="devices/interface",
    of="list",
    change=LIVE,
)
CONSOLES = Group(
    "console",
    "Graphical console, or its type alone, such as V(vnc). There is none if left out. A serial"
    " console is always there.",
    settings=CONSOLE,
    xml="devices/graphics",
    of="raw",
    change=AT_BOOT,
)
CPUS = Group(
    "cpu",
    "CPU, or its mode or model alone, such as V(host-passthrough) or V(EPYC). Left out, a KVM guest"
    " has the host's model.",
    settings=CPU,
    xml="cpu",
    of="raw",
    change=AT_BOOT,
)
WATCHDOGS = Group(
    "watchdog",
    "Watchdog, or its action alone, such as V(poweroff), or V(true). There is none if left out.",
    settings=WATCHDOG,
    xml="devices/watchdog",
    of="raw",
    change=AT_BOOT,
)
TPMS = Group(
    "tpm",
    "TPM 2.0, V(true) or its model alone, such as V(tpm-tis). There is none if left out. It is"
    " emulated. Where libvirt finds no emulator (packages C(swtpm) and C(swtpm-tools)), the VM is"
    " refused. Removing the VM removes what the guest keeps in it.",
    settings=TPM,
    xml="devices/tpm",
    of="raw",
    change=AT_BOOT,
)
