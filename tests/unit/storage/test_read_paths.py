# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which files are read, which fail and which hang."""

from __future__ import annotations

import os
import struct
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage import read_paths as paths

SECONDS = 0.3


def qcow2(path: Path, backing: str = "") -> None:
    """Write what a reader of the first bytes takes for an image with that backing file."""
    name = backing.encode()
    head = struct.pack(">4sIQI", b"QFI\xfb", 3, 104 if name else 0, len(name))
    path.write_bytes(head.ljust(104, b"\0") + name.ljust(4096, b"\0"))


def test_what_a_file_says(tmp_path: Path) -> None:
    qcow2(tmp_path / "alone")
    qcow2(tmp_path / "overlay", "/base/debian.qcow2")
    qcow2(tmp_path / "relative", "debian.qcow2")
    (tmp_path / "raw").write_bytes(b"\0" * 8192)
    (tmp_path / "short").write_bytes(b"x")
    names = ["alone", "overlay", "relative", "raw", "short"]
    found = paths.probe([str(tmp_path / name) for name in names], SECONDS)
    files = {Path(path).name: file for path, file in found.files.items()}
    assert {name: (f.qcow2, f.backing, f.backing_known) for name, f in files.items()} == {
        "alone": (True, None, True),
        "overlay": (True, "/base/debian.qcow2", True),
        "relative": (True, None, False),
        "raw": (False, None, True),
        "short": (False, None, True),
    }
    assert files["raw"].occupied == os.stat(tmp_path / "raw").st_blocks * 512
    assert (found.hanging, found.errors) == (set(), {})


def test_sparse_files_occupy_nothing(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 30)
    found = paths.probe([str(tmp_path / "sparse")], SECONDS)
    assert found.files[str(tmp_path / "sparse")].occupied == 0


def test_errors_and_what_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    wanted = [str(tmp_path / name) for name in ("gone", "pipe", "loop")]
    found = paths.probe([*wanted, str(tmp_path), "/dev/null"], SECONDS)
    assert found.files == {}
    assert set(found.errors) == {str(tmp_path / "gone"), str(tmp_path / "loop")}
    assert found.errors[str(tmp_path / "gone")] == "No such file or directory"
    assert found.hanging == set()


def test_one_that_hangs_takes_its_folder_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real thing needs a mount and is in tests/integration; here the system call sleeps."""
    for folder in ("dead", "well"):
        (tmp_path / folder).mkdir()
        for name in ("a", "b"):
            (tmp_path / folder / name).write_bytes(b"")
    real = os.stat

    def stat(path: str, **options: t.Any) -> os.stat_result:
        if "/dead/b" in str(path):
            time.sleep(SECONDS * 3)
        return real(path, **options)

    monkeypatch.setattr(paths.os, "stat", stat)
    wanted = [str(tmp_path / folder / name) for folder in ("dead", "well") for name in ("a", "b")]
    started = time.monotonic()
    found = paths.probe(wanted, SECONDS)
    assert time.monotonic() - started < SECONDS * 3
    assert found.hanging == {str(tmp_path / "dead" / name) for name in ("a", "b")}
    assert set(found.files) == {str(tmp_path / "well" / name) for name in ("a", "b")}
