# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replacing configuration files."""

from __future__ import annotations

import os
import resource
import stat
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    effects_config_files as config_files,
)


def test_a_new_file_with_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "new" / "x.conf"
    config_files.write(str(path), "a\n")
    assert path.read_text() == "a\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_mode_is_kept_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "x.conf"
    path.write_text("secret\n")
    path.chmod(0o600)
    config_files.write(str(path), "secret\nmore\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["x.conf"]


def test_line_ends_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.conf"
    path.write_bytes(b"a\r\nb\n")
    assert config_files.read(str(path)) == "a\r\nb\n"


def test_absent_and_unreadable(tmp_path: Path) -> None:
    assert config_files.read(str(tmp_path / "no")) is None
    (tmp_path / "x").write_bytes(b"\xff\xfe")
    with pytest.raises(PlanRefused, match="not UTF-8"):
        config_files.read(str(tmp_path / "x"))


def test_a_disk_that_is_full_changes_no_file(tmp_path: Path) -> None:
    """The kernel refuses the second text; nothing of the first has been switched by then."""
    first, second = tmp_path / "a.conf", tmp_path / "b.conf"
    first.write_text("a\n")
    second.write_text("b\n")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with (
            pytest.raises(PlanRefused, match=r"cannot be written: .*no setting was changed"),
            config_files.replaced({str(first): "A\n", str(second): "B\n" * 4096}),
        ):
            raise AssertionError("nothing is done with half of the files")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (first.read_text(), second.read_text()) == ("a\n", "b\n")
    assert sorted(os.listdir(tmp_path)) == ["a.conf", "b.conf"]


def test_one_that_cannot_be_switched_has_the_others_back(tmp_path: Path) -> None:
    first, new, second = tmp_path / "a.conf", tmp_path / "new.conf", tmp_path / "b.conf"
    first.write_text("a\n")
    second.mkdir()
    before = first.stat()
    texts: dict[str, str | None] = {str(first): "A\n", str(new): "N\n", str(second): "B\n"}
    with (
        pytest.raises(PlanRefused, match=r"b\.conf cannot be written"),
        config_files.replaced(texts),
    ):
        raise AssertionError("nothing is done with half of the files")
    after = first.stat()
    assert first.read_text() == "a\n"
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert sorted(os.listdir(tmp_path)) == ["a.conf", "b.conf"]


def test_what_fails_with_the_new_files_has_the_former_ones_back(tmp_path: Path) -> None:
    changed, removed, new = tmp_path / "a.conf", tmp_path / "b.conf", tmp_path / "c.conf"
    changed.write_text("a\n")
    removed.write_text("b\n")
    texts = {str(changed): "A\n", str(removed): None, str(new): "C\n"}

    def work() -> None:
        with config_files.replaced(texts):
            assert changed.read_text() == "A\n"
            assert not removed.exists()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert (changed.read_text(), removed.read_text()) == ("a\n", "b\n")
    assert sorted(os.listdir(tmp_path)) == ["a.conf", "b.conf"]
    with config_files.replaced(texts):
        pass
    assert sorted(os.listdir(tmp_path)) == ["a.conf", "c.conf"]
