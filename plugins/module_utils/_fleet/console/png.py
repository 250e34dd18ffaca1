# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pictures of screens as PNG: made from QEMU's output, and checked before anyone opens them.

A picture is guest content that comes from a hypervisor. Only the parts that every PNG has are kept,
and only if the picture has its stated size.

Source: W3C PNG specification; netpbm's ppm(5).
"""

from __future__ import annotations

import re
import struct
import typing as t
import zlib

from ..._errors import FleetVirtError

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PPM = re.compile(rb"P6\s+(?:#[^\n]*\n\s*)*(\d{1,5})\s+(\d{1,5})\s+255\s")
MOST_SIDE = 16384  # pixels per side: the most that QEMU's adapters can be set to
MOST_PIXELS = 64 * 1024 * 1024  # what a browser can show without harm
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # by colour type
_CRITICAL = (b"IHDR", b"PLTE", b"IDAT", b"IEND")  # the rest is text, time and the like
_BLOCK = 1024 * 1024


class Picture(t.NamedTuple):
    """A PNG and its size in pixels."""

    content: bytes
    width: int
    height: int


def from_screen(content: bytes) -> Picture:
    """The picture in libvirt's data (virDomainScreenshot): PNG, or PPM from QEMU before 7.1.

    Raises FleetVirtError for anything else.
    """
    return _from_ppm(content) if content.startswith(b"P6") else checked(content)


def _from_ppm(content: bytes) -> Picture:
    head = _PPM.match(content)
    if head is None:
        raise FleetVirtError("a PPM picture of a screen without its size")
    width, height = int(head[1]), int(head[2])
    _require_size(width, height)
    rows = content[head.end() :]
    row = 3 * width
    if len(rows) != row * height:
        raise FleetVirtError(f"a screen of {width}x{height} has {len(rows)} bytes")
    plain = b"".join(b"\0" + rows[start : start + row] for start in range(0, len(rows), row))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return Picture(_written(header, [(b"IDAT", zlib.compress(plain, 6))]), width, height)


def checked(content: bytes) -> Picture:
    """The picture without any other content; raises FleetVirtError if it is not one."""
    chunks = list(_chunks(content))
    if not chunks or chunks[0][0] != b"IHDR" or len(chunks[0][1]) != 13:
        raise FleetVirtError("a PNG that does not state its size")
    header = chunks[0][1]
    width, height, depth, colour, *methods = struct.unpack(">IIBBBBB", header)
    _require_size(width, height)
    if depth not in (1, 2, 4, 8, 16) or colour not in _CHANNELS or methods != [0, 0, 0]:
        raise FleetVirtError("a PNG of a kind that QEMU does not draw")
    kept = [(kind, data) for kind, data in chunks[1:] if kind in (b"PLTE", b"IDAT")]
    row = 1 + (width * depth * _CHANNELS[colour] + 7) // 8
    _require_content([data for kind, data in kept if kind == b"IDAT"], row * height)
    return Picture(_written(header, kept), width, height)


def _require_size(width: int, height: int) -> None:
    if not 0 < width <= MOST_SIDE or not 0 < height <= MOST_SIDE or width * height > MOST_PIXELS:
        raise FleetVirtError(
            f"a screen of {width}x{height} pixels, which cannot be shown (limit: {MOST_SIDE}"
            f" a side, {MOST_PIXELS} in all)"
        )


def _require_content(parts: t.Sequence[bytes], expected: int) -> None:
    """Check the content, decompressed block by block: its stated size is not trusted."""
    unpacker, size = zlib.decompressobj(), 0
    try:
        for part in parts:
            rest = part
            while rest and size <= expected:
                size += len(unpacker.decompress(rest, _BLOCK))
                rest = unpacker.unconsumed_tail
        while size <= expected and (more := unpacker.decompress(b"", _BLOCK)):
            size += len(more)
    except zlib.error:
        raise FleetVirtError("a PNG whose content cannot be decompressed") from None
    if size != expected or not unpacker.eof:
        raise FleetVirtError("a PNG whose content does not match its stated size")


def _chunks(content: bytes) -> t.Iterator[tuple[bytes, bytes]]:
    if not content.startswith(_SIGNATURE):
        raise FleetVirtError("a screen that is neither PNG nor PPM")
    position = len(_SIGNATURE)
    while position < len(content):
        if len(content) < position + 12:
            raise FleetVirtError("a PNG that ends too early")
        length, kind = struct.unpack(">I4s", content[position : position + 8])
        data = content[position + 8 : position + 8 + length]
        check = content[position + 8 + length : position + 12 + length]
        if len(check) != 4 or struct.unpack(">I", check)[0] != zlib.crc32(kind + data):
            raise FleetVirtError("a PNG that is damaged")
        if kind[:1].isupper() and kind not in _CRITICAL:
            raise FleetVirtError("a PNG of a kind that QEMU does not draw")
        yield kind, data
        if kind == b"IEND":
            return
        position += 12 + length
    raise FleetVirtError("a PNG that ends too early")


def _written(header: bytes, chunks: t.Iterable[tuple[bytes, bytes]]) -> bytes:
    parts = [_SIGNATURE]
    for kind, data in [(b"IHDR", header), *chunks, (b"IEND", b"")]:
        parts.append(struct.pack(">I", len(data)) + kind + data)
        parts.append(struct.pack(">I", zlib.crc32(kind + data)))
    return b"".join(parts)
