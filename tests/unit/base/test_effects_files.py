# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that are there as a whole or not at all: killed at each step, torn, and in a race."""

from __future__ import annotations

import functools
import os
import shutil
import stat
import typing as t
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_files as files
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_files import Durable
from ansible_collections.fleet.virt.tests.unit import _kill

OLD, NEW = b"old " * 5000, b"new " * 5000


def _written(path: Path) -> None:
    files.write(path, NEW, mode=0o600, locked=True)


def _written_without_lock(path: Path) -> None:
    files.write(path, NEW, mode=0o640, durable=Durable.CONTENT)


def _streamed(path: Path) -> None:
    with files.replacing(path, mode=0o640, locked=True) as file:
        file.write(NEW[:10000])
        file.flush()
        file.write(NEW[10000:])


def _prepared(path: Path) -> None:
    files.move(files.prepare(path, NEW, 0o600), path)


Act = t.Callable[[Path], object]
# what may be in the folder's files at any moment, for others than their owner
ACTS = [(_written, 0o600), (_written_without_lock, 0o640), (_streamed, 0o640), (_prepared, 0o600)]
LOCKED = (_written, _streamed)


def _make(path: Path, content: bytes | None) -> None:
    shutil.rmtree(path.parent, ignore_errors=True)
    path.parent.mkdir()
    if content is not None:
        path.write_bytes(content)
        path.chmod(0o600)


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _modes(folder: Path) -> list[int]:
    return [stat.S_IMODE(entry.lstat().st_mode) for entry in folder.iterdir()]


@pytest.mark.parametrize("former", [OLD, None])
@pytest.mark.parametrize(("act", "mode"), ACTS)
def test_killed_at_any_step_there_is_the_former_file_or_the_new(
    act: Act, mode: int, former: bytes | None, tmp_path: Path
) -> None:
    path = tmp_path / "folder" / "x"
    seen = set()
    for _step in _kill.each_step(lambda: act(path), lambda: _make(path, former)):
        seen.add(_content(path))
        assert all(found & ~mode == 0 for found in _modes(path.parent))
        act(path)
        assert _content(path) == NEW
        if act in LOCKED:
            assert os.listdir(path.parent) == ["x"], "what the killed one left is not removed"
    assert seen == {former, NEW}
    assert _content(path) == NEW
    assert _modes(path.parent) == [mode]


@pytest.mark.parametrize("act", [act for act, _mode in ACTS])
def test_killed_while_it_writes(act: Act, tmp_path: Path) -> None:
    path = tmp_path / "folder" / "x"
    _make(path, OLD)
    _kill.torn(lambda: act(path), 9000)
    assert _content(path) == OLD
    (half,) = set(path.parent.iterdir()) - {path}
    assert (half.stat().st_size, stat.S_IMODE(half.stat().st_mode)) == (9000, 0o600)
    act(path)
    assert _content(path) == NEW
    assert half.exists() == (act not in LOCKED)


