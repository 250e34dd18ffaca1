# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The TCP sockets of this machine, as the kernel lists them (proc(5))."""

from __future__ import annotations

import contextlib
import sys
import typing as t
from pathlib import Path

from .listeners import TcpSocket, sockets

_TABLES = ("tcp", "tcp6")


def read(names: t.Iterable[str] = _TABLES) -> t.Iterator[TcpSocket]:
    """Every TCP socket in these tables, by default IPv4 and IPv6."""
    for name in names:
        with contextlib.suppress(FileNotFoundError):  # a kernel without IPv6
            table = Path(f"/proc/net/{name}").read_text(encoding="ascii")
            yield from sockets(table, sys.byteorder)
