# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys that others put at our paths, taken over by a process that is killed."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys import effects as keys
from ansible_collections.fleet.virt.tests.unit import _kill


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "root"
    monkeypatch.setattr(keys, "BASE", f"{root}/base")
    monkeypatch.setattr(keys, "PKI", f"{root}/pki")
    monkeypatch.setattr(keys, "CURRENT", f"{root}/base/current")
    monkeypatch.setattr(keys, "target", lambda path: f"{root}/base/current/{path}")
    return root


def _put(root: Path, contents: dict[Path, bytes]) -> None:
    shutil.rmtree(root, ignore_errors=True)
    for path, content in contents.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o600)


def test_whoever_reads_a_path_reads_what_was_there(root: Path) -> None:
    """Before, killed at any step or while it writes, and after the run that follows."""
    contents = {
        Path(keys.PKI, file.path): f"{file.path}\n".encode() * 1000 for file in keys.FILES[:3]
    }

    def require() -> None:
        for path, content in contents.items():
            assert path.read_bytes() == content, path

    for _step in _kill.each_step(keys._adopt, lambda: _put(root, contents)):
        require()
        keys._adopt()
        require()
    require()
    assert all(path.is_symlink() for path in contents)

    _put(root, contents)
    _kill.torn(keys._adopt, 4096)
    keys._adopt()
    require()
    for folder, _folders, names in os.walk(root):
        for name in names:
            assert stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) == 0o600
