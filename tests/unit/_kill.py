# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process of our own that dies at a given step, as by SIGKILL: nothing of it runs any more."""

from __future__ import annotations

import os
import resource
import signal
import sys
import types
from collections.abc import Callable, Iterator

_KILLED = 9
# calls before which what is on the disk may differ from what it was before the one before
_CHANGING = {
    *("open", "write", "flush", "close", "__exit__", "mkdir", "rmdir", "unlink", "symlink", "link"),
    *("rename", "replace", "chmod", "fchmod", "chown", "fchown", "setxattr", "fsync", "truncate"),
}


def each_step(act: Callable[[], object], restore: Callable[[], object]) -> Iterator[int]:
    """``restore``, then ``act`` in a process that dies before its first change, its second, ...

    Yields the number after each death; ends when ``act`` is carried out to its end.
    """
    step = 1
    while True:
        restore()
        if not _dies(act, step):
            return
        yield step
        step += 1


def torn(act: Callable[[], object], size: int) -> None:
    """``act`` in a process that dies while it writes, with ``size`` bytes of a file written."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        _end(act)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGXFSZ


def _dies(act: Callable[[], object], step: int) -> bool:
    child = os.fork()
    if child == 0:
        left = step

        def before(_frame: types.FrameType, event: str, function: object) -> None:
            nonlocal left
            if event == "c_call" and getattr(function, "__name__", "") in _CHANGING:
                left -= 1
                if left == 0:
                    os._exit(_KILLED)

        sys.setprofile(before)
        _end(act)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, _KILLED), f"step {step}: an exception"
    return code == _KILLED


def _end(act: Callable[[], object]) -> None:
    code = 1
    try:
        act()
        code = 0
    finally:
        sys.setprofile(None)
        os._exit(code)
