# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings of a VM's machine, one row each: memory backing, NUMA, pinning, clock, features,
and start order.

A place in XML is one below the group's element.
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
    specification,
)
from . import composites_machine as composites
from . import cpusets

_MIB = 1 << 26  # 64 TiB
_TICKS = ("delay", "catchup", "merge", "discard")
_STATE = ("on", "off")
_BY_HAND = never("these parts of the machine are fixed; use virsh edit, or recreate the VM")


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


@specification
class MemoryBacking:
    """How the VM's memory is backed."""

    hugepages = _there(
        "hugepages",
        "Back the memory with huge pages, of the hypervisor's default size if O(page_size) is"
        " omitted. A hypervisor without enough free huge pages is not considered.",
        "hugepages",
    )
    page_size = Size(
        "page_size",
        "Size of the huge pages, such as V(2MiB) or V(1GiB); implies O(hugepages).",
        default=None,
        xml=composites.PAGE,
        high=_MIB,
        change=AT_BOOT,
    )
    locked = _there("locked", "Lock the memory, so that none of it is swapped out.", "locked")
    nosharepages = _there(
        "nosharepages", "Prevent the hypervisor from merging identical pages (KSM).", "nosharepages"
    )
    source = Choice(
        "source",
        "Source of the memory. Defaults to libvirt's choice, and to V(memfd) with a virtiofs file"
        " system.",
        default=None,
        xml="source/@type",
        choices=("anonymous", "memfd", "file"),
        change=AT_BOOT,
    )
    access = Choice(
        "access",
        "Whether other processes may map the memory. Defaults to V(shared) with a virtiofs file"
        " system.",
        default=None,
        xml="access/@mode",
        choices=("private", "shared"),
        change=AT_BOOT,
    )
    allocation = Choice(
        "allocation",
        "When the memory is allocated.",
        default=None,
        xml="allocation/@mode",
        choices=("ondemand", "immediate"),
        change=AT_BOOT,
    )
    discard = _there("discard", "Return the memory to the hypervisor before QEMU exits.", "discard")


@specification
class Numatune:
    """Which of the hypervisor's NUMA nodes the memory is of."""

    mode = Choice(
        "mode",
        "Policy when these nodes have too little memory.",
        default="strict",
        xml="memory/@mode",
        change=AT_BOOT,
        choices=("strict", "preferred", "interleave", "restrictive"),
    )
    nodeset = _cpus("nodeset", "NUMA nodes of the hypervisor, such as V(0-1).", "memory/@nodeset")


@specification
class Cell:
    """One NUMA node of the guest."""

    cpus = _cpus("cpus", "vCPUs of the node, such as V(0-3).", "@cpus")
    memory = Size(
        "memory",
        "Memory of the node.",
        default=None,
        xml=composites.kibibytes("@memory", "memory"),
        change=AT_BOOT,
        high=_MIB,
    )


@specification
class Cputune:
    """How the VM's CPU time is bounded, and where it runs."""

    vcpupin = Words(
        "vcpupin",
        "Pinning of single vCPUs to host CPUs, each C(VCPU:CPUS), such as V(0:4) or V(1:4-7).",
        xml=composites.PINS,
        pattern=r"[0-9]{1,4}:[0-9]{1,4}(-[0-9]{1,4})?",
        rule="write the vCPU, a colon, and a CPU or a range, for example '0:4-7'",
        change=AT_BOOT,
    )
    emulatorpin = _cpus(
        "emulatorpin", "Host CPUs for QEMU's other threads, such as V(0-1).", "emulatorpin/@cpuset"
    )
    shares = Integer(
        "shares",
        "Weight of the VM when CPU time is scarce; other VMs have 1024 or, with cgroups v2, 100.",
        default=None,
        xml="shares",
        low=2,
        high=262144,
        change=AT_BOOT,
    )
    period = Integer(
        "period",
        "Length of the period, in microseconds, in which each vCPU may run for O(quota).",
        default=None,
        xml="period",
        low=1000,
        high=1000000,
        change=AT_BOOT,
    )
    quota = Integer(
        "quota",
        "Time, in microseconds, that each vCPU may run in every O(period).",
        default=None,
        xml="quota",
        low=1000,
        high=1000000000,
        change=AT_BOOT,
    )


