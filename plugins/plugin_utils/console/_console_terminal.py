# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A serial console in the playbook's terminal: keys unchanged, output filtered."""

from __future__ import annotations

import contextlib
import os
import select
import termios
import threading
import time
import tty
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console import terminal
from ansible_collections.fleet.virt.plugins.plugin_utils.console._console_remote import RemoteSide

_LOOK = 200  # milliseconds between two checks for the end
_BLOCK = 65536


def attach(
    remote: RemoteSide, path: str, title: str, over: threading.Event, seconds: float
) -> t.Literal["it was closed", "the time limit was reached", "it was interrupted"]:
    """Connect the terminal at ``path`` until Ctrl-], the time limit, or ``over``.

    The terminal is restored afterwards. Raises FleetVirtError when the other end is gone.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_NOCTTY)
    before = termios.tcgetattr(descriptor)
    try:
        _write(descriptor, f"{title}: its serial console; Ctrl-] ends it\r\n")
        tty.setraw(descriptor)
        return _joined(remote, descriptor, over, time.monotonic() + seconds)
    finally:
        with contextlib.suppress(OSError, termios.error):
            _write(descriptor, terminal.RESET)
            termios.tcsetattr(descriptor, termios.TCSAFLUSH, before)
        os.close(descriptor)


def _joined(
    remote: RemoteSide, descriptor: int, over: threading.Event, limit: float
) -> t.Literal["it was closed", "the time limit was reached", "it was interrupted"]:
    shown = terminal.Filter()
    waiting = select.poll()
    for source in (descriptor, remote.output):
        waiting.register(source, select.POLLIN)
    while not over.is_set():
        if time.monotonic() > limit:
            return "the time limit was reached"
        for source, _event in waiting.poll(_LOOK):
            if source == remote.output:
                data = remote.read()
                if not data:
                    raise FleetVirtError(remote.why())
                _write(descriptor, shown.feed(data))
            else:
                try:
                    keys = os.read(descriptor, _BLOCK)
                except OSError:  # the terminal is gone
                    keys = b""
                before, end, _rest = keys.partition(terminal.ENDS)
                if before:
                    remote.write(before)
                if end or not keys:
                    return "it was closed"
    return "it was interrupted"


def _write(descriptor: int, text: str) -> None:
    rest = memoryview(text.encode("utf-8", "replace"))
    while rest:
        rest = rest[os.write(descriptor, rest) :]
