# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading which machine this is: what libvirt may have its UUID of it from."""

from __future__ import annotations

from pathlib import Path

from ..base import effects_config_files as config_files
from .identity import Identity

# As libvirt looks for it (virSetHostUUIDStr): the first that can be read counts, valid or not
_FIRMWARE = ("/sys/devices/virtual/dmi/id/product_uuid", "/sys/class/dmi/id/product_uuid")
_MACHINE_ID = "/etc/machine-id"
_MOUNTS = "/proc/self/mountinfo"
_UUID_LENGTH = 36


def read(path: str, *, root: str = "") -> Identity:
    """What decides libvirt's UUID of this machine; ``path`` is its daemon's file."""
    firmware = next((text for name in _FIRMWARE if (text := _text(root + name)) is not None), None)
    return Identity(
        firmware[:_UUID_LENGTH] if firmware else None,
        _text(root + _MACHINE_ID),
        _is_mount(_text(root + _MOUNTS) or ""),
        path,
        config_files.read(root + path) or "",
    )


def _text(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return None


def _is_mount(mounts: str) -> bool:
    """Whether the machine ID is systemd's own for this boot, which it mounts over the file."""
    return any(line.split()[4:5] == [_MACHINE_ID] for line in mounts.splitlines())
