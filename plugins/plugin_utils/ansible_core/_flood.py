# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Abort of endless output while Ansible is still reading it.

Connection plugins collect all output without a limit. How much this process has read, where the
system tells, and how its memory has grown is checked while it works; a waiting process is not
disturbed.
"""

from __future__ import annotations

import contextlib
import functools
import resource
import signal
import sys
import threading
import types
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError

MOST_SAID = 64 * 1024 * 1024  # characters of a result; a thousand VMs need a tenth
# Connection plugins hold the output twice while they append to it
MOST_READ = 4 * MOST_SAID
_SECONDS = 0.05  # of CPU time between two checks
_BESIDE = 1024 * 1024  # bytes that are read beside the output
_UNIT = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss


class _Over(BaseException):
    """Interruption that no ``except Exception`` of the interrupted code catches."""


def guard(connection: t.Any) -> None:
    """Make every command of this connection fail with FleetVirtError if its output is endless."""
    if "exec_command" in vars(connection):
        return  # guarded for an earlier item of a loop
    execute = connection.exec_command

    @functools.wraps(execute)
    def guarded(*args: object, **options: object) -> object:
        with bounded():
            return execute(*args, **options)

    connection.exec_command = guarded


@contextlib.contextmanager
def bounded() -> t.Iterator[None]:
    """Interrupt what needs more memory than any of our results; only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    most, end = _peak() + MOST_READ, _read() + MOST_SAID + _BESIDE

    def look(_number: int, _frame: types.FrameType | None) -> None:
        if _peak() > most or _read() > end:
            raise _Over

    before = signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, _SECONDS, _SECONDS)
    try:
        yield
    except _Over:
        raise FleetVirtError(
            f"its response exceeds the limit of {MOST_SAID} characters and was aborted;"
            " find out what responds there"
        ) from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        # the default would kill the process if another thread still gets the last signal
        signal.signal(signal.SIGPROF, before if callable(before) else _pass)


def _pass(_number: int, _frame: types.FrameType | None) -> None:
    """Ignore a late signal."""


def _peak() -> int:
    """The peak memory of this process in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT


def _read() -> int:
    """The bytes that this process has read; 0 where the system does not tell it.

    Collecting takes time that grows with the square of the output, so this ends it several times
    sooner than the memory does (proc(5), /proc/pid/io).
    """
    try:
        with open("/proc/self/io", "rb") as file:
            return int(file.readline().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
