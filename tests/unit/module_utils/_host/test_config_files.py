# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replacing configuration files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._host import config_files


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
