# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's side of a program on a hypervisor: one SSH connection each.

Part of the console helper, which has only Python's standard library.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import time
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    effects_programs as programs,
)

_SECONDS = 30.0  # to log in, open libvirt and respond
_LONGEST = 65536  # bytes of a response, and of error output
_BLOCK = 65536


class RemoteSide:
    """A program on the hypervisor that has responded to its request with ``answer``.

    Raises FleetVirtError, with the message of ssh or the program, if it has not.
    """

    def __init__(
        self, command: t.Sequence[str], program: bytes, request: t.Mapping[str, object]
    ) -> None:
        self.process = programs.beside(command, errors=True)
        try:
            with contextlib.suppress(BrokenPipeError):  # it has exited, and its output says why
                self._send(program + json.dumps(request).encode() + b"\n")
            self.answer = self._answer(time.monotonic() + _SECONDS)
        except BaseException:
            self.close()
            raise

    @property
    def output(self) -> int:
        """The descriptor that its output is read from."""
        return programs.piped(self.process.stdout).fileno()

    def read(self) -> bytes:
        """Its next output; empty at the end."""
        return os.read(self.output, _BLOCK)

    def write(self, data: bytes) -> None:
        """Send ``data``. Raises FleetVirtError if it has exited."""
        try:
            self._send(data)
        except OSError:
            raise FleetVirtError(self.why()) from None

    def why(self) -> str:
        """The reason why it ended, if it is known."""
        stream = programs.piped(self.process.stderr)
        text = b""
        if select.select([stream], [], [], 1.0)[0]:
            text = os.read(stream.fileno(), _LONGEST)
        lines = text.decode("utf-8", "replace").strip().splitlines()
        stderr = "".join(c if c.isprintable() else "?" for c in lines[-1])[:300] if lines else ""
        return f"the connection to the hypervisor ended{': ' + stderr if stderr else ''}"

    def close(self, seconds: float = 0.0) -> None:
        """End it by closing its input; kill it after ``seconds``."""
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                programs.piped(stream).close()
        programs.end(self.process, seconds)
        programs.piped(self.process.stderr).close()

    def _send(self, data: bytes) -> None:
        rest = memoryview(data)
        stream = programs.piped(self.process.stdin)
        while rest:
            rest = rest[stream.write(rest) or 0 :]

    def _answer(self, limit: float) -> dict[str, object]:
        line = b""
        while b"\n" not in line:
            left = max(0.0, limit - time.monotonic())
            if not select.select([self.output], [], [], left)[0]:
                raise FleetVirtError(f"the hypervisor did not respond within {_SECONDS:.0f} s")
            # byte by byte: what follows the line is for another reader
            byte = os.read(self.output, 1)
            if not byte or len(line) > _LONGEST:
                raise FleetVirtError(self.why())
            line += byte
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise FleetVirtError(
                "the response from the hypervisor is not from this collection's program"
            )
        if answer.get("failed"):
            text = str(answer["failed"])[:1000]
            raise FleetVirtError("".join(c if c.isprintable() else "?" for c in text))
        return answer
