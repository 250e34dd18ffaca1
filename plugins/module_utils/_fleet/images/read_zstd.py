# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Unpacking zstd with the ubiquitous C library, as Python only supports it since 3.14."""

from __future__ import annotations

import ctypes


class _Buffer(ctypes.Structure):
    """ZSTD_inBuffer and ZSTD_outBuffer of zstd.h, which look alike."""

    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t), ("pos", ctypes.c_size_t))


def _library() -> ctypes.CDLL:
    library = ctypes.CDLL("libzstd.so.1")
    library.ZSTD_createDStream.restype = ctypes.c_void_p
    library.ZSTD_freeDStream.argtypes = (ctypes.c_void_p,)
    library.ZSTD_decompressStream.argtypes = (
        ctypes.c_void_p,
        ctypes.POINTER(_Buffer),
        ctypes.POINTER(_Buffer),
    )
    library.ZSTD_decompressStream.restype = ctypes.c_size_t
    library.ZSTD_isError.argtypes = (ctypes.c_size_t,)
    library.ZSTD_getErrorName.argtypes = (ctypes.c_size_t,)
    library.ZSTD_getErrorName.restype = ctypes.c_char_p
    return library


class Zstd:
    """One frame, with the interface of Python's LZMADecompressor.

    The library refuses a frame that needs more than 128 MiB of memory. Raises OSError without the
    library, ValueError for an invalid frame.
    """

    def __init__(self) -> None:
        self._library = _library()
        self._stream = self._library.ZSTD_createDStream()
        if not self._stream:
            raise MemoryError("zstd")
        self._data = b""
        self.eof = False
        self.needs_input = True

    def __del__(self) -> None:
        stream = getattr(self, "_stream", None)
        if stream:
            self._library.ZSTD_freeDStream(stream)

    @property
    def unused_data(self) -> bytes:
        return self._data if self.eof else b""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """The unpacked data, at most ``max_length`` bytes; the next call returns the rest."""
        given = self._data + data
        source = ctypes.create_string_buffer(given, max(1, len(given)))
        room = ctypes.create_string_buffer(max_length)
        taken = _Buffer(ctypes.addressof(source), len(given), 0)
        made = _Buffer(ctypes.addressof(room), max_length, 0)
        code = self._library.ZSTD_decompressStream(
            self._stream, ctypes.byref(made), ctypes.byref(taken)
        )
        if self._library.ZSTD_isError(code):
            name = self._library.ZSTD_getErrorName(code)
            raise ValueError(name.decode("ascii", "replace"))
        self._data = given[taken.pos :]
        self.eof = code == 0
        self.needs_input = not self._data and made.pos < max_length
        return room.raw[: made.pos]
