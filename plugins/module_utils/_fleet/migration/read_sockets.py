# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which of libvirt's connections to another hypervisor belongs to one move.

libvirt's daemon opens one for each move, and does not report which. So moves start one after the
other on a host, and a new connection belongs to the move that has just started.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
import typing as t
from pathlib import Path

from ..base import effects_locks as locks
from ..base import effects_programs as programs

_DAEMONS = ("libvirtd", "virtqemud")
_PORT = ":16514"
_SECONDS = 5.0  # in which libvirt opens it, or fails to
_LOCK_SECONDS = 60.0
_POLL = 0.05
# State, queues, local address, peer address, processes, details
_LINE = re.compile(
    r'\S+\s+\d+\s+\d+\s+\S*:(?P<port>\d+)\s+\S+:16514\s+users:\(\("(?P<who>[^"]+)".*\)\)(?P<more>.*)'
)
# Another user than root; no inode: the program has closed it, and the user is root's in any case
_NOT_OF_ROOT = re.compile(r"\buid:[1-9]|\bino:0\b")


def _file(uuid: str) -> Path:
    return locks.own_folder() / f"migrate-{uuid}.ports"


def ports(text: str) -> set[int]:
    """Local ports of libvirt's connections to other hypervisors, as ss lists them.

    Only root's: other users can name their processes as they like.
    """
    lines = (_LINE.match(line) for line in text.splitlines())
    return {
        int(match["port"])
        for match in lines
        if match and match["who"] in _DAEMONS and not _NOT_OF_ROOT.search(match["more"])
    }


def _open() -> set[int]:
    done = programs.attempt(["ss", "-Htanpe", "dport", "=", _PORT])
    return ports(done.out) if done is not None else set()


@contextlib.contextmanager
def noted(uuid: str, goes_on: t.Callable[[], bool]) -> t.Iterator[None]:
    """Record which connection is new once the body has started the move of the VM ``uuid``.

    Nothing is recorded if none appears within seconds, or the move has ended by then.
    """
    with locks.shared("migrate", _LOCK_SECONDS, "been starting a move ({path})"):
        before = _open()
        yield
        limit = time.monotonic() + _SECONDS
        while not (new := _open() - before) and time.monotonic() < limit and goes_on():
            time.sleep(_POLL)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(_file(uuid), flags, 0o600), "w", encoding="ascii") as file:
            file.write(" ".join(str(port) for port in sorted(new)))


def forget(uuid: str) -> None:
    """Remove the record of a move that has ended."""
    _file(uuid).unlink(missing_ok=True)


def cut(uuid: str) -> None:
    """Close libvirt's connection of the move of the VM ``uuid``, and no other."""
    with contextlib.suppress(OSError, ValueError):
        noted_ports = {int(word) for word in _file(uuid).read_text(encoding="ascii").split()}
        # the port of one that was closed may be another program's by now
        for port in noted_ports & _open():
            programs.attempt(["ss", "-K", "sport", "=", f":{port}", "dport", "=", _PORT])
