# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Further settings of disks, NICs and the CPU, one row each: speed, limits, what the guest sees."""

from __future__ import annotations

import typing as t

from ..base.settings import AT_BOOT, LIVE, Boolean, Choice, Integer, Text, Words
from . import composites, composites_machine

_MOST = 1 << 40  # a TiB a second
_MOST_KIB = (1 << 32) - 1
_MAX_THREADS = 64  # more than QEMU can use well
_FEATURE = r"[a-z0-9][a-z0-9._-]{0,31}"
_FEATURE_RULE = "use libvirt's name of the feature, for example pcid"


class _DiskOfDevice(t.Protocol):
    device: str


def _is_disk(disk: _DiskOfDevice) -> bool:
    return disk.device == "disk"


class DiskTuning:
    """Further settings of a disk."""

    discard = Choice(
        "discard",
        "Whether blocks that the guest discards are returned to the pool.",
        default="unmap",
        xml="driver/@discard",
        absent="ignore",
        applies=_is_disk,
        choices=("unmap", "ignore"),
        change=AT_BOOT,
    )
    detect_zeroes = Choice(
        "detect_zeroes",
        "Whether QEMU detects zeroes in the guest's writes. V(on) stores them without allocating"
        " space where the format can; V(unmap) also releases the space, which needs O(discard)"
        " V(unmap).",
        default=None,
        xml="driver/@detect_zeroes",
        absent="off",
        choices=("off", "on", "unmap"),
        change=AT_BOOT,
    )
    iothread = Integer(
        "iothread",
        "Number of the QEMU I/O thread that serves the disk, separate from the vCPU threads. Disks"
        " with the same number share a thread. The VM has as many threads as the highest number."
        " Only for O(bus) V(virtio).",
        default=None,
        xml=composites.IOTHREAD,
        low=1,
        high=_MAX_THREADS,
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
    wwn = Text(
        "wwn",
        "World Wide Name that the guest sees, 16 hexadecimal digits. Not for O(bus) V(virtio) and"
        " V(usb).",
        default=None,
        xml="wwn",
        change=AT_BOOT,
        pattern=r"[0-9a-f]{16}",
        rule="write 16 lower-case hexadecimal digits, in quotes",
    )
    queues = Integer(
        "queues",
        "Queues that the guest's CPUs use in parallel. Only for O(bus) V(virtio).",
        default=None,
        xml="driver/@queues",
        change=AT_BOOT,
        low=1,
        high=256,
    )
    error_policy = Choice(
        "error_policy",
        "What happens when the disk's storage fails. V(stop) pauses the VM, V(report) reports the"
        " error to the guest, V(enospace) pauses the VM if space ran out and reports other errors"
        " to the guest.",
        default=None,
        xml="driver/@error_policy",
        change=AT_BOOT,
        choices=("stop", "report", "ignore", "enospace"),
    )
    rerror_policy = Choice(
        "rerror_policy",
        "The same for reading alone; O(error_policy) is for writing then.",
        default=None,
        xml="driver/@rerror_policy",
        change=AT_BOOT,
        choices=("stop", "report", "ignore"),
    )
    logical_block_size = Integer(
        "logical_block_size",
        "Size in bytes of the blocks that the guest addresses, a power of two.",
        default=None,
        xml="blockio/@logical_block_size",
        change=AT_BOOT,
        low=512,
        high=32768,
    )
    physical_block_size = Integer(
        "physical_block_size",
        "Size in bytes of the blocks that the guest should write as a whole, a power of two.",
        default=None,
        xml="blockio/@physical_block_size",
        change=AT_BOOT,
        low=512,
        high=32768,
    )
    total_bytes_sec = Integer(
        "total_bytes_sec",
        "Limit of reads and writes together, in bytes per second. V(0) is no limit.",
        default=None,
        xml="iotune/total_bytes_sec",
        absent=0,
        change=LIVE,
        low=0,
        high=_MOST,
    )
    read_bytes_sec = Integer(
        "read_bytes_sec",
        "Limit of reads, in bytes per second. V(0) is no limit.",
        default=None,
        xml="iotune/read_bytes_sec",
        absent=0,
        change=LIVE,
        low=0,
        high=_MOST,
    )
    write_bytes_sec = Integer(
        "write_bytes_sec",
        "Limit of writes, in bytes per second. V(0) is no limit.",
        default=None,
        xml="iotune/write_bytes_sec",
        absent=0,
        change=LIVE,
        low=0,
        high=_MOST,
    )
    total_iops_sec = Integer(
        "total_iops_sec",
        "Limit of reads and writes together, in operations per second. V(0) is no limit.",
        default=None,
        xml="iotune/total_iops_sec",
        absent=0,
        change=LIVE,
        low=0,
        high=_MOST,
    )
    read_iops_sec = Integer(
        "read_iops_sec",
        "Limit of reads, in operations per second. V(0) is no limit.",
        default=None,
        xml="iotune/read_iops_sec",
        absent=0,
        change=LIVE,
        low=0,
        high=_MOST,
    )
    write_iops_sec = Integer(
        "write_iops_sec",
        "Limit of writes, in operations per second. V(0) is no limit.",
        default=None,
        xml="iotune/write_iops_sec",
        absent=0,
        change=LIVE,
        low=0,
        high=_MOST,
    )


class NicTuning:
    """Further settings of a NIC."""

    vlan = Integer(
        "vlan",
        "VLAN tag. Refused where libvirt cannot set VLAN tags, such as on a Linux bridge without"
        " C(vlan_filtering), or on any Linux bridge before libvirt 11. Use a bridge that is on"
        " that VLAN, or an Open vSwitch bridge (O(virtualport)).",
        default=None,
        xml="vlan/tag/@id",
        low=1,
        high=4094,
        change=AT_BOOT,
    )
    model = Choice(
        "model",
        "Device model that the guest sees.",
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
        "Whether the link is up.",
        default=True,
        xml="link/@state",
        absent=True,
        words=("up", "down"),
        change=LIVE,
    )
    mode = Choice(
        "mode",
        "How VMs on the same interface of O(type) V(direct) reach each other. V(vepa), the"
        " default, is through the switch, V(bridge) directly, V(private) not at all;"
        " V(passthrough) gives the interface to this NIC alone. None of them reaches the"
        " hypervisor itself.",
        default=None,
        xml="source/@mode",
        absent="vepa",
        change=AT_BOOT,
        choices=("vepa", "bridge", "private", "passthrough"),
    )
    virtualport = Choice(
        "virtualport",
        "Type of the O(bridge) if it is not a Linux bridge. The bridge has to exist (C(ovs-vsctl"
        " add-br)).",
        default=None,
        xml="virtualport/@type",
        change=AT_BOOT,
        choices=("openvswitch",),
    )
    portgroup = Text(
        "portgroup",
        "Port group of the O(network), which decides on VLAN, bandwidth and virtual port. Without"
        " it libvirt takes the network's default one. A hypervisor whose network lacks it is not"
        " considered.",
        default=None,
        xml="source/@portgroup",
        change=LIVE,
        pattern=r"[A-Za-z0-9_.:/-]{1,128}",  # what libvirt's schema has for it (deviceName)
        rule="1 to 128 letters, digits or '_.:/-'",
    )
    mtu = Integer(
        "mtu",
        "MTU in bytes, which is also announced to the guest if O(model) is V(virtio).",
        default=None,
        xml="mtu/@size",
        change=AT_BOOT,
        low=68,
        high=65535,
    )
    queues = Integer(
        "queues",
        "Queues that the guest's CPUs use in parallel. Only for O(model) V(virtio).",
        default=None,
        xml="driver/@queues",
        absent=1,  # libvirt does not keep a single queue
        change=AT_BOOT,
        low=1,
        high=256,
    )
    inbound_average = Integer(
        "inbound_average",
        "Average bandwidth to the guest, in KiB per second.",
        default=None,
        xml="bandwidth/inbound/@average",
        change=LIVE,
        low=1,
        high=_MOST_KIB,
    )
    inbound_peak = Integer(
        "inbound_peak",
        "Peak bandwidth to the guest, in KiB per second.",
        default=None,
        xml="bandwidth/inbound/@peak",
        change=LIVE,
        low=1,
        high=_MOST_KIB,
    )
    inbound_burst = Integer(
        "inbound_burst",
        "Amount that may be sent to the guest at peak bandwidth, in KiB.",
        default=None,
        xml="bandwidth/inbound/@burst",
        change=LIVE,
        low=1,
        high=_MOST_KIB,
    )
    outbound_average = Integer(
        "outbound_average",
        "Average bandwidth from the guest, in KiB per second.",
        default=None,
        xml="bandwidth/outbound/@average",
        change=LIVE,
        low=1,
        high=_MOST_KIB,
    )
    outbound_peak = Integer(
        "outbound_peak",
        "Peak bandwidth from the guest, in KiB per second.",
        default=None,
        xml="bandwidth/outbound/@peak",
        change=LIVE,
        low=1,
        high=_MOST_KIB,
    )
    outbound_burst = Integer(
        "outbound_burst",
        "Amount that the guest may send at peak bandwidth, in KiB.",
        default=None,
        xml="bandwidth/outbound/@burst",
        change=LIVE,
        low=1,
        high=_MOST_KIB,
    )
    filter = Text(
        "filter",
        "libvirt network filter for the guest's traffic, such as V(clean-traffic); C(virsh"
        " nwfilter-list) lists them.",
        default=None,
        xml="filterref/@filter",
        change=AT_BOOT,
        pattern=r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}",
        rule="a filter is named with letters, digits and '_.-'",
    )
    isolated = Boolean(
        "isolated",
        "Isolate the NIC from other isolated NICs on the bridge.",
        default=False,
        xml="port/@isolated",
        change=AT_BOOT,
        words=("yes", "no"),
    )


