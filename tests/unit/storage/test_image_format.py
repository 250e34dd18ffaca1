# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The format of an image by its content: headers made by hand, and images made by qemu-img."""

from __future__ import annotations

import gzip
import io
import lzma
import re
import shutil
import struct
import subprocess
import tarfile
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage import image_format
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.image_format import (
    HEAD_BYTES,
    ImageFormat,
    parse_header,
)

GIB = 1 << 30
SIZE = 4 * 65536  # of the smallest file that holds the header's tables
needs_qemu_img = pytest.mark.skipif(shutil.which("qemu-img") is None, reason="no qemu-img here")


def qcow2(**changes: int) -> bytes:
    """The header of a sound, empty qcow2 image of 1 GiB, with some fields changed."""
    fields = {
        "version": 3,
        "backing_offset": 0,
        "backing_length": 0,
        "cluster_bits": 16,
        "virtual": GIB,
        "encryption": 0,
        "l1_entries": 2,
        "l1_offset": 3 * 65536,
        "refcount_offset": 65536,
        "refcount_clusters": 1,
        "snapshots": 0,
        "snapshots_offset": 0,
        "features": 0,
        **changes,
    }
    features = fields.pop("features")
    head = struct.pack(">4sIQIIQIIQQIIQ", b"QFI\xfb", *fields.values())
    if fields["version"] == 3:
        head += struct.pack(">QQQII", features, 0, 0, 4, 104)
    return head


def gpt(last: int, sector: int = 512) -> bytes:
    """The start of a raw disk whose partition table has its copy in the sector ``last``."""
    table = b"EFI PART" + bytes(24) + struct.pack("<Q", last)
    return bytes(sector) + table.ljust(sector, b"\0")


def judge(head: bytes, size: int | None = None) -> ImageFormat:
    content = head.ljust(SIZE, b"\0") if size is None else head
    return parse_header(content[:HEAD_BYTES], SIZE if size is None else size)


