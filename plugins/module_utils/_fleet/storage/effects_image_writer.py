# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writing what a guest sees into a new image of any format, from a stream.

qemu-img reads files only. So qemu-nbd opens the image, under QEMU's own lock, and this process
writes to it over a Unix socket. No kernel of a hypervisor opens the guest's content, and qemu-nbd
ends with this process.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
import time
import typing as t

from ..._errors import DependencyMissing, PlanRefused
from ..base import effects_programs as programs
from .effects_nbd import NbdClient

_START_SECONDS = 30.0
_CALL_SECONDS = 300.0  # for one request, which storage may keep waiting
GRAIN = 64 * 1024  # what is zero is not written: a cluster of qcow2, in which it stays a hole
_ZERO = bytes(GRAIN)
_RUN = "/run"
_PREFIX = "fleet-virt-nbd."  # and the process


class ImageWriter:
    """An open image; what is not written stays as it is, in a new one zero."""

    def __init__(self, path: str, connection: socket.socket) -> None:
        self._path = path
        self._nbd = NbdClient(connection, "", self._failed)
        self.size = self._nbd.size

    def write(self, offset: int, data: bytes) -> None:
        """Write ``data``, without those whole grains that are zero."""
        view, start = memoryview(data), 0
        while start < len(data):
            end = start  # slices of bytes are compared at once, those of views byte by byte
            while end < len(data) and data[end : end + GRAIN] != _ZERO[: len(data) - end]:
                end += GRAIN
            if end > start:
                self._nbd.write(offset + start, view[start:end])
            start = end + GRAIN

    def flush(self) -> None:
        """Have all that was written on the disk."""
        self._nbd.flush()

    def close(self) -> None:
        """Let qemu-nbd close the image."""
        self._nbd.disconnect()

    def _failed(self, why: str) -> PlanRefused:
        return PlanRefused(f"{self._path} could not be written: {why}")


@contextlib.contextmanager
def opened(path: str, image_format: str) -> t.Iterator[ImageWriter]:
    """Open the image for writing; on leaving without an error all is on the disk."""
    if programs.find("qemu-nbd") is None:
        raise DependencyMissing("qemu-nbd is not installed here; install Debian's qemu-utils")
    folder = _folder()
    place = f"{folder}/nbd"
    process = programs.beside(
        programs.bound(
            [
                *("qemu-nbd", "--socket", place),
                *("--format", image_format, "--detect-zeroes", "off", path),
            ]
        ),
        talks=False,
        errors=True,
    )
    try:
        try:
            connection = _connected(place, process, path)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        with connection:
            writer = ImageWriter(path, connection)
            yield writer
            writer.flush()
            writer.close()
        programs.end(process, _START_SECONDS)
    finally:
        process.kill()
        process.wait()
        programs.piped(process.stderr).close()


def _folder() -> str:
    """A folder of its own for the socket; those of processes that were killed are removed."""
    above = _RUN if os.path.isdir(_RUN) else tempfile.gettempdir()
    for name in os.listdir(above):
        pid = name[len(_PREFIX) :].partition(".")[0] if name.startswith(_PREFIX) else ""
        if pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
            shutil.rmtree(f"{above}/{name}", ignore_errors=True)
    return tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}.", dir=above)


def _connected(place: str, process: programs.Running, path: str) -> socket.socket:
    limit = time.monotonic() + _START_SECONDS
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(_CALL_SECONDS)
    while True:
        try:
            connection.connect(place)
        except OSError:
            ended = process.poll() is not None
            if ended or time.monotonic() > limit:
                connection.close()
                said = programs.piped(process.stderr).read().decode("utf-8", "replace")
                why = " ".join(said.split())[-500:] if ended else "qemu-nbd did not begin"
                raise PlanRefused(f"{path} could not be opened: {why}") from None
            time.sleep(0.01)
        else:
            return connection
