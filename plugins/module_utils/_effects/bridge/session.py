# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether this connection was made before or after a moment.

This file is private to the collection.
"""

from __future__ import annotations

import os

_SERVERS = ("sshd", "dropbear")


def server_started() -> int | None:
    """When the server process of this ssh connection started, in clock ticks since the boot.

    All sessions that share a connection have the same server. None: this is no ssh connection.
    """
    pid = os.getpid()
    while pid > 1:
        name, parent, started = _process(pid)
        if name.startswith(_SERVERS):
            return started
        pid = parent
    return None


def _process(pid: int) -> tuple[str, int, int]:
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return fields(file.read())


def fields(text: str) -> tuple[str, int, int]:
    """Name, parent and start of a process in the text of /proc/PID/stat."""
    name, _sep, rest = text.rpartition(")")
    words = rest.split()
    return name.partition("(")[2], int(words[1]), int(words[19])
