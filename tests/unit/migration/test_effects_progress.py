# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How far moves are: kept by the module, read by what the controller sends."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_locks as locks
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    effects_progress as progress,
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tmp_path.chmod(0o700)
    monkeypatch.setattr(locks, "own_folder", lambda: tmp_path)
    return tmp_path


def test_the_last_line_is_there_until_the_move_is_over(folder: Path) -> None:
    progress.note("5a8c", "web1", "web1: 1 %")
    progress.note("5a8c", "web1", "web1: 2 %")
    (file,) = folder.iterdir()
    assert file.read_bytes() == b'{"name": "web1", "line": "web1: 2 %"}\n'
    progress.forget("5a8c")
    progress.forget("5a8c")
    assert list(folder.iterdir()) == []


def test_a_move_does_not_fail_for_want_of_a_place_for_its_lines(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(locks, "own_folder", lambda: tmp_path / "gone")
    progress.note("5a8c", "web1", "web1: 1 %")
    progress.forget("5a8c")


def test_what_is_new_is_said_until_the_input_ends(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_POLL", 0.01)
    (folder / "migrate-0.progress").write_bytes(b"\xffno JSON")
    (folder / "migrate-1.progress").mkdir()
    (folder / "migrate-5a8c.log").write_text('{"name": "web1", "line": "no"}')
    progress.note("other", "db1", "db1: nobody asked for it")
    source, end = os.pipe()
    output, target = os.pipe()
    follower = threading.Thread(
        target=progress.follow, args=[folder, {"web1"}, source, target], daemon=True
    )
    try:
        follower.start()
        for text in ("web1: 1 %", "web1: 2 %"):
            progress.note("5a8c", "web1", text)
            assert os.read(output, 4096) == b'{"name": "web1", "line": "%s"}\n' % text.encode()
    finally:
        os.close(end)
        follower.join(10)
    assert not follower.is_alive()
    for one in (source, output, target):
        os.close(one)


def test_it_is_found_out_that_nobody_reads_any_more(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_POLL", 0.01)
    monkeypatch.setattr(progress, "_STILL", 0.03)
    source, end = os.pipe()
    output, target = os.pipe()
    os.close(output)
    with pytest.raises(BrokenPipeError):
        progress.follow(folder, {"web1"}, source, target)
    for one in (source, end, target):
        os.close(one)
