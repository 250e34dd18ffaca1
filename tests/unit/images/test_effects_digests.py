# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Digests are remembered while a file stays what it is, and only then."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images import (
    effects_digests as digests,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.effects_digests import (
    DigestCache,
)


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that has been left alone for long enough."""
    monkeypatch.setattr(digests, "_SETTLED_NS", -1)
    path = tmp_path / "image"
    path.write_bytes(b"content" * 300_000)
    return path


def digest(path: Path, cache: Path, *, remember: bool = True) -> str:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return str(DigestCache(cache, remember=remember).digest(descriptor, str(path)))
    finally:
        os.close(descriptor)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def planted(cache: Path, value: object) -> None:
    """Replace every remembered digest."""
    entries = json.loads(cache.read_text())
    cache.write_text(json.dumps(dict.fromkeys(entries, value)))


def test_a_digest_is_remembered_in_a_private_file(image: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache" / "fleet.virt" / "digests.json"
    assert digest(image, cache) == sha256(image)
    assert cache.stat().st_mode & 0o777 == 0o600
    assert cache.parent.stat().st_mode & 0o777 == 0o700
    assert [entry.name for entry in cache.parent.iterdir()] == ["digests.json"]
    planted(cache, "0" * 64)  # what is answered now was not computed
    assert digest(image, cache) == "0" * 64


def test_a_written_file_is_read_again(image: Path, tmp_path: Path) -> None:
    cache = tmp_path / "digests.json"
    digest(image, cache)
    planted(cache, "0" * 64)
    before = image.stat()
    content = bytearray(image.read_bytes())
    content[7] ^= 1
    with image.open("r+b") as file:  # the same inode and size, and soon the same mtime
        file.write(content)
    os.utime(image, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert image.stat().st_mtime_ns == before.st_mtime_ns
    assert digest(image, cache) == sha256(image)


def test_a_replaced_file_is_read_again(image: Path, tmp_path: Path) -> None:
    cache = tmp_path / "digests.json"
    digest(image, cache)
    planted(cache, "0" * 64)
    other = tmp_path / "other"
    other.write_bytes(b"another" * 300_000)
    os.replace(other, image)
    assert digest(image, cache) == sha256(image)


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"[]", b"\xff\xfe", b'{"a": {}}', b"[" * 100_000, b"null"],
    ids=["empty", "cut", "list", "binary", "nested", "deep", "null"],
)
def test_a_damaged_cache_costs_time_only(image: Path, tmp_path: Path, damage: bytes) -> None:
    cache = tmp_path / "digests.json"
    cache.write_bytes(damage)
    assert digest(image, cache) == sha256(image)
    assert sha256(image) in json.loads(cache.read_text()).values()


@pytest.mark.parametrize("value", [None, 5, "", "zz" * 32, "0" * 63, ["0" * 64]])
def test_what_is_no_digest_is_not_believed(image: Path, tmp_path: Path, value: object) -> None:
    cache = tmp_path / "digests.json"
    digest(image, cache)
    planted(cache, value)
    assert digest(image, cache) == sha256(image)


def test_a_cache_that_cannot_be_written_costs_time_only(image: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert digest(image, tmp_path / "file" / "digests.json") == sha256(image)
    folder = tmp_path / "digests.json"
    folder.mkdir()
    assert digest(image, folder) == sha256(image)


def test_it_is_only_read_where_nothing_is_to_be_remembered(image: Path, tmp_path: Path) -> None:
    cache = tmp_path / "digests.json"
    assert digest(image, cache, remember=False) == sha256(image)
    assert [entry.name for entry in tmp_path.iterdir()] == ["image"]
    digest(image, cache)
    planted(cache, "0" * 64)
    assert digest(image, cache, remember=False) == "0" * 64


def test_what_is_known_without_reading(image: Path, tmp_path: Path) -> None:
    cache = DigestCache(tmp_path / "digests.json")
    with image.open("rb") as file:
        assert cache.known(file.fileno()) is None
        cache.digest(file.fileno(), "image")
        assert str(cache.known(file.fileno())) == sha256(image)


def test_a_file_that_was_just_written_is_not_remembered(tmp_path: Path) -> None:
    path, cache = tmp_path / "image", tmp_path / "digests.json"
    path.write_bytes(b"content")
    assert digest(path, cache) == sha256(path)
    assert not cache.exists()


def test_the_cache_does_not_grow_for_ever(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "_ENTRIES", 3)
    cache = tmp_path / "digests.json"
    for number in range(5):
        image.write_bytes(b"%d" % number)
        digest(image, cache)
    assert len(json.loads(cache.read_text())) == 3
    assert sha256(image) in json.loads(cache.read_text()).values()


def test_a_file_that_is_written_to_meanwhile_is_refused(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = os.pread

    def meddle(descriptor: int, count: int, offset: int) -> bytes:
        with image.open("ab") as file:
            file.write(b"more")
        monkeypatch.setattr(os, "pread", read)
        return read(descriptor, count, offset)

    monkeypatch.setattr(os, "pread", meddle)
    with pytest.raises(PlanRefused, match="changed while it was being read"):
        digest(image, tmp_path / "digests.json")


def test_a_file_that_somebody_locks_for_ever_is_read_all_the_same(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "_PATIENCE", 0.2)
    with image.open("rb") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        started = time.monotonic()
        assert digest(image, tmp_path / "digests.json") == sha256(image)
    assert time.monotonic() - started < 5
