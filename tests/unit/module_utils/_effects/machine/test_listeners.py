# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who listens: read from the kernel's tables."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from ansible_collections.fleet.virt.plugins.module_utils._effects.machine import listeners

TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:4082 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 3141 1 0
   1: 0100007F:0016 0100007F:D2F0 01 00000000:00000000 00:00000000 00000000     0        0 2718 1 0
"""


def test_listening_rows_only() -> None:
    assert listeners.parse(TABLE) == {"3141": 16514}


def test_own_socket() -> None:
    name = Path("/proc/self/comm").read_text().strip()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert port in listeners.ports([name])
        assert port not in listeners.ports([f"{name}-{os.getpid()}"])
    assert port not in listeners.ports([name])
