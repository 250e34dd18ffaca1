# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""SHA-256 of large files, remembered while a file stays what it is.

What is remembered is a convenience and may vanish or be damaged at any time. A file is known by
device, inode, size, modification and change time: replacing or writing it changes one of them.

This file is private to the collection.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import tempfile
import time
import typing as t
from pathlib import Path

from .._errors import PlanRefused

BLOCK = 1 << 20
_ENTRIES = 1000
_PATIENCE = 120.0
# A file written again within the same tick of the file system's clock would not look different,
# so a digest is remembered only when the file has been left alone for longer than a tick.
_SETTLED_NS = 2_000_000_000


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

    It only saves work, so it is done without where that cannot be, or somebody sits on it.
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


class DigestCache:
    """The digests in one JSON file, mode 0600; without ``remember`` it is only read."""

    def __init__(self, path: Path, *, remember: bool = True) -> None:
        self._path = path
        self._remember = remember

    def known(self, descriptor: int) -> str | None:
        """The digest of an open file, if it is remembered."""
        return self._load().get(_key(os.fstat(descriptor)))

    def digest(self, descriptor: int, shown: str) -> str:
        """SHA-256 in hexadecimal of an open file (moves its position).

        Raises PlanRefused when the file changes while it is read; OSError.
        """
        before = os.fstat(descriptor)
        known = self._load().get(_key(before))
        if known is None and _await_lock(descriptor):
            known = self._load().get(_key(before))  # whoever had it may have found out
        if known is not None:
            return known
        summed = hashlib.sha256()
        os.lseek(descriptor, 0, os.SEEK_SET)
        for block in iter(lambda: os.read(descriptor, BLOCK), b""):
            summed.update(block)
        after = os.fstat(descriptor)
        if _key(after) != _key(before):
            raise PlanRefused(
                f"image {shown} was written to while it was read;"
                " try again when whatever writes it has finished"
            )
        digest = summed.hexdigest()
        if (
            self._remember
            and time.time_ns() - max(after.st_ctime_ns, after.st_mtime_ns) > _SETTLED_NS
        ):
            self._store(_key(after), digest)
        return digest

    def _load(self) -> dict[str, str]:
        try:
            with open(self._path, "rb") as file:
                if os.fstat(file.fileno()).st_uid != os.geteuid():
                    return {}
                content = json.load(file)
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(content, dict):
            return {}
        return {
            key: value
            for key, value in content.items()
            if isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")
        }

    def _store(self, key: str, digest: str) -> None:
        entries = self._load()
        entries.pop(key, None)
        entries[key] = digest
        kept: dict[str, t.Any] = dict(list(entries.items())[-_ENTRIES:])
        with contextlib.suppress(OSError):  # a full or read-only disk costs time, nothing else
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(dir=self._path.parent, prefix=".digests-")
            try:
                with os.fdopen(descriptor, "w", encoding="ascii") as file:
                    json.dump(kept, file, indent=0)
                os.replace(temporary, self._path)
            except BaseException:
                os.unlink(temporary)
                raise
