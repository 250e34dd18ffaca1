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
from .settings_boot import Boot
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
    IOMMUS,
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
_GROUP = r"(?!(?:all|ungrouped)(?:$|:))[A-Za-z_][A-Za-z0-9_]{0,63}"
_GROUP_RULE = (
    "a group is an Ansible group: letters, digits and '_', not starting with a digit, "
    "not all or ungrouped, for example web_servers"
)


class Rows(Boot):
    """The settings of a VM that its specification has as they were read."""

    os = OS
    vcpus = Integer(
        "vcpus",
        "Number of virtual CPUs.",
        default=1,
        xml=composites.VCPUS,
        low=1,
        high=_MAX_VCPUS,
        change=LIVE,
    )
    cpuset = Text(
        "cpuset",
        "Host CPUs that the vCPUs may run on, such as V(0-3,^2); any CPU if omitted.",
        default=None,
        xml="vcpu/@cpuset",
        same=cpusets.same,
        change=AT_BOOT,
        pattern=cpusets.PATTERN,
        rule=cpusets.RULE,
    )
    vcpus_max = Integer(
        "vcpus_max",
        "Maximum number of virtual CPUs that the VM can be given while it runs; defaults to"
        " O(vcpus).",
        default=None,
        xml=composites.VCPUS_MAX,
        low=1,
        high=_MAX_VCPUS,
        change=AT_BOOT,
    )
    memory = Size(
        "memory",
        "Memory of the VM.",
        default=1024,
        xml=composites.MEMORY,
        low=_MIN_MEMORY,
        high=_MAX_MEMORY,
        change=LIVE,
    )
    memory_max = Size(
        "memory_max",
        "Maximum memory that the VM can be given while it runs; defaults to O(memory).",
        default=None,
        xml=composites.MEMORY_MAX,
        low=_MIN_MEMORY,
        high=_MAX_MEMORY,
        change=AT_BOOT,
    )
    disk_profile = Text(
        "disk_profile",
        "Name of a profile in C(virt_disk_profiles). Predefined are V(default), one disk C(system)"
        " of 8192 MiB, qcow2, virtio, and V(none), no disks.",
        default="default",
        pattern=LABEL,
        rule=LABEL_RULE,
    )
    nic_profile = Text(
        "nic_profile",
        "Profile in C(virt_nic_profiles), or V(default), a virtio NIC C(eth0) on C(br0), or"
        " V(none).",
        default="default",
        pattern=LABEL,
        rule=LABEL_RULE,
    )
    start = Boolean(
        "start",
        "Start the VM once it is complete. Where V(true) is written, an existing VM that is shut"
        " off or has saved memory is started too, unless its hypervisor is in maintenance. What is"
        " paused stays paused, and V(false) stops nothing.",
        default=True,
    )
    autostart = Boolean(
        "autostart", "Start the VM when its hypervisor boots.", default=False, change=LIVE
    )
    ha = Boolean(
        "ha",
        "Have the cell of its hypervisor restart the VM when that hypervisor fails; see the role"
        " C(fleet.virt.ha). All its disks, with their base images, have to be on storage that the"
        " cell shares; it has no UEFI variables, no TPM, no device or folder of its hypervisor and"
        " no snapshots. The cell decides where it starts, so O(autostart) is V(false).",
        default=False,
        change=LIVE,
    )
    groups = Words(
        "groups", "Inventory groups of the VM.", pattern=_GROUP, rule=_GROUP_RULE, change=LIVE
    )
    machine = Text(
        "machine",
        "Machine type. If omitted, or for a family such as V(q35), the newest versioned type of"
        " QEMU.",
        default=None,
        xml="os/type/@machine",
        same=lambda asked, real: not asked or machines.is_of(str(real), asked),
        pattern=_TAG,
        rule="for example q35 or pc-q35-7.2",
        change=AT_BOOT,
    )
    arch = Text(
        "arch",
        "Architecture, such as V(aarch64); defaults to the hypervisor's own.",
        default=None,
        xml="os/type/@arch",
        pattern=r"[a-z0-9_]{1,32}",
        rule="for example x86_64 or aarch64",
        change=never("the architecture of a VM is fixed; recreate the VM"),
    )
    domain_type = Choice(
        "domain_type",
        "Domain type, hardware-assisted (V(kvm)) or emulated (V(qemu)). Defaults to the best"
        " available.",
        default=None,
        xml="@type",
        choices=("kvm", "qemu"),
        change=never("the domain type of a VM is fixed; recreate the VM, or use virsh edit"),
    )
    rng = Boolean(
        "rng",
        "Give the guest a random number generator.",
        default=True,
        xml=composites.RNG,
        change=AT_BOOT,
    )
    balloon = Boolean(
        "balloon",
        "Give the guest a memory balloon, with which it returns memory to the host while it runs.",
        default=True,
        xml=composites.BALLOON,
        change=AT_BOOT,
    )
    on_poweroff = Choice(
        "on_poweroff",
        "What happens to the VM when the guest powers off. V(restart) needs O(on_reboot)"
        " V(restart).",
        default="destroy",
        xml="on_poweroff",
        absent="destroy",
        change=AT_BOOT,
        choices=("destroy", "restart"),
    )
    on_reboot = Choice(
        "on_reboot",
        "What happens to the VM when the guest reboots. V(destroy) is for installers, after which"
        " the VM has to be started again from the disk.",
        default="restart",
        xml="on_reboot",
        absent="restart",
        change=AT_BOOT,
        choices=("restart", "destroy"),
    )
    on_crash = Choice(
        "on_crash",
        "What happens to the VM when the guest crashes and O(panic) reports it. The two values"
        " with V(coredump) first dump its memory below C(/var/lib/libvirt/qemu/dump).",
        default="destroy",
        xml="on_crash",
        absent="destroy",
        change=AT_BOOT,
        choices=("destroy", "restart", "preserve", "coredump-destroy", "coredump-restart"),
    )
    title = Text(
        "title",
        "Title of the VM, one line of at most 256 characters.",
        default=None,
        xml="title",
        pattern=r".{1,256}",
        rule="one line of at most 256 characters",
        change=LIVE,
    )
    wait = Boolean(
        "wait",
        "Whether C(fleet.virt.provision_vm) waits until the VM responds; ignored by this module.",
        default=True,
    )
    start_order = START_ORDER
    start_delay = START_DELAY
    xml = XML


