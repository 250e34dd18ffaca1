# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Locks: one holder at a time, and a limit for who waits. A killed holder: test_base_file.py."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._host import locks


def test_whoever_comes_second_is_refused_within_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locks.held(path, 1, "first"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with pytest.raises(PlanRefused, match="try again"), locks.held(path, 0.2, "try again"):
            raise AssertionError("two have it")
    with locks.held(path, 0, "nobody has it"):
        pass


def test_whoever_comes_second_waits(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    order: list[str] = []

    def second() -> None:
        with locks.held(path, 30, "it is never given up"):
            order.append("second")

    thread = threading.Thread(target=second)
    with locks.held(path, 1, "first"):
        thread.start()
        thread.join(0.3)
        order.append("first")
    thread.join(30)
    assert order == ["first", "second"]


def test_a_folder_is_locked_without_a_file(tmp_path: Path) -> None:
    with locks.held(tmp_path, 1, "first", folder=True):
        with pytest.raises(PlanRefused), locks.held(tmp_path, 0.1, "second", folder=True):
            raise AssertionError("two have it")
        assert list(tmp_path.iterdir()) == []
