# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading what is in an archive: small documents whole, disks as a stream; digests compared."""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
import typing as t

from ..backup import archives, effects_borg, places
from ..backup.archives import ArchiveError, Manifest, SavedFile
from ..backup.effects_borg import Access

_BLOCK = 1024 * 1024
_DOCUMENT = 32 * 1024 * 1024  # bytes; libvirt takes no larger definition
_SECONDS = 120.0
_MOST_SECONDS = 7 * 24 * 3600.0
Into = t.Callable[[int, bytes], None]


class Archive:
    """An archive of the VM with that UUID at a place."""

    def __init__(
        self, access: Access, place: str, uuid: str, name: str, *, waits: bool = True
    ) -> None:
        if not archives.is_backup(name):
            raise ArchiveError(
                f"{name!r} is no archive; they are called as 2026-11-28T06:51:18Z;"
                " ansible-playbook fleet.virt.backups lists them"
            )
        self.access, self.name = access, name
        # Without a lock, what is read long keeps no backup waiting
        self._options = [] if waits else ["--bypass-lock"]
        self.where = f"{places.parse(place).repository(uuid)}::{name}"

    def manifest(self) -> Manifest:
        """What is in it."""
        text = self._document(archives.MANIFEST, archives.MOST_MANIFEST)
        return archives.read_manifest(text.decode("utf-8", "replace"))

    def file(self, file: SavedFile) -> bytes:
        """The content of a small file, which has its digest."""
        data = bytearray()
        if file.size > _DOCUMENT:
            raise ArchiveError(f"{self.where}: {file.path} has {file.size} bytes; too many")
        self.pour(file, lambda _offset, block: data.extend(block))
        return bytes(data)

    def pour(self, file: SavedFile, into: Into) -> None:
        """Give ``into`` the content of a file block by block; raises ArchiveError in the end unless
        it has the size and the digest that the manifest says."""
        digest, size = hashlib.sha256(), 0
        with _Reading(self, file.path) as stream:
            while True:
                block = stream.read(_BLOCK)
                if not block:
                    break
                if size + len(block) > file.size:
                    raise self._differs(file, "more bytes")
                digest.update(block)
                into(size, block)
                size += len(block)
        if size != file.size:
            raise self._differs(file, f"{size} bytes")
        if digest.hexdigest() != file.sha256:
            raise self._differs(file, "another content")

    def _differs(self, file: SavedFile, what: str) -> ArchiveError:
        return ArchiveError(
            f"{self.where}: {file.path} has {what} than its manifest says ({file.size} bytes,"
            f" SHA-256 {file.sha256}): the archive is damaged; restore another"
        )

    def _document(self, path: str, most: int) -> bytes:
        with tempfile.TemporaryFile() as output:
            effects_borg.run(self.access, self._words(path), into=output, seconds=_SECONDS)
            output.seek(0)
            data = output.read(most + 1)
        if not data or len(data) > most:
            raise ArchiveError(f"{self.where}: it has no {path}, or one that is too long")
        return data

    def _words(self, path: str) -> list[str]:
        return [*self._options, "extract", "--stdout", self.where, path]

    def extract(self, path: str, into: t.IO[bytes]) -> None:
        """Have borg write a file into a pipe."""
        effects_borg.run(self.access, self._words(path), into=into, seconds=_MOST_SECONDS)


class _Reading:
    """A file of an archive as it comes out of borg, whose failure is raised in the end."""

    def __init__(self, archive: Archive, path: str) -> None:
        reading, self._writing = os.pipe()
        self._stream = os.fdopen(reading, "rb", buffering=0)
        self._error: Exception | None = None
        self._archive, self._path = archive, path
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            with os.fdopen(self._writing, "wb", buffering=0) as into:
                self._archive.extract(self._path, into)
        except Exception as error:
            self._error = error

    def read(self, count: int) -> bytes:
        """The next block of ``count`` bytes; the last may have fewer."""
        data = bytearray()
        while len(data) < count:
            block = self._stream.read(count - len(data))
            if not block:
                break
            data += block
        return bytes(data)

    def __enter__(self) -> _Reading:
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._stream.close()  # borg ends if it still writes
        self._thread.join()
        if self._error is not None and error is None:
            raise self._error
