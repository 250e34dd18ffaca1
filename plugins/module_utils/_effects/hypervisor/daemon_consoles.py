# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The domains of this machine whose screens others can reach, also while libvirt does not run.

This file is private to the collection.
"""

from __future__ import annotations

from pathlib import Path

from ..._errors import FleetVirtError
from ..._pure.hypervisor import daemon_consoles

# Definitions, and the state of those that run
_FOLDERS = ("/etc/libvirt/qemu", "/run/libvirt/qemu")


def open_screens() -> dict[str, list[str]]:
    """By the name of a domain where its screens listen; changes nothing."""
    found: dict[str, list[str]] = {}
    for folder in _FOLDERS:
        for path in sorted(Path(folder).glob("*.xml")):
            try:
                text = path.read_text(encoding="utf-8", errors="surrogateescape")
                where = daemon_consoles.open_screens(text, str(path))
            except (FleetVirtError, OSError):
                continue  # of a domain that has just gone, or none that libvirt could read
            if where:
                found[path.stem] = where
    return found
