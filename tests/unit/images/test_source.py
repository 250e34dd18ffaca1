# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The four ways to name an image, and what is refused."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.source import parse_image

SHA256 = "sha256:" + "0123456789abcdef" * 4
SHA512 = "sha512:" + "0123456789abcdef" * 8

GOOD = [
    ("centos.img", "file", "centos.img"),
    ("my image (1).qcow2", "file", "my image (1).qcow2"),
    ("/var/lib/libvirt/images/centos.qcow2", "path", "centos.qcow2"),
    ("/..hidden/..x", "path", "..x"),
    (f"https://example.org/a/b.qcow2#{SHA256}", "url", "b.qcow2"),
    (f"https://x/{'a' * 180}#{SHA256}", "url", "a" * 180),
    (f"https://example.org:8443/b.qcow2?x=1#{SHA512}", "url", "b.qcow2"),
    ("base/centos.qcow2", "volume", "centos.qcow2"),
]


@pytest.mark.parametrize(("value", "kind", "name"), GOOD)
def test_good(value: str, kind: str, name: str) -> None:
    source = parse_image(value)
    assert (source.kind, source.value, source.file_name) == (kind, value, name)


def test_a_url_and_its_checksum() -> None:
    source = parse_image({"url": "https://example.org/b.qcow2", "checksum": SHA256.upper()})
    assert source == parse_image(f"https://example.org/b.qcow2#{SHA256}")
    assert (source.url, str(source.checksum)) == ("https://example.org/b.qcow2", SHA256)


BAD: list[tuple[t.Any, str]] = [
    (None, "not an image"),
    (5, "not an image"),
    ("", "not an image"),
    ("  ", "not an image"),
    ("a\nb", "not an image"),
    ("a\0b", "not an image"),
    ("a" * 1025, "1024"),
    ("-rf", "not an image"),
    (".hidden", "not an image"),
    ("a/b/c", "not an image"),
    ("pool/", "not an image"),
    ("../x", "'..'"),
    ("a/..", "'..'"),
    ("/a/../b", "'..'"),
    ("/", "ends in '/'"),
    ("/images/", "ends in '/'"),
    ("//host/share", "'//'"),
    ("http://x/y", "https"),
    ("ftp://x/y", "https"),
    ("file:///etc/shadow", "https"),
    ("https:///y", "host and a file name"),
    ("https://x", "host and a file name"),
    ("https://x/", "host and a file name"),
    ("https://[x/y", "host and a file name"),
    (f"https://x/..#{SHA256}", "does not end with a file name"),
    (f"https://x/a/.#{SHA256}", "does not end with a file name"),
    (f"https://x/.hidden#{SHA256}", "does not end with a file name"),
    (f"https://x/-rf#{SHA256}", "does not end with a file name"),
    (f"https://x/{'a' * 181}#{SHA256}", "at most 180 bytes"),
    (f"https://x/{chr(228) * 91}#{SHA256}", "at most 180 bytes"),
    ("salt://centos.img", "write centos.img"),
    ("https://x/y", "has no checksum"),
    ("https://x/y#", "has no checksum"),
    ("https://x/y#part", "sha256: and 64"),
    (f"https://x/y#{SHA256}0", "sha256: and 64"),
    (f"https://x/y#{SHA256}#{SHA256}", "sha256: and 64"),
    ("https://x/y#md5:" + "0" * 32, "sha256: and 64"),
    ({"url": "https://x/y"}, "mapping"),
    ({"url": "https://x/y", "checksum": None}, "sha256: and 64"),
    ({"url": f"https://x/y#{SHA256}", "checksum": SHA256}, "'#'"),
    ({"url": "/etc/shadow", "checksum": SHA256}, "mapping"),
    ({"url": "http://x/y", "checksum": SHA256}, "https"),
    ({"url": "https://x/y", "checksum": SHA256, "name": "z"}, "mapping"),
]


@pytest.mark.parametrize(("value", "words"), BAD, ids=lambda value: repr(value)[:30])
def test_bad(value: t.Any, words: str) -> None:
    with pytest.raises(ValueError, match="write") as caught:
        parse_image(value)
    assert words in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_password_in_a_url_is_refused_and_not_shown() -> None:
    with pytest.raises(ValueError, match="not contain a password") as caught:
        parse_image("https://me:hunter2@example.org/x.img")
    assert "hunter2" not in str(caught.value)
