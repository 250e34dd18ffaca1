# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Calling borg: named errors, of real repositories, and a passphrase that is nowhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import (
    DeadlineExceeded,
    DependencyMissing,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import (
    archives,
    effects_borg,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.effects_borg import Access
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    effects_programs as programs,
)
from ansible_collections.fleet.virt.tests.unit.backup.test_archives import BACKUP

SECRET = "pass-phrase of a test, with ' and {braces}"  # noqa: S105
AT = BACKUP.archive


@pytest.fixture
def access(tmp_path: Path) -> Access:
    return Access(SECRET, str(tmp_path / "borg"))


@pytest.fixture
def repository(tmp_path: Path, access: Access) -> str:
    """A repository with one archive."""
    place = str(tmp_path / "repository")
    effects_borg.run(access, ["init", "--encryption", "repokey-blake2", place])
    (tmp_path / "saved").write_text("content" * 1000)
    comment = effects_borg.placeholders_escaped(archives.comment(BACKUP))
    words = ["create", "--comment", comment, f"{place}::{AT}", "saved"]
    effects_borg.run(access, words, folder=str(tmp_path))
    return place


def test_comment_arrives_as_it_was_written(access: Access, repository: str) -> None:
    ended = effects_borg.run(access, ["list", "--format", "{comment}{NL}", repository])
    assert archives.read_comment(ended.out) == BACKUP


def test_repository_is_known_after_it_was_used_here(
    tmp_path: Path, access: Access, repository: str
) -> None:
    assert effects_borg.has_used(access, repository)
    assert effects_borg.has_used(access, f"ssh://root@server:2222{repository}")
    assert not effects_borg.has_used(access, f"{repository}-2")
    assert not effects_borg.has_used(Access(SECRET, str(tmp_path / "new")), repository)


def test_warnings_name_a_missing_file_and_not_the_lock_of_a_killed_process(
    tmp_path: Path, access: Access, repository: str
) -> None:
    ready = tmp_path / "ready"
    with effects_borg.passphrase_pipe(SECRET) as descriptor:
        holder = programs.beside(
            ["borg", "with-lock", repository, "sh", "-c", f"touch {ready}; exec sleep 600"],
            errors=True,
            environment={**effects_borg.environment(access), "BORG_PASSPHRASE_FD": str(descriptor)},
            descriptors=(descriptor,),
        )
    limit = time.monotonic() + 60
    while not ready.exists():
        assert time.monotonic() < limit
        time.sleep(0.02)
    os.killpg(holder.pid, signal.SIGKILL)
    holder.communicate()
    words = ["create", f"{repository}::again", "saved"]
    ended = effects_borg.run(access, words, folder=str(tmp_path))
    assert b"tale" in ended.stderr, "borg found the lock"
    assert effects_borg.warnings(ended) == []
    words = ["create", f"{repository}::third", "saved", "missing"]
    ended = effects_borg.run(access, words, folder=str(tmp_path))
    assert [text.partition(":")[0] for text in effects_borg.warnings(ended)] == ["missing"]


