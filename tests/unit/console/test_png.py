# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pictures of screens: what libvirt gives becomes a PNG, and what is none is told so."""

from __future__ import annotations

import random
import struct
import zlib
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console import png, report
from ansible_collections.fleet.virt.plugins.plugin_utils.console import _pages

_OF_LIBVIRT = Path("/usr/share/libvirt/test-screenshot.png")


def _chunk(kind: bytes, data: bytes) -> bytes:
    check = struct.pack(">I", zlib.crc32(kind + data))
    return struct.pack(">I", len(data)) + kind + data + check


def _png(
    width: int = 2, height: int = 1, rows: bytes = b"\0abcdef", more: bytes = b"", kind: int = 2
) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    content = _chunk(b"IDAT", zlib.compress(rows))
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + more + content + _chunk(b"IEND", b"")


def test_of_qemu_before_7_1() -> None:
    made = png.from_screen(b"P6\n2 1\n255\nabcdef")
    assert (made.width, made.height) == (2, 1)
    assert made == png.checked(made.content)
    assert zlib.decompress(made.content[41:].partition(b"IEND")[0]) == b"\0abcdef"


def test_of_libvirt_itself() -> None:
    """As its test driver gives it."""
    made = png.from_screen(_OF_LIBVIRT.read_bytes())
    assert made.width > 1 < made.height
    assert png.checked(made.content) == made


def test_only_the_picture_is_kept() -> None:
    text = _chunk(b"tEXt", b"Comment\0<script>") + _chunk(b"eXIf", b"x")
    assert png.checked(_png(more=text)).content == png.checked(_png()).content
    assert b"script" not in png.checked(_png(more=text)).content


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "neither PNG nor PPM"),
        (b"<html>", "neither PNG nor PPM"),
        (b"P6 no size", "without its size"),
        (b"P6\n99999 1\n255\n", "cannot be shown"),
        (b"P6\n16384 16384\n255\n", "cannot be shown"),
        (b"P6\n0 1\n255\n", "cannot be shown"),
        (b"P6\n2 1\n255\nabc", "2x1 has 3 bytes"),
        (_png()[:-1], "ends too early"),
        (_png()[:-12], "ends too early"),
        (_png().replace(b"IDAT", b"IDAX"), "damaged"),
        (_png(more=_chunk(b"XXXX", b"")), "of a kind"),
        (_png(kind=5), "of a kind"),
        (_png(width=3), "not match its stated size"),
        (_png(rows=b"\0abcdefg"), "not match its stated size"),
        (_png(rows=bytes(20_000_000)), "not match its stated size"),
        (b"\x89PNG\r\n\x1a\n" + _chunk(b"IEND", b""), "does not state its size"),
    ],
)
def test_what_is_none(content: bytes, said: str) -> None:
    with pytest.raises(FleetVirtError, match=said):
        png.from_screen(content)


def test_any_bytes_are_a_picture_or_told_to_be_none() -> None:
    chance = random.Random(20261123)  # noqa: S311 (bytes to change, no secret)
    whole = _png(4, 4, bytes(13 * 4))
    told = 0
    for _turn in range(2000):
        content = bytearray(whole)
        for _change in range(chance.randint(1, 3)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        try:
            png.from_screen(bytes(content[: chance.randint(1, len(content))]))
        except FleetVirtError:
            told += 1
    assert told > 1900


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("web1", "web1"),
        ("../../etc", "%2E.%2F..%2Fetc"),
        (".hidden", "%2Ehidden"),
        ("a b\n", "a b%0A"),
        ("", None),
        ("x" * 300, None),
    ],
)
def test_names_of_files(name: str, file: str | None) -> None:
    assert report.file_name(name) == file


def test_the_page_has_no_words_of_guests_but_as_text() -> None:
    evil = '"><script>alert(1)</script>'
    page = _pages.screens([report.Screen(evil, "hv1", f"hv1/{report.file_name(evil)}.png", 1, 1)])
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "default-src 'none'" in page


def test_page_with_two_screens_has_a_line_of_each_picture() -> None:
    views = [
        report.Screen("web1", "hv1", "hv1/web1.png", 1, 1),
        report.Screen("off", "hv1", None, problem="it is shutoff"),
        report.Screen("a 'b' & c", "hv2", "hv2/a %27b%27.png", 1, 1),
    ]
    body = _pages.screens(views).partition("<body>\n")[2]
    assert body == (
        '<div>\n<figure><a href="hv1/web1.png"><img src="hv1/web1.png" alt="web1"></a>'
        "<figcaption>web1 on hv1</figcaption></figure>\n"
        '<figure><a href="hv2/a%20%2527b%2527.png"><img src="hv2/a%20%2527b%2527.png"'
        ' alt="a &#39;b&#39; &amp; c"></a>'
        "<figcaption>a &#39;b&#39; &amp; c on hv2</figcaption></figure>\n"
        "</div>\n</body>\n</html>\n"
    )


def test_what_is_shown() -> None:
    screens = [
        report.Screen("web1", "hv1", "hv1/web1.png", 720, 400),
        report.Screen("db1", "hv2", None, problem="it is shutoff", failed=True),
    ]
    shown = report.text(screens, {"hv3": "it did not answer"})
    assert "web1  hv1         720x400  hv1/web1.png" in shown
    assert "db1 on hv2: it is shutoff" in shown
    assert "hv3: no answer: it did not answer" in shown
    assert report.text([], {}) == "no VM is running\n"
