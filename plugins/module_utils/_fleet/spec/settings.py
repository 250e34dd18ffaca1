# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings of a VM, one row each, in the order of the documentation."""

from __future__ import annotations

from ..base import machine_types as machines
from ..base.names import playbook_command
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
from ..base.systems import OS
from ..seed.settings import SEEDS
from . import composites, cpusets
from .fragment import XML
from .settings_devices import (
    CONSOLES,
    CPUS,
    DISKS,
    LABEL,
    LABEL_RULE,
    MADE_ONCE,
    NICS,
)
from .settings_machine import (
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
from .settings_peripherals import (
    CHANNELS,
    FILESYSTEMS,
    HOSTDEVS,
    PANICS,
    SERIALS,
    SOUNDS,
    TPMS,
    VIDEOS,
    WATCHDOGS,
)

_MAX_VCPUS = 4096  # the most that qemu has for any machine type
_MIN_MEMORY = 16  # MiB; a smaller number was meant as GiB: no kernel boots in it
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
    "Host CPUs that the vCPUs may run on, such as V(0-3,^2); any CPU if omitted.",
    default=None,
    xml="vcpu/@cpuset",
    same=cpusets.same,
    change=AT_BOOT,
    pattern=cpusets.PATTERN,
    rule=cpusets.RULE,
)
VCPUS_MAX = Integer(
    "vcpus_max",
    "Maximum number of virtual CPUs that the VM can be given while it runs; defaults to O(vcpus).",
    default=None,
    xml=composites.VCPUS_MAX,
    low=1,
    high=_MAX_VCPUS,
    change=AT_BOOT,
)
MEMORY = Size(
    "memory",
    "Memory of the VM.",
    default=1024,
    xml=composites.MEMORY,
    low=_MIN_MEMORY,
    high=_MAX_MEMORY,
    change=LIVE,
)
MEMORY_MAX = Size(
    "memory_max",
    "Maximum memory that the VM can be given while it runs; defaults to O(memory).",
    default=None,
    xml=composites.MEMORY_MAX,
    low=_MIN_MEMORY,
    high=_MAX_MEMORY,
    change=AT_BOOT,
)
IMAGE = Value(
    "image",
    "Image that the first disk is created from. A file name in C(virt_image_dir) on the"
    " controller, an absolute path on the hypervisor, a volume as C(pool/volume), or an https URL"
    " with its checksum as C(https://host/file.qcow2#sha256:...), which the hypervisor downloads."
    " The format is detected from the content.",
    default=None,
    change=never(MADE_ONCE),
)
DISK_PROFILE = Text(
    "disk_profile",
    "Name of a profile in C(virt_disk_profiles). Predefined are V(default), one disk C(system) of"
    " 8192 MiB, qcow2, virtio, and V(none), no disks.",
    default="default",
    pattern=LABEL,
    rule=LABEL_RULE,
)
NIC_PROFILE = Text(
    "nic_profile",
    "Profile in C(virt_nic_profiles), or V(default), a virtio NIC C(eth0) on C(br0), or V(none).",
    default="default",
    pattern=LABEL,
    rule=LABEL_RULE,
)
OVERLAY = Boolean(
    "overlay",
    "Create the disk as a copy-on-write overlay on the immutable base image, not as a full copy.",
    default=True,
    change=never(MADE_ONCE),
)
START = Boolean(
    "start",
    "Start the VM once it is complete. Where V(true) is written, an existing VM that is shut off or"
    " has saved memory is started too, unless its hypervisor is in maintenance. What is paused"
    " stays paused, and V(false) stops nothing.",
    default=True,
)
AUTOSTART = Boolean(
    "autostart", "Start the VM when its hypervisor boots.", default=False, change=LIVE
)
GROUPS = Words(
    "groups", "Inventory groups of the VM.", pattern=_GROUP, rule=_GROUP_RULE, change=LIVE
)
ANTI_AFFINITY = Words(
    "anti_affinity",
    "Groups whose VMs must not run on the same hypervisor.",
    pattern=_GROUP,
    rule=_GROUP_RULE,
    change=LIVE,
)
ZONE = Text(
    "zone", "Zone of the hypervisor.", default=None, pattern=_TAG, rule=_TAG_RULE, change=LIVE
)
TAGS = Words("tags", "Tags the hypervisor must have.", pattern=_TAG, rule=_TAG_RULE, change=LIVE)
HOST = Text(
    "host",
    "Hypervisor that the VM must be on, by its inventory name.",
    default=None,
    pattern=r"[A-Za-z0-9_][^\s/,;]{0,252}",
    rule="write the host's name as in the inventory",
    change=never(f"an existing VM is moved with {playbook_command('migrate_vm', vm_name='NAME')}"),
)
PLACES = (HOST, ZONE, TAGS, ANTI_AFFINITY)
PLACEMENT = Group(
    "placement",
    "Placement rules in one mapping; the same four options are also accepted at the top level.",
    settings=PLACES,
)
FIRMWARE = Choice(
    "firmware",
    "Firmware; defaults to that of the machine type. V(uefi) is refused where libvirt finds no"
    " UEFI firmware (package C(ovmf) or C(edk2-ovmf)).",
    default=None,
    xml=composites.FIRMWARE,
    same=_as_far_as_known,
    choices=("bios", "uefi"),
    change=never(
        "an installed system boots with the firmware it was installed with; recreate the VM"
    ),
)
SECURE_BOOT = Boolean(
    "secure_boot",
    "Boot signed systems only. Needs O(firmware) V(uefi), the machine type V(q35), and firmware"
    " with Microsoft's keys. It does not prevent an unsigned O(kernel) from booting.",
    default=False,
    xml=composites.SECURE_BOOT,
    change=never(
        "an installed system boots with the firmware it was installed with; recreate the VM"
    ),
)
KERNEL = Text(
    "kernel",
    "Kernel to boot directly, instead of what the firmware finds; an absolute path on the"
    " hypervisor.",
    default=None,
    xml="os/kernel",
    change=AT_BOOT,
    pattern=_PATH,
    rule=_PATH_RULE,
)
INITRD = Text(
    "initrd",
    "Initial RAM disk of O(kernel), an absolute path on the hypervisor.",
    default=None,
    xml="os/initrd",
    change=AT_BOOT,
    pattern=_PATH,
    rule=_PATH_RULE,
)
CMDLINE = Text(
    "cmdline", "Command line of O(kernel).", default=None, xml="os/cmdline", change=AT_BOOT
)
BOOT_MENU = Boolean(
    "boot_menu",
    "Whether the firmware shows a boot menu at startup.",
    default=False,
    xml="os/bootmenu/@enable",
    change=AT_BOOT,
    words=("yes", "no"),
)
MACHINE = Text(
    "machine",
    "Machine type. If omitted, or for a family such as V(q35), the newest versioned type of QEMU.",
    default=None,
    xml="os/type/@machine",
    same=lambda asked, real: not asked or machines.is_of(str(real), asked),
    pattern=_TAG,
    rule="for example q35 or pc-q35-7.2",
    change=AT_BOOT,
)
ARCH = Text(
    "arch",
    "Architecture, such as V(aarch64); defaults to the hypervisor's own.",
    default=None,
    xml="os/type/@arch",
    pattern=r"[a-z0-9_]{1,32}",
    rule="for example x86_64 or aarch64",
    change=never("the architecture of a VM is fixed; recreate the VM"),
)
DOMAIN_TYPE = Choice(
    "domain_type",
    "Domain type, hardware-assisted (V(kvm)) or emulated (V(qemu)). Defaults to the best"
    " available.",
    default=None,
    xml="@type",
    choices=("kvm", "qemu"),
    change=never("the domain type of a VM is fixed; recreate the VM, or use virsh edit"),
)
BOOT = Words(
    "boot",
    "Names of disks and NICs in the order the firmware tries them. Defaults to the first disk,"
    " then the drives.",
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
    "Give the guest a memory balloon, with which it returns memory to the host while it runs.",
    default=True,
    xml=composites.BALLOON,
    change=AT_BOOT,
)
ON_POWEROFF = Choice(
    "on_poweroff",
    "What happens to the VM when the guest powers off. V(restart) needs O(on_reboot) V(restart).",
    default="destroy",
    xml="on_poweroff",
    absent="destroy",
    change=AT_BOOT,
    choices=("destroy", "restart"),
)
ON_REBOOT = Choice(
    "on_reboot",
    "What happens to the VM when the guest reboots. V(destroy) is for installers, after which the"
    " VM has to be started again from the disk.",
    default="restart",
    xml="on_reboot",
    absent="restart",
    change=AT_BOOT,
    choices=("restart", "destroy"),
)
ON_CRASH = Choice(
    "on_crash",
    "What happens to the VM when the guest crashes and O(panic) reports it. The two values with"
    " V(coredump) first dump its memory below C(/var/lib/libvirt/qemu/dump).",
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
    "Whether C(fleet.virt.provision_vm) waits until the VM responds; ignored by this module.",
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
