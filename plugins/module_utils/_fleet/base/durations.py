# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many seconds a task may take on one hypervisor before its playbook gives up on it.

A working hypervisor enforces its own limits, which end the task earlier and report why. These are
for a hypervisor that does not respond at all.
"""

from __future__ import annotations

import math
import typing as t

_STEP = 900  # allowed for one VM, not counting its data
_PER_GIB = 600  # 1.7 MiB/s
_GIB = 1024**3
_JOINED_GIB = 4  # an earlier run's move may be joined first; it counts as a move of this size
_WITH_PAUSE = 2  # with on_timeout=pause a move gets its time again, with the guest paused


def transfer(size: int) -> int:
    """For copying ``size`` bytes to a hypervisor."""
    return _STEP + _gib(size) * _PER_GIB


def creation(sizes: t.Iterable[int]) -> int:
    """For creating VMs whose disks have these sizes in bytes."""
    return sum(_STEP + _gib(size) * _PER_GIB for size in sizes)


def moves(sizes: t.Iterable[int], seconds_per_gib: float, parallel: int) -> int:
    """For moving VMs whose memory and disks have these sizes in bytes, ``parallel`` at a time."""
    each = [
        _STEP + math.ceil(seconds_per_gib * (_WITH_PAUSE * max(2, _gib(size)) + _JOINED_GIB))
        for size in sizes
    ]
    # whatever their order, the last one starts before the others would have finished
    return max(each, default=0) + math.ceil(sum(each) / max(1, parallel))


def _gib(size: int) -> int:
    return -(-size // _GIB)
