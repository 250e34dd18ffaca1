# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An answer without end is given up while Ansible still reads it.

Connection plugins collect all that comes and have no limit. What they collect is this process's
memory, which is looked at while it works; a process that waits is not disturbed.

This file is private to the collection.
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
from ansible_collections.fleet.virt.plugins.plugin_utils.base._answers import MOST_SAID

# Connection plugins append to what they have, and have it twice while they do
MOST_READ = 4 * MOST_SAID
_SECONDS = 0.05  # of work between two looks
_UNIT = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss


class _Over(BaseException):
    """Not to be taken for an error of what is interrupted."""


def guard(connection: t.Any, host: object) -> None:
    """Have every command of this connection end with FleetVirtError when its output has no end."""
    if "exec_command" in vars(connection):
        return  # of a loop's item before
    execute = connection.exec_command

    @functools.wraps(execute)
    def guarded(*args: object, **options: object) -> object:
        with bounded(host):
            return execute(*args, **options)

    connection.exec_command = guarded


@contextlib.contextmanager
def bounded(host: object) -> t.Iterator[None]:
    """Interrupt what needs more memory than any answer of ours; in the main thread, as actions."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    most = _peak() + MOST_READ

    def look(_number: int, _frame: types.FrameType | None) -> None:
        if _peak() > most:
            raise _Over

    before = signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, _SECONDS, _SECONDS)
    try:
        yield
    except _Over:
        raise FleetVirtError(
            f"{host}: its answer has no end that could be read, and was given up (limit:"
            f" {MOST_SAID} characters); look at what answers there"
        ) from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        # the default would end the process, should another thread have the last signal still
        signal.signal(signal.SIGPROF, before if callable(before) else _pass)


def _pass(_number: int, _frame: types.FrameType | None) -> None:
    """What comes too late."""


def _peak() -> int:
    """The most memory, in bytes, that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT
