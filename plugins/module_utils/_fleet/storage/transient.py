# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Transient disks (``<transient/>``): libvirt throws away what was written when the VM stops.

While the VM runs, the disk is an overlay that libvirt made. It runs no block job on it, so nothing
is copied or flattened, and it migrates no VM that has one.
"""

from __future__ import annotations

import shlex


def refusal(what: str, vm: str) -> str:
    """Why such a disk is neither copied nor moved, with the remedy."""
    return (
        f"{what} is transient, and libvirt neither copies nor moves such a disk; remove"
        f" <transient/> from it (virsh edit {shlex.quote(vm)}), and if the VM runs, shut it down"
        " and start it, which ends what was written to that disk since its start"
    )
