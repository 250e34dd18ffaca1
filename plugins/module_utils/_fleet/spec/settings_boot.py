# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings of what a VM boots, one row each."""

from __future__ import annotations

from ..base.settings import AT_BOOT, Boolean, Choice, Text, never
from . import composites

_PATH, _PATH_RULE = r"/[^\0]{1,1023}", "write an absolute path on the hypervisor"


def _as_far_as_known(asked: str | None, real: object) -> bool:
    return not asked or real in (None, asked)


class Boot:
    """Firmware and kernel."""

    firmware = Choice(
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
    secure_boot = Boolean(
        "secure_boot",
        "Boot signed systems only. Needs O(firmware) V(uefi), the machine type V(q35), and"
        " firmware with Microsoft's keys. It does not prevent an unsigned O(kernel) from booting.",
        default=False,
        xml=composites.SECURE_BOOT,
        change=never(
            "an installed system boots with the firmware it was installed with; recreate the VM"
        ),
    )
    boot_menu = Boolean(
        "boot_menu",
        "Whether the firmware shows a boot menu at startup.",
        default=False,
        xml="os/bootmenu/@enable",
        change=AT_BOOT,
        words=("yes", "no"),
    )
    kernel = Text(
        "kernel",
        "Kernel to boot directly, instead of what the firmware finds; an absolute path on the"
        " hypervisor.",
        default=None,
        xml="os/kernel",
        change=AT_BOOT,
        pattern=_PATH,
        rule=_PATH_RULE,
    )
    initrd = Text(
        "initrd",
        "Initial RAM disk of O(kernel), an absolute path on the hypervisor.",
        default=None,
        xml="os/initrd",
        change=AT_BOOT,
        pattern=_PATH,
        rule=_PATH_RULE,
    )
    cmdline = Text(
        "cmdline", "Command line of O(kernel).", default=None, xml="os/cmdline", change=AT_BOOT
    )
