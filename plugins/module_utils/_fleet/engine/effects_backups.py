# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The systemd unit in which a VM is backed up. A move or a snapshot of the VM ends it first.

libvirt has one job at a time for a domain, and would refuse these during a backup.
"""

from __future__ import annotations

from ..._errors import DependencyMissing
from ..base import effects_systemd as systemd

_SECONDS = 60.0


def unit_of(uuid: str) -> str:
    """The name of the unit that backs up the VM ``uuid``."""
    return f"fleet-virt-backup-{uuid}.service"


def is_at_work(uuid: str) -> bool:
    """Whether a backup of the VM is at work, or ending; false where there is no systemd."""
    try:
        shown = systemd.systemctl("show", "--property=ActiveState", unit_of(uuid), may_fail=True)
    except DependencyMissing:
        return False
    return shown.strip().partition("=")[2] in ("active", "activating", "deactivating")


def give_way(uuid: str) -> None:
    """End a backup of the VM, and its job in libvirt; there may be none."""
    if is_at_work(uuid):
        systemd.stop(unit_of(uuid), _SECONDS)
