# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's side of what runs on a hypervisor for a console: one SSH connection each.

Part of the helper, which has nothing but Python's standard library.

This file is private to the collection.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import time
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._effects.base import programs
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError

_SECONDS = 30.0  # for logging in, opening libvirt and answering
_LONGEST = 65536  # bytes of an answer, and what is kept of errors
_BLOCK = 65536


class Far:
    """A program there that has answered its request; ``answer`` is what it said.

    Raises FleetVirtError, with what ssh or the program said, if it has not.
    """

    def __init__(
        self, command: t.Sequence[str], program: bytes, request: t.Mapping[str, object]
    ) -> None:
        self.process = programs.beside(command, errors=True)
        try:
            with contextlib.suppress(BrokenPipeError):  # it has ended, and says why
                self._send(program + json.dumps(request).encode() + b"\n")
            self.answer = self._answer(time.monotonic() + _SECONDS)
        except BaseException:
            self.close()
            raise

    @property
    def output(self) -> int:
        """The descriptor that its output is read from."""
        return t.cast("t.IO[bytes]", self.process.stdout).fileno()

    def read(self) -> bytes:
        """What it says next; nothing at its end."""
        return os.read(self.output, _BLOCK)

    def write(self, data: bytes) -> None:
        """Send it something. Raises FleetVirtError once it has ended."""
        try:
            self._send(data)
        except OSError:
            raise FleetVirtError(self.why()) from None

    def why(self) -> str:
        """Why it ended, as far as anything says so."""
        stream = t.cast("t.IO[bytes]", self.process.stderr)
        text = b""
        if select.select([stream], [], [], 1.0)[0]:
            text = os.read(stream.fileno(), _LONGEST)
        lines = text.decode("utf-8", "replace").strip().splitlines()
        said = "".join(c if c.isprintable() else "?" for c in lines[-1])[:300] if lines else ""
        return f"the connection to the hypervisor ended{': ' + said if said else ''}"

    def close(self, seconds: float = 0.0) -> None:
        """End it: its input ends, and so does it, within ``seconds``."""
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                t.cast("t.IO[bytes]", stream).close()
        programs.end(self.process, seconds)
        t.cast("t.IO[bytes]", self.process.stderr).close()

    def _send(self, data: bytes) -> None:
        rest = memoryview(data)
        stream = t.cast("t.IO[bytes]", self.process.stdin)
        while rest:
            rest = rest[stream.write(rest) or 0 :]

    def _answer(self, limit: float) -> dict[str, object]:
        said = b""
        while b"\n" not in said:
            left = max(0.0, limit - time.monotonic())
            if not select.select([self.output], [], [], left)[0]:
                raise FleetVirtError(f"the hypervisor gave no answer within {_SECONDS:.0f} s")
            # one by one: what follows the line is another's
            byte = os.read(self.output, 1)
            if not byte or len(said) > _LONGEST:
                raise FleetVirtError(self.why())
            said += byte
        try:
            answer = json.loads(said)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise FleetVirtError("what answers on the hypervisor is not this collection's program")
        if answer.get("failed"):
            text = str(answer["failed"])[:1000]
            raise FleetVirtError("".join(c if c.isprintable() else "?" for c in text))
        return answer
