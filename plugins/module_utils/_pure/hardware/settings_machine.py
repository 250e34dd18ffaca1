# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings of a VM's machine, one row each: memory's backing, NUMA, pinning, clock, features;
and when it is started.

A place in XML is one below the group's element.

This file is private to the collection.
"""

from __future__ import annotations

from ..base.metadata import MAX_DELAY, MAX_ORDER
from ..base.settings import (
    AT_BOOT,
    LIVE,
    Boolean,
    Choice,
    Group,
    Integer,
    Size,
    Text,
    Words,
    never,
    rows,
)
from . import composites, cpusets

_MIB = 1 << 26  # 64 TiB
_TICKS = ("delay", "catchup", "merge", "discard")
_STATE = ("on", "off")
_BY_HAND = never("a VM keeps these parts of its machine; use virsh edit, or make it anew")


def _cpus(name: str, description: str, xml: str) -> Text[None]:
    return Text(
        name,
        description,
        default=None,
        xml=xml,
        same=cpusets.same,
        pattern=cpusets.PATTERN,
        rule=cpusets.RULE,
        change=AT_BOOT,
    )


def _state(name: str, description: str, xml: str) -> Boolean[None]:
    return Boolean(
        name, description, default=None, xml=xml, absent=None, change=AT_BOOT, words=_STATE
    )


def _there(name: str, description: str, xml: str) -> Boolean[None]:
    return Boolean(name, description, default=None, xml=xml, change=AT_BOOT)


class MemoryBacking:
    """What the VM's memory is made of."""

    hugepages = _there(
        "hugepages",
        "Take it from huge pages, of the hypervisor's default size if O(page_size) is left out. A"
        " hypervisor that has not reserved enough of them, or has given them away, is left out.",
        "hugepages",
    )
    page_size = Size(
        "page_size",
        "Size of the huge pages, such as V(2MiB) or V(1GiB); means O(hugepages).",
        default=None,
        xml=composites.PAGE,
        high=_MIB,
        change=AT_BOOT,
    )
    locked = _there("locked", "Keep all of it in memory; nothing of it is swapped out.", "locked")
    nosharepages = _there(
        "nosharepages", "Keep the hypervisor from merging equal pages (KSM).", "nosharepages"
    )
    source = Choice(
        "source",
        "Kind of memory. Left out, libvirt's choice, and V(memfd) with a file system by virtiofs.",
        default=None,
        xml="source/@type",
        choices=("anonymous", "memfd", "file"),
        change=AT_BOOT,
    )
    access = Choice(
        "access",
        "Whether other processes may map it. Left out, V(shared) with a file system by virtiofs.",
        default=None,
        xml="access/@mode",
        choices=("private", "shared"),
        change=AT_BOOT,
    )
    allocation = Choice(
        "allocation",
        "When it is taken from the hypervisor.",
        default=None,
        xml="allocation/@mode",
        choices=("ondemand", "immediate"),
        change=AT_BOOT,
    )
    discard = _there("discard", "Give it back to the hypervisor before QEMU ends.", "discard")


class Numatune:
    """Which of the hypervisor's NUMA nodes the memory is of."""

    mode = Choice(
        "mode",
        "What holds where they have not enough.",
        default="strict",
        xml="memory/@mode",
        change=AT_BOOT,
        choices=("strict", "preferred", "interleave", "restrictive"),
    )
    nodeset = _cpus("nodeset", "Nodes, such as V(0-1).", "memory/@nodeset")


class Cell:
    """One NUMA node of the guest."""

    cpus = _cpus("cpus", "Its vCPUs, such as V(0-3).", "@cpus")
    memory = Size(
        "memory",
        "Its memory.",
        default=None,
        xml=composites.kibibytes("@memory", "memory"),
        change=AT_BOOT,
        high=_MIB,
    )


