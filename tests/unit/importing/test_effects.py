# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""qemu-img converts a disk where it stands in an archive, confined, and reads no other file."""

from __future__ import annotations

import os
import subprocess
import tarfile
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.importing import effects
from ansible_collections.fleet.virt.plugins.module_utils._fleet.importing.options import (
    TransferredDisk,
)
from ansible_collections.fleet.virt.tests.unit.importing import packages

ROOM = 1 << 30


def disk(path: Path, kind: str, offset: int = 0, size: int | None = None) -> TransferredDisk:
    return {
        "name": "disk1",
        "image": "web-import-disk1",
        "received": str(path),
        "digest": "0" * 64,
        "offset": offset,
        "size": path.stat().st_size if size is None else size,
        "whole": size is None,
        "format": kind,
    }


def converted(given: TransferredDisk, target: Path, room: int = ROOM) -> bytes:
    """The content of the disk after it was converted."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
    source, made = os.open(given["received"], os.O_RDONLY), os.open(target, flags, 0o600)
    try:
        effects._convert(given, source, made, room)
        os.fchown(made, os.geteuid(), os.getegid())
    finally:
        os.close(source)
        os.close(made)
    raw = target.with_suffix(".raw")
    words = ["qemu-img", "convert", "-f", "qcow2", "-O", "raw", str(target), str(raw)]
    subprocess.run(words, check=True)
    return raw.read_bytes()


def content() -> bytes:
    data = bytearray(64 << 20)
    data[1 << 20 : (1 << 20) + 5000] = b"fleet" * 1000
    return bytes(data)


@pytest.mark.parametrize("kind", ["vmdk", "vhdx", "qcow2", "raw"])
def test_single_disk_is_converted(kind: str, tmp_path: Path) -> None:
    path = packages.convert(tmp_path, "web.disk", "-O", kind)
    assert converted(disk(path, kind), tmp_path / "new.qcow2") == content()


@pytest.mark.parametrize("kind", ["vmdk", "qcow2"])
def test_disk_within_an_archive_is_converted(kind: str, tmp_path: Path) -> None:
    stream = kind == "vmdk"
    source = packages.stream(tmp_path) if stream else packages.convert(tmp_path, "x", "-O", kind)
    path = packages.ova(tmp_path / "web.ova", packages.virtualbox(), source)
    with tarfile.open(path) as tar:
        member = tar.getmember(source.name)
    given = disk(path, kind, member.offset_data, member.size)
    assert converted(given, tmp_path / "new.qcow2") == content()


def test_other_format_than_stated_is_refused(tmp_path: Path) -> None:
    path = packages.convert(tmp_path, "web.disk", "-O", "vmdk")
    with pytest.raises(FleetVirtError, match="is vmdk, not raw"):
        converted(disk(path, "raw"), tmp_path / "new.qcow2")


def test_bytes_beyond_the_end_are_refused(tmp_path: Path) -> None:
    path = packages.convert(tmp_path, "web.disk", "-O", "vmdk")
    with pytest.raises(FleetVirtError, match="beyond the end"):
        converted(disk(path, "vmdk", 512, 1 << 40), tmp_path / "new.qcow2")


def test_disk_that_unpacks_to_more_than_allowed_is_refused(tmp_path: Path) -> None:
    raw = tmp_path / "bomb.raw"
    raw.write_bytes(b"\x01" * (16 << 20))
    path = tmp_path / "bomb.vmdk"
    words = ["qemu-img", "convert", "-f", "raw", "-O", "vmdk", "-o", "subformat=streamOptimized"]
    subprocess.run([*words, str(raw), str(path)], check=True)
    assert path.stat().st_size < 2 << 20
    with pytest.raises(FleetVirtError, match=r"the 4 MiB that fit or are allowed \(max_unpacked\)"):
        converted(disk(path, "vmdk"), tmp_path / "new.qcow2", room=4 << 20)


def test_damaged_disk_is_refused(tmp_path: Path) -> None:
    path = packages.stream(tmp_path)
    data = bytearray(path.read_bytes())
    data[64 << 10 : -2048] = b"\xff" * (len(data) - (64 << 10) - 2048)
    path.write_bytes(data)
    with pytest.raises(FleetVirtError, match="damaged or truncated: copy it again"):
        converted(disk(path, "vmdk"), tmp_path / "new.qcow2")