@specification
class Memtune:
    """How the memory that QEMU takes is bounded."""

    hard_limit = Size(
        "hard_limit",
        "Maximum memory of the QEMU process. It is killed if it needs more, so leave headroom"
        " above the guest's memory.",
        default=None,
        xml=composites.kibibytes("hard_limit", "hard_limit"),
        high=_MIB,
        change=AT_BOOT,
    )
    soft_limit = Size(
        "soft_limit",
        "Memory that the QEMU process is limited to when the hypervisor is short of memory.",
        default=None,
        xml=composites.kibibytes("soft_limit", "soft_limit"),
        high=_MIB,
        change=AT_BOOT,
    )


@specification
class ClockSettings:
    """The guest's clock and its timers."""

    offset = Choice(
        "offset",
        "Time that the hardware clock shows. V(localtime) is the hypervisor's local time, as"
        " Windows expects; V(timezone) needs O(timezone). Defaults to V(utc).",
        default=None,
        xml="@offset",
        choices=("utc", "localtime", "timezone"),
        change=AT_BOOT,
    )
    timezone = Text(
        "timezone",
        "Time zone of the hardware clock, such as V(Europe/Berlin); implies O(offset) V(timezone).",
        default=None,
        xml="@timezone",
        pattern=r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+){0,2}",
        rule="write a name as below /usr/share/zoneinfo, for example Europe/Berlin",
        change=AT_BOOT,
    )
    rtc = Choice(
        "rtc",
        "What happens to late ticks of the real-time clock. A KVM guest defaults to V(catchup).",
        default=None,
        xml=composites.timer("rtc", "tickpolicy", "rtc"),
        choices=_TICKS,
        change=AT_BOOT,
    )
    pit = Choice(
        "pit",
        "What happens to late ticks of the interval timer (PIT). A KVM guest defaults to V(delay).",
        default=None,
        xml=composites.timer("pit", "tickpolicy", "pit"),
        choices=_TICKS,
        change=AT_BOOT,
    )
    hpet = Boolean(
        "hpet",
        "Whether there is a high precision event timer (HPET). A KVM guest has none by default.",
        default=None,
        xml=composites.timer("hpet", "present", "hpet"),
        change=AT_BOOT,
    )
    kvmclock = Boolean(
        "kvmclock",
        "Whether the guest has KVM's clock.",
        default=None,
        xml=composites.timer("kvmclock", "present", "kvmclock"),
        change=AT_BOOT,
    )
    hypervclock = Boolean(
        "hypervclock",
        "Whether the guest has Hyper-V's clock, which Windows uses.",
        default=None,
        xml=composites.timer("hypervclock", "present", "hypervclock"),
        change=AT_BOOT,
    )


@specification
class Features:
    """Optional features of the machine."""

    pae = _there("pae", "Let 32-bit guests use more than 4 GiB of memory.", "pae")
    kvm_hidden = _state(
        "kvm_hidden", "Hide from the guest that it runs on KVM.", "kvm/hidden/@state"
    )
    kvm_hint_dedicated = _state(
        "kvm_hint_dedicated",
        "Tell the guest that its vCPUs have dedicated CPUs (pin them).",
        "kvm/hint-dedicated/@state",
    )
    pmu = _state("pmu", "Performance counters of the CPU.", "pmu/@state")
    vmport = _state("vmport", "VMware's I/O port, which mouse drivers look for.", "vmport/@state")
    smm = _state("smm", "System management mode.", "smm/@state")


def _enlightenment(name: str, description: str) -> Boolean[None]:
    return _state(name, description, f"{name}/@state")


