# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Determining when this SSH connection was opened."""

from __future__ import annotations

import os

from ..base import read_processes as processes

_SERVERS = ("sshd", "dropbear")


def server_started() -> int | None:
    """When the server process of this SSH connection started, in clock ticks since the boot.

    All sessions that share a connection have the same server. None: not an SSH connection.
    """
    for _pid, process in processes.lineage(os.getpid()):
        if process.name.startswith(_SERVERS):
            return process.start_time
    return None
