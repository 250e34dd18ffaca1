# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What nobody has written to, compared with what qemu-img writes."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.blank_image import is_blank


def blank(path: Path, *, hollow: bool = False) -> bool:
    content = path.read_bytes()
    return is_blank(lambda at, count: content[at : at + count], hollow=hollow)


def run(folder: Path, *words: str) -> None:
    subprocess.run(words, cwd=folder, check=True, capture_output=True)


@pytest.mark.skipif(shutil.which("qemu-img") is None, reason="qemu-img is not installed")
@pytest.mark.parametrize("compat", ["0.10", "1.1"])
@pytest.mark.parametrize("backing", [(), ("-b", "base.img", "-F", "raw")])
@pytest.mark.parametrize("size", ["64K", "1G", "2T"])
def test_an_image_as_it_is_made_and_after_the_first_write(
    tmp_path: Path, compat: str, backing: tuple[str, ...], size: str
) -> None:
    run(tmp_path, "qemu-img", "create", "-q", "-f", "raw", "base.img", "64K")
    made = ("create", "-q", "-f", "qcow2", "-o", f"compat={compat}", *backing, "top.img", size)
    run(tmp_path, "qemu-img", *made)
    assert blank(tmp_path / "top.img")
    run(tmp_path, "qemu-io", "-f", "qcow2", "-c", "write -P 7 0 512", "top.img")
    assert not blank(tmp_path / "top.img")


@pytest.mark.skipif(shutil.which("qemu-img") is None, reason="qemu-img is not installed")
@pytest.mark.parametrize(
    "words",
    [
        ("qemu-img", "snapshot", "-c", "one", "top.img"),
        ("qemu-img", "bitmap", "--add", "top.img", "one"),
    ],
)
def test_a_snapshot_or_a_bitmap_is_something(tmp_path: Path, words: tuple[str, ...]) -> None:
    run(tmp_path, "qemu-img", "create", "-q", "-f", "qcow2", "top.img", "1M")
    run(tmp_path, *words)
    assert not blank(tmp_path / "top.img")


def test_a_data_file_is_somebodys(tmp_path: Path) -> None:
    head = struct.pack(">4sIQIIQIIQQIIQ", b"QFI\xfb", 3, 0, 0, 16, 1, 0, 0, 512, 0, 0, 0, 0)
    (tmp_path / "a").write_bytes((head + struct.pack(">Q", 0)).ljust(4096, b"\0"))
    assert blank(tmp_path / "a")
    (tmp_path / "a").write_bytes((head + struct.pack(">Q", 4)).ljust(4096, b"\0"))
    assert not blank(tmp_path / "a")


@pytest.mark.parametrize("content", [b"", b"x" * 5000, b"QFI\xfb", b"\0" * 5000])
@pytest.mark.parametrize("hollow", [True, False])
def test_of_anything_else_only_holes_tell(tmp_path: Path, content: bytes, hollow: bool) -> None:
    (tmp_path / "a").write_bytes(content)
    assert blank(tmp_path / "a", hollow=hollow) is hollow


@pytest.mark.parametrize("size", [1, 1 << 23, 0xFFFFFFFF])
def test_a_table_that_is_not_there_is_not_empty(tmp_path: Path, size: int) -> None:
    head = struct.pack(">4sIQIIQIIQQIIQ", b"QFI\xfb", 2, 0, 0, 16, 1, 0, size, 1 << 40, 0, 0, 0, 0)
    (tmp_path / "a").write_bytes(head.ljust(4096, b"\0"))
    assert not blank(tmp_path / "a")