class Cputune:
    """How the VM's CPU time is bounded, and where it runs."""

    vcpupin = Words(
        "vcpupin",
        "CPUs of single vCPUs, each C(VCPU:CPUS), such as V(0:4) or V(1:4-7).",
        xml=composites.PINS,
        pattern=r"[0-9]{1,4}:[0-9]{1,4}(-[0-9]{1,4})?",
        rule="write the vCPU, a colon, and a CPU or a range, for example '0:4-7'",
        change=AT_BOOT,
    )
    emulatorpin = _cpus(
        "emulatorpin", "CPUs of QEMU's other threads, such as V(0-1).", "emulatorpin/@cpuset"
    )
    shares = Integer(
        "shares",
        "Weight of the VM where CPU time is short; others have 1024 or, with cgroups 2, 100.",
        default=None,
        xml="shares",
        low=2,
        high=262144,
        change=AT_BOOT,
    )
    period = Integer(
        "period",
        "Microseconds in which each vCPU may run for O(quota).",
        default=None,
        xml="period",
        low=1000,
        high=1000000,
        change=AT_BOOT,
    )
    quota = Integer(
        "quota",
        "Microseconds that each vCPU may run in every O(period).",
        default=None,
        xml="quota",
        low=1000,
        high=1000000000,
        change=AT_BOOT,
    )


class Memtune:
    """How the memory that QEMU takes is bounded."""

    hard_limit = Size(
        "hard_limit",
        "Most that QEMU may take in all. What needs more is killed, so leave room beside the"
        " guest's memory.",
        default=None,
        xml=composites.kibibytes("hard_limit", "hard_limit"),
        high=_MIB,
        change=AT_BOOT,
    )
    soft_limit = Size(
        "soft_limit",
        "What it is held to where the hypervisor's memory is short.",
        default=None,
        xml=composites.kibibytes("soft_limit", "soft_limit"),
        high=_MIB,
        change=AT_BOOT,
    )


class Clock:
    """The guest's clock and its timers."""

    offset = Choice(
        "offset",
        "What its hardware clock shows. V(localtime) is the hypervisor's time, as Windows wants it;"
        " V(timezone) needs O(timezone). V(utc) if left out.",
        default=None,
        xml="@offset",
        choices=("utc", "localtime", "timezone"),
        change=AT_BOOT,
    )
    timezone = Text(
        "timezone",
        "Time zone of the hardware clock, such as V(Europe/Berlin); means O(offset) V(timezone).",
        default=None,
        xml="@timezone",
        pattern=r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+){0,2}",
        rule="a time zone is named as below /usr/share/zoneinfo, for example Europe/Berlin",
        change=AT_BOOT,
    )
    rtc = Choice(
        "rtc",
        "What becomes of ticks of the real time clock that come late. For a KVM guest V(catchup).",
        default=None,
        xml=composites.timer("rtc", "tickpolicy", "rtc"),
        choices=_TICKS,
        change=AT_BOOT,
    )
    pit = Choice(
        "pit",
        "What becomes of ticks of the interval timer that come late. For a KVM guest V(delay).",
        default=None,
        xml=composites.timer("pit", "tickpolicy", "pit"),
        choices=_TICKS,
        change=AT_BOOT,
    )
    hpet = Boolean(
        "hpet",
        "Whether there is a high precision event timer. A KVM guest has none unless this is true.",
        default=None,
        xml=composites.timer("hpet", "present", "hpet"),
        change=AT_BOOT,
    )
    kvmclock = Boolean(
        "kvmclock",
        "Whether there is KVM's clock.",
        default=None,
        xml=composites.timer("kvmclock", "present", "kvmclock"),
        change=AT_BOOT,
    )
    hypervclock = Boolean(
        "hypervclock",
        "Whether there is Hyper-V's clock, which Windows uses.",
        default=None,
        xml=composites.timer("hypervclock", "present", "hypervclock"),
        change=AT_BOOT,
    )


class Features:
    """What the machine has beyond its type."""

    pae = _there("pae", "Let 32-bit guests use more than 4 GiB of memory.", "pae")
    kvm_hidden = _state(
        "kvm_hidden", "Hide from the guest that it runs on KVM.", "kvm/hidden/@state"
    )
    kvm_hint_dedicated = _state(
        "kvm_hint_dedicated",
        "Tell the guest that its vCPUs have CPUs for themselves (pin them).",
        "kvm/hint-dedicated/@state",
    )
    pmu = _state("pmu", "Performance counters of the CPU.", "pmu/@state")
    vmport = _state("vmport", "VMware's port, which mouse drivers look for.", "vmport/@state")
    smm = _state("smm", "System management mode.", "smm/@state")


def _enlightenment(name: str, description: str) -> Boolean[None]:
    return _state(name, description, f"{name}/@state")


