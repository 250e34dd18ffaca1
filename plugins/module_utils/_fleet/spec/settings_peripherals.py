# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings of a VM's further devices, one row each: watchdog, TPM, video, sound, files, ports.

A place in XML is one below the device's element.
"""

from __future__ import annotations

from ..base.settings import (
    AT_BOOT,
    Boolean,
    Choice,
    Group,
    Integer,
    Size,
    Text,
    never,
    rows,
    specification,
)
from . import composites_machine as composites

_PATH = r"/[^\0]{1,1023}"
_PATH_RULE = "write an absolute path on the hypervisor"


@specification
class Watchdog:
    """The settings of the watchdog."""

    model = Choice(
        "model",
        "Device model; defaults to the one that fits the machine type. V(itco) needs libvirt 9.1.",
        default=None,
        xml="@model",
        choices=("i6300esb", "ib700", "itco", "diag288"),
        change=AT_BOOT,
    )
    action = Choice(
        "action",
        "What the hypervisor does when the watchdog fires.",
        default="reset",
        xml="@action",
        absent="reset",
        choices=("reset", "shutdown", "poweroff", "pause", "none", "dump"),
        change=AT_BOOT,
    )


@specification
class Tpm:
    """The settings of the TPM."""

    model = Choice(
        "model",
        "Device model. Defaults to V(tpm-crb) on PCs, else V(tpm-tis).",
        default=None,
        xml="@model",
        choices=("tpm-crb", "tpm-tis"),
        change=never("the contents of the guest's TPM would be lost; recreate the VM"),
    )


@specification
class Video:
    """The settings of the graphics card."""

    model = Choice(
        "model",
        "Device model. Defaults to V(vga) on PCs, else V(virtio).",
        default=None,
        xml="model/@type",
        choices=("vga", "virtio", "qxl", "bochs", "cirrus", "ramfb", "none"),
        change=AT_BOOT,
    )
    vram = Size(
        "vram",
        "Video memory, for models where it can be set.",
        default=None,
        xml=composites.video_memory("vram"),
        high=1024,
        change=AT_BOOT,
    )
    heads = Integer(
        "heads",
        "Maximum number of screens; only V(virtio) and V(qxl) have more than one.",
        default=None,
        xml="model/@heads",
        low=1,
        high=16,
        change=AT_BOOT,
    )


@specification
class Sound:
    """The settings of the sound card."""

    model = Choice(
        "model",
        "Device model; defaults to the one that fits the machine type.",
        default=None,
        xml="@model",
        choices=("ich9", "ich6", "ac97", "usb"),
        change=AT_BOOT,
    )


@specification
class Panic:
    """The settings of the device by which a guest reports a crash."""

    model = Choice(
        "model",
        "Device model; defaults to the one that fits the architecture.",
        default=None,
        xml="@model",
        choices=("isa", "hyperv", "pvpanic", "pseries", "s390"),
        change=AT_BOOT,
    )


@specification
class Iommu:
    """The settings of the IOMMU."""

    model = Choice(
        "model",
        "Device model; defaults to the one that fits the architecture.",
        default=None,
        xml="@model",
        choices=("intel", "virtio", "smmuv3"),
        change=AT_BOOT,
    )


@specification
class Filesystem:
    """The settings of a directory of the hypervisor that the guest mounts."""

    source = Text(
        "source",
        "Folder of the hypervisor.",
        default=None,
        xml="source/@dir",
        pattern=_PATH,
        rule=_PATH_RULE,
        change=AT_BOOT,
    )
    target = Text(
        "target",
        "Tag that the guest mounts it by, with C(mount -t virtiofs TAG /mnt) or, for 9p, C(mount"
        " -t 9p -o trans=virtio TAG /mnt).",
        default=None,
        xml="target/@dir",
        pattern=r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,30}",
        rule="a tag has 1 to 31 letters, digits or '_./-'",
        change=AT_BOOT,
    )
    driver = Choice(
        "driver",
        "How the folder is shared. V(path) is 9p, which QEMU serves itself; V(virtiofs) is faster,"
        " and needs virtiofsd on the hypervisor and memory shared with QEMU.",
        default="path",
        xml="driver/@type",
        choices=("path", "virtiofs"),
        change=AT_BOOT,
    )
    accessmode = Choice(
        "accessmode",
        "How 9p handles ownership. V(mapped) stores the owner and permissions that the guest sets"
        " in extended attributes, V(passthrough) sets them on the files themselves, as far as"
        " QEMU's user is allowed to, and V(squash) ignores failures to do so. With V(virtiofs),"
        " V(passthrough).",
        default=None,
        xml="@accessmode",
        choices=("mapped", "passthrough", "squash"),
        change=AT_BOOT,
    )
    readonly = Boolean(
        "readonly",
        "Prevent the guest from writing to it. Not with V(virtiofs).",
        default=False,
        xml="readonly",
        change=AT_BOOT,
    )


@specification
class Hostdev:
    """The settings of a host device that is passed through to the guest."""

    pci = Text(
        "pci",
        "Address of a PCI device, such as V(0000:3b:00.1), as C(lspci -D) shows it.",
        default=None,
        xml=composites.PCI,
        pattern=r"[0-9a-f]{4}:[0-9a-f]{2}:[0-1][0-9a-f]\.[0-7]",
        rule="write domain, bus, slot and function in lower-case hexadecimal: '0000:3b:00.1'",
        change=AT_BOOT,
    )
    usb = Text(
        "usb",
        "Vendor and product of a USB device, such as V(046d:c52b), as C(lsusb) shows them.",
        default=None,
        xml=composites.USB,
        pattern=r"[0-9a-f]{4}:[0-9a-f]{4}",
        rule="write vendor and product in lower-case hexadecimal, in quotes: '046d:c52b'",
        change=AT_BOOT,
    )


@specification
class Serial:
    """The settings of a serial port beside the console."""

    type = Choice(
        "type",
        "Type of the host end of the port.",
        default="pty",
        xml="@type",
        choices=("pty", "file", "unix", "tcp", "dev", "null"),
        change=AT_BOOT,
    )
    path = Text(
        "path",
        "Path on the hypervisor, for V(file), V(unix) and V(dev).",
        default=None,
        xml="source/@path",
        pattern=_PATH,
        rule=_PATH_RULE,
        change=AT_BOOT,
    )
    mode = Choice(
        "mode",
        "Whether QEMU listens (V(bind)) or connects (V(connect)), for V(unix) and V(tcp).",
        default=None,
        xml="source/@mode",
        choices=("bind", "connect"),
        change=AT_BOOT,
    )
    host = Text(
        "host",
        "Address for V(tcp).",
        default=None,
        xml="source/@host",
        pattern=r"[A-Za-z0-9:][A-Za-z0-9.:-]{0,252}",
        rule="write an address or a host name",
        change=AT_BOOT,
    )
    port = Integer(
        "port",
        "Port for V(tcp).",
        default=None,
        xml="source/@service",
        low=1,
        high=65535,
        change=AT_BOOT,
    )
    protocol = Choice(
        "protocol",
        "Protocol for V(tcp).",
        default=None,
        xml="protocol/@type",
        choices=("raw", "telnet"),
        change=AT_BOOT,
    )


@specification
class Channel:
    """The settings of a channel between hypervisor and guest."""

    name = Text(
        "name",
        "Name under which the guest finds the channel below C(/dev/virtio-ports).",
        default=None,
        xml="target/@name",
        pattern=r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}",
        rule="1 to 64 letters, digits or '_.-'",
        change=AT_BOOT,
    )
    type = Choice(
        "type",
        "Type of the host end of the channel. V(spicevmc) is for the agent of a SPICE console.",
        default="unix",
        xml="@type",
        choices=("unix", "pty", "spicevmc"),
        change=AT_BOOT,
    )


WATCHDOGS = Group(
    "watchdog",
    "Watchdog, or just its action, such as V(poweroff), or V(true). None if omitted.",
    settings=rows(Watchdog),
    xml="devices/watchdog",
    of="raw",
    change=AT_BOOT,
)
TPMS = Group(
    "tpm",
    "Emulated TPM 2.0; V(true), or just its model, such as V(tpm-tis). None if omitted. Where"
    " libvirt finds no emulator (packages C(swtpm) and C(swtpm-tools)), the VM is refused."
    " Removing the VM deletes the contents of its TPM.",
    settings=rows(Tpm),
    xml="devices/tpm",
    of="raw",
    change=AT_BOOT,
)
VIDEOS = Group(
    "video",
    "Graphics card. By default a VM has one if it has a console.",
    settings=rows(Video),
    xml="devices/video",
    change=AT_BOOT,
)
SOUNDS = Group(
    "sound",
    "Sound card; an empty mapping selects the default model. None if omitted.",
    settings=rows(Sound),
    xml="devices/sound",
    change=AT_BOOT,
)
PANICS = Group(
    "panic",
    "Panic device, with which the guest reports a crash so that O(on_crash) applies; an empty"
    " mapping selects the default model. None if omitted.",
    settings=rows(Panic),
    xml="devices/panic",
    change=AT_BOOT,
)
IOMMUS = Group(
    "iommu",
    "IOMMU, with which the guest can hand devices on to VMs and programs of its own; an empty"
    " mapping selects the default model. On PCs it needs the machine type V(q35). None if omitted.",
    settings=rows(Iommu),
    xml="devices/iommu",
    change=AT_BOOT,
)
FILESYSTEMS = Group(
    "filesystems",
    "Folders of the hypervisor that the guest may mount. A VM with one cannot be moved while it"
    " runs.",
    settings=rows(Filesystem),
    xml="devices/filesystem",
    change=AT_BOOT,
    of="list",
)
HOSTDEVS = Group(
    "hostdevs",
    "Host devices passed through to the guest, each C(pci) or C(usb). They tie the VM to one"
    " hypervisor, which O(host) names.",
    settings=rows(Hostdev),
    xml="devices/hostdev",
    change=AT_BOOT,
    of="list",
)
SERIALS = Group(
    "serials",
    "Serial ports in addition to the console, which is the first. PCs have four in total.",
    settings=rows(Serial),
    xml="devices/serial",
    change=AT_BOOT,
    of="list",
)
CHANNELS = Group(
    "channels",
    "Channels between hypervisor and guest in addition to the guest agent's.",
    settings=rows(Channel),
    xml="devices/channel",
    change=AT_BOOT,
    of="list",
)
