# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A base image's file appears whole or not at all, with and without unnamed files."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import (
    effects_lease_holder as owner,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images import (
    effects_base_file as base_file,
)

MIB = 1 << 20


@pytest.fixture(params=["unnamed", "hidden name"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on a file system with, or as if without, unnamed files."""
    if request.param == "hidden name":
        monkeypatch.setattr(base_file, "_UNNAMED", 0)
    path = tmp_path / "base"
    path.mkdir()
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file of 5 MiB and a bit with data at its start, in its middle and at its end."""
    path = tmp_path / "source"
    with path.open("wb") as file:
        file.write(os.urandom(MIB))
        file.write(bytes(MIB))
        file.write(os.urandom(1000))
        file.write(bytes(3 * MIB - 1000))
        file.write(b"end")
    return path


def fill(new: base_file.NewFile, source: Path) -> str:
    descriptor = os.open(source, os.O_RDONLY)
    try:
        return str(new.fill(iter(lambda: os.read(descriptor, 100_003), b"")))
    finally:
        os.close(descriptor)


def test_a_published_file_is_a_sparse_copy(folder: Path, source: Path) -> None:
    with base_file.new_file(str(folder)) as new:
        assert fill(new, source) == hashlib.sha256(source.read_bytes()).hexdigest()
        assert [name for name in os.listdir(folder) if not name.startswith(".")] == []
        assert new.publish("final")
    assert os.listdir(folder) == ["final"]
    final = folder / "final"
    assert final.read_bytes() == source.read_bytes()
    assert final.stat().st_mode & 0o777 == 0o644
    assert source.stat().st_blocks * 512 >= 5 * MIB
    assert final.stat().st_blocks * 512 <= 2 * MIB


def test_a_file_of_zeros_keeps_its_size(folder: Path, tmp_path: Path) -> None:
    zeros = tmp_path / "zeros"
    zeros.write_bytes(bytes(3 * MIB + 512))
    with base_file.new_file(str(folder)) as new:
        fill(new, zeros)
        new.publish("final")
    status = (folder / "final").stat()
    assert (status.st_size, status.st_blocks) == (3 * MIB + 512, 0)


def test_an_unpublished_file_is_gone(folder: Path, source: Path) -> None:
    with base_file.new_file(str(folder)) as new:
        fill(new, source)
    assert os.listdir(folder) == []
    with pytest.raises(KeyboardInterrupt), base_file.new_file(str(folder)) as new:
        raise KeyboardInterrupt
    assert os.listdir(folder) == []


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system of 32 MiB, of which 2 MiB must stay free."""
    path = tmp_path / "small"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(path)], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)


def _noise(mib: int) -> Iterator[bytes]:
    for _number in range(4 * mib):
        yield os.urandom(MIB // 4)


@pytest.mark.parametrize("named", [False, True])
def test_a_file_system_is_not_filled_up(
    small: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    if named:
        monkeypatch.setattr(base_file, "_UNNAMED", 0)
    with base_file.new_file(str(small)) as new:
        with pytest.raises(PlanRefused) as refused:
            new.fill(_noise(64))
        assert 1 <= os.statvfs(small).f_bavail * os.statvfs(small).f_frsize // MIB <= 2
    assert re.fullmatch(
        rf"writing an image to {small} stopped after (29|30) MiB: it has only 1 MiB free, of which"
        " 2 MiB must stay free; free some space, or use another directory",
        str(refused.value),
    )
    assert os.listdir(small) == []
    assert os.statvfs(small).f_bavail == os.statvfs(small).f_blocks


def test_what_another_process_writes_meanwhile_counts(small: Path) -> None:
    def blocks() -> Iterator[bytes]:
        yield from _noise(4)
        (small / "theirs").write_bytes(bytes(24 * MIB))
        yield from _noise(16)

    with base_file.new_file(str(small)) as new, pytest.raises(PlanRefused, match="stay free"):
        new.fill(blocks())
    assert os.listdir(small) == ["theirs"]


def test_holes_need_no_space(small: Path) -> None:
    with base_file.new_file(str(small)) as new:
        new.fill(itertools.chain(_noise(8), itertools.repeat(bytes(MIB), 64), _noise(8)))
        new.publish("final")
    assert (small / "final").stat().st_size == 80 * MIB


def test_a_taken_name_is_left_alone(folder: Path, source: Path) -> None:
    (folder / "final").write_text("there before")
    with base_file.new_file(str(folder)) as new:
        fill(new, source)
        assert not new.publish("final")
    assert os.listdir(folder) == ["final"]
    assert (folder / "final").read_text() == "there before"


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), base_file.new_file(str(tmp_path / "nothing")):
        pass


CHILD = """
import sys, time
sys.path[:0] = {path!r}
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images import effects_base_file
effects_base_file._UNNAMED = {unnamed} and effects_base_file._UNNAMED
with effects_base_file.folder_lock({folder!r}, 10), effects_base_file.new_file({folder!r}) as new:
    import os
    os.write(new.descriptor, b"half")
    print("writing", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("unnamed", [True, False])
def test_a_killed_process_leaves_nothing_for_long(tmp_path: Path, unnamed: bool) -> None:
    folder = str(tmp_path)
    text = CHILD.format(path=[p for p in sys.path if p], unnamed=unnamed, folder=folder)
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "writing\n"
        assert len(os.listdir(folder)) == (0 if unnamed else 1)
        assert base_file.remove_abandoned(folder) == []  # it is alive
        waiting = pytest.raises(PlanRefused, match="another run has been writing to")
        with waiting, base_file.folder_lock(folder, 0.3):
            pass
        child.send_signal(signal.SIGKILL)
        child.wait()
    with base_file.folder_lock(folder, 5):
        assert len(base_file.remove_abandoned(folder)) == (0 if unnamed else 1)
    assert os.listdir(folder) == []


def test_only_what_is_ours_and_abandoned_is_removed(tmp_path: Path) -> None:
    me = owner.myself("")
    mine = f".fleet-virt-{me.boot_id}.{me.pid}.{me.start_time}"
    reused = f".fleet-virt-{me.boot_id}.{me.pid}.{me.start_time + 1}"
    earlier = f".fleet-virt-{'0' * 36}.{me.pid}.{me.start_time}"
    for name in (mine, reused, earlier, ".fleet-virt-other", ".hidden", "image"):
        (tmp_path / name).write_bytes(b"")
    assert base_file.remove_abandoned(str(tmp_path)) == sorted([reused, earlier])
    assert set(os.listdir(tmp_path)) == {mine, ".fleet-virt-other", ".hidden", "image"}


def test_the_lock_is_free_again(tmp_path: Path) -> None:
    for _ in range(2):
        started = time.monotonic()
        with base_file.folder_lock(str(tmp_path), 60):
            assert time.monotonic() - started < 20
    assert os.listdir(tmp_path) == []


def test_an_immutable_file_is_removed(folder: Path, source: Path) -> None:
    with base_file.new_file(str(folder)) as new:
        fill(new, source)
        new.publish("x")
    base_file.make_immutable(str(folder / "x"))
    base_file.remove_immutable(str(folder / "x"))
    assert list(folder.iterdir()) == []


def test_what_others_write_to_has_a_name_that_says_whose_it_is(tmp_path: Path) -> None:
    with base_file.new_file(str(tmp_path), "vda") as one, base_file.new_file(str(tmp_path), "vdb"):
        assert len(list(tmp_path.iterdir())) == 2
        assert base_file.owner_of(os.path.basename(one.path)) == owner.myself("")
        assert base_file.abandoned(str(tmp_path)) == []
        assert one.publish("whole")
    assert [path.name for path in tmp_path.iterdir()] == ["whole"]
    dead = f".fleet-virt-{owner.boot_id()}.4194303.1.vda"
    (tmp_path / dead).touch()
    assert base_file.remove_abandoned(str(tmp_path)) == [dead]
