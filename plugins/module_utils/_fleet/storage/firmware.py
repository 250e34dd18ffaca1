# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which files of a hypervisor a definition that nobody has looked at may name: what distributions
install for every VM."""

from __future__ import annotations

import re

# Not all of /usr/share: libvirt's daemon, which is root, reads templates
_FIRMWARE = re.compile(
    r"/usr/share/(AAVMF|OVMF|ovmf|qemu|seabios|(edk2|qemu-efi)[\w.-]*)(/[\w+-][\w.+-]*)+", re.ASCII
)
# The C library opens the file of a zone, and any file where its name is a path
ZONE = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+){0,2}")


def is_firmware(path: str | None) -> bool:
    """Whether the file is firmware of a distribution."""
    return path is not None and _FIRMWARE.fullmatch(path) is not None
