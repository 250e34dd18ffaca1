# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hypervisor as a guest: Debian 13 with libvirt and, unlike the laboratory's, its own kernel.

For what this machine's kernel may lack, such as bridges that filter VLANs. The rest is the full
guest's.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from . import images_debian
from .images_disk import Disk

__all__ = ["GUEST_FILES", "OPTIONS", "PACKAGES", "SUITE", "VARIANT", "prepare"]

SUITE = "trixie"
PACKAGES = (
    *images_debian.PACKAGES,
    *("libvirt-clients", "libvirt-daemon-system", "python3-libvirt", "python3-lxml"),
    *("qemu-system-x86", "qemu-utils", "xorriso"),
)
VARIANT = images_debian.VARIANT
GUEST_FILES = images_debian.GUEST_FILES
OPTIONS = images_debian.OPTIONS


def prepare(source: Path, work: Path) -> Disk:
    """As the full guest's, with room for what a hypervisor has."""
    return dataclasses.replace(images_debian.prepare(source, work), size_mib=4096)