def test_published_by_one_that_is_killed_at_any_step(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "id"
    seen = set()
    act = functools.partial(files.publish, path, NEW, mode=0o644)
    for _step in _kill.each_step(act, lambda: _make(path, None)):
        before = _content(path)
        seen.add(before)
        assert files.publish(path, OLD, mode=0o644) == (before is None)
        assert _content(path) == (before or OLD)
    assert seen == {None, NEW}
    assert os.listdir(path.parent) == ["id"]
    assert _modes(path.parent) == [0o644]


def test_published_by_many_at_once(tmp_path: Path) -> None:
    path = tmp_path / "id"
    with ThreadPoolExecutor(8) as pool:
        texts = [str(number).encode() for number in range(40)]
        made = list(pool.map(lambda text: files.publish(path, text, mode=0o644), texts))
    assert made.count(True) == 1
    assert _content(path) == texts[made.index(True)]
    assert os.listdir(tmp_path) == ["id"]


def test_one_of_many_moves_it(tmp_path: Path) -> None:
    """What a switch of the network goes by: it is confirmed or rolled back."""
    (tmp_path / "armed").touch()

    def move(number: int) -> bool:
        try:
            files.move(tmp_path / "armed", tmp_path / str(number), durable=False)
        except FileNotFoundError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        moved = list(pool.map(move, range(40)))
    assert moved.count(True) == 1
    assert os.listdir(tmp_path) == [str(moved.index(True))]


def test_a_link_that_is_switched_by_one_that_is_killed_at_any_step(tmp_path: Path) -> None:
    link, temporary = tmp_path / "folder" / "current", tmp_path / "folder" / ".current.new"

    def restore() -> None:
        _make(link, None)
        link.symlink_to("v1")

    seen = set()
    for _step in _kill.each_step(lambda: files.switch_link(link, "v2", temporary), restore):
        seen.add(os.readlink(link))
        files.switch_link(link, "v3", temporary)
        assert os.readlink(link) == "v3"
        assert os.listdir(link.parent) == ["current"]
    assert seen == {"v1", "v2"}


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What counts when the power is cut, in the order in which it is done."""
    done: list[str] = []
    real = {name: getattr(os, name) for name in ("fsync", "replace", "rename", "link", "fchmod")}

    def noting(name: str) -> t.Callable[..., object]:
        def call(*words: t.Any) -> object:
            kind = ""
            if name == "fsync":
                kind = " folder" if stat.S_ISDIR(os.fstat(words[0]).st_mode) else " file"
            done.append(name + kind)
            return real[name](*words)

        return call

    for name in real:
        monkeypatch.setattr(os, name, noting(name))
    return done


def test_what_is_flushed_before_and_after_it_has_its_name(tmp_path: Path, steps: list[str]) -> None:
    expected = {
        Durable.NOTHING: ["fchmod", "replace"],
        Durable.CONTENT: ["fchmod", "fsync file", "replace"],
        Durable.NAME: ["fchmod", "fsync file", "replace", "fsync folder"],
    }
    for durable, wanted in expected.items():
        files.write(tmp_path / "x", NEW, durable=durable)
        assert steps == wanted
        steps.clear()
    files.publish(tmp_path / "y", NEW, mode=0o600)
    assert steps == ["fchmod", "fsync file", "link", "fsync folder"]
    steps.clear()
    _prepared(tmp_path / "x")
    assert steps == ["fchmod", "fsync file", "rename", "fsync folder"]
    steps.clear()
    files.create(tmp_path / "z", NEW, mode=0o600, owner=(os.getuid(), os.getgid()))
    assert steps == ["fchmod", "fsync file"]
    steps.clear()
    files.move(tmp_path / "z", tmp_path / "a", durable=False)
    assert steps == ["rename"]


@pytest.mark.parametrize("locked", [True, False])
def test_a_failure_leaves_what_was(tmp_path: Path, locked: bool) -> None:
    path = tmp_path / "x"
    path.write_bytes(OLD)

    def half() -> None:
        with files.replacing(path, locked=locked) as file:
            file.write(NEW)
            raise ValueError("half")

    with pytest.raises(ValueError, match="half"):
        half()
    assert _content(path) == OLD
    assert os.listdir(tmp_path) == ["x"]


def test_modes_are_what_is_said_whatever_the_umask_is(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        files.write(tmp_path / "a", NEW, mode=0o644)
        files.create(tmp_path / "b", NEW, mode=0o644, owner=(os.getuid(), os.getgid()))
        os.umask(0)
        files.write(tmp_path / "c", NEW)
        with files.replacing(tmp_path / "d", mode=None) as file:
            file.write(NEW)
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"a": 0o644, "b": 0o644, "c": 0o600, "d": 0o600}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_owners(tmp_path: Path) -> None:
    files.write(tmp_path / "a", NEW, mode=0o4755, owner=(12, 34))
    files.create(tmp_path / "b", NEW, mode=0o640, owner=(12, 34))
    _prepared(tmp_path / "a")
    for name, mode in (("a", 0o4755), ("b", 0o640)):
        status = (tmp_path / name).stat()
        assert (status.st_uid, status.st_gid) == (12, 34)
        assert stat.S_IMODE(status.st_mode) == mode


def test_names_as_long_as_they_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write(tmp_path / ("x" * 255), NEW)
    monkeypatch.chdir(tmp_path)
    files.write("here", NEW)
    assert (tmp_path / "here").read_bytes() == NEW


def test_what_is_new_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(OLD)
    with pytest.raises(FileExistsError):
        files.create(tmp_path / "x", NEW, mode=0o600, owner=(os.getuid(), os.getgid()))
    assert _content(tmp_path / "x") == OLD
