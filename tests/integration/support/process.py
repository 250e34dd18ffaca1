# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A command that goes on beside a test: a process as any, or a fork of one that is preloaded."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import time
import typing as t
from collections.abc import Sequence


class Process(t.Protocol):
    """A command that goes on beside the test, as :class:`subprocess.Popen` has it."""

    pid: int

    @property
    def stdout(self) -> t.IO[str] | None:
        """What it says, where it is heard."""

    @property
    def returncode(self) -> int | t.Any:
        """How it ended, once that was asked: its exit status, or minus the signal's number."""

    def poll(self) -> int | None:
        """How it ended; None: it goes on."""

    def wait(self, timeout: float | None = None) -> int:
        """How it ended, once it has.

        :raises subprocess.TimeoutExpired: it goes on after so many seconds.
        """

    def communicate(self, *, timeout: float | None = None) -> tuple[t.Any, t.Any]:
        """All that it says, where it is heard, and None; :attr:`returncode` is known then.

        :raises subprocess.TimeoutExpired: as of :meth:`wait`; nothing is lost.
        """

    def send_signal(self, sig: int) -> None:
        """Send it a signal, unless it is known to have ended."""

    def __enter__(self) -> Process:
        """Itself."""

    def __exit__(self, *_reason: t.Any) -> None:
        """Wait for it; what it says is not listened to any more."""


class Forked:
    """A :class:`Process` that is a fork of a server's, and keeps its number until it is waited for.

    Its parent is another fork, which says how it ended.
    """

    def __init__(self, argv: Sequence[str], answers: socket.socket) -> None:
        self.pid = int(answers.recv(64))
        self.stdout: t.IO[str] | None = None
        self.returncode: int | None = None
        self._argv = list(argv)
        self._answers = answers
        self._said = b""

    def poll(self) -> int | None:
        """How it ended; None: it goes on."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """How it ended, once it has."""
        if self.returncode is None:
            self._answers.settimeout(None if timeout is None else max(0.0, timeout))
            try:
                self.returncode = int(self._answers.recv(64))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(self._argv, timeout or 0) from None
            with self._answers:
                self._answers.settimeout(None)
                self._answers.shutdown(socket.SHUT_WR)  # it may go now
                self._answers.recv(1)  # it is gone
        return self.returncode

    def communicate(self, *, timeout: float | None = None) -> tuple[str | None, None]:
        """All that it says, where it is heard, and None."""
        end = None if timeout is None else time.monotonic() + timeout
        while self.stdout is not None and not self.stdout.closed:
            ready = select.poll()
            ready.register(self.stdout, select.POLLIN)
            if not ready.poll(None if end is None else max(0.0, end - time.monotonic()) * 1000):
                raise subprocess.TimeoutExpired(self._argv, timeout or 0, self._said)
            said = os.read(self.stdout.fileno(), 1 << 16)
            self._said += said
            if not said:
                self.stdout.close()
        self.wait(None if end is None else end - time.monotonic())
        return self._said.decode() if self.stdout else None, None

    def send_signal(self, sig: int) -> None:
        """Send it a signal, unless it is known to have ended."""
        if self.poll() is None:
            os.kill(self.pid, sig)

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *_reason: t.Any) -> None:
        if self.stdout is not None:
            self.stdout.close()
        self.wait()
