# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checking whether an SSH server responds at an address, by the banner that it sends."""

from __future__ import annotations

import socket
import time
import typing as t
from dataclasses import dataclass

_CONNECT_SECONDS = 3.0
_BANNER_SECONDS = 8.0
_MOST = 4096  # bytes; RFC 4253 allows other lines before the banner


@dataclass(frozen=True)
class Answer:
    """``ok`` with the banner, or what happened instead.

    ``refused``: the machine exists, but nothing listens on the port yet. ``silent``: there was no
    response at all.
    """

    ok: bool
    text: str
    refused: bool = False
    silent: bool = False


def probe(address: str, port: int, note: t.Callable[[Answer], None] = lambda _: None) -> Answer:
    """Connect and wait for the line that every SSH server begins with (RFC 4253, 4.2).

    ``note`` is called with preliminary results, for callers that cannot wait for the end.
    """
    try:
        link = socket.create_connection((address, port), timeout=_CONNECT_SECONDS)
    except socket.timeout:
        return Answer(False, f"port {port} does not answer", silent=True)
    except OSError as error:
        refused = isinstance(error, ConnectionRefusedError)
        text = f"port {port}: {error.strerror or error}"
        return Answer(False, text, refused, silent=not refused)
    with link:
        note(Answer(False, f"port {port} is open, but sends no SSH banner"))
        if link.getsockname()[0] == link.getpeername()[0]:
            return Answer(False, "this is an address of the hypervisor itself")
        return _banner(link, port)


def _banner(link: socket.socket, port: int) -> Answer:
    end = time.monotonic() + _BANNER_SECONDS
    received = b""
    try:
        while len(received) < _MOST:
            link.settimeout(max(0.01, end - time.monotonic()))
            part = link.recv(_MOST)
            received += part
            for line in received.split(b"\n")[:-1]:
                if line.startswith((b"SSH-2.0-", b"SSH-1.99-")):
                    return Answer(True, line.decode("utf-8", "replace").strip())
            if not part or time.monotonic() >= end:
                break
    except OSError:  # the limit, or the connection was reset
        pass
    text = "".join(c for c in received[:40].decode("utf-8", "replace") if c.isprintable())
    but = f"but sends {text!r}, which is no SSH banner" if text else "but sends no SSH banner"
    return Answer(False, f"port {port} is open, {but}")
