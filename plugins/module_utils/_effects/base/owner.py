# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who is at work on a domain, and the lock that saves retries.

A process is known by the host's boot, its number and the moment it started, so that neither a
reboot nor a number that came round again makes a dead owner look alive. No clock is compared.

This file is private to the collection.
"""

from __future__ import annotations

import contextlib
import os

from ..._pure.base.metadata import Owner
from . import locks, processes


def boot_id() -> str:
    """The boot that owners of now belong to."""
    return processes.boot_id()


def myself(run: str) -> Owner:
    """This process, working for ``run``."""
    return of(os.getpid(), run)


def of(pid: int, run: str = "") -> Owner:
    """A process of this host that is alive."""
    return Owner(boot_id(), pid, processes.start_time(pid) or 0, run)


def reserved(run: str) -> Owner:
    """No process: a claim that waits for the next step of ``run``."""
    return Owner(boot_id(), 0, 0, run)


def is_alive(owner: Owner | None) -> bool:
    """Whether that process still exists on this host."""
    if owner is None or owner.pid <= 0 or owner.boot_id != boot_id():
        return False
    return processes.start_time(owner.pid) == owner.start_time


def host_lock(seconds: float = 60.0, name: str = "host") -> contextlib.AbstractContextManager[int]:
    """Only one of our processes at a time on this host (flock(2); gone with its holder).

    To be held for definitions and reading only, never over a storage call that may hang; for
    other work there are other names. Raises PlanRefused when it is not had within ``seconds``.
    """
    return locks.shared(name, seconds, "held {path}")
