# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Unpacking compressed images while reading: within a limit, without an intermediate file.

xz and gzip are unpacked by Python's own modules, zstd by its library, which QEMU needs anyway.
"""

from __future__ import annotations

import typing as t
import zlib

from ..._errors import DependencyMissing, PlanRefused
from ..._units import format_size
from ..base import read_sparse as sparse
from ..storage import image_format
from ..storage.image_format import HEAD_BYTES, ImageFormat, Packing, packing
from .options import Limits

LIMIT = Limits().unpacked
_BLOCK = 1 << 18
_MEMORY = 256 << 20  # for xz; -9 needs 65 MiB. The library of zstd allows 128 MiB by itself
_NAMES: dict[Packing, str] = {"gz": "gzip", "xz": "xz", "zst": "zstd"}


class Decoder(t.Protocol):
    """One compressed stream, with the interface of Python's LZMADecompressor."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


def file_blocks(descriptor: int) -> t.Iterator[bytes]:
    """The content of an open file from its start (may move its position)."""
    return sparse.blocks(descriptor)


def content(blocks: t.Iterable[bytes], shown: str, limit: int = LIMIT) -> t.Iterator[bytes]:
    """The content of the image file with these blocks: unpacked if compressed, else unchanged.

    Raises PlanRefused if it cannot be unpacked or would exceed ``limit`` bytes, and, as soon as
    its beginning is known, if it is not an image.
    """
    source = iter(blocks)
    head = _head(source)
    kind = packing(head)
    complete = _chain(head, source)
    if kind is not None:
        complete = _streams(complete, kind, shown, limit)
        head = _head(complete)
        complete = _chain(head, complete)
    # its size is not known yet, and not checked here
    header = image_format.parse_header(head, image_format.MAX_VIRTUAL_BYTES)
    refuse(header, f"{shown} (unpacked)" if kind else shown)
    yield from complete


def content_head(descriptor: int, shown: str) -> bytes:
    """The first bytes of an open file's unpacked content."""
    return _head(content(file_blocks(descriptor), shown))[:HEAD_BYTES]


def too_large(shown: str, limit: int) -> PlanRefused:
    """The error for an image that exceeds ``limit`` bytes."""
    return PlanRefused(
        f"image {shown} has more than {limit} bytes ({format_size(limit >> 20)}iB) when unpacked,"
        " the maximum allowed (max_unpacked); if you trust it, raise that limit, or unpack the"
        " image yourself and use the result"
    )


def refuse(header: ImageFormat, shown: str) -> None:
    """Raise PlanRefused listing every problem, if there is any."""
    if header.problems:
        raise PlanRefused(f"image {shown} {'; it '.join(header.problems)}")


def _head(blocks: t.Iterator[bytes]) -> bytes:
    head = b""
    for block in blocks:
        head += block
        if len(head) >= HEAD_BYTES:
            break
    return head


def _chain(head: bytes, rest: t.Iterator[bytes]) -> t.Iterator[bytes]:
    if head:
        yield head
    yield from rest


def _streams(blocks: t.Iterable[bytes], kind: Packing, shown: str, limit: int) -> t.Iterator[bytes]:
    """Unpack one stream after the other: parallel compressors write several."""
    name = _NAMES[kind]
    decoder: Decoder | None = None
    begun, total = False, 0
    for block in blocks:
        data = block
        while True:
            if decoder is None:
                # zeros may follow a stream, to fill a medium's block
                data = data.lstrip(b"\0") if begun else data
                if not data:
                    break
                decoder, begun = _decoder(kind), True
            try:
                piece = decoder.decompress(data, _BLOCK)
            except (ValueError, _errors(kind)) as error:
                raise PlanRefused(
                    f"image {shown} is compressed with {name} and corrupt ({error});"
                    " copy the image again, or download it again"
                ) from None
            data = b""
            total += len(piece)
            if total > limit:
                raise too_large(shown, limit)
            if piece:
                yield piece
            if decoder.eof:
                data, decoder = decoder.unused_data, None
            elif decoder.needs_input:
                break
    if decoder is not None:
        raise PlanRefused(
            f"image {shown} is truncated: its {name} stream has no end; copy the image again"
        )


def _errors(kind: Packing) -> type[Exception]:
    if kind == "xz":
        import lzma

        return lzma.LZMAError
    return zlib.error


def _decoder(kind: Packing) -> Decoder:
    # a call that unpacks nothing needs neither lzma, which a Python may lack, nor zstd
    if kind == "gz":
        return _Gzip()
    if kind == "xz":
        import lzma

        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY)
    from .read_zstd import Zstd

    try:
        return Zstd()
    except OSError:
        raise DependencyMissing(
            "the zstd library (libzstd.so.1) is not installed; install the package libzstd1 or"
            " libzstd"
        ) from None


class _Gzip:
    """zlib's decompressor with the interface of lzma's."""

    def __init__(self) -> None:
        self._raw = zlib.decompressobj(wbits=31)  # with gzip's header and checksum
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._raw.eof

    @property
    def unused_data(self) -> bytes:
        return self._raw.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        piece = self._raw.decompress(self._raw.unconsumed_tail + data, max_length)
        # after a full piece, more output may be pending that needs no further input
        self.needs_input = not self._raw.unconsumed_tail and len(piece) < max_length
        return piece
