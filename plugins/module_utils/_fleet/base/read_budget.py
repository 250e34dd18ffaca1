# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How much may be read from one hypervisor, and until when: every answer of libvirt is counted.

A thread that is no longer waited for ends with its next call.
"""

from __future__ import annotations

import threading
import time
import typing as t

from ..._errors import FleetVirtError

if t.TYPE_CHECKING:
    from ..._libvirt import VirConnect

MOST_READ = 64 * 1024 * 1024  # characters of one hypervisor; a thousand VMs need a tenth
_ENTRY = 64  # what a number, an object or an item of a list takes, in characters


class ResponseTooLarge(FleetVirtError):
    """The responses are more than any hypervisor has to say."""

    def __init__(self, uri: str, most: int) -> None:
        super().__init__(
            f"{uri}: its responses exceed {most} characters and were discarded; check what is"
            " listening there"
        )


class Overdue(FleetVirtError):
    """Nothing more is read, since the hypervisor's time is over; no call hangs in this thread."""

    def __init__(self, uri: str, seconds: float) -> None:
        super().__init__(f"{uri}: not read within {seconds:g} seconds")


class Budget:
    """At most ``most`` characters from ``uri``, all answers together, within ``seconds``."""

    def __init__(self, uri: str, most: int, seconds: float) -> None:
        self._uri = uri
        self._most = most
        self._seconds = seconds
        self._until = time.monotonic() + seconds
        self._lock = threading.Lock()
        self._read = 0

    def require(self) -> None:
        """Raise ResponseTooLarge or Overdue if nothing more may be read."""
        if self._read > self._most:
            raise ResponseTooLarge(self._uri, self._most)
        if time.monotonic() > self._until:
            raise Overdue(self._uri, self._seconds)

    def metered(self, conn: VirConnect) -> VirConnect:
        """``conn`` with all answers counted, its own and those of all objects that it returns."""
        return t.cast("VirConnect", _Metered(conn, self))

    def take(self, answer: object) -> object:
        """Count an answer of libvirt; returns it with its objects metered."""
        size = _size(answer)
        with self._lock:
            self._read += size
        self.require()
        return self._wrapped(answer)

    def _wrapped(self, answer: object) -> object:
        if hasattr(answer, "_o"):
            return _Metered(answer, self)
        if isinstance(answer, (list, tuple)):
            return type(answer)(self._wrapped(item) for item in answer)
        return answer


class _Metered:
    """One of the binding's objects; each of its methods counts what it returns."""

    __slots__ = ("_budget", "_target")
    _budget: Budget
    _target: object

    def __init__(self, target: object, budget: Budget) -> None:
        object.__setattr__(self, "_target", target)
        object.__setattr__(self, "_budget", budget)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._target, name, value)

    def __getattr__(self, name: str) -> object:
        method = getattr(self._target, name)
        if not callable(method):
            return method

        def call(*args: object) -> object:
            self._budget.require()
            return self._budget.take(method(*map(_plain, args)))

        return call


def _plain(value: object) -> object:
    """``value`` as the binding takes it."""
    if isinstance(value, _Metered):
        return value._target
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _size(answer: object) -> int:
    """About how many characters an answer of libvirt is."""
    if isinstance(answer, (str, bytes)):
        return _ENTRY + len(answer)
    if isinstance(answer, (list, tuple)):
        return _ENTRY + sum(map(_size, answer))
    if isinstance(answer, dict):
        return _ENTRY + sum(_size(key) + _size(value) for key, value in answer.items())
    # objects come with their names, which their methods return without asking
    name = getattr(answer, "name", None) or getattr(answer, "getName", None)
    return _ENTRY + (len(name()) if callable(name) else 0)
