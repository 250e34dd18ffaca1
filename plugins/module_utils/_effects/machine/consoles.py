# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What guests wrote on their serial consoles, where libvirt keeps a log of it.

This file is private to the collection.
"""

from __future__ import annotations

import os
import stat
import typing as t

TAIL = 256 * 1024  # bytes of a console that are looked at


def said(paths: t.Iterable[str]) -> tuple[str, str]:
    """The first of these logs that is a file of this machine with something in it, and its end.

    Both are empty if there is none.
    """
    for path in paths:
        text = _tail(path)
        if text:
            return path, text
    return "", ""


def _tail(path: str) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return ""
        file.seek(max(0, status.st_size - TAIL))
        return file.read(TAIL).decode("utf-8", "replace")
