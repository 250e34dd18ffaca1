# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Progress of moves, from the module that watches them to the controller that waits for it.

A module reports nothing before its end. So it writes its last line to a file that lasts until the
next boot, and a program that the controller sends (:func:`main`) reads it, and writes no file. That
program ends with its input, and so with the controller.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import typing as t
from pathlib import Path

from ..._errors import FleetVirtError
from ..base import effects_files as files
from ..base import effects_locks as locks
from . import progress

_SUFFIX = ".progress"
_POLL = 1.0
_STILL = 15.0  # seconds after which a write tests whether the connection is still there
_LONGEST = 65536  # bytes of a request
_MOST = 1000  # files


def note(uuid: str, name: str, line: str) -> None:
    """Store the last line of the move of the VM ``uuid``, not synced to disk."""
    with contextlib.suppress(OSError, FleetVirtError):
        files.write(_path(uuid), progress.encode(name, line), durable=files.Durable.NOTHING)


def forget(uuid: str) -> None:
    """Remove the line of a move that is over."""
    with contextlib.suppress(OSError, FleetVirtError):
        _path(uuid).unlink()


def _path(uuid: str) -> Path:
    return locks.own_folder() / f"migrate-{uuid}{_SUFFIX}"


def main() -> None:
    """Report new lines until the input ends."""
    request = json.loads(sys.stdin.buffer.readline(_LONGEST))
    with contextlib.suppress(OSError):
        os.write(1, b"{}\n")  # ready
        follow(locks.own_folder(), set(request["names"]), 0, 1)


def follow(folder: Path, names: t.Collection[str], source: int, target: int) -> None:
    """Write each new line of the moves of ``names`` to ``target`` until ``source`` ends."""
    sent: dict[str, bytes] = {}
    waiting = select.poll()
    waiting.register(source, select.POLLIN)
    quiet = 0.0
    while not waiting.poll(_POLL * 1000):
        news = b""
        for name, line in _read(folder):
            if name in names and sent.get(name) != line:
                sent[name] = line
                news += line
        quiet = 0.0 if news else quiet + _POLL
        if quiet >= _STILL:
            quiet, news = 0.0, b"\n"
        if news:
            os.write(target, news)


def _read(folder: Path) -> t.Iterator[tuple[str, bytes]]:
    for path in sorted(folder.glob(f"migrate-*{_SUFFIX}"))[:_MOST]:
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            line = path.read_bytes()[: progress.MOST_SAID]
            yield str(json.loads(line)["name"]), line
