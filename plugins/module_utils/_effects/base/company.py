# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether somebody still waits for what this process does.

A play that is killed takes nothing along that runs for it: its modules go on on the hypervisors,
and its own processes on the controller. What only reads for long, or writes what has no name yet,
looks here and ends.

This file is private to the collection.
"""

from __future__ import annotations

import os
import select
import time

from ..._errors import FleetVirtError

_OUTPUT = 1  # standard output, which the result of a module goes to
_SECONDS = 0.5  # between two looks


class Abandoned(FleetVirtError):
    """Nobody is there any more who would hear of it."""


class _State:
    """What there was at the beginning."""

    def __init__(self) -> None:
        self.heard = False
        self.parent = 0
        self.looked = 0.0
        self.begin()

    def begin(self) -> None:
        """In a new process: Ansible's workers are children of the one that waits for them."""
        self.parent = os.getppid()


_state = _State()
os.register_at_fork(after_in_child=_state.begin)


def is_heard() -> None:
    """This process is a module: it has somebody as long as its output can be written."""
    _state.heard = True


def require() -> None:
    """Raise Abandoned if nobody waits any more; looks now and then, so it may be called often."""
    now = time.monotonic()
    if now - _state.looked < _SECONDS:
        return
    _state.looked = now
    if os.getppid() != _state.parent or (_state.heard and _broken(_OUTPUT)):
        raise Abandoned("whoever asked for this is gone; it was given up")


def _broken(descriptor: int) -> bool:
    """Whether nobody is at the other end of a pipe, a socket or a terminal."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _fd, event in poll.poll(0))
