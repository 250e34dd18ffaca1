# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What guests wrote to their serial consoles, where libvirt logs it."""

from __future__ import annotations

import os
import stat
import typing as t

TAIL = 256 * 1024  # bytes of a console that are looked at


def first_log(paths: t.Iterable[str]) -> tuple[str, str]:
    """The first of these logs that is a non-empty file of this machine, and its end.

    Both are empty if there is none.
    """
    for path in paths:
        text = _tail(path)
        if text:
            return path, text
    return "", ""


def lines_since(path: str, offset: int) -> tuple[str, int]:
    """The complete lines of the log from ``offset`` on, and where they end.

    A log that has become shorter is read from its start, of more than ``TAIL`` bytes only the end.
    """
    content, start = _read(path, offset)
    complete = content[: content.rfind(b"\n") + 1]
    return complete.decode("utf-8", "replace"), start + len(complete)


def _tail(path: str) -> str:
    return _read(path, 0)[0].decode("utf-8", "replace")


def _read(path: str, offset: int) -> tuple[bytes, int]:
    """The log from ``offset`` on, and the offset at which reading began."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b"", 0
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return b"", 0
        begin = offset if 0 <= offset <= status.st_size else 0
        begin = max(begin, status.st_size - TAIL)
        file.seek(begin)
        return file.read(TAIL), begin
