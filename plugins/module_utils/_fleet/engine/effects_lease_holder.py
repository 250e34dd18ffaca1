# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which process is working on a domain, and the lock that saves retries.

A process is identified by the host's boot ID, its PID and its start time, so that neither a reboot
nor a reused PID makes a dead owner look alive. No wall clocks are compared.
"""

from __future__ import annotations

import contextlib
import os

from ..base import effects_locks as locks
from ..base import read_processes as processes
from ..base.metadata import Owner
from .leases import Holder


def boot_id() -> str:
    """The ID of the current boot, which current owners belong to."""
    return processes.boot_id()


def myself(run: str) -> Owner:
    """This process, working for ``run``."""
    return of(os.getpid(), run)


def of(pid: int, run: str = "") -> Owner:
    """The owner for a live process of this host."""
    return Owner(boot_id(), pid, processes.start_time(pid) or 0, run)


def reserved(run: str) -> Owner:
    """No process: a claim that waits for the next step of ``run``."""
    return Owner(boot_id(), 0, 0, run)


def is_alive(owner: Owner | None) -> bool:
    """Whether the owner's process still exists on this host."""
    return owner is not None and processes.is_same(owner.boot_id, owner.pid, owner.start_time)


def holder(owner: Owner | None) -> Holder | None:
    """The owner's process if it is alive, as users are told of it."""
    if owner is None or not is_alive(owner):
        return None
    try:
        name = processes.read(owner.pid).name
    except OSError:  # it has just ended
        return None
    return Holder(owner.pid, name, processes.started_at(owner.start_time))


def host_lock(seconds: float = 60.0, name: str = "host") -> contextlib.AbstractContextManager[int]:
    """Hold a lock that one of our processes on this host has at a time.

    It is released when its holder ends (flock(2)).
    Hold it for definitions and reading only, never during a storage call that may hang; other
    work uses other names. Raises PlanRefused if it is not acquired within ``seconds``.
    """
    return locks.shared(name, seconds, "held {path}")