def test_passphrase_is_in_no_argument_variable_or_file(
    tmp_path: Path, access: Access, repository: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"
    program = tmp_path / "borg-that-shows"
    program.write_text(
        f'#!/bin/sh\ntr "\\0" "\\n" </proc/$$/environ >{seen}\ntr "\\0" "\\n" </proc/$$/cmdline'
        f' >>{seen}\nexec borg "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(programs, "find", lambda _name: str(program))
    monkeypatch.setenv("BORG_PASSPHRASE", "another one")
    monkeypatch.setenv("BORG_PASSCOMMAND", "echo another one")
    effects_borg.run(access, ["list", repository])
    text = seen.read_text()
    assert "BORG_PASSPHRASE_FD=" in text
    assert "another one" not in text
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 5
    assert not [path for path in written if SECRET.encode() in path.read_bytes()]
    assert SECRET not in repr(access)


def test_folder_of_caches_is_private(access: Access, repository: str) -> None:
    assert repository
    assert os.stat(access.base).st_mode & 0o777 == 0o700


def test_wrong_passphrase_is_named(access: Access, repository: str) -> None:
    with pytest.raises(effects_borg.WrongPassphrase, match="virt_backup_passphrase"):
        effects_borg.run(Access("wrong", access.base), ["list", repository])


@pytest.mark.parametrize("passphrase", ["", "a\nb", "x" * 5000])
def test_passphrase_that_no_pipe_can_carry_is_refused(access: Access, passphrase: str) -> None:
    with pytest.raises(effects_borg.WrongPassphrase):
        effects_borg.run(Access(passphrase, access.base), ["list", "/nowhere"])


def test_missing_repository_is_named(access: Access, tmp_path: Path) -> None:
    with pytest.raises(effects_borg.NoRepository):
        effects_borg.run(access, ["list", str(tmp_path / "none")])


def test_missing_archive_is_named(access: Access, repository: str) -> None:
    with pytest.raises(effects_borg.NoArchive):
        effects_borg.run(access, ["info", f"{repository}::2020-01-01T00:00:00Z"])


def test_archive_of_that_name_is_never_replaced(access: Access, repository: str) -> None:
    with pytest.raises(effects_borg.ArchiveExists):
        effects_borg.run(access, ["create", f"{repository}::{AT}", "/dev/null"])


def test_locked_repository_is_named(access: Access, repository: str) -> None:
    # the lock of a process on another machine, which nothing here can call dead
    (Path(repository) / "lock.exclusive").mkdir()
    (Path(repository) / "lock.exclusive" / "elsewhere@1.2-3").touch()
    with pytest.raises(effects_borg.Locked, match="break-lock"):
        effects_borg.run(access, ["create", f"{repository}::x", "/dev/null"], lock_wait=0)


def test_damaged_repository_is_named(access: Access, repository: str) -> None:
    (Path(repository) / "config").write_text("nothing\n")
    with pytest.raises(effects_borg.Damaged):
        effects_borg.run(access, ["list", repository])


def test_damaged_archive_is_named(access: Access, repository: str) -> None:
    for segment in sorted((Path(repository) / "data" / "0").iterdir()):
        content = bytearray(segment.read_bytes())
        if len(content) > 100:
            content[len(content) // 2] ^= 0xFF
            segment.write_bytes(bytes(content))
    with pytest.raises(effects_borg.Damaged):
        effects_borg.run(access, ["extract", "--stdout", f"{repository}::{AT}"])


def test_unencrypted_repository_in_its_place_is_refused(access: Access, tmp_path: Path) -> None:
    place = str(tmp_path / "planted")
    subprocess.run(
        ["borg", "init", "--encryption", "none", place],
        check=True,
        env={**os.environ, "BORG_BASE_DIR": str(tmp_path / "other")},
    )
    with pytest.raises(effects_borg.Damaged):
        effects_borg.run(access, ["info", place])


def test_full_place_is_named() -> None:
    line = '{"type": "log_message", "levelname": "ERROR", "message": "Remote: OSError: [Errno 28]'
    text = (
        f'{line} No space left on device: data"}}\n'
        '{"levelname": "ERROR", "message": "Connection closed", "msgid": "ConnectionClosed"}\n'
    )
    assert isinstance(effects_borg.failure(text), effects_borg.Full)
    quota = '{"levelname": "ERROR", "message": "x", "msgid": "Repository.StorageQuotaExceeded"}'
    assert isinstance(effects_borg.failure(quota), effects_borg.Full)


def test_server_that_refuses_is_named(access: Access) -> None:
    with pytest.raises(effects_borg.Disconnected, match="borg serve"):
        effects_borg.run(access, ["list", "ssh://nobody@127.0.0.1:1/srv/backup"])


def test_words_of_a_server_move_no_cursor() -> None:
    assert "\x1b" not in str(effects_borg.failure("Remote: \x1b[2J\rfine"))


def test_borg_that_hangs_is_ended(access: Access, repository: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # nobody writes to it
    words = ["create", "--read-special", f"{repository}::x", str(tmp_path / "pipe")]
    with pytest.raises(DeadlineExceeded):
        effects_borg.run(access, words, seconds=2)
    assert effects_borg.run(access, ["list", "--short", repository]).out == f"{AT}\n"


def test_missing_borg_names_the_package(access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "find", lambda _name: None)
    with pytest.raises(DependencyMissing, match="borgbackup"):
        effects_borg.run(access, ["list", "/nowhere"])


def test_error_of_a_traceback_is_shown_without_its_frames() -> None:
    text = (
        "Remote: Error:\n\nTraceback (most recent call last):\n"
        '  File "/usr/lib/python3/dist-packages/borg/remote.py", line 240, in serve\n'
        "    res = f(**args)\n          ^^^^^^^^^\n"
        "OSError: [Errno 28] No space left on device\n\nPlatform: Linux hv3\nBorg: 1.2.4\n"
    )
    line = json.dumps({"type": "log_message", "levelname": "ERROR", "message": text})
    error = effects_borg.failure(line)
    assert isinstance(error, effects_borg.Full)
    said = str(error)
    assert said.startswith("borg: Remote: Error: OSError: [Errno 28] No space left on device;")
    assert "remote.py" not in said
