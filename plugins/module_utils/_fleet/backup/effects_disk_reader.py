# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading a disk that an NBD server has once, from its start, a little ahead of who wants it.

Its digest is of just what was read; nothing is read of what is zero, which is a hole.
"""

from __future__ import annotations

import bisect
import contextlib
import errno
import hashlib
import os
import queue
import socket
import threading
import typing as t

from ..._errors import FleetVirtError, PlanRefused
from ..._records import dataclass
from ..base import read_sparse as sparse
from ..storage.effects_nbd import NbdClient

CHUNK = sparse.BLOCK  # of borg, whose chunks begin where data do
_BLOCK = 1 << 20
_BLOCKS = 6  # in memory, for each disk
_AHEAD = 2  # requests under way
# Once glibc has freed a block of this size, the server gets the memory of later ones from its own
# and not from the kernel, each page of it anew, which is two thirds of what reading costs there
_FIRST = 4 << 20
_CALL_SECONDS = 3600.0  # for one request, which storage may keep waiting


@dataclass(frozen=True)
class _Block:
    """What was read at an offset, in a buffer that is used again."""

    offset: int
    buffer: bytearray
    data: memoryview


class DiskReader:
    """What ``server``, the path of a socket, has as ``export``."""

    def __init__(self, server: str, export: str) -> None:
        self._server, self._export = server, export
        self._digest = hashlib.sha256()
        self._free: queue.SimpleQueue[bytearray] = queue.SimpleQueue()
        self._ready: queue.SimpleQueue[_Block | None] = queue.SimpleQueue()
        self._current: _Block | None = None
        self._ended = False
        self._error: FleetVirtError | None = None
        self._unread = threading.Event()
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read_all, daemon=True)
        with self._connected(mapped=True) as client:
            self.size = client.size
            self._data = client.data(CHUNK)
        self._ends = [end for _begin, end in self._data]

    def digest(self) -> str:
        """The SHA-256 of all of it, once nobody wants to read more of it."""
        self._unread.set()
        with contextlib.suppress(queue.Empty):
            while (block := self._ready.get_nowait()) is not None:
                self._free.put(block.buffer)
            self._ready.put(None)
        self._begin()
        self._reader.join()
        if self._error is not None:
            raise self._error
        return self._digest.hexdigest()

    def content(self, offset: int, count: int) -> memoryview:
        """``count`` bytes: what was read ahead; else they are read now."""
        self._begin()
        count = max(0, min(count, self.size - offset))
        while not self._ended and (self._current is None or offset >= _end(self._current)):
            if self._current is not None:
                self._free.put(self._current.buffer)
            self._current = self._ready.get()
            self._ended = self._current is None
        block = self._current
        if block is not None and block.offset <= offset and offset + count <= _end(block):
            return block.data[offset - block.offset :][:count]
        if self._error is not None:
            raise self._error
        buffer = memoryview(bytearray(count))
        if count:
            with self._connected() as client:
                client.request(offset, count)
                client.receive({offset: buffer})
        return buffer

    def sought(self, offset: int, whence: int) -> int:
        """As os.lseek, of data and holes."""
        if offset >= self.size:
            raise OSError(errno.ENXIO, "after the end")
        number = bisect.bisect_right(self._ends, offset)
        begin, end = self._data[number] if number < len(self._data) else (self.size, self.size)
        if whence == os.SEEK_DATA:
            if begin == self.size:
                raise OSError(errno.ENXIO, "no more data")
            return max(begin, offset)
        if whence == os.SEEK_HOLE:
            return end if begin <= offset else offset
        raise OSError(errno.EINVAL, "unknown")

    @contextlib.contextmanager
    def _connected(self, *, mapped: bool = False) -> t.Iterator[NbdClient]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_CALL_SECONDS)
            try:
                connection.connect(self._server)
            except OSError as error:
                raise self._failed(str(error)) from None
            yield NbdClient(connection, self._export, self._failed, mapped=mapped)

    def _failed(self, why: str) -> PlanRefused:
        return PlanRefused(f"disk {self._export} could not be read: {why}")

    def _begin(self) -> None:
        with self._lock:
            if self._reader.ident is None:
                for _number in range(_BLOCKS):
                    self._free.put(bytearray(_BLOCK))
                self._reader.start()

    def _read_all(self) -> None:
        position = 0
        try:
            with self._connected() as client:
                if first := min(_FIRST, self.size):
                    client.request(0, first)
                    client.receive({0: memoryview(bytearray(first))})
                for block in self._read_blocks(client):
                    self._digest_hole(block.offset - position)
                    self._digest.update(block.data)
                    position = block.offset + len(block.data)
                    if self._unread.is_set():
                        self._free.put(block.buffer)
                    else:
                        self._ready.put(block)
                self._digest_hole(self.size - position)
        except FleetVirtError as error:
            self._error = error
        except Exception as error:  # whoever waits for the digest has to know
            self._error = self._failed(f"{type(error).__name__}: {error}")
        self._ready.put(None)

    def _read_blocks(self, client: NbdClient) -> t.Iterator[_Block]:
        """All data in order, with some requests under way."""
        wanted = (
            (offset, min(_BLOCK, end - offset))
            for begin, end in self._data
            for offset in range(begin, end, _BLOCK)
        )
        order: list[_Block] = []
        missing: dict[int, memoryview] = {}
        while True:
            while len(order) < _AHEAD and (place := next(wanted, None)) is not None:
                offset, count = place
                buffer = self._free.get()
                order.append(_Block(offset, buffer, memoryview(buffer)[:count]))
                missing[offset] = order[-1].data
                client.request(offset, count)
            if not order:
                return
            while order[0].offset in missing:
                del missing[client.receive(missing)]
            yield order.pop(0)

    def _digest_hole(self, count: int) -> None:
        while count > 0:
            self._digest.update(memoryview(sparse.ZERO)[:count])
            count -= len(sparse.ZERO)


def _end(block: _Block) -> int:
    return block.offset + len(block.data)
