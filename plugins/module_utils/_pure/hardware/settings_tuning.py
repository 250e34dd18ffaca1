# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Further settings of disks, NICs and the CPU, one row each: speed, limits, what the guest is told.

This file is private to the collection.
"""

from __future__ import annotations

from ..base.settings import AT_BOOT, LIVE, Boolean, Choice, Integer, Text, Words
from . import composites

_MOST = 1 << 40  # a TiB a second
_MOST_KIB = (1 << 32) - 1
_FEATURE = r"[a-z0-9][a-z0-9._-]{0,31}"
_FEATURE_RULE = "a feature is named as libvirt does, for example pcid"


class Disk:
    """Further settings of a disk."""

    wwn = Text(
        "wwn",
        "World wide name that the guest sees, 16 hexadecimal digits. Not for O(bus) V(virtio) and"
        " V(usb).",
        default=None,
        xml="wwn",
        change=AT_BOOT,
        pattern=r"[0-9a-f]{16}",
        rule="write 16 small hexadecimal digits, in quotes",
    )
    queues = Integer(
        "queues",
        "Queues by which the guest's CPUs reach it beside each other. Only for O(bus) V(virtio).",
        default=None,
        xml="driver/@queues",
        change=AT_BOOT,
        low=1,
        high=256,
    )
    error_policy = Choice(
        "error_policy",
        "What becomes of the VM when its storage fails. V(stop) pauses it, V(report) tells the"
        " guest, V(enospace) pauses it where space ran out and tells the guest of the rest.",
        default=None,
        xml="driver/@error_policy",
        change=AT_BOOT,
        choices=("stop", "report", "ignore", "enospace"),
    )
    logical_block_size = Integer(
        "logical_block_size",
        "Bytes of the blocks that the guest addresses, a power of two.",
        default=None,
        xml="blockio/@logical_block_size",
        change=AT_BOOT,
        low=512,
        high=32768,
    )
    physical_block_size = Integer(
        "physical_block_size",
        "Bytes of the blocks that the guest should write whole, a power of two.",
        default=None,
        xml="blockio/@physical_block_size",
        change=AT_BOOT,
        low=512,
        high=32768,
    )
    total_bytes_sec = Integer(
        "total_bytes_sec",
        "At most so many bytes a second, reading and writing. V(0) is no limit.",
        default=None,
        xml="iotune/total_bytes_sec",
        absent=0,
        change=LIVE,
        low=0,
        high=_MOST,
    )
    read_bytes_sec = Integer(
        "read_bytes_sec",
        "At most so many bytes a second, reading. V(0) is no limit.",
        default=None,
        xml="iotune/read_bytes_sec",
        absent=0,
        change=LIVE,
        low=0,
        high=_MOST,
    )
    write_bytes_sec = Integer(
        "write_bytes_sec",
        "At most so many bytes a second, writing. V(0) is no limit.",
        default=None,
        xml="iotune/write_bytes_sec",
        absent=0,
        change=LIVE,
        low=0,
        high=_MOST,
    )
    total_iops_sec = Integer(
        "total_iops_sec",
        "At most so many operations a second, reading and writing. V(0) is no limit.",
        default=None,
        xml="iotune/total_iops_sec",
        absent=0,
        change=LIVE,
        low=0,
        high=_MOST,
    )
    read_iops_sec = Integer(
        "read_iops_sec",
        "At most so many operations a second, reading. V(0) is no limit.",
        default=None,
        xml="iotune/read_iops_sec",
        absent=0,
        change=LIVE,
        low=0,
        high=_MOST,
    )
    write_iops_sec = Integer(
        "write_iops_sec",
        "At most so many operations a second, writing. V(0) is no limit.",
        default=None,
        xml="iotune/write_iops_sec",
        absent=0,
        change=LIVE,
        low=0,
        high=_MOST,
    )


class Nic:
    """Further settings of a NIC."""

    mode = Choice(
        "mode",
        "How those on the interface of O(type) V(direct) reach each other; V(vepa), through the"
        " switch, if left out. V(bridge) is directly, V(private) not at all, V(passthrough) gives"
        " the interface to this NIC alone. The hypervisor itself is reached by none of them.",
        default=None,
        xml="source/@mode",
        absent="vepa",
        change=AT_BOOT,
        choices=("vepa", "bridge", "private", "passthrough"),
    )
    virtualport = Choice(
        "virtualport",
        "What the O(bridge) is, if no Linux bridge. It has to be there (C(ovs-vsctl add-br)).",
        default=None,
        xml="virtualport/@type",
        change=AT_BOOT,
        choices=("openvswitch",),
    )
    mtu = Integer(
        "mtu",
        "Largest packet, in bytes, which the guest is told as well if O(model) is V(virtio).",
        default=None,
        xml="mtu/@size",
        change=AT_BOOT,
        low=68,
        high=65535,
    )
    queues = Integer(
        "queues",
        "Queues by which the guest's CPUs reach it beside each other. Only for O(model) V(virtio).",
        default=None,
        xml="driver/@queues",
        change=AT_BOOT,
        low=1,
        high=256,
    )
    inbound_average = Integer(
        "inbound_average",
        "Bandwidth to the guest, in KiB a second.",
        default=None,
        xml="bandwidth/inbound/@average",
        change=LIVE,
        low=1,
        high=_MOST_KIB,
    )
    inbound_peak = Integer(
        "inbound_peak",
        "Most for a moment to the guest, in KiB a second.",
        default=None,
        xml="bandwidth/inbound/@peak",
        change=LIVE,
        low=1,
        high=_MOST_KIB,
    )
    inbound_burst = Integer(
        "inbound_burst",
        "What may go at that speed to the guest, in KiB.",
        default=None,
        xml="bandwidth/inbound/@burst",
        change=LIVE,
        low=1,
        high=_MOST_KIB,
    )
    outbound_average = Integer(
        "outbound_average",
        "Bandwidth from the guest, in KiB a second.",
        default=None,
        xml="bandwidth/outbound/@average",
        change=LIVE,
        low=1,
        high=_MOST_KIB,
    )
    outbound_peak = Integer(
        "outbound_peak",
        "Most for a moment from the guest, in KiB a second.",
        default=None,
        xml="bandwidth/outbound/@peak",
        change=LIVE,
        low=1,
        high=_MOST_KIB,
    )
    outbound_burst = Integer(
        "outbound_burst",
        "What may go at that speed from the guest, in KiB.",
        default=None,
        xml="bandwidth/outbound/@burst",
        change=LIVE,
        low=1,
        high=_MOST_KIB,
    )
    filter = Text(
        "filter",
        "Filter of libvirt for what the guest sends and gets, such as V(clean-traffic), as C(virsh"
        " nwfilter-list) lists them.",
        default=None,
        xml="filterref/@filter",
        change=AT_BOOT,
        pattern=r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}",
        rule="a filter is named with letters, digits and '_.-'",
    )
    isolated = Boolean(
        "isolated",
        "Keep it from others of the bridge that are isolated as well.",
        default=False,
        xml="port/@isolated",
        change=AT_BOOT,
        words=("yes", "no"),
    )


class Cpu:
    """Further settings of the CPU."""

    require = Words(
        "require",
        "Features that the CPU must have beside those of its model, such as V(pcid). Where the"
        " hypervisor lacks one the VM does not start.",
        xml=composites.policy("require", "require"),
        change=AT_BOOT,
        pattern=_FEATURE,
        rule=_FEATURE_RULE,
    )
    disable = Words(
        "disable",
        "Features of the model that the guest does not see, such as V(svm).",
        xml=composites.policy("disable", "disable"),
        change=AT_BOOT,
        pattern=_FEATURE,
        rule=_FEATURE_RULE,
    )
    sockets = Integer(
        "sockets",
        "Sockets that the guest sees. With O(dies), O(cores) and O(threads), each 1 if left out, as"
        " many as it can have vCPUs.",
        default=None,
        xml="topology/@sockets",
        change=AT_BOOT,
        low=1,
        high=4096,
    )
    dies = Integer(
        "dies",
        "Dies of each socket.",
        default=None,
        xml="topology/@dies",
        change=AT_BOOT,
        low=1,
        high=4096,
    )
    cores = Integer(
        "cores",
        "Cores of each die.",
        default=None,
        xml="topology/@cores",
        change=AT_BOOT,
        low=1,
        high=4096,
    )
    threads = Integer(
        "threads",
        "Threads of each core.",
        default=None,
        xml="topology/@threads",
        change=AT_BOOT,
        low=1,
        high=4096,
    )
