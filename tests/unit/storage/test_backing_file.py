# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The backing file that a header names, where it can be told without libvirt."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.image_format import (
    BACKING_BYTES,
    backing_file,
)


def _header(name: bytes = b"", *, version: int = 3, offset: int = 512, length: int = -1) -> bytes:
    size = len(name) if length < 0 else length
    start = struct.pack(">4sIQI", b"QFI\xfb", version, offset if size else 0, size)
    return start.ljust(offset, b"\0") + name


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        pytest.param(_header(b"/base/a.qcow2"), "/base/a.qcow2", id="absolute"),
        pytest.param(_header(b"/base/a.qcow2", version=2), "/base/a.qcow2", id="version 2"),
        pytest.param(_header(b"/b\xc3\xa4se/a b"), "/b\u00e4se/a b", id="umlaut and space"),
        pytest.param(_header().ljust(600, b"\0"), None, id="none"),
        pytest.param(b"\0" * BACKING_BYTES, None, id="raw"),
        pytest.param(b"", None, id="empty"),
    ],
)
def test_told(head: bytes, expected: str | None) -> None:
    assert backing_file(head) == expected


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(_header(b"a.qcow2"), id="relative"),
        pytest.param(_header(b'json:{"driver":"raw"}'), id="pseudo protocol"),
        pytest.param(_header(b"nbd://host/x"), id="URL"),
        pytest.param(_header(b"/base/a", length=4096), id="cut off"),
        pytest.param(_header(b"/base/a", offset=1 << 20)[:BACKING_BYTES], id="elsewhere"),
        pytest.param(_header(b"/base/\xff"), id="not UTF-8"),
        pytest.param(_header(b"/base/a", version=1), id="another version"),
        pytest.param(b"QFI\xfb", id="a part of a header"),
        pytest.param(b"QED\0".ljust(512, b"\0"), id="another format with backing files"),
        pytest.param(b"KDMV".ljust(512, b"\0"), id="VMDK"),
    ],
)
def test_left_to_libvirt(head: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the caller catches it whatever it says
        backing_file(head)


@pytest.mark.skipif(not shutil.which("qemu-img"), reason="needs qemu-img (package qemu-utils)")
@pytest.mark.parametrize("options", ["compat=1.1", "compat=0.10", "compat=1.1,cluster_size=2M"])
def test_of_qemu_img(tmp_path: Path, options: str) -> None:
    base, overlay = tmp_path / "base.qcow2", tmp_path / "overlay.qcow2"
    create = ["qemu-img", "create", "-q", "-f", "qcow2", "-o", options]
    subprocess.run([*create, str(base), "1M"], check=True)
    subprocess.run([*create, "-b", str(base), "-F", "qcow2", str(overlay)], check=True)
    assert backing_file(base.read_bytes()[:BACKING_BYTES]) is None
    assert backing_file(overlay.read_bytes()[:BACKING_BYTES]) == str(base)
