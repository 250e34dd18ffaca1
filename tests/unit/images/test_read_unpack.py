# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compressed images: whole, in parts, damaged, hostile."""

from __future__ import annotations

import ctypes
import gzip
import hashlib
import io
import lzma
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images import (
    read_check as image_check,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images import read_unpack as unpack
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.effects_digests import (
    DigestCache,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.image_format import (
    Packing,
    packing,
)

MIB = 1 << 20
RAW = b"a disk".ljust(512, b"\1") + os.urandom(MIB) + bytes(3 * MIB) + os.urandom(2560)
KINDS: list[Packing] = ["gz", "xz", "zst"]


def zstd(data: bytes) -> bytes:
    """What zstd's library makes of it: Python has nothing that packs."""
    library = ctypes.CDLL("libzstd.so.1")
    library.ZSTD_compressBound.restype = library.ZSTD_compress.restype = ctypes.c_size_t
    bound = library.ZSTD_compressBound(ctypes.c_size_t(len(data)))
    room = ctypes.create_string_buffer(bound)
    sizes = [ctypes.c_size_t(size) for size in (bound, len(data))]
    length = library.ZSTD_compress(room, sizes[0], data, sizes[1], 1)
    return room.raw[:length]


def packed(kind: Packing, data: bytes) -> bytes:
    if kind == "gz":
        return gzip.compress(data, 1)
    return lzma.compress(data, preset=0) if kind == "xz" else zstd(data)


def pieces(data: bytes, size: int = 1000) -> Iterator[bytes]:
    """The data as a network brings it."""
    return (data[at : at + size] for at in range(0, len(data), size))


def unpacked(data: bytes, size: int = 1000, **more: int) -> bytes:
    return b"".join(unpack.content(pieces(data, size), "x.img", **more))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 7, 1000, 1 << 18, 1 << 24])
def test_unpacked_in_whatever_pieces_it_comes(kind: Packing, size: int) -> None:
    data = RAW[:4096] if size < 1000 else RAW
    file = packed(kind, data)
    assert packing(file) == kind
    assert unpacked(file, size) == data


def test_what_is_not_packed_is_as_it_is() -> None:
    assert unpacked(RAW) == RAW
    assert packing(RAW) is None
    assert packing(b"") is None


@pytest.mark.parametrize("kind", KINDS)
def test_several_streams_and_padding(kind: Packing) -> None:
    """As pigz, pixz and pzstd write them, and as tapes fill them up."""
    file = packed(kind, RAW[:MIB]) + packed(kind, b"") + packed(kind, RAW[MIB:]) + bytes(512)
    assert unpacked(file) == RAW


def test_a_frame_that_is_skipped() -> None:
    frame = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"abcd"
    assert packing(frame) == "zst"
    assert unpacked(frame + packed("zst", RAW)) == RAW


