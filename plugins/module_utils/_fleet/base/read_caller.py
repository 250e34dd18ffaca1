# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the caller of this process still waits for its result.

Killing a play does not end what runs for it: its modules keep running on the hypervisors, and its
own processes on the controller. Long-running work that only reads, or writes a file without a name
yet, checks here and ends.
"""

from __future__ import annotations

import os
import select
import time

from ..._errors import FleetVirtError

_OUTPUT = 1  # standard output, which receives the result of a module
_SECONDS = 0.5  # between two checks


class Abandoned(FleetVirtError):
    """The caller is gone: no process waits for the result any more."""


class _State:
    """The state at the start of the process."""

    def __init__(self) -> None:
        self.is_module = False
        self.host = ""
        self.person = ""
        self.forced = False
        self.parent = 0
        self.looked = 0.0
        self.begin()

    def begin(self) -> None:
        """Record the parent: Ansible's workers are children of the process that waits for them."""
        self.parent = os.getppid()


_state = _State()
os.register_at_fork(after_in_child=_state.begin)


def mark_as_module() -> None:
    """Mark this process as a module: it has a caller as long as its output can be written."""
    _state.is_module = True


def set_host(name: str) -> None:
    """Record what the caller's inventory calls this hypervisor."""
    _state.host = name


def set_person(name: str) -> None:
    """Record who runs this, as the controller says."""
    _state.person = name


def set_forced(forced: bool) -> None:
    """Record whether the user overrides what forbids a start for the time being."""
    _state.forced = forced


def is_forced() -> bool:
    """Whether the user overrides what forbids a start for the time being."""
    return _state.forced


def person() -> str:
    """Who runs this, as the controller says; empty if it did not."""
    return _state.person


def host() -> str:
    """What the caller's inventory calls this hypervisor; empty if no caller said so."""
    return _state.host


def require() -> None:
    """Raise Abandoned if the caller is gone; checks only every half second, so call it often."""
    now = time.monotonic()
    if now - _state.looked < _SECONDS:
        return
    _state.looked = now
    if os.getppid() != _state.parent or (_state.is_module and _broken(_OUTPUT)):
        raise Abandoned("the calling process is gone; the work was abandoned")


def _broken(descriptor: int) -> bool:
    """Whether the other end of a pipe, a socket or a terminal is closed."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _fd, event in poll.poll(0))
