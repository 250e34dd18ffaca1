# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Output files on the controller: whole, private, and changed only when their content is."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.plugin_utils._files import write_if_changed


def test_new_then_the_same_then_another(tmp_path: Path) -> None:
    """What it held before is returned when it changes: check mode says the same."""
    path = tmp_path / "out"
    assert write_if_changed(str(path), "a\n", check=True) == ""
    assert not path.exists()
    assert write_if_changed(str(path), "a\n", check=False) == ""
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert write_if_changed(str(path), "a\n", check=False) is None
    assert write_if_changed(str(path), "ä\n", check=True) == "a\n"
    assert path.read_text(encoding="utf-8") == "a\n"
    assert write_if_changed(str(path), "ä\n", check=False) == "a\n"
    assert path.read_text(encoding="utf-8") == "ä\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_no_text_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"\xff\xfe\x00")
    assert write_if_changed(str(path), "a\n", check=False) is not None
    assert path.read_text(encoding="utf-8") == "a\n"


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("none/out", "the folder .*none does not exist; create it first"),
        ("folder", "is a folder; name a file"),
        ("file/out", "the folder .*file does not exist"),
    ],
)
def test_places_that_cannot_be(tmp_path: Path, name: str, words: str, check: bool) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(FleetVirtError, match=words) as caught:
        write_if_changed(str(tmp_path / name), "a", check=check)
    assert str(tmp_path / name) in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
