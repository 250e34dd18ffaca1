# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which TCP ports programs of this machine listen on."""

from __future__ import annotations

import os
import typing as t

from . import listeners
from . import read_tcp_table as tcp_table

LIBVIRT = ("libvirtd", "virtproxyd", "virtqemud")
_ROOT = 0


def ports(programs: t.Container[str]) -> list[int]:
    """TCP ports on which a process of root with one of these names listens, on any address.

    Other users can name their processes as they like.
    """
    listening = _listening()
    return sorted({listening[inode] for inode in _sockets(programs) if inode in listening})


def is_open(port: int) -> bool:
    """Whether any program listens on this TCP port, including systemd for a daemon."""
    return port in _listening().values()


def _listening() -> dict[int, int]:
    rows = listeners.listening(tcp_table.read())
    return {inode: port for inode, (_address, port) in rows.items()}


def _sockets(programs: t.Container[str]) -> t.Iterator[int]:
    for pid in os.listdir("/proc"):
        if not pid.isdigit():
            continue
        try:
            with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
                name = file.read().strip()
            if name not in programs or os.stat(f"/proc/{pid}").st_uid != _ROOT:
                continue
            for descriptor in os.listdir(f"/proc/{pid}/fd"):
                target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
                if target.startswith("socket:["):
                    yield int(target[len("socket:[") : -1])
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
