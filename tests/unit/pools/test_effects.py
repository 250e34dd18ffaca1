# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pools on libvirt's test driver, and their ids."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import HostUnreachable
from ansible_collections.fleet.virt.plugins.module_utils._fleet.pools import effects as pool_setup
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.read_shared_pools import (
    POOL_ID_FILE,
    read_id,
)

pytest.importorskip("libvirt")


def test_check_mode_without_libvirt_predicts_all(tmp_path: Path) -> None:
    asked = [{"name": "base", "path": str(tmp_path / "base")}]
    done = pool_setup.ensure("qemu+unix:///system?socket=/nowhere", 5, asked, check=True)
    assert done["changed"] is True
    (pool,) = done["pools"]
    assert pool["id"] == "(generated)"
    assert pool["steps"][0] == "define"
    assert not (tmp_path / "base").exists()
    with pytest.raises(HostUnreachable):
        pool_setup.ensure("qemu+unix:///system?socket=/nowhere", 5, asked, check=False)


def test_an_id_is_given_once(tmp_path: Path) -> None:
    pool_setup._write_id(str(tmp_path))
    first = read_id(str(tmp_path))
    assert first
    pool_setup._write_id(str(tmp_path))
    assert read_id(str(tmp_path)) == first
    assert [path.name for path in tmp_path.iterdir()] == [POOL_ID_FILE]
    assert stat.S_IMODE((tmp_path / POOL_ID_FILE).stat().st_mode) == 0o644


def test_an_empty_id_is_none(tmp_path: Path) -> None:
    (tmp_path / POOL_ID_FILE).write_text("\n")
    assert read_id(str(tmp_path)) is None
    pool_setup._write_id(str(tmp_path))
    assert read_id(str(tmp_path))
