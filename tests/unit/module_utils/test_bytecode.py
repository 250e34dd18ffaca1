# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules in an archive compile a file once, and run what it says now."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _bytecode, _libvirt

_PACKAGE = "ansible_collections.fleet.virt.plugins.module_utils"
_SOURCES = Path(_libvirt.__file__).parent
_NEEDED = (
    *("_bytecode.py", "_errors.py", "_fleet/__init__.py", "_fleet/base/__init__.py"),
    *("_fleet/base/effects_files.py", "_fleet/base/effects_locks.py"),
)
# What _argspec.py does in a module that Ansible sent
_PROGRAM = f"""
import json, pathlib, sys, traceback
sys.path.insert(0, sys.argv[1])
import {_PACKAGE}._fleet.base.effects_locks as locks
locks._place = lambda: pathlib.Path(sys.argv[2])
import {_PACKAGE}._bytecode as bytecode
compiled = []
real = compile
bytecode.compile = lambda source, path, *words, **how: (
    compiled.append(path) or real(source, path, *words, **how)
)
bytecode.cache()
import {_PACKAGE}._said as said
import {_PACKAGE}._late.later as later
try:
    later.fail()
except ValueError:
    lines = traceback.format_exc()
print(json.dumps([said.WORD, compiled, said.__file__, said.function.__code__.co_filename, lines]))
"""
_SAID = "WORD = {!r}\ndef function():\n    pass\n"
_LATER = "def fail():\n    raise ValueError('the end')\n"
_PATHS = [f"{_PACKAGE.replace('.', '/')}/{name}" for name in ("_said.py", "_late/later.py")]


def _archive(path: Path, word: str = "one") -> Path:
    folder = _PACKAGE.replace(".", "/")
    with zipfile.ZipFile(path, "w") as file:
        parts = folder.split("/")
        for number in range(len(parts)):
            file.writestr("/".join([*parts[: number + 1], "__init__.py"]), "")
        for name in _NEEDED:
            file.write(_SOURCES / name, f"{folder}/{name}")
        file.writestr(f"{folder}/_said.py", _SAID.format(word))
        file.writestr(f"{folder}/_late/__init__.py", "")
        file.writestr(f"{folder}/_late/later.py", _LATER)
    return path


def _run(archive: Path, folder: Path, **environment: str) -> tuple[str, list[str]]:
    """The word, and what was compiled."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(archive), str(folder)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    word, compiled, path, code_path, lines = json.loads(done.stdout)
    assert path == f"{archive}/{_PATHS[0]}"
    assert code_path == _PATHS[0]
    assert "    raise ValueError('the end')" in lines
    return word, compiled


def test_a_source_is_compiled_once(tmp_path: Path) -> None:
    own = tmp_path / "own"
    assert _run(_archive(tmp_path / "first.zip"), own) == ("one", _PATHS)
    kept = sorted((own / "bytecode").iterdir())
    assert len(kept) == len(_PATHS)
    assert {path.stat().st_mode for path in kept} == {stat.S_IFREG | 0o600}
    assert (own / "bytecode").stat().st_mode == stat.S_IFDIR | 0o700
    assert _run(_archive(tmp_path / "second.zip"), own) == ("one", [])
    assert sorted((own / "bytecode").iterdir()) == kept


def test_a_changed_source_is_compiled_anew(tmp_path: Path) -> None:
    own = tmp_path / "own"
    archive = tmp_path / "it.zip"
    assert _run(_archive(archive), own) == ("one", _PATHS)
    assert _run(_archive(archive, "two"), own) == ("two", _PATHS[:1])
    assert _run(_archive(archive), own) == ("one", [])


@pytest.mark.parametrize(
    "damage", [lambda code: code[:-9], lambda code: code[:-1] + b"?", lambda _: b""]
)
def test_a_damaged_file_is_replaced(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    own = tmp_path / "own"
    archive = _archive(tmp_path / "it.zip")
    assert _run(archive, own) == ("one", _PATHS)
    for path in (own / "bytecode").iterdir():
        whole = path.read_bytes()
        path.write_bytes(damage(whole))
        assert path.read_bytes() != whole
    assert _run(archive, own) == ("one", _PATHS)
    assert _run(archive, own) == ("one", [])


def test_nothing_is_read_from_a_folder_that_others_may_enter(tmp_path: Path) -> None:
    own = tmp_path / "own"
    archive = _archive(tmp_path / "it.zip")
    assert _run(archive, own) == ("one", _PATHS)
    own.chmod(0o755)
    for _turn in range(2):
        assert _run(archive, own) == ("one", _PATHS)


def test_python_may_be_told_to_write_none(tmp_path: Path) -> None:
    own = tmp_path / "own"
    archive = _archive(tmp_path / "it.zip")
    assert _run(archive, own, PYTHONDONTWRITEBYTECODE="1") == ("one", _PATHS)
    assert list((own / "bytecode").iterdir()) == []


def test_the_oldest_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(_bytecode, "_MOST_KEPT", 2)
    paths = []
    for number in range(4):
        code = _bytecode.Cache(tmp_path).code(b"WORD = %d" % number, "it.py")
        (new,) = set(tmp_path.iterdir()) - set(paths)
        os.utime(new, (number, number))
        paths.append(new)
        space: dict[str, int] = {}
        exec(code, space)  # noqa: S102
        assert space["WORD"] == number
    assert set(tmp_path.iterdir()) == set(paths[-3:])  # the two, and what was added


def test_what_is_in_no_archive_is_left_to_python() -> None:
    before = list(sys.meta_path)
    _bytecode.cache()
    assert sys.meta_path == before
