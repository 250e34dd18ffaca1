# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Locks: one holder at a time, and a limit for who waits. A killed holder: test_base_file.py."""

from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_locks as locks


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


def test_one_that_was_waited_for_in_vain_is_not_waited_for_again(tmp_path: Path) -> None:
    """As the host's, of which a request for many VMs has need for each of them."""
    path = tmp_path / "lock"
    with locks.held(path, 1, "first"):
        begun = time.monotonic()
        for _vm in range(10):
            with pytest.raises(PlanRefused, match="try again"), locks.held(path, 0.5, "try again"):
                raise AssertionError("two have it")
        assert time.monotonic() - begun < 2
    with locks.held(path, 0.5, "nobody has it"):
        pass
    with locks.held(path, 1, "first"):
        begun = time.monotonic()
        with pytest.raises(PlanRefused), locks.held(path, 0.5, "it is another holder"):
            raise AssertionError("two have it")
        assert time.monotonic() - begun >= 0.5


def test_a_folder_is_locked_without_a_file(tmp_path: Path) -> None:
    with locks.held(tmp_path, 1, "first", folder=True):
        with pytest.raises(PlanRefused), locks.held(tmp_path, 0.1, "second", folder=True):
            raise AssertionError("two have it")
        assert list(tmp_path.iterdir()) == []


def test_what_is_planted_is_not_followed(tmp_path: Path) -> None:
    path, target = tmp_path / "lock", tmp_path / "somebody's"
    path.symlink_to(target)
    with pytest.raises(OSError, match="symbolic"), locks.held(path, 1, "first"):
        raise AssertionError("it went through a link")
    assert not target.exists()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this user's locks are."""
    monkeypatch.setattr(locks, "_ROOTS", tmp_path / "fleet-virt")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "fleet-virt"


def test_a_folder_of_its_own(place: Path) -> None:
    with locks.shared("host", 1, "held {path}"):
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
        assert [one.name for one in place.iterdir()] == ["host.lock"]
        with (
            pytest.raises(PlanRefused, match=rf"held {place}/host.lock for 0.1 seconds"),
            locks.shared("host", 0.1, "held {path}"),
        ):
            raise AssertionError("two have it")


def test_a_folder_that_was_planted_is_refused(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(0o700)
    place.symlink_to(elsewhere)
    with pytest.raises(PlanRefused, match="is not a directory with mode 0700"):
        locks.own_folder()
    place.unlink()
    place.mkdir(0o700)
    place.chmod(0o750)
    with pytest.raises(PlanRefused, match="remove it"):
        locks.own_folder()
    place.chmod(0o700)
    assert locks.own_folder() == place
    user = os.geteuid()
    if user:
        monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    else:
        os.chown(place, 65534, 65534)
    with pytest.raises(PlanRefused, match="find out who created it"):
        locks.own_folder()


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name in ("getuid", "geteuid"):
        monkeypatch.setattr(os, name, lambda: 47110815)
    with pytest.raises(PlanRefused, match=r"user 47110815 has no home .* set HOME"):
        locks.own_folder()


def test_users_without_root_have_folders_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/4711")
    assert locks._place() == Path("/run/user/4711/fleet-virt")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert locks._place() == tmp_path / ".cache/fleet.virt/run"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert locks._place() == Path("/run/fleet-virt")
