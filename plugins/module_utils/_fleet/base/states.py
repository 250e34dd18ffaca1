# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""libvirt's states and their reasons, in libvirt's own terms.

Source: enum virDomainState and the virDomain*Reason enums, virStoragePoolState
(include/libvirt/libvirt-domain.h, libvirt-storage.h); the words are those ``virsh domstate
--reason`` uses, which are the constants' own.
"""

from __future__ import annotations

STATES = (
    "nostate",
    "running",
    "blocked",
    "paused",
    "shutdown",
    "shutoff",
    "crashed",
    "pmsuspended",
)
_REASONS: dict[str, tuple[str, ...]] = {
    "nostate": ("unknown",),
    "running": (
        "unknown",
        "booted",
        "migrated",
        "restored",
        "from_snapshot",
        "unpaused",
        "migration_canceled",
        "save_canceled",
        "wakeup",
        "crashed",
        "postcopy",
        "postcopy_failed",
    ),
    "blocked": ("unknown",),
    "paused": (
        "unknown",
        "user",
        "migration",
        "save",
        "dump",
        "ioerror",
        "watchdog",
        "from_snapshot",
        "shutting_down",
        "snapshot",
        "crashed",
        "starting_up",
        "postcopy",
        "postcopy_failed",
        "api_error",
    ),
    "shutdown": ("unknown", "user"),
    "shutoff": (
        "unknown",
        "shutdown",
        "destroyed",
        "crashed",
        "migrated",
        "saved",
        "failed",
        "from_snapshot",
        "daemon",
    ),
    "crashed": ("unknown", "panicked"),
    "pmsuspended": ("unknown",),
}
POOL_STATES = ("inactive", "building", "running", "degraded", "inaccessible")
ACTIVE_STATES = frozenset({"running", "blocked", "paused", "shutdown", "pmsuspended"})


def state_name(number: int) -> str:
    """``running`` for 1; ``unknown`` for a number this table does not have."""
    return STATES[number] if 0 <= number < len(STATES) else "unknown"


def reason_name(state: str, number: int) -> str:
    """``booted`` for state ``running`` and 1; ``unknown`` beyond the table."""
    reasons = _REASONS.get(state, ())
    return reasons[number] if 0 <= number < len(reasons) else "unknown"


def pool_state_name(number: int) -> str:
    """``running`` for 2; ``unknown`` beyond the table."""
    return POOL_STATES[number] if 0 <= number < len(POOL_STATES) else "unknown"
