# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Output files on the controller: whole, private, and changed only when their content is."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.plugin_utils.base._files import write_if_changed


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


def test_owner_group_and_mode_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out"
    path.write_text("a")
    path.chmod(0o640)
    given: list[tuple[int, int]] = []
    if os.geteuid() == 0:
        os.chown(path, 12345, 12346)
    else:  # only root gives files away: what would be done is enough
        there = path.stat()
        monkeypatch.setattr(os, "fchown", lambda _file, uid, gid: given.append((uid, gid)))
        monkeypatch.setattr(os, "lstat", lambda _path: _owned(there, 12345, 12346))
    assert write_if_changed(str(path), "b", check=False) == "a"
    status = os.stat(path)
    assert stat.S_IMODE(status.st_mode) == 0o640
    assert (12345, 12346) in (*given, (status.st_uid, status.st_gid))


def _owned(status: os.stat_result, uid: int, gid: int) -> os.stat_result:
    values = list(status)
    values[stat.ST_UID], values[stat.ST_GID] = uid, gid
    return os.stat_result(values)


def test_an_owner_that_cannot_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out"
    path.write_text("a")
    there = path.stat()
    monkeypatch.setattr(os, "lstat", lambda _path: _owned(there, 12345, there.st_gid))

    def refuse(*_arguments: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", refuse)
    with pytest.raises(FleetVirtError, match=r"belongs to another user or group \(12345:"):
        write_if_changed(str(path), "b", check=False)
    assert path.read_text() == "a"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("kind", ["link", "dangling", "fifo", "socket", "/dev/stdout", "/dev/null"])
def test_what_is_no_file_stays(kind: str, check: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:  # short: a socket has a name of 108 characters
        path = Path(kind if kind.startswith("/") else f"{folder}/{kind}")
        other = Path(folder) / "other"
        other.write_text("mine")
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "socket":
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(str(path))
        elif not kind.startswith("/"):
            path.symlink_to(other if kind == "link" else f"{folder}/none")
        before = os.lstat(path)
        with pytest.raises(FleetVirtError, match="leave the option out to print it"):
            write_if_changed(str(path), "text", check=check)
        assert os.lstat(path).st_ino == before.st_ino
        assert other.read_text() == "mine"


@pytest.mark.parametrize("name", ["a\0b", "x" * 300])
def test_names_that_cannot_be(tmp_path: Path, name: str) -> None:
    with pytest.raises(FleetVirtError, match="output_file"):
        write_if_changed(str(tmp_path / name), "text", check=False)
    assert list(tmp_path.iterdir()) == []
