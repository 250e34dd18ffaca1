# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading what rolling work has to know of a hypervisor."""

from __future__ import annotations

import contextlib
import glob
import os
import time
import typing as t

from ..._libvirt import CONNECT_LIST_DOMAINS_ACTIVE
from ..base import effects_programs as programs
from ..base.effects_connection import Connection
from ..hosts import rolling_marks
from ..hosts.read_host import MAINTENANCE_VOLUME, version
from ..hosts.rolling_marks import BEGUN
from ..notes.read import now
from ..storage.read_shared_pools import volumes_of_notes
from .reboot import RebootFacts, reason, restarting

if t.TYPE_CHECKING:
    from .facts import RollingAnswer, Versions

_REQUIRED = "/run/reboot-required"
_PACKAGES = "/run/reboot-required.pkgs"
_KERNELS = "/boot/vmlinuz-"
_CHECKING = 120.0  # seconds; it reads the whole database of packages


def look(connection: Connection) -> RollingAnswer:
    """The result of ``virt_rolling``."""
    return {
        "changed": False,
        "running": running(connection),
        "reboot": reason(_reboot_facts()) if connection.local else None,
        "versions": versions(connection),
        "marks": volumes(connection),
        "at": now(),
    }


def running(connection: Connection) -> list[str]:
    """The domains that are active, transient ones too."""
    listed = connection.call(
        "list the domains", connection.conn.listAllDomains, CONNECT_LIST_DOMAINS_ACTIVE
    )
    return sorted(str(domain.name()) for domain in listed)


def versions(connection: Connection) -> Versions:
    """What runs there now."""
    conn = connection.conn
    return {
        "libvirt": version(connection.call("read the version", conn.getLibVersion)),
        "hypervisor": version(connection.call("read the version", conn.getVersion)),
        "kernel": os.uname().release,
    }


def volumes(connection: Connection) -> list[str]:
    """The names of the marks, also where the pool of notes does not run."""
    names = volumes_of_notes(connection)
    return sorted(name for name in names if rolling_marks.parse(name) is not None)


def is_held(connection: Connection, digest: str) -> bool:
    """Whether it is still in maintenance for work with these tasks, so that nothing comes to it."""
    there = volumes_of_notes(connection)
    marks = (rolling_marks.parse(name) for name in there)
    begun = any(mark is not None and (mark.state, mark.digest) == (BEGUN, digest) for mark in marks)
    return begun and MAINTENANCE_VOLUME in there


def _reboot_facts() -> RebootFacts:
    packages: list[str] = []
    with contextlib.suppress(OSError), open(_PACKAGES, encoding="utf-8", errors="replace") as file:
        packages = file.read().split()
    kernels = {}
    for path in glob.glob(f"{glob.escape(_KERNELS)}*"):
        with contextlib.suppress(OSError):  # removed meanwhile
            kernels[path[len(_KERNELS) :]] = os.stat(path).st_ctime
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return RebootFacts(
        required=os.path.exists(_REQUIRED),
        packages=packages,
        kernels=kernels,
        running=os.uname().release,
        booted=booted,
        restarting=_restarting(),
    )


def _restarting() -> bool | None:
    """What the program of RPM-based distributions says, which has no such file."""
    if programs.find("needs-restarting") is None:
        return None
    done = programs.attempt(["needs-restarting", "-r"], seconds=_CHECKING)
    return done is not None and restarting(done.status, done.out)