class ConsoleTuning:
    """Further settings of the graphical console."""

    port = Integer(
        "port",
        "Port that the console listens on. Defaults to the first free one; a fixed port may be in"
        " use on the hypervisor that the VM is moved to.",
        default=None,
        xml="@port",
        change=AT_BOOT,
        low=1024,
        high=65535,
    )
    keymap = Text(
        "keymap",
        "Keyboard layout of the viewer, such as V(de); needed for old viewers only.",
        default=None,
        xml="@keymap",
        change=AT_BOOT,
        pattern=r"[a-z]{2}(-[a-z0-9]{2,8})?",
        rule="write two lower-case letters, for example de",
        secret=False,
    )


def _topology(name: str, description: str) -> Integer[None]:
    return Integer(
        name,
        description,
        default=None,
        xml=f"topology/@{name}",
        change=AT_BOOT,
        low=1,
        high=4096,
    )


class CpuTuning:
    """Further settings of the CPU."""

    require = Words(
        "require",
        "Features that the CPU must have in addition to those of its model, such as V(pcid). The"
        " VM does not start on a hypervisor that lacks one.",
        xml=composites_machine.policy("require", "require"),
        change=AT_BOOT,
        pattern=_FEATURE,
        rule=_FEATURE_RULE,
    )
    disable = Words(
        "disable",
        "Features of the model to hide from the guest, such as V(svm).",
        xml=composites_machine.policy("disable", "disable"),
        change=AT_BOOT,
        pattern=_FEATURE,
        rule=_FEATURE_RULE,
    )
    sockets = _topology(
        "sockets",
        "Sockets that the guest sees. Multiplied by O(dies), O(cores) and O(threads), which"
        " default to 1, they must give the maximum number of vCPUs.",
    )
    dies = _topology("dies", "Dies per socket.")
    cores = _topology("cores", "Cores per die.")
    threads = _topology("threads", "Threads per core.")
