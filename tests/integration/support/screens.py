# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A viewer of a screen (VNC, RFC 6143) up to its first frame, through an SSH tunnel."""

from __future__ import annotations

import contextlib
import socket
import struct
import subprocess
from collections.abc import Iterator, Sequence

from .waiting import wait_for

_NO_AUTHENTICATION = 1


@contextlib.contextmanager
def tunnel(login: Sequence[str], port: int) -> Iterator[int]:
    """A tunnel to a hypervisor's loopback, where the screen is on ``port``; a port here."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        here = free.getsockname()[1]
    ssh, *rest = login
    process = subprocess.Popen(
        [ssh, "-N", "-L", f"{here}:127.0.0.1:{port}", *rest], stdin=subprocess.DEVNULL
    )

    def is_open() -> bool:
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", here)) == 0

    try:
        wait_for(is_open, 20, "the tunnel")
        yield here
    finally:
        process.terminate()
        process.wait()


def first_frame(port: int) -> tuple[int, int]:
    """Width and height of the screen, of which all pixels came.

    A guest that has just been started changes the size of its screen, and a client that says that
    it cannot follow never gets the rest of the one before: then it connects again.
    """
    for _ in range(2):
        with contextlib.suppress(TimeoutError):
            return _whole_frame(port)
    return _whole_frame(port)


def _whole_frame(port: int) -> tuple[int, int]:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as link:
        file = link.makefile("rwb")

        def read(form: str) -> tuple[int, ...]:
            return struct.unpack(form, file.read(struct.calcsize(form)))

        def write(data: bytes) -> None:
            file.write(data)
            file.flush()

        assert file.read(12).startswith(b"RFB 003.")
        write(b"RFB 003.008\n")
        offered = file.read(read("!B")[0])
        assert _NO_AUTHENTICATION in offered, f"types of security: {list(offered)}"
        write(bytes([_NO_AUTHENTICATION]))
        assert read("!I") == (0,), "refused"
        write(b"\1")  # shared
        width, height = read("!HH")
        pixel = read("!16B")[0] // 8
        file.read(read("!I")[0])
        write(struct.pack("!BxHi", 2, 1, 0))  # raw pixels only
        write(struct.pack("!BBHHHH", 3, 0, 0, 0, width, height))
        seen = 0
        while seen < width * height:
            kind, count = read("!BxH")
            assert kind == 0, "the first message is no frame"
            for _ in range(count):
                _x, _y, wide, high, encoding = read("!HHHHi")
                assert encoding == 0
                seen += wide * high
                assert len(file.read(wide * high * pixel)) == wide * high * pixel
        return width, height
