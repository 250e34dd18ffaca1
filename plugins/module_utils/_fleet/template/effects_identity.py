# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Removing a guest's identity from a copy of its disks before it becomes a base image."""

from __future__ import annotations

from ..base import effects_deadline as deadline
from ..seed import effects_guest_disk as guest_disk
from ..seed import guest_files

_SECONDS = 900.0  # half a minute without KVM; the first time the appliance is built as well


def available() -> bool:
    """Whether the hypervisor has the programs for it."""
    return guest_disk.available()


def reset(disks: guest_disk.Disks) -> None:
    """Remove the identity of the system on these disks; raises PlanRefused without a system."""

    def work() -> None:
        with guest_disk.opened(disks) as guest:
            guest.write(guest_files.anonymous(guest.look))

    deadline.call(work, seconds=_SECONDS, what="reset the identity in the copy")