SOUND: list[tuple[str, bytes, int | None, tuple[str, int]]] = [
    ("qcow2 version 3", qcow2(), None, ("qcow2", GIB)),
    ("qcow2 version 2", qcow2(version=2), None, ("qcow2", GIB)),
    ("qcow2 with small clusters", qcow2(cluster_bits=9, l1_entries=32768), 1 << 20, ("qcow2", GIB)),
    ("qcow2 with compression", qcow2(features=1 << 3), None, ("qcow2", GIB)),
    ("qcow2 with extended L2", qcow2(features=1 << 4, l1_entries=4), None, ("qcow2", GIB)),
    ("qcow2 of no whole sectors", qcow2(virtual=GIB - 1), None, ("qcow2", GIB - 512)),
    ("raw zeros", b"", None, ("raw", SIZE)),
    ("raw with GPT", gpt(SIZE // 512 - 1), None, ("raw", SIZE)),
    ("raw with GPT and room behind", gpt(3), None, ("raw", SIZE)),
    ("raw with GPT of 4 KiB sectors", gpt(SIZE // 4096 - 1, 4096), None, ("raw", SIZE)),
    ("raw with MBR", bytes(510) + b"\x55\xaa", None, ("raw", SIZE)),
    ("raw one sector", bytes(512), 512, ("raw", 512)),
    ("raw that speaks of qcow2 later", bytes(512) + b"QFI\xfb", None, ("raw", SIZE)),
    ("raw ISO 9660", bytes(32769) + b"CD001", None, ("raw", SIZE)),
]


@pytest.mark.parametrize(
    ("head", "size", "expected"), [row[1:] for row in SOUND], ids=[row[0] for row in SOUND]
)
def test_sound(head: bytes, size: int | None, expected: tuple[str, int]) -> None:
    assert judge(head, size) == ImageFormat(*expected)  # type: ignore[arg-type]


TAR = io.BytesIO()
with tarfile.open(fileobj=TAR, mode="w") as archive:
    archive.addfile(tarfile.TarInfo("disk.raw"))

REFUSED: list[tuple[str, bytes, int | None, str]] = [
    ("empty", b"", 0, "is empty"),
    ("odd size", bytes(1000), 1000, "not a multiple of 512"),
    ("text", b"centos.img\n", 11, "not a multiple of 512"),
    ("HTML", b"<!DOCTYPE html><title>404</title>", None, "is a web page"),
    ("HTML indented", b"\xef\xbb\xbf\n <HTML>", None, "is a web page"),
    ("XML", b"<?xml version='1.0'?><Error/>", None, "is an XML document"),
    ("gzip", gzip.compress(b"x"), None, "compressed with gzip.*gunzip"),
    ("xz", lzma.compress(b"x"), None, "compressed with xz.*unxz"),
    ("zstd", b"\x28\xb5\x2f\xfd", None, "compressed with zstd.*unzstd"),
    ("bzip2", b"BZh91AY", None, "compressed with bzip2"),
    ("zip", b"PK\x03\x04", None, "ZIP archive"),
    ("tar", TAR.getvalue(), None, "tar archive"),
    ("VMDK", b"KDMV", None, "VMDK.*qemu-img convert"),
    ("VMDK descriptor", b"# Disk DescriptorFile\n", None, "VMDK"),
    ("VDI", bytes(64) + b"\x7f\x10\xda\xbe", None, "VDI"),
    ("VHDX", b"vhdxfile", None, "VHDX"),
    ("VHD", b"conectix", None, "VHD"),
    ("QED", b"QED\0", None, "QED"),
    ("LUKS", b"LUKS\xba\xbe\0\2", None, "encrypted"),
    ("raw too large", bytes(512), (64 << 40) + 512, "at most 64.0 TiB"),
    ("raw cut off", gpt(SIZE // 512), None, f"is truncated: it has {SIZE} bytes"),
    ("raw cut off, 4 KiB", gpt(SIZE // 4096, 4096), None, "is truncated"),
    ("qcow version 1", b"QFI\xfb\0\0\0\1", None, "qcow version 1"),
    ("qcow2 of the future", qcow2(version=4), None, "qcow version 4"),
    ("only the magic", b"QFI\xfb", 4, "is truncated"),
    ("half a header", qcow2()[:80], 80, "is truncated: it has 80 bytes"),
    ("only the header", qcow2(), 104, "L1 table would end at 196624.*refcount table"),
    ("L1 table cut", qcow2(), 3 * 65536 + 8, "L1 table would end"),
    ("backing file", qcow2(backing_offset=200, backing_length=11), None, "has a backing file"),
    ("backing file, no length", qcow2(backing_offset=200), None, "has a backing file"),
    ("external data file", qcow2(features=1 << 2), None, "external data file"),
    ("encrypted by AES", qcow2(encryption=1), None, "is encrypted"),
    ("encrypted by LUKS", qcow2(encryption=2), None, "is encrypted"),
    ("marked as corrupt", qcow2(features=1 << 1), None, "marked as corrupt"),
    ("not closed", qcow2(features=1), None, "was not closed properly"),
    ("unknown feature", qcow2(features=1 << 9), None, "not supported here.*0x200"),
    ("absurd clusters", qcow2(cluster_bits=63), None, "is corrupt: its clusters"),
    ("tiny clusters", qcow2(cluster_bits=0), None, "is corrupt: its clusters"),
    ("absurd disk", qcow2(virtual=(1 << 63) - 1), None, "at most 64.0 TiB"),
    ("no disk", qcow2(virtual=0), None, "0 bytes"),
    ("less than a sector", qcow2(virtual=511), None, "0 bytes"),
    ("absurd L1 table", qcow2(l1_entries=(1 << 32) - 1), None, "L1 table has 4294967295"),
    ("short L1 table", qcow2(l1_entries=1), None, "L1 table has 1 entries"),
    ("short L1, extended", qcow2(features=1 << 4, l1_entries=3), None, "L1 table has 3 entries"),
    ("L1 table nowhere", qcow2(l1_offset=(1 << 64) - 65536), None, "L1 table would end"),
    ("L1 table astray", qcow2(l1_offset=3 * 65536 + 1), None, "does not start at a cluster"),
    ("no refcounts", qcow2(refcount_offset=0), None, "refcount table does not start"),
    ("absurd refcounts", qcow2(refcount_clusters=1 << 31), None, "refcount table has"),
    ("no refcount clusters", qcow2(refcount_clusters=0), None, "refcount table has 0 bytes"),
]


@pytest.mark.parametrize(
    ("head", "size", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_refused(head: bytes, size: int | None, message: str) -> None:
    found = judge(head, size)
    assert re.search(message, "; ".join(found.problems)), found.problems


def test_every_problem_is_told() -> None:
    found = judge(qcow2(backing_offset=200, features=1 << 2, encryption=2))
    assert len(found.problems) == 3


def test_the_backing_file_is_named() -> None:
    head = qcow2(backing_offset=200, backing_length=11).ljust(200, b"\0") + b"/etc/shadow"
    assert "('/etc/shadow')" in judge(head).problems[0]
    hostile = qcow2(backing_offset=200, backing_length=9).ljust(200, b"\0") + b"\x1b[2Jnasty"
    assert "\x1b" not in judge(hostile).problems[0]


def test_any_start_of_a_header_is_judged() -> None:
    whole = qcow2(backing_offset=200, features=0xFFFF).ljust(300, b"\xff")
    for length in range(1, len(whole)):
        assert parse_header(whole[:length], length).problems


def made(folder: Path, *arguments: str) -> bytes:
    path = folder / "image"
    subprocess.run(
        ["qemu-img", "create", "-q", *arguments, str(path), "1G"],
        check=True,
        cwd=folder,
        capture_output=True,
    )
    return path.read_bytes()


REAL: list[tuple[list[str], str | None]] = [
    (["-f", "qcow2"], None),
    (["-f", "qcow2", "-o", "compat=0.10"], None),
    (["-f", "qcow2", "-o", "cluster_size=512"], None),
    (["-f", "qcow2", "-o", "cluster_size=2M"], None),
    (["-f", "qcow2", "-o", "extended_l2=on"], None),
    (["-f", "qcow2", "-o", "compression_type=zstd"], None),
    (["-f", "qcow2", "-o", "preallocation=metadata"], None),
    (["-f", "qcow2", "-o", "data_file=data"], "external data file"),
    (["-f", "qcow2", "-o", "data_file=data,data_file_raw=on"], "external data file"),
    (["-f", "qcow2", "-F", "raw", "-b", "base"], "has a backing file"),
    (
        [
            *("--object", "secret,id=s,data=x", "-f", "qcow2"),
            *("-o", "encrypt.format=luks,encrypt.key-secret=s,encrypt.iter-time=10"),
        ],
        "is encrypted",
    ),
    (["-f", "qcow"], "qcow version 1"),
    (["-f", "vmdk"], "VMDK"),
    (["-f", "vmdk", "-o", "subformat=twoGbMaxExtentFlat"], "VMDK"),
    (["-f", "vdi"], "VDI"),
    (["-f", "vhdx"], "VHDX"),
    (["-f", "vpc"], "VHD"),
    (["-f", "qed"], "QED"),
    (["-f", "parallels"], "Parallels"),
]


@needs_qemu_img
@pytest.mark.parametrize(
    ("arguments", "message"), REAL, ids=[" ".join(row[0][-3:]) for row in REAL]
)
def test_real_images(arguments: list[str], message: str | None, tmp_path: Path) -> None:
    (tmp_path / "base").write_bytes(bytes(GIB // 1024))
    for left in range(20, 0, -1):
        try:
            content = made(tmp_path, *arguments)
            break
        except subprocess.CalledProcessError as error:  # on a busy machine it failed once
            if left == 1:
                pytest.skip(f"qemu-img here cannot: {error.stderr.decode()}")
    found = parse_header(content[:HEAD_BYTES], len(content))
    if message is None:
        assert found == ImageFormat("qcow2", GIB)
    else:
        assert re.search(message, "; ".join(found.problems)), found


@needs_qemu_img
def test_real_sizes(tmp_path: Path) -> None:
    """QEMU's smallest and largest images are sound to us, if not larger than we take."""
    path = tmp_path / "image"
    sizes: list[tuple[str, t.Literal[True] | str]] = [
        ("512", True),
        ("1000G", True),
        ("64T", True),
        ("65T", "at most 64.0 TiB"),
    ]
    for size, expected in sizes:
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", path, size], check=True)
        with path.open("rb") as file:
            found = parse_header(file.read(HEAD_BYTES), path.stat().st_size)
        assert not found.problems if expected is True else expected in found.problems[0]


def test_largest_size_is_what_the_messages_say() -> None:
    assert image_format.MAX_VIRTUAL_BYTES == 64 * 1024 * GIB
