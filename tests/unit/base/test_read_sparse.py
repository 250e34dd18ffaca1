# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading files with holes, and ending with whoever asked for it."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import ansible_collections.fleet.virt.plugins.module_utils._fleet.images.effects_digests as digests
import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import read_sparse as sparse

_B = sparse.BLOCK
_SEED = 20261123
_TIB = 1 << 40


def _file(path: Path, size: int, pieces: t.Mapping[int, bytes]) -> bytes:
    """A file with holes but for these pieces; what is in it."""
    with path.open("wb") as file:
        file.truncate(size)
        for offset, piece in pieces.items():
            file.seek(offset)
            file.write(piece)
    return path.read_bytes()


def _read(path: Path) -> list[bytes]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return list(sparse.blocks(descriptor))
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("size", "pieces"),
    [
        (0, {}),
        (1, {}),
        (4 * _B, {}),
        (4 * _B + 5, {}),
        (5, {0: b"hello"}),
        (3 * _B, {0: b"x"}),
        (3 * _B, {3 * _B - 1: b"x"}),
        (9 * _B + 7, {2 * _B + 4096: b"x" * 9000, 6 * _B - 3: b"y" * 6}),
        (9 * _B, {0: b"x" * (9 * _B)}),
    ],
)
def test_the_same_bytes(tmp_path: Path, size: int, pieces: dict[int, bytes]) -> None:
    path = tmp_path / "file"
    content = _file(path, size, pieces)
    assert b"".join(_read(path)) == content


def test_the_same_bytes_of_random_files(tmp_path: Path) -> None:
    chosen = random.Random(_SEED)  # noqa: S311
    for number in range(60):
        size = chosen.randrange(12 * _B)
        pieces = {
            offset: chosen.randbytes(chosen.choice([1, 4096, 70000, _B]))
            for offset in (chosen.randrange(size + 1) for _piece in range(chosen.randrange(6)))
        }
        path = tmp_path / str(number)
        content = _file(path, size, pieces)
        assert b"".join(_read(path)) == content, (_SEED, number)
        with path.open("rb") as file:
            assert str(digests.sha256(file.fileno())) == hashlib.sha256(content).hexdigest()


def test_holes_are_not_read(tmp_path: Path) -> None:
    """And every block is one of the whole size at its place, so that a copy has them as holes."""
    path = tmp_path / "file"
    _file(path, 1000 * _B, {500 * _B + 5000: b"x"})
    found = _read(path)
    assert [number for number, block in enumerate(found) if block is not sparse.ZERO] == [500]


_READER = f"""
import os, sys
sys.path[:0] = {[one for one in sys.path if one]!r}
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import read_caller as company
import ansible_collections.fleet.virt.plugins.module_utils._fleet.images.effects_digests as digests
company._SECONDS = 0.05
if sys.argv[2] == "module":
    company.mark_as_module()
print("begun", flush=True)
descriptor = os.open(sys.argv[1], os.O_RDONLY)
try:
    digests.sha256(descriptor)
except company.Abandoned:
    os.write(2, b"given up")
"""


@pytest.fixture
def huge(tmp_path: Path) -> Path:
    """So much that nobody sums it up within the time of a test."""
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.truncate(8 * _TIB)
    return path


def test_a_module_ends_with_its_connection(huge: Path) -> None:
    command = [sys.executable, "-c", _READER, str(huge), "module"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        assert reader.stderr is not None
        assert reader.stdout.readline() == b"begun\n"
        time.sleep(0.3)
        assert reader.poll() is None, "it goes on while somebody listens"
        reader.stdout.close()
        try:
            reader.wait(20)
        finally:
            reader.kill()
        assert reader.stderr.read() == b"given up"


def test_a_worker_ends_with_its_ansible(huge: Path, tmp_path: Path) -> None:
    said = tmp_path / "said"
    command = '"$@" 2>"$0" & echo $!; sleep 60'
    words = [sys.executable, "-c", _READER, str(huge), "worker"]
    ansible = subprocess.Popen(["sh", "-c", command, str(said), *words], stdout=subprocess.PIPE)
    try:
        assert ansible.stdout is not None
        worker = int(ansible.stdout.readline())
        assert ansible.stdout.readline() == b"begun\n"
        time.sleep(0.3)
        os.kill(worker, 0)
    finally:
        ansible.kill()
        ansible.wait()
    limit = time.monotonic() + 20
    while said.read_text() != "given up":
        if time.monotonic() > limit:
            os.kill(worker, 9)
            raise AssertionError("it goes on although nobody waits for it")
        time.sleep(0.05)