@specification
class Hyperv:
    """What tells Windows that it is a guest, so that it runs well."""

    relaxed = _enlightenment(
        "relaxed", "Relaxed timing, with which watchdogs of the guest wait longer."
    )
    vapic = _enlightenment("vapic", "A virtual interrupt controller.")
    spinlocks = Integer(
        "spinlocks",
        "How often a spinlock is retried before the vCPU yields.",
        default=None,
        xml=composites.switched("spinlocks", "retries", "spinlocks", whole_number=True),
        change=AT_BOOT,
        low=4095,
        high=0xFFFFFFFF,
    )
    vpindex = _enlightenment("vpindex", "Index of virtual processors.")
    runtime = _enlightenment("runtime", "Run time of processors.")
    synic = _enlightenment("synic", "A synthetic interrupt controller; needs O(vpindex).")
    stimer = _enlightenment("stimer", "Synthetic timers; need O(synic) and Hyper-V's clock.")
    reset = _enlightenment("reset", "Hyper-V's way of resetting.")
    frequencies = _enlightenment("frequencies", "Clock frequencies.")
    reenlightenment = _enlightenment(
        "reenlightenment", "Notification of changed frequencies after migration."
    )
    tlbflush = _enlightenment("tlbflush", "TLB flushes by the hypervisor.")
    ipi = _enlightenment("ipi", "Inter-processor interrupts by the hypervisor.")
    vendor_id = Text(
        "vendor_id",
        "Hypervisor vendor that the guest sees instead of KVM, at most 12 characters.",
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
    "How the VM's memory is backed.",
    settings=rows(MemoryBacking),
    xml="memoryBacking",
    change=_BY_HAND,
)
NUMATUNES = Group(
    "numatune",
    "NUMA nodes of the hypervisor that the memory is allocated on.",
    settings=rows(Numatune),
    xml="numatune",
    change=_BY_HAND,
)
NUMAS = Group(
    "numa",
    "NUMA nodes of the guest. Its vCPUs and memory are divided among them.",
    settings=rows(Cell),
    xml="cpu/numa/cell",
    change=_BY_HAND,
    of="list",
)
CPUTUNES = Group(
    "cputune",
    "CPU time of the VM, and pinning of its threads.",
    settings=rows(Cputune),
    xml="cputune",
    change=_BY_HAND,
)
MEMTUNES = Group(
    "memtune", "Limits on QEMU's memory.", settings=rows(Memtune), xml="memtune", change=_BY_HAND
)
CLOCKS = Group(
    "clock",
    "Clock and timers.",
    settings=rows(ClockSettings),
    xml="clock",
    change=_BY_HAND,
)
FEATURES = Group(
    "features",
    "Optional features of the machine.",
    settings=rows(Features),
    xml="features",
    change=_BY_HAND,
)
HYPERVS = Group(
    "hyperv",
    "Hyper-V enlightenments, with which Windows runs better. An empty mapping enables"
    " O(hyperv.relaxed), O(hyperv.vapic), O(hyperv.spinlocks) 8191, O(hyperv.vpindex),"
    " O(hyperv.runtime), O(hyperv.synic) and O(hyperv.stimer), with Hyper-V's clock. For KVM"
    " guests.",
    settings=rows(Hyperv),
    xml="features/hyperv",
    change=_BY_HAND,
)
START_ORDER = Integer(
    "start_order",
    "Position in the order in which VMs start, in one run of C(fleet.virt.state) and when their"
    " hypervisor boots. The lowest number starts first, equal numbers together, VMs without a"
    " number last. C(fleet.virt.state) shuts them down in reverse order.",
    default=None,
    low=0,
    high=MAX_ORDER,
    change=LIVE,
)
START_DELAY = Integer(
    "start_delay",
    "Seconds to wait after starting this VM before the next ones in the order are started.",
    default=None,
    low=0,
    high=MAX_DELAY,
    change=LIVE,
)
