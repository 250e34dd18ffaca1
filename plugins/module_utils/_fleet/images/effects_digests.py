# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""SHA-256 of large files, cached while a file is unchanged.

The cache is a convenience and may vanish or be damaged at any time. A file is identified by
device, inode, size, modification and change time: replacing or writing it changes one of them.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
import typing as t
from pathlib import Path

from ..._errors import PlanRefused
from ..._records import dataclass
from ..base import effects_files as files
from ..base import read_sparse as sparse
from ..storage.base_name import Checksum, Digest

_ENTRIES = 1000
_PATIENCE = 120.0
# A file written again within the same tick of the file system's clock would look unchanged, so a
# digest is cached only when the file has not been modified for longer than a tick.
_SETTLED_NS = 2_000_000_000


# What is cached for a file: the digest of its own bytes, or of its unpacked content
_FILE, _CONTENT = "", "unpacked:"
_LONGEST_SIZE = 18


@dataclass(frozen=True)
class Summed:
    """SHA-256 of ``size`` bytes (0: not known); as text, as it is cached."""

    digest: Digest
    size: int

    def __str__(self) -> str:
        return f"{self.digest} {self.size}" if self.size else str(self.digest)

    @classmethod
    def parse(cls, text: str) -> Summed | None:
        """What ``text`` says; None if it is damaged."""
        digits, space, size = text.partition(" ")
        digest = Digest.parse(digits)
        is_size = size.isascii() and size.isdigit() and len(size) <= _LONGEST_SIZE
        if digest is None or (space and not is_size):
            return None
        return cls(digest, int(size or 0))


def _key(status: os.stat_result) -> str:
    return ":".join(
        str(part)
        for part in (
            status.st_dev,
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
        )
    )


def _await_lock(descriptor: int) -> bool:
    """Lock the file (flock(2), until it is closed): fifty processes read it once, not fifty times.

    It only saves work, so the lock is optional where it is unsupported or held for too long.
    """
    limit = time.monotonic() + _PATIENCE
    while time.monotonic() < limit:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.05)
        except OSError:
            break
        else:
            return True
    return False


def sha256(descriptor: int) -> Digest:
    """SHA-256 of an open file as it is now, regardless of the cache."""
    summed = hashlib.sha256()
    for block in sparse.blocks(descriptor):
        summed.update(block)
    return Digest(summed.hexdigest())


class DigestCache:
    """A cache of digests in one JSON file, mode 0600; without ``remember`` it is only read."""

    def __init__(self, path: Path, *, remember: bool = True) -> None:
        self._path = path
        self._remember = remember

    def known(self, descriptor: int) -> Digest | None:
        """The digest of an open file, if it is cached."""
        known = self._load().get(_FILE + _key(os.fstat(descriptor)))
        return known.digest if known else None

    def digest(self, descriptor: int, shown: str) -> Digest:
        """SHA-256 of an open file (may move its position).

        Raises PlanRefused if the file changes while it is read; OSError.
        """
        return self._of(_FILE, descriptor, shown, lambda: sparse.blocks(descriptor)).digest

    def unpacked(
        self, descriptor: int, shown: str, blocks: t.Callable[[], t.Iterable[bytes]]
    ) -> Summed:
        """The same for the unpacked content of a compressed file, which ``blocks`` reads."""
        return self._of(_CONTENT, descriptor, shown, blocks)

    def came_as(self, checksum: Checksum) -> Digest | None:
        """SHA-256 of the content of a download with this checksum, if cached."""
        known = self._load().get(str(checksum))
        return known.digest if known else None

    def remember_came_as(self, checksum: Checksum, digest: Digest) -> None:
        """Cache the digest of the content of a download with this checksum."""
        if self._remember:
            self._store(str(checksum), Summed(digest, 0))

    def _of(
        self,
        kind: str,
        descriptor: int,
        shown: str,
        blocks: t.Callable[[], t.Iterable[bytes]],
    ) -> Summed:
        before = os.fstat(descriptor)
        known = self._load().get(kind + _key(before))
        if known is None and _await_lock(descriptor):
            known = self._load().get(kind + _key(before))  # the previous holder may have stored it
        if known is not None and (known.size or kind == _FILE):
            return known
        summed, size = hashlib.sha256(), 0
        for block in blocks():
            summed.update(block)
            size += len(block)
        after = os.fstat(descriptor)
        if _key(after) != _key(before):
            raise PlanRefused(
                f"image {shown} changed while it was being read;"
                " try again once it is no longer being written to"
            )
        computed = Summed(Digest(summed.hexdigest()), 0 if kind == _FILE else size)
        if (
            self._remember
            and time.time_ns() - max(after.st_ctime_ns, after.st_mtime_ns) > _SETTLED_NS
        ):
            self._store(kind + _key(after), computed)
        return computed

    def _load(self) -> dict[str, Summed]:
        try:
            with open(self._path, "rb") as file:
                if os.fstat(file.fileno()).st_uid != os.geteuid():
                    return {}
                content = json.load(file)
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(content, dict):
            return {}
        entries = {
            key: Summed.parse(value) for key, value in content.items() if isinstance(value, str)
        }
        return {key: summed for key, summed in entries.items() if summed is not None}

    def _store(self, key: str, computed: Summed) -> None:
        entries = self._load()
        entries.pop(key, None)
        entries[key] = computed
        latest = {key: str(summed) for key, summed in list(entries.items())[-_ENTRIES:]}
        with contextlib.suppress(OSError):  # a full or read-only disk only costs time
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            data = json.dumps(latest, indent=0).encode("ascii")
            files.write(self._path, data, durable=files.Durable.NOTHING)
