# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One console from opening to closing, with all its viewers: the helper's state."""

from __future__ import annotations

import contextlib
import select
import threading
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console import rfb, terminal
from ansible_collections.fleet.virt.plugins.module_utils._records import dataclass
from ansible_collections.fleet.virt.plugins.plugin_utils.console._console_remote import RemoteSide

_GRACE = 5.0  # seconds for a page to be reloaded
_CLOSE = 1.0  # second for the hypervisor's side to disconnect
_MOST = 8  # viewers at once; one for a serial console
BUSY = "too many viewers; close a page"


@dataclass(frozen=True)
class SessionRequest:
    """The helper's order: how to connect, and what to do. ``password`` is None for none."""

    command: t.Sequence[str]
    program: bytes
    request: t.Mapping[str, object]
    kind: str
    title: str
    password: str | None


class Viewer(t.Protocol):
    """A viewer: a WebSocket or a socket."""

    def fileno(self) -> int: ...

    def receive(self) -> bytes | None:
        """Its next data; None at the end."""

    def deliver(self, data: bytes) -> None: ...


class Session:
    """A console with changing viewers; it ends some seconds after the last one disconnects, or when
    a signal, a limit or the hypervisor's side calls :meth:`end`."""

    def __init__(self, wanted: SessionRequest, say: t.Callable[[str], None]) -> None:
        self.wanted = wanted
        self.say = say
        self.over = threading.Event()
        self.problem: str | None = None
        self._serial = wanted.kind == "serial"
        self._lock = threading.Lock()
        self._open: set[RemoteSide] = set()
        self._count = 0
        self._left: threading.Timer | None = None

    def end(self, why: str, *, failed: bool = False) -> None:
        """End the session; the first reason counts."""
        with self._lock:
            if self.over.is_set():
                return
            self.problem = why if failed else None
            self.say(why)
            self.over.set()

    def close(self) -> None:
        """Close all remaining connections."""
        with self._lock:
            if self._left:
                self._left.cancel()
            ended = list(self._open)
        for remote in ended:
            with contextlib.suppress(OSError):
                remote.process.kill()

    def look(self, viewer: Viewer) -> str | None:
        """Connect a viewer until either side ends; returns why this side ended it."""
        with self._lock:
            if self.over.is_set():
                return "the console is already closed"
            if self._count >= (1 if self._serial else _MOST):
                return BUSY
            self._count += 1
            if self._left:
                self._left.cancel()
                self._left = None
        try:
            return self._looked(viewer)
        finally:
            with self._lock:
                self._count -= 1
                if not self._count and not self.over.is_set():
                    self._left = threading.Timer(_GRACE, self.end, ["the last viewer disconnected"])
                    self._left.daemon = True
                    self._left.start()

    def _looked(self, viewer: Viewer) -> str | None:
        try:
            remote = RemoteSide(self.wanted.command, self.wanted.program, self.wanted.request)
        except FleetVirtError as error:
            return self._failed(error)
        with self._lock:
            self._open.add(remote)
        gate = self._gate()
        try:
            _join(viewer, remote, gate)
            return None
        except rfb.Refused as error:
            with contextlib.suppress(OSError):
                viewer.deliver(gate.farewell)
            self.say(str(error))
            return str(error)
        except FleetVirtError as error:
            return self._failed(error)
        except OSError:
            return None  # the viewer has gone
        finally:
            with self._lock:
                self._open.discard(remote)
            remote.close(_CLOSE)

    def _gate(self) -> Gate:
        if self.wanted.kind == "vnc":
            return rfb.Gate(self.wanted.title)
        return _Words() if self._serial else _Plain()

    def _failed(self, error: FleetVirtError) -> str:
        """Report ``error``; ends a serial console, while a screen may have other viewers."""
        hostile = isinstance(error, rfb.Hostile)
        text = f"data from the VM's screen was rejected: {error}" if hostile else str(error)
        if self._serial:
            self.end(text, failed=True)
        else:
            self.say(text)
        return str(error)


class Gate(t.Protocol):
    """Filter of the data in each direction, and the farewell message."""

    @property
    def farewell(self) -> bytes: ...
    def from_server(self, data: bytes) -> bytes: ...
    def from_viewer(self, data: bytes) -> bytes: ...


class _Plain:
    """Pass data unchanged (SPICE, which its own viewer parses)."""

    farewell = b""

    def from_server(self, data: bytes) -> bytes:
        return data

    def from_viewer(self, data: bytes) -> bytes:
        return data


class _Words(_Plain):
    """A serial console: output filtered for a terminal, keys unchanged."""

    def __init__(self) -> None:
        self._shown = terminal.Filter()

    def from_server(self, data: bytes) -> bytes:
        return self._shown.feed(data).encode("utf-8", "replace")


def _join(viewer: Viewer, remote: RemoteSide, gate: Gate) -> None:
    waiting = select.poll()
    for descriptor in (viewer.fileno(), remote.output):
        waiting.register(descriptor, select.POLLIN)
    while True:
        for descriptor, _event in waiting.poll():
            if descriptor == remote.output:
                data = remote.read()
                if not data:
                    raise FleetVirtError(remote.why())
                viewer.deliver(gate.from_server(data))
            else:
                sent = viewer.receive()
                if sent is None:
                    return
                remote.write(gate.from_viewer(sent))
