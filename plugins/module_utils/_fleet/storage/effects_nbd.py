# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Talking to an NBD server of QEMU over a Unix socket.

NBD's plain form (github.com/NetworkBlockDevice/nbd, proto.md): no kernel of a hypervisor opens a
guest's content that way.
"""

from __future__ import annotations

import os
import socket
import struct
import typing as t

from ..._errors import FleetVirtError

_HELLO = struct.Struct(">8s8sH")
_OPTION = struct.Struct(">8sII")
_OPTION_REPLY = struct.Struct(">QIII")
_EXPORT = struct.Struct(">QH")
_REQUEST = struct.Struct(">IHHQQI")
_REPLY = struct.Struct(">IIQ")
_CHUNK = struct.Struct(">IHHQI")
_EXTENT = struct.Struct(">II")
_MAGIC, _HAVE_OPTION = b"NBDMAGIC", b"IHAVEOPT"
_FIXED_NO_ZEROES = 3
_EXPORT_NAME, _STRUCTURED_REPLY, _SET_META_CONTEXT = 1, 8, 10
_ACKNOWLEDGED, _CONTEXT = 1, 4
_ASK, _ANSWER, _CHUNK_MAGIC, _OPTION_MAGIC = 0x25609513, 0x67446698, 0x668E33EF, 0x3E889045565A9
_READ, _WRITE, _DISCONNECT, _FLUSH, _STATUS = 0, 1, 2, 3, 7
_EXTENTS, _DONE, _ZERO = 5, 1, 2
_ALLOCATION = b"base:allocation"
_STRANGE = "its server speaks no NBD"
_MOST_CHUNK = 1 << 24
_MOST_STATUS = 1 << 30  # bytes that one answer on zeros is about
Failed = t.Callable[[str], FleetVirtError]


class NbdClient:
    """One connection to an export; ``failed`` makes the error of a reason.

    One that is ``mapped`` is for :meth:`data` alone: its server then answers in another form.
    """

    def __init__(
        self, connection: socket.socket, export: str, failed: Failed, *, mapped: bool = False
    ) -> None:
        self._socket, self._failed = connection, failed
        hello, option, _flags = _HELLO.unpack(self._read(_HELLO.size))
        if (hello, option) != (_MAGIC, _HAVE_OPTION):
            raise self._failed(_STRANGE)
        self._send(struct.pack(">I", _FIXED_NO_ZEROES))
        name = export.encode()
        if mapped:
            self._option(_STRUCTURED_REPLY, b"")
            query = struct.pack(">I", len(_ALLOCATION)) + _ALLOCATION
            self._option(
                _SET_META_CONTEXT,
                struct.pack(">I", len(name)) + name + struct.pack(">I", 1) + query,
            )
        self._send(_OPTION.pack(_HAVE_OPTION, _EXPORT_NAME, len(name)) + name)
        self.size = int(_EXPORT.unpack(self._read(_EXPORT.size))[0])

    def write(self, offset: int, data: memoryview) -> None:
        """Write, and wait for it."""
        self._ask(_WRITE, offset, len(data), data=data)
        self._answer()

    def flush(self) -> None:
        """Have all that was written on the disk."""
        self._ask(_FLUSH, 0, 0)
        self._answer()

    def disconnect(self) -> None:
        """Let the server close the image."""
        self._ask(_DISCONNECT, 0, 0)

    def request(self, offset: int, count: int) -> None:
        """Ask for content, which :meth:`receive` gets; several may be under way."""
        self._ask(_READ, offset, count, handle=offset)

    def receive(self, buffers: t.Mapping[int, memoryview]) -> int:
        """Receive the content that is ready first into the buffer of its offset; that offset."""
        offset = self._answer()
        if offset not in buffers:
            raise self._failed(_STRANGE)
        self._read_into(buffers[offset])
        return offset

    def data(self, grain: int) -> list[tuple[int, int]]:
        """Where content begins and ends that is not zero, in whole grains, in order."""
        ranges: list[tuple[int, int]] = []
        position = 0
        while position < self.size:
            for length, flags in self._extents(position):
                end = min(self.size, position + length)
                if not flags & _ZERO:
                    begin = position // grain * grain
                    if ranges and begin <= ranges[-1][1]:
                        begin = ranges.pop()[0]
                    ranges.append((begin, min(self.size, -(-end // grain) * grain)))
                position = end
        return ranges

    def _extents(self, offset: int) -> list[tuple[int, int]]:
        """Length and flags of what follows ``offset``."""
        self._ask(_STATUS, offset, min(self.size - offset, _MOST_STATUS))
        extents: list[tuple[int, int]] = []
        flags = 0
        while not flags & _DONE:
            magic, flags, kind, _handle, length = _CHUNK.unpack(self._read(_CHUNK.size))
            if magic != _CHUNK_MAGIC or length > _MOST_CHUNK:
                raise self._failed(_STRANGE)
            content = self._read(length)
            if kind == _EXTENTS:
                extents = list(_EXTENT.iter_unpack(content[4:]))
        if not sum(size for size, _state in extents):
            raise self._failed("its server does not say where it is zero")
        return extents

    def _option(self, number: int, content: bytes) -> None:
        self._send(_OPTION.pack(_HAVE_OPTION, number, len(content)) + content)
        kind = _CONTEXT
        while kind == _CONTEXT:
            magic, _number, kind, length = _OPTION_REPLY.unpack(self._read(_OPTION_REPLY.size))
            if magic != _OPTION_MAGIC or length > _MOST_CHUNK:
                raise self._failed(_STRANGE)
            self._read(length)
        if kind != _ACKNOWLEDGED:
            raise self._failed("its server does not say where it is zero")

    def _ask(
        self, kind: int, offset: int, count: int, *, data: memoryview | None = None, handle: int = 0
    ) -> None:
        self._send(_REQUEST.pack(_ASK, 0, kind, handle, offset, count))
        if data is not None:
            self._send(data)

    def _answer(self) -> int:
        magic, error, handle = _REPLY.unpack(self._read(_REPLY.size))
        if magic != _ANSWER:
            raise self._failed(_STRANGE)
        if error:
            raise self._failed(os.strerror(error))
        return int(handle)

    def _send(self, data: memoryview | bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise self._failed(error.strerror or str(error)) from None

    def _read(self, count: int) -> bytes:
        data = bytearray(count)
        self._read_into(memoryview(data))
        return bytes(data)

    def _read_into(self, view: memoryview) -> None:
        while view:
            try:
                count = self._socket.recv_into(view, 0, socket.MSG_WAITALL)
            except OSError as error:
                raise self._failed(error.strerror or str(error)) from None
            if not count:
                raise self._failed("its server ended")
            view = view[count:]