class Hyperv:
    """What tells Windows that it is a guest, so that it runs well."""

    relaxed = _enlightenment("relaxed", "Watchdogs of the guest wait longer.")
    vapic = _enlightenment("vapic", "A virtual interrupt controller.")
    spinlocks = Integer(
        "spinlocks",
        "How often a lock is tried before the vCPU gives way.",
        default=None,
        xml=composites.switched("spinlocks", "retries", "spinlocks", whole_number=True),
        change=AT_BOOT,
        low=4095,
        high=0xFFFFFFFF,
    )
    vpindex = _enlightenment("vpindex", "Numbers of virtual processors.")
    runtime = _enlightenment("runtime", "Time that processors ran.")
    synic = _enlightenment("synic", "A synthetic interrupt controller; needs O(vpindex).")
    stimer = _enlightenment("stimer", "Synthetic timers; need O(synic) and Hyper-V's clock.")
    reset = _enlightenment("reset", "Reset by Hyper-V's way.")
    frequencies = _enlightenment("frequencies", "Frequencies of clocks.")
    reenlightenment = _enlightenment("reenlightenment", "Told of changed frequencies after moves.")
    tlbflush = _enlightenment("tlbflush", "Address caches emptied by the hypervisor.")
    ipi = _enlightenment("ipi", "Interrupts between processors by the hypervisor.")
    vendor_id = Text(
        "vendor_id",
        "Vendor that the guest sees instead of KVM's, at most 12 characters.",
        default=None,
        xml=composites.switched("vendor_id", "value", "vendor_id"),
        change=AT_BOOT,
        pattern=r"[^,\"]{1,12}",
        rule="at most 12 characters, neither comma nor quotes",
    )


RECOMMENDED = {
    "relaxed": True,
    "vapic": True,
    "spinlocks": 8191,
    "vpindex": True,
    "runtime": True,
    "synic": True,
    "stimer": True,
}
MEMORY_BACKINGS = Group(
    "memory_backing",
    "What the VM's memory is made of.",
    settings=rows(MemoryBacking),
    xml="memoryBacking",
    change=_BY_HAND,
)
NUMATUNES = Group(
    "numatune",
    "Nodes of the hypervisor that the memory is of.",
    settings=rows(Numatune),
    xml="numatune",
    change=_BY_HAND,
)
NUMAS = Group(
    "numa",
    "NUMA nodes of the guest. They share its vCPUs and its memory out between them.",
    settings=rows(Cell),
    xml="cpu/numa/cell",
    change=_BY_HAND,
    of="list",
)
CPUTUNES = Group(
    "cputune",
    "CPU time of the VM, and where its threads run.",
    settings=rows(Cputune),
    xml="cputune",
    change=_BY_HAND,
)
MEMTUNES = Group(
    "memtune", "Bounds of what QEMU takes.", settings=rows(Memtune), xml="memtune", change=_BY_HAND
)
CLOCKS = Group(
    "clock",
    "Clock and timers.",
    settings=rows(Clock),
    xml="clock",
    change=_BY_HAND,
)
FEATURES = Group(
    "features",
    "What the machine has beyond its type.",
    settings=rows(Features),
    xml="features",
    change=_BY_HAND,
)
HYPERVS = Group(
    "hyperv",
    "What Windows runs better with. An empty mapping is O(hyperv.relaxed), O(hyperv.vapic),"
    " O(hyperv.spinlocks) 8191, O(hyperv.vpindex), O(hyperv.runtime), O(hyperv.synic) and"
    " O(hyperv.stimer), with Hyper-V's clock. For KVM guests.",
    settings=rows(Hyperv),
    xml="features/hyperv",
    change=_BY_HAND,
)
START_ORDER = Integer(
    "start_order",
    "Place among the VMs that C(fleet.virt.state) starts in one run, the lowest number first, those"
    " of one number at the same time, those without any last. It shuts them down the other way"
    " round.",
    default=None,
    low=0,
    high=MAX_ORDER,
    change=LIVE,
)
START_DELAY = Integer(
    "start_delay",
    "Seconds that C(fleet.virt.state) waits after it has started this VM before it starts those"
    " that come after it.",
    default=None,
    low=0,
    high=MAX_DELAY,
    change=LIVE,
)
