# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings of a VM's devices, one row each: disks, NICs, console, CPU.

A place in XML is one below the device's element.
"""

from __future__ import annotations

import dataclasses

from ..base.names import playbook_command
from ..base.settings import (
    AT_BOOT,
    LIVE,
    Boolean,
    Choice,
    Group,
    Size,
    Text,
    Value,
    never,
    rows,
)
from . import composites, settings_sources, settings_tuning

MAX_MIB = 1 << 33  # 8 PiB: far above any disk, far below where libvirt's numbers end
LABEL = r"[A-Za-z0-9][^/\\<>&\"']{0,127}"
LABEL_RULE = (
    "1 to 128 characters without '/', quotes or angle brackets, the first a letter or digit"
)
MADE_ONCE = "a disk is created from its image once; create another VM, or another disk"
_ANOTHER = "a disk keeps its kind and format; add another disk"
_INTERFACE = r"[A-Za-z0-9_][A-Za-z0-9_.:@-]{0,14}"
_INTERFACE_RULE = "a network interface has 1 to 15 letters, digits or '_.:@-'"
_MOVE_DISK = playbook_command("move_disk", vm_name="NAME", virt_disk="NAME", virt_to_pool="NAME")


class DiskSettings:
    """The settings of one disk, without its name."""

    state = Choice(
        "state",
        "Whether the VM has the disk. V(absent) detaches it from an existing VM, and deletes its"
        " volume with all data if it was created for this VM. A disk that is not listed is kept.",
        default="present",
        choices=("present", "absent"),
    )
    size = Size(
        "size",
        "Size of the disk. Defaults to the size of its image, if it has one.",
        default=None,
        high=MAX_MIB,
        change=LIVE,
    )
    device = Choice(
        "device",
        "Device type. A V(cdrom), or a V(floppy) (PCs only), is a drive. It is empty or holds its"
        " O(image), which must be raw (for a CD, an ISO image), and it takes no size.",
        default="disk",
        xml="@device",
        absent="disk",
        choices=("disk", "cdrom", "floppy"),
        change=never(_ANOTHER),
    )
    format = Choice(
        "format",
        "Format of the volume. Defaults to V(qcow2), and to V(raw) for a drive.",
        default=None,
        xml="driver/@type",
        choices=("qcow2", "raw"),
        change=never(_ANOTHER),
    )
    bus = Choice(
        "bus",
        "Bus that the disk is attached to. Defaults to V(virtio), to V(scsi) for a V(cdrom), and"
        " to V(fdc) for a V(floppy), the only device on it. The machine type V(q35) has no V(ide).",
        default=None,
        xml="target/@bus",
        aliases=("model",),
        choices=("virtio", "scsi", "sata", "ide", "usb", "fdc"),
        change=never("the guest would see the disk under another name; add another disk"),
    )
    cache = Choice(
        "cache",
        "Cache mode on the hypervisor. V(none) and V(directsync) bypass the host's page cache.",
        default="none",
        xml="driver/@cache",
        absent="writeback",
        choices=("none", "writeback", "writethrough", "directsync", "unsafe"),
        change=AT_BOOT,
    )
    io = Choice(
        "io",
        "I/O mode; defaults to QEMU's choice. V(native) needs O(cache) V(none) or V(directsync).",
        default=None,
        xml="driver/@io",
        choices=("native", "threads", "io_uring"),
        change=AT_BOOT,
    )
    pool = Text(
        "pool",
        "Pool to create the volume in; defaults to the variable C(virt_pool).",
        default=None,
        pattern=LABEL,
        rule=LABEL_RULE,
        change=never(f"a disk stays in its pool; move it ({_MOVE_DISK}), or add another disk"),
    )
    image = Value(
        "image",
        "Image that the disk is created from, in the form of the VM's own C(image). The first disk"
        " defaults to that one, others to none. The image of a drive stays among the base images,"
        " where all VMs with it in a drive read it; V(none) ejects what is in the drive. A VM"
        " without a system on its first disk boots from its V(cdrom).",
        default=None,
        change=never(MADE_ONCE),
    )
    overlay = Boolean(
        "overlay",
        "Create the disk as a copy-on-write overlay on its image, instead of a full copy. Defaults"
        " to the VM's own C(overlay), and to false for V(raw).",
        default=None,
        change=never(MADE_ONCE),
    )
    readonly = Boolean(
        "readonly",
        "Prevent the guest from writing to the disk. A V(cdrom) or V(floppy) is always read-only.",
        default=False,
        xml="readonly",
        change=AT_BOOT,
    )


class NicSettings:
    """The settings of one NIC, without its name."""

    state = dataclasses.replace(DiskSettings.state, description="Whether the VM has the NIC.")
    bridge = Text(
        "bridge",
        "Bridge on the hypervisor that the NIC is attached to. Either this or O(network) is"
        " required, here or in the profile.",
        default=None,
        xml="source/@bridge",
        pattern=_INTERFACE,
        rule=_INTERFACE_RULE,
        change=LIVE,
    )
    network = Text(
        "network",
        "libvirt network that the NIC is attached to.",
        default=None,
        xml="source/@network",
        pattern=LABEL,
        rule=LABEL_RULE,
        change=LIVE,
    )
    mac = Value(
        "mac",
        "MAC address, in quotes. If omitted, it is derived from the names of fleet, VM and NIC.",
        default=None,
        xml="mac/@address",
        change=never(
            "a guest knows its NIC by its MAC address; add another NIC, and remove this one"
        ),
    )
    type = Choice(
        "type",
        "Type of O(source); defaults to V(bridge). V(direct) is an existing interface of the"
        " hypervisor (macvtap); a VM with such a NIC cannot be moved.",
        default=None,
        xml="@type",
        choices=("bridge", "network", "direct"),
        change=AT_BOOT,
    )
    source = Value(
        "source",
        "Name of the bridge or network, an alternative to O(bridge) or O(network), or of the"
        " interface for O(type) V(direct).",
        default=None,
        xml=composites.NIC_SOURCE,
        change=LIVE,
    )


class ConsoleSettings:
    """The settings of the graphical console."""

    type = Choice(
        "type",
        "Protocol of the console; V(vnc) if only other options are given.",
        default=None,
        xml="@type",
        choices=("none", "vnc", "spice"),
        change=AT_BOOT,
    )
    listen = Text(
        "listen",
        "Address on the hypervisor that the console listens on. On loopback it is reached through"
        " SSH. Any other is refused unless the hypervisor's C(qemu.conf) sets C(vnc_tls) with"
        " C(vnc_tls_x509_verify), or C(spice_tls) for SPICE.",
        default="127.0.0.1",
        xml=composites.LISTEN,
        change=AT_BOOT,
    )
    password = Value(
        "password",
        "Password of the console; none if omitted. VNC takes at most 8 characters.",
        default=None,
        xml="@passwd",
        secret=True,
        change=LIVE,
    )


class CpuSettings:
    """The settings of the CPU."""

    mode = Choice(
        "mode",
        "CPU mode; V(custom) if only a model is given.",
        default=None,
        xml=composites.CPU_MODE,
        choices=("host-model", "host-passthrough", "maximum", "custom"),
        change=AT_BOOT,
    )
    model = Text(
        "model",
        "CPU model, such as V(EPYC); required for O(mode) V(custom), and not accepted with other"
        " modes.",
        default=None,
        xml="model",
        pattern=r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}",
        rule="a CPU model has letters, digits and '_.-', for example EPYC",
        change=AT_BOOT,
    )


DISK = (
    *rows(DiskSettings),
    *rows(settings_sources.DiskSourceSettings),
    *rows(settings_tuning.DiskTuning),
)
NIC = (*rows(NicSettings), *rows(settings_tuning.NicTuning))
CONSOLE = (*rows(ConsoleSettings), *rows(settings_tuning.ConsoleTuning))
CPU = (*rows(CpuSettings), *rows(settings_tuning.CpuTuning))
_NAME = "Name; an entry with a name from the profile overrides settings of the profile's entry."
DISKS = Group(
    "disks",
    "Disks in addition to those of the profile; one with the same name overrides its settings.",
    settings=(Value("name", _NAME, default=None, required=True), *DISK),
    xml="devices/disk",
    of="list",
    change=LIVE,
)
NICS = Group(
    "nics",
    "NICs in addition to those of the profile; one with the same name overrides its settings.",
    settings=(Value("name", _NAME, default=None, required=True), *NIC),
    xml="devices/interface",
    of="list",
    change=LIVE,
)
CONSOLES = Group(
    "console",
    "Graphical console, or just its type, such as V(vnc). None if omitted. A VM always has a"
    " serial console.",
    settings=CONSOLE,
    xml="devices/graphics",
    of="raw",
    change=AT_BOOT,
)
CPUS = Group(
    "cpu",
    "CPU, or just its mode or model, such as V(host-passthrough) or V(EPYC). If omitted, a KVM"
    " guest has the host's model.",
    settings=CPU,
    xml="cpu",
    of="raw",
    change=AT_BOOT,
)
