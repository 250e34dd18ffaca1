# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which TCP ports programs of this machine listen on.

This file is private to the collection.
"""

from __future__ import annotations

import os
import typing as t

LIBVIRT = ("libvirtd", "virtproxyd", "virtqemud")
_LISTEN = "0A"  # TCP_LISTEN in /proc/net/tcp


def ports(programs: t.Container[str]) -> list[int]:
    """TCP ports on which a process of one of these names listens, on any address."""
    found = _table()
    return sorted({found[inode] for inode in _sockets(programs) if inode in found})


def is_open(port: int) -> bool:
    """Whether any program listens on this TCP port, including systemd for a daemon."""
    return port in _table().values()


def parse(table: str) -> dict[str, int]:
    """Ports by the socket's inode for the listening rows of /proc/net/tcp or tcp6."""
    found = {}
    for line in table.splitlines()[1:]:
        words = line.split()
        if len(words) > 9 and words[3] == _LISTEN:
            found[words[9]] = int(words[1].rpartition(":")[2], 16)
    return found


def _table() -> dict[str, int]:
    found: dict[str, int] = {}
    for name in ("tcp", "tcp6"):
        try:
            with open(f"/proc/net/{name}", encoding="ascii") as file:
                found.update(parse(file.read()))
        except FileNotFoundError:
            continue  # no IPv6 here
    return found


def _sockets(programs: t.Container[str]) -> t.Iterator[str]:
    for pid in os.listdir("/proc"):
        if not pid.isdigit():
            continue
        try:
            with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
                name = file.read().strip()
            if name not in programs:
                continue
            for descriptor in os.listdir(f"/proc/{pid}/fd"):
                target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
                if target.startswith("socket:["):
                    yield target[len("socket:[") : -1]
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
