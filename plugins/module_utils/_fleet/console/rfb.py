# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filter between a guest's screen (VNC) and its viewer.

A screen is drawn by a QEMU process that its guest may have taken over. So every message of both
sides is parsed; pictures, keys and the pointer pass, clipboards, names, bells and sound do not, and
an invalid message ends the connection. A viewer is offered only encodings whose length can be
parsed here.

Source: RFC 6143; the community's rfbproto for the pseudo-encodings; QEMU's ui/vnc.c.
"""

from __future__ import annotations

import struct
import typing as t

from ..._errors import FleetVirtError
from .png import MOST_PIXELS, MOST_SIDE

_VERSION = b"RFB 003.008\n"
_NONE, _PASSWORD = 1, 2
_SECURITY = (_NONE, _PASSWORD)
_MOST_TEXT = 65536  # bytes of a name or a reason, which are not shown
_MOST_CUT = 16 * 1024 * 1024  # bytes of a clipboard, which are dropped
_MOST_CURSOR = 1024  # pixels per side
_MOST_PACKED = 256 * 1024 * 1024  # bytes of one compressed rectangle
_BLOCK = 65536

_RAW, _COPY, _TIGHT, _ZRLE = 0, 1, 7, 16
_CURSOR, _SIZE, _LAST, _MOTION, _KEYS, _LEDS, _SIZES = -239, -223, -224, -257, -258, -261, -308
_ENCODINGS = frozenset(
    {_RAW, _COPY, _TIGHT, _ZRLE, _CURSOR, _SIZE, _LAST, _MOTION, _KEYS, _LEDS, _SIZES}
    | set(range(-32, -22))  # quality
    | set(range(-256, -246))  # compression
)
_FRAME, _COLOURS, _BELL, _CUT = 0, 1, 2, 3  # of the server
_FORMAT, _WANTED, _ASK, _KEY, _POINTER, _PASTE, _RESIZE, _QEMU = 0, 2, 3, 4, 5, 6, 251, 255
_MORE = 0xFFFF  # rectangles: an unknown number, until the last-rectangle marker

Steps = t.Generator[int, bytes, None]  # each step requests a number of bytes


class Hostile(FleetVirtError):
    """A message that neither a screen nor a viewer sends."""


class Refused(FleetVirtError):
    """Access denied: the password is wrong or expired, or another authentication is required."""


class Gate:
    """Both directions of one connection. ``title`` is the name that is sent to the viewer.

    Data from either side is passed to :meth:`from_server` or :meth:`from_viewer`, which return
    what to send to the other side. Both raise Hostile and Refused, after which nothing is sent.
    """

    def __init__(self, title: str) -> None:
        self.open = False  # whether pictures may be sent
        self.farewell = b""  # sent to the viewer before it is disconnected
        self._title = title.encode("utf-8", "replace")[:_MOST_TEXT]
        self._security: int | None = None
        self._offered: tuple[int, ...] = ()
        self._asked = False
        self._pixel, self._short = 4, False  # bytes; whether Tight sends three of the four
        self._to_viewer, self._to_server = bytearray(), bytearray()
        self._server = _Side(self._of_server())
        self._viewer = _Side(self._of_viewer())

    def from_server(self, data: bytes) -> bytes:
        """The data to send to the viewer."""
        self._server.feed(data)
        return _taken(self._to_viewer)

    def from_viewer(self, data: bytes) -> bytes:
        """The data to send to the screen."""
        self._viewer.feed(data)
        return _taken(self._to_server)

    def _of_server(self) -> Steps:
        version = yield 12
        if not version.startswith(b"RFB 003.00") or version < _VERSION:
            raise Hostile("the server is not a screen (VNC, RFB 3.8)")
        self._to_viewer += _VERSION
        yield from self._offer()
        while self._security is None:
            yield 0  # nothing comes before the viewer has chosen
        if self._security == _PASSWORD:
            self._to_viewer += yield 16
        (result,) = struct.unpack("!I", (yield 4))
        if result != 0:
            reason = "the password is wrong, or no longer valid"
            self.farewell = struct.pack("!II", 1, len(reason)) + reason.encode("ascii")
            raise Refused(reason)
        self._to_viewer += struct.pack("!I", 0)
        yield from self._begin()
        while True:
            (kind,) = yield 1
            yield from self._message(kind)

    def _offer(self) -> Steps:
        (count,) = yield 1
        if not count:
            (length,) = struct.unpack("!I", (yield 4))
            yield from _skipped(length, _MOST_TEXT, "a reason")
            raise Refused(
                "the screen refuses all clients, as after many wrong passwords; try later"
            )
        offered = yield count
        self._offered = tuple(kind for kind in offered if kind in _SECURITY)
        if not self._offered:
            raise Refused(
                "the screen asks for a certificate (VNC with TLS), as does any VM that was started"
                " before its hypervisor was set up; shut the VM down and start it, or move it"
            )
        self._to_viewer += bytes([len(self._offered), *self._offered])

    def _begin(self) -> Steps:
        head = yield 24
        width, height = struct.unpack("!HH", head[:4])
        _require_size(width, height)
        self._set_format(head[4:20])
        (length,) = struct.unpack("!I", head[20:])
        yield from _skipped(length, _MOST_TEXT, "a name")
        self._to_viewer += head[:20] + struct.pack("!I", len(self._title)) + self._title
        self.open = True

    def _message(self, kind: int) -> Steps:
        if kind == _FRAME:
            yield from self._frame()
        elif kind == _COLOURS:
            head = yield 5
            self._to_viewer += bytes([kind]) + head
            yield from self._passed(6 * struct.unpack("!H", head[3:])[0])
        elif kind == _CUT:
            (length,) = struct.unpack("!3xi", (yield 7))
            yield from _skipped(abs(length), _MOST_CUT, "a clipboard")
        elif kind != _BELL:
            raise Hostile(f"a message of type {kind}, which no screen sends")

    def _frame(self) -> Steps:
        head = yield 3
        self._to_viewer += bytes([_FRAME]) + head
        (count,) = struct.unpack("!xH", head)
        done = 0
        while done < count or count == _MORE:
            head = yield 12
            self._to_viewer += head
            width, height, encoding = struct.unpack("!4xHHi", head)
            if encoding == _LAST:
                return
            yield from self._rectangle(width, height, encoding)
            done += 1

    def _rectangle(self, width: int, height: int, encoding: int) -> Steps:
        _require_size(width, height)
        if encoding == _RAW:
            yield from self._passed(width * height * self._pixel)
        elif encoding == _COPY:
            yield from self._passed(4)
        elif encoding == _TIGHT:
            yield from self._tight(width, height)
        elif encoding == _ZRLE:
            head = yield 4
            (length,) = struct.unpack("!I", head)
            if length > _MOST_PACKED:
                raise Hostile(f"a picture of {length} bytes (limit: {_MOST_PACKED})")
            self._to_viewer += head
            yield from self._passed(length)
        elif encoding == _CURSOR:
            if max(width, height) > _MOST_CURSOR:
                raise Hostile(f"a pointer of {width}x{height} pixels (limit: {_MOST_CURSOR})")
            yield from self._passed(width * height * self._pixel + (width + 7) // 8 * height)
        elif encoding == _LEDS:
            yield from self._passed(1)
        elif encoding == _SIZES:
            head = yield 4
            self._to_viewer += head
            yield from self._passed(16 * head[0])
        elif encoding not in (_SIZE, _MOTION, _KEYS):
            raise Hostile(f"a picture in an encoding that was not requested ({encoding})")

    def _tight(self, width: int, height: int) -> Steps:
        control = yield 1
        self._to_viewer += control
        way, pixel = control[0] >> 4, 3 if self._short else self._pixel
        if way == 8:
            yield from self._passed(pixel)
        elif way == 9:
            yield from self._packed()
        elif way < 8:
            size = width * height * pixel
            if way & 4:
                chosen = yield 1
                self._to_viewer += chosen
                if chosen[0] == 1:
                    colours = yield 1
                    self._to_viewer += colours
                    yield from self._passed((colours[0] + 1) * pixel)
                    size = (width + 7) // 8 * height if colours[0] < 2 else width * height
                elif chosen[0] > 2:
                    raise Hostile("a picture with an unknown filter")
            if size < 12:
                yield from self._passed(size)
            else:
                yield from self._packed()
        else:
            raise Hostile("a picture with an unknown compression")

    def _packed(self) -> Steps:
        """Read a length of up to three bytes, and that many bytes."""
        length = 0
        for number in range(3):
            byte = yield 1
            self._to_viewer += byte
            length |= (byte[0] & (0x7F if number < 2 else 0xFF)) << (7 * number)
            if not byte[0] & 0x80:
                break
        yield from self._passed(length)

    def _passed(self, length: int) -> Steps:
        while length > 0:
            part = yield min(length, _BLOCK)
            self._to_viewer += part
            length -= len(part)

    def _of_viewer(self) -> Steps:
        version = yield 12
        if version != _VERSION:
            raise Refused("the viewer is too old; it must support RFB 3.8")
        self._to_server += version
        (security,) = yield 1
        if security not in self._offered:
            raise Refused(
                "the viewer asks for a kind of authentication that the screen does not offer"
            )
        self._to_server.append(security)
        self._security = security
        if security == _PASSWORD:
            self._to_server += yield 16
        yield 1  # whether it shares the screen, as all viewers do
        self._to_server += b"\1"
        while True:
            (kind,) = yield 1
            yield from self._command(kind)

    def _command(self, kind: int) -> Steps:
        if kind == _FORMAT:
            body = yield 19
            if self._asked:  # frames in the old format are under way
                raise Refused("the viewer changes its colours while connected; set them once")
            self._set_format(body[3:])
            self._to_server += bytes([kind]) + body
        elif kind == _WANTED:
            (count,) = struct.unpack("!xH", (yield 3))
            asked = struct.unpack(f"!{count}i", (yield 4 * count))
            kept = [one for one in asked if one in _ENCODINGS]
            self._to_server += struct.pack(f"!BxH{len(kept)}i", kind, len(kept), *kept)
        elif kind in (_ASK, _KEY, _POINTER):
            self._asked = self._asked or kind == _ASK
            body = yield {_ASK: 9, _KEY: 7, _POINTER: 5}[kind]
            self._to_server += bytes([kind]) + body
        elif kind == _PASTE:
            (length,) = struct.unpack("!3xi", (yield 7))
            yield from _skipped(abs(length), _MOST_CUT, "a clipboard")
        elif kind == _RESIZE:
            head = yield 7
            self._to_server += bytes([kind]) + head
            self._to_server += yield 16 * head[5]
        elif kind == _QEMU:
            (kind_of_it,) = yield 1
            if kind_of_it != 0:
                raise Refused("the viewer asks for sound, which is not allowed here")
            self._to_server += bytes([kind, 0])
            self._to_server += yield 10
        else:
            raise Refused(f"the viewer sends a message of type {kind}, which is not allowed here")

    def _set_format(self, form: bytes) -> None:
        bits, depth, _order, true, *most = struct.unpack("!BBBBHHH", form[:10])
        if bits not in (8, 16, 32):
            raise Hostile(f"pixels of {bits} bits")
        self._pixel = bits // 8
        self._short = bool(true) and (bits, depth) == (32, 24) and most == [255] * 3


class _Side:
    """Data from one side that is not parsed yet."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._kept = bytearray()
        self._needed = next(steps)

    def feed(self, data: bytes) -> None:
        self._kept += data
        start = 0
        while len(self._kept) - start >= max(1, self._needed):
            part = bytes(self._kept[start : start + self._needed])
            start += self._needed
            waiting = self._needed == 0
            self._needed = self._steps.send(part)
            if waiting and self._needed == 0:
                raise Hostile("a screen that sends data before it is asked")
        del self._kept[:start]


def _taken(buffer: bytearray) -> bytes:
    content = bytes(buffer)
    buffer.clear()
    return content


def _skipped(length: int, most: int, what: str) -> Steps:
    if length > most:
        raise Hostile(f"{what} of {length} bytes (limit: {most})")
    while length > 0:
        length -= len((yield min(length, _BLOCK)))


def _require_size(width: int, height: int) -> None:
    if max(width, height) > MOST_SIDE or width * height > MOST_PIXELS:
        raise Hostile(
            f"a screen of {width}x{height} pixels, which cannot be shown (limit: {MOST_SIDE}"
            f" a side, {MOST_PIXELS} in all)"
        )
