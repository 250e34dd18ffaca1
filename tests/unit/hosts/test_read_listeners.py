# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who listens: read from the kernel's tables."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    read_listeners as listeners,
)

_SERVE = """
import ctypes, os, socket, sys
if sys.argv[2] != "0":
    os.setgid(int(sys.argv[2])), os.setuid(int(sys.argv[2]))
ctypes.CDLL(None).prctl(15, sys.argv[1].encode())
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
sys.stdin.read()
"""


def test_own_socket() -> None:
    name = Path("/proc/self/comm").read_text().strip()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert port in listeners.ports([name])
        assert port not in listeners.ports([f"{name}-{os.getpid()}"])
    assert port not in listeners.ports([name])


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to act as another user")
@pytest.mark.parametrize(("uid", "expected"), [(0, True), (65534, False)])
def test_listener_named_libvirtd_counts_only_as_root(uid: int, expected: bool) -> None:
    """Any user can give a process any name, and would make the role refuse its daemon's port."""
    command = ["/usr/bin/python3", "-c", _SERVE, "libvirtd", str(uid)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        port = int(process.stdout.readline())
        try:
            assert (port in listeners.ports(listeners.LIBVIRT)) is expected
        finally:
            process.stdin.close()
