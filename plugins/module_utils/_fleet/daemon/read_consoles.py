# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The domains on this machine with remotely reachable screens, even if libvirt is not running."""

from __future__ import annotations

from pathlib import Path

from ..._errors import FleetVirtError
from . import consoles as daemon_consoles

# Definitions, and the state of running domains
_FOLDERS = ("/etc/libvirt/qemu", "/run/libvirt/qemu")


def open_screens() -> dict[str, list[str]]:
    """The addresses that each domain's screens listen on, by name; changes nothing."""
    addresses: dict[str, list[str]] = {}
    for folder in _FOLDERS:
        for path in sorted(Path(folder).glob("*.xml")):
            try:
                text = path.read_text(encoding="utf-8", errors="surrogateescape")
                where = daemon_consoles.open_screens(text, str(path))
            except (FleetVirtError, OSError):
                continue  # the domain was just removed, or libvirt could not read it either
            if where:
                addresses[path.stem] = where
    return addresses