NAME = Value("name", "Name of the VM, and its host name unless O(seed) has another.", default=None)
IMAGE = Value(
    "image",
    "Image that the first disk is created from. A file name in C(virt_image_dir) on the"
    " controller, a name of the catalogue as V(debian12), an absolute path on the hypervisor, a"
    " volume as C(pool/volume), or an https URL with its checksum as"
    " C(https://host/file.qcow2#sha256:...), which the hypervisor downloads."
    " The format is detected from the content.",
    default=None,
    change=never(MADE_ONCE),
)
OVERLAY = Boolean(
    "overlay",
    "Create the disk as a copy-on-write overlay on the immutable base image, not as a full copy.",
    default=True,
    change=never(MADE_ONCE),
)
ANTI_AFFINITY = Words(
    "anti_affinity",
    "Groups whose VMs must not run on the same hypervisor; with C(:soft) after its name, as in"
    " V(web:soft), they may where no other hypervisor can take the VM.",
    pattern=rf"{_GROUP}(?::soft)?",
    rule=f"{_GROUP_RULE}, or web_servers:soft",
    change=LIVE,
)
AFFINITY = Words(
    "affinity",
    "Groups of which a VM must be on the VM's hypervisor when it is created or moved; with C(:soft)"
    " after its name, as in V(db:soft), it may be on another where none of those can take the VM."
    " A group of which no VM is on a hypervisor in service binds nothing. A VM of that group moves"
    " away all the same.",
    pattern=rf"{_GROUP}(?::soft)?",
    rule=f"{_GROUP_RULE}, or databases:soft",
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
PLACES = (HOST, ZONE, TAGS, AFFINITY, ANTI_AFFINITY)
PLACEMENT = Group(
    "placement",
    "Placement rules in one mapping; the same five options are also accepted at the top level.",
    settings=PLACES,
)
BOOT = Words(
    "boot",
    "Names of disks and NICs in the order the firmware tries them. Defaults to the first disk,"
    " then the drives.",
    pattern=r".+",
    rule="name a disk or NIC of this VM",
    change=AT_BOOT,
)
DESCRIPTION = Value(
    "description",
    "Description of the VM.",
    default=None,
    xml="description",
    change=LIVE,
)

VM: Table = (
    NAME,
    Rows.os,
    Rows.vcpus,
    Rows.cpuset,
    Rows.vcpus_max,
    Rows.memory,
    Rows.memory_max,
    MEMORY_BACKINGS,
    NUMAS,
    NUMATUNES,
    CPUTUNES,
    MEMTUNES,
    IMAGE,
    Rows.disk_profile,
    Rows.nic_profile,
    DISKS,
    NICS,
    OVERLAY,
    Rows.start,
    Rows.autostart,
    Rows.ha,
    Rows.start_order,
    Rows.start_delay,
    CONSOLES,
    SEEDS,
    Rows.groups,
    AFFINITY,
    ANTI_AFFINITY,
    ZONE,
    TAGS,
    HOST,
    PLACEMENT,
    Rows.firmware,
    Rows.secure_boot,
    Rows.boot_menu,
    Rows.kernel,
    Rows.initrd,
    Rows.cmdline,
    CPUS,
    Rows.machine,
    Rows.arch,
    Rows.domain_type,
    BOOT,
    CLOCKS,
    FEATURES,
    HYPERVS,
    Rows.on_poweroff,
    Rows.on_reboot,
    Rows.on_crash,
    WATCHDOGS,
    TPMS,
    Rows.rng,
    Rows.balloon,
    IOMMUS,
    PANICS,
    VIDEOS,
    SOUNDS,
    SERIALS,
    CHANNELS,
    FILESYSTEMS,
    HOSTDEVS,
    Rows.title,
    DESCRIPTION,
    XML,
    Rows.wait,
)
