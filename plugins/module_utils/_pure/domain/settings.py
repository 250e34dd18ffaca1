# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings of a VM, one row each, in the order of the documentation.

This file is private to the collection.
"""

from __future__ import annotations

from ..base import machines
from ..base.settings import (
    AT_BOOT,
    LIVE,
    Boolean,
    Choice,
    Group,
    Integer,
    Size,
    Table,
    Text,
    Value,
    Words,
    never,
)
from ..hardware import cpusets
from ..hardware.fragment import XML
from ..hardware.settings_machine import (
    CLOCKS,
    CPUTUNES,
    FEATURES,
    HYPERVS,
    MEMORY_BACKINGS,
    MEMTUNES,
    NUMAS,
    NUMATUNES,
    START_DELAY,
    START_ORDER,
)
from ..hardware.settings_peripherals import (
    CHANNELS,
    FILESYSTEMS,
    HOSTDEVS,
    PANICS,
    SERIALS,
    SOUNDS,
    VIDEOS,
)
from ..hardware.systems import OS
from ..seed.settings import SEEDS
from . import composites
from .settings_devices import (
    CONSOLES,
    CPUS,
    DISKS,
    LABEL,
    LABEL_RULE,
    MADE_ONCE,
    NICS,
    TPMS,
    WATCHDOGS,
)

_MAX_VCPUS = 4096  # the most that qemu has for any machine type
_MIN_MEMORY = 16  # MiB; what is below was meant to be GiB: no kernel boots in it
_MAX_MEMORY = 64 * 1024 * 1024  # 64 TiB, what 46 address bits reach
_TAG = r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}"
_TAG_RULE = "1 to 64 letters, digits or '_.:-', the first a letter or digit"
_PATH, _PATH_RULE = r"/[^\0]{1,1023}", "write an absolute path on the hypervisor"
_GROUP = r"(?!(?:all|ungrouped)$)[A-Za-z_][A-Za-z0-9_]{0,63}"
_GROUP_RULE = (
    "a group is an Ansible group: letters, digits and '_', not starting with a digit, "
    "not all or ungrouped, for example web_servers"
)


def _as_far_as_known(asked: str | None, real: object) -> bool:
    return not asked or real in (None, asked)


NAME = Value("name", "Name of the VM, and its host name unless O(seed) has another.", default=None)
VCPUS = Integer(
    "vcpus",
    "Number of virtual CPUs.",
    default=1,
    xml=composites.VCPUS,
    low=1,
    high=_MAX_VCPUS,
    change=LIVE,
)
CPUSET = Text(
    "cpuset",
    "CPUs of the hypervisor that its vCPUs run on, such as V(0-3,^2); any if left out.",
    default=None,
    xml="vcpu/@cpuset",
    same=cpusets.same,
    change=AT_BOOT,
    pattern=cpusets.PATTERN,
    rule=cpusets.RULE,
)
VCPUS_MAX = Integer(
    "vcpus_max",
    "Virtual CPUs it can be given while it runs; as O(vcpus) if left out.",
    default=None,
    xml=composites.VCPUS_MAX,
    low=1,
    high=_MAX_VCPUS,
    change=AT_BOOT,
)
MEMORY = Size(
    "memory",
    "Memory.",
    default=1024,
    xml=composites.MEMORY,
    low=_MIN_MEMORY,
    high=_MAX_MEMORY,
    change=LIVE,
)
MEMORY_MAX = Size(
    "memory_max",
    "Memory it can be given while it runs; as O(memory) if left out.",
    default=None,
    xml=composites.MEMORY_MAX,
    low=_MIN_MEMORY,
    high=_MAX_MEMORY,
    change=AT_BOOT,
)
IMAGE = Value(
    "image",
    "What its first disk is made from. A file name in C(virt_image_dir) on the controller, an"
    " absolute path on the hypervisor, a volume as C(pool/volume), or an https URL with its"
    " checksum as C(https://host/file.qcow2#sha256:...), which the hypervisor downloads. The format"
    " is found out from the content.",
    default=None,
    change=never(MADE_ONCE),
)
DISK_PROFILE = Text(
    "disk_profile",
    "Name of a profile in C(virt_disk_profiles). Without any, V(default) is one disk C(system) of"
    " 8192 MiB, qcow2, virtio; V(none) has no disks.",
    default="default",
    pattern=LABEL,
    rule=LABEL_RULE,
)
NIC_PROFILE = Text(
    "nic_profile",
    "Name of a profile in C(virt_nic_profiles). Without any, V(default) is one virtio NIC C(eth0)"
    " on the bridge C(br0); V(none) has no NICs.",
    default="default",
    pattern=LABEL,
    rule=LABEL_RULE,
)
OVERLAY = Boolean(
    "overlay",
    "Make the disk copy-on-write over the immutable base image, instead of a full copy.",
    default=True,
    change=never(MADE_ONCE),
)
START = Boolean("start", "Start the VM once it is complete.", default=True)
AUTOSTART = Boolean("autostart", "Start the VM with its hypervisor.", default=False, change=LIVE)
GROUPS = Words(
    "groups", "Inventory groups of the VM.", pattern=_GROUP, rule=_GROUP_RULE, change=LIVE
)
ANTI_AFFINITY = Words(
    "anti_affinity",
    "Groups none of whose VMs may be on the same hypervisor.",
    pattern=_GROUP,
    rule=_GROUP_RULE,
    change=LIVE,
)
ZONE = Text(
    "zone",
    "Zone the hypervisor must be in.",
    default=None,
    pattern=_TAG,
    rule=_TAG_RULE,
    change=LIVE,
)
TAGS = Words("tags", "Tags the hypervisor must have.", pattern=_TAG, rule=_TAG_RULE, change=LIVE)
HOST = Text(
    "host",
    "Hypervisor it must be on, by its name in the inventory.",
    default=None,
    pattern=r"[A-Za-z0-9_][^\s/,;]{0,252}",
    rule="a host is named as in the inventory",
    change=never("a VM that exists is moved by fleet.virt.migrate_vm"),
)
PLACES = (HOST, ZONE, TAGS, ANTI_AFFINITY)
PLACEMENT = Group(
    "placement",
    "Where the VM may be, in one mapping; the same four options are taken beside it.",
    settings=PLACES,
)
FIRMWARE = Choice(
    "firmware",
    "Firmware; that of the machine type if left out. V(uefi) is refused where libvirt finds no such"
    " firmware (package C(ovmf) or C(edk2-ovmf)).",
    default=None,
    xml=composites.FIRMWARE,
    same=_as_far_as_known,
    choices=("bios", "uefi"),
    change=never(
        "what is installed boots with the firmware that it was installed with; make it anew"
    ),
)
SECURE_BOOT = Boolean(
    "secure_boot",
    "Boot signed systems only. Needs O(firmware) V(uefi), the machine type V(q35), and a firmware"
    " that has Microsoft's keys. It does not hold a O(kernel) back that nobody signed.",
    default=False,
    xml=composites.SECURE_BOOT,
    change=never(
        "what is installed boots with the firmware that it was installed with; make it anew"
    ),
)
KERNEL = Text(
    "kernel",
    "Kernel that is started instead of what the firmware finds, an absolute path on the"
    " hypervisor.",
    default=None,
    xml="os/kernel",
    change=AT_BOOT,
    pattern=_PATH,
    rule=_PATH_RULE,
)
INITRD = Text(
    "initrd",
    "Its initial file system, an absolute path on the hypervisor.",
    default=None,
    xml="os/initrd",
    change=AT_BOOT,
    pattern=_PATH,
    rule=_PATH_RULE,
)
CMDLINE = Text(
    "cmdline",
    "Its command line.",
    default=None,
    xml="os/cmdline",
    change=AT_BOOT,
)
BOOT_MENU = Boolean(
    "boot_menu",
    "Whether the firmware asks at its start what to boot.",
    default=False,
    xml="os/bootmenu/@enable",
    change=AT_BOOT,
    words=("yes", "no"),
)
MACHINE = Text(
    "machine",
    "Machine type. Left out, or for a family such as V(q35), the newest versioned type that qemu"
    " has.",
    default=None,
    xml="os/type/@machine",
    same=lambda asked, real: not asked or machines.is_of(str(real), asked),
    pattern=_TAG,
    rule="for example q35 or pc-q35-7.2",
    change=AT_BOOT,
)
ARCH = Text(
    "arch",
    "Architecture, such as V(aarch64); the hypervisor's own if left out.",
    default=None,
    xml="os/type/@arch",
    pattern=r"[a-z0-9_]{1,32}",
    rule="for example x86_64 or aarch64",
    change=never("another architecture is another VM; make it anew"),
)
DOMAIN_TYPE = Choice(
    "domain_type",
    "What runs it. Left out, the best the hypervisor has.",
    default=None,
    xml="@type",
    choices=("kvm", "qemu"),
    change=never("a VM is defined for what runs it; make it anew, or use virsh edit"),
)
BOOT = Words(
    "boot",
    "Names of disks and NICs in the order the firmware tries them. Left out, the first disk, then"
    " the drives.",
    pattern=r".+",
    rule="name a disk or NIC of this VM",
    change=AT_BOOT,
)
RNG = Boolean(
    "rng",
    "Give the guest a random number generator.",
    default=True,
    xml=composites.RNG,
    change=AT_BOOT,
)
BALLOON = Boolean(
    "balloon",
    "Give the guest a memory balloon, by which it gives memory back while it runs.",
    default=True,
    xml=composites.BALLOON,
    change=AT_BOOT,
)
ON_POWEROFF = Choice(
    "on_poweroff",
    "What becomes of the VM when the guest powers off. V(restart) needs O(on_reboot) V(restart).",
    default="destroy",
    xml="on_poweroff",
    absent="destroy",
    change=AT_BOOT,
    choices=("destroy", "restart"),
)
ON_REBOOT = Choice(
    "on_reboot",
    "What becomes of it when the guest reboots. V(destroy) is for installers that have to be"
    " started anew from the disk.",
    default="restart",
    xml="on_reboot",
    absent="restart",
    change=AT_BOOT,
    choices=("restart", "destroy"),
)
ON_CRASH = Choice(
    "on_crash",
    "What becomes of it when the guest crashes, as far as O(panic) tells. The two with V(coredump)"
    " write its memory below C(/var/lib/libvirt/qemu/dump) first.",
    default="destroy",
    xml="on_crash",
    absent="destroy",
    change=AT_BOOT,
    choices=("destroy", "restart", "preserve", "coredump-destroy", "coredump-restart"),
)
TITLE = Text(
    "title",
    "Title of the VM, one line of at most 256 characters.",
    default=None,
    xml="title",
    pattern=r".{1,256}",
    rule="one line of at most 256 characters",
    change=LIVE,
)
DESCRIPTION = Value(
    "description",
    "Description of the VM.",
    default=None,
    xml="description",
    change=LIVE,
)
WAIT = Boolean(
    "wait",
    "Whether C(fleet.virt.provision_vm) waits until the VM answers; not looked at here.",
    default=True,
)

VM: Table = (
    NAME,
    OS,
    VCPUS,
    CPUSET,
    VCPUS_MAX,
    MEMORY,
    MEMORY_MAX,
    MEMORY_BACKINGS,
    NUMAS,
    NUMATUNES,
    CPUTUNES,
    MEMTUNES,
    IMAGE,
    DISK_PROFILE,
    NIC_PROFILE,
    DISKS,
    NICS,
    OVERLAY,
    START,
    AUTOSTART,
    START_ORDER,
    START_DELAY,
    CONSOLES,
    SEEDS,
    GROUPS,
    ANTI_AFFINITY,
    ZONE,
    TAGS,
    HOST,
    PLACEMENT,
    FIRMWARE,
    SECURE_BOOT,
    BOOT_MENU,
    KERNEL,
    INITRD,
    CMDLINE,
    CPUS,
    MACHINE,
    ARCH,
    DOMAIN_TYPE,
    BOOT,
    CLOCKS,
    FEATURES,
    HYPERVS,
    ON_POWEROFF,
    ON_REBOOT,
    ON_CRASH,
    WATCHDOGS,
    TPMS,
    RNG,
    BALLOON,
    PANICS,
    VIDEOS,
    SOUNDS,
    SERIALS,
    CHANNELS,
    FILESYSTEMS,
    HOSTDEVS,
    TITLE,
    DESCRIPTION,
    XML,
    WAIT,
)