@pytest.mark.parametrize("kind", KINDS)
def test_truncated(kind: Packing) -> None:
    file = packed(kind, RAW)
    for length in (len(file) // 2, len(file) - 1):
        with pytest.raises(PlanRefused, match=r"image x\.img is truncated: its .* has no end"):
            unpacked(file[:length])


@pytest.mark.parametrize("kind", KINDS)
def test_corrupt(kind: Packing) -> None:
    file = bytearray(packed(kind, RAW))
    file[len(file) // 2] ^= 0xFF
    if kind != "zst":  # whose checksum is optional; the digest of what comes is not
        with pytest.raises(PlanRefused, match=r"and corrupt \(|truncated"):
            unpacked(bytes(file))
    file[9:80] = b"\xff" * 71
    with pytest.raises(PlanRefused, match=r"is compressed with .* and corrupt \("):
        unpacked(bytes(file))


@pytest.mark.parametrize("kind", KINDS)
def test_rubbish_behind_it(kind: Packing) -> None:
    with pytest.raises(PlanRefused, match="and corrupt"):
        unpacked(packed(kind, RAW) + b"rubbish" * 100)


@pytest.mark.parametrize("kind", KINDS)
def test_a_bomb_ends_at_the_limit(kind: Packing) -> None:
    """Of 64 MiB in a few kilobytes no more comes than was asked for, in pieces of bounded size."""
    file = packed(kind, bytes(64 * MIB))
    assert len(file) < MIB
    blocks = unpack.content([file], "x.img", 5 * MIB)
    came = []
    with pytest.raises(PlanRefused, match=r"more than 5242880 bytes \(5\.0MiB\).*max_unpacked"):
        came += [len(block) for block in blocks]
    for block in unpack.content([file], "x.img", 64 * MIB):
        came.append(len(block))
    assert max(came) <= MIB
    assert sum(came) == 64 * MIB


def test_memory_is_bounded() -> None:
    """A file that asks for a gigabyte of memory is refused."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 30}]
    head = lzma.compress(b"x", filters=filters)
    with pytest.raises(PlanRefused, match=r"corrupt \(Memory usage limit"):
        unpacked(head)
    window = bytes([21 << 3])  # of 2 GiB (RFC 8878, 3.1.1.1.2)
    with pytest.raises(PlanRefused, match=r"corrupt \(.*too much memory"):
        unpacked(b"\x28\xb5\x2f\xfd\0" + window + b"\1\0\0")


def inside() -> list[tuple[str, bytes, str]]:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("disk.raw"))
    overlay = b"QFI\xfb" + (3).to_bytes(4, "big") + (104).to_bytes(8, "big")
    overlay += (11).to_bytes(4, "big") + (16).to_bytes(4, "big") + (MIB).to_bytes(8, "big")
    overlay = overlay.ljust(104, b"\0") + b"/etc/shadow"
    return [
        ("twice", gzip.compress(RAW), r"x\.img \(unpacked\) is compressed with gzip"),
        ("archive", archive.getvalue(), r"\(unpacked\) is a tar archive"),
        ("page", b"<!DOCTYPE html><title>Not found</title>", "is a web page"),
        ("overlay", overlay.ljust(4096, b"\0"), r"has a backing file \('/etc/shadow'\)"),
    ]


@pytest.mark.parametrize(("_name", "data", "message"), inside(), ids=lambda value: str(value)[:8])
def test_what_is_no_image_inside(_name: str, data: bytes, message: str) -> None:
    with pytest.raises(PlanRefused, match=message):
        next(unpack.content([packed("xz", data)], "x.img"))


def read(path: Path, cache: Path, **more: int) -> tuple[str, str, int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        digest, found = image_check.read_content(descriptor, path.name, DigestCache(cache), **more)
    finally:
        os.close(descriptor)
    return str(digest), found.format, found.virtual_bytes


@pytest.mark.parametrize("kind", KINDS)
def test_known_by_what_it_holds(
    kind: Packing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ansible_collections.fleet.virt.plugins.module_utils._fleet.images import (
        effects_digests as digests,
    )

    monkeypatch.setattr(digests, "_SETTLED_NS", -1)
    path, cache = tmp_path / "disk", tmp_path / "digests.json"
    path.write_bytes(packed(kind, RAW))
    expected = (hashlib.sha256(RAW).hexdigest(), "raw", len(RAW))
    assert read(path, cache) == expected
    assert expected[0] in cache.read_text()
    monkeypatch.setattr(hashlib, "sha256", None)  # nothing is summed again
    assert read(path, cache) == expected
    with pytest.raises(PlanRefused, match="max_unpacked"):
        read(path, cache, limit=MIB)


def test_an_odd_size_is_found_when_all_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "disk"
    path.write_bytes(gzip.compress(RAW + b"x"))
    with pytest.raises(PlanRefused, match=r"disk \(unpacked\) is not a disk image, or truncated"):
        read(path, tmp_path / "digests.json")
