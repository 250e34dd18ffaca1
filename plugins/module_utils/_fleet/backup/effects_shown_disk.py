# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A disk that an NBD server has, shown to borg as a raw file.

The file is FUSE's, in the kernel's own protocol (linux/fuse.h): the root of the file system is
the one file in it, and what is read bypasses the page cache.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import threading
import typing as t

from ..._errors import FleetVirtError, PlanRefused
from ..base import effects_programs as programs
from . import archives
from .effects_disk_reader import CHUNK, DiskReader

if t.TYPE_CHECKING:
    from pathlib import Path

_MOST_REQUEST = 1 << 16
_FLAG_MAX_PAGES, _MAX_PAGES = 1 << 22, 256
_DIRECT_IO = 1
_VALID_SECONDS = 1 << 30
_VERSION = (7, 31)
_GETATTR, _OPEN, _READ, _STATFS, _RELEASE, _FLUSH, _INIT, _DESTROY = 3, 14, 15, 17, 18, 25, 26, 38
_FORGET, _INTERRUPT, _BATCH_FORGET, _LSEEK = 2, 36, 42, 46
_UNANSWERED = (_FORGET, _INTERRUPT, _BATCH_FORGET, _DESTROY)
_IN = struct.Struct("=IIQQIIII")
_OUT = struct.Struct("=IiQ")
_READ_IN = struct.Struct("=QQI")
_LSEEK_IN = struct.Struct("=QQI")
_INIT_IN = struct.Struct("=IIII")
_INIT_OUT = struct.Struct("=IIIIHHIIHH32x")
_ATTRIBUTES = struct.Struct("=QII QQQ QQQ III IIIIII I")
_STATFS_OUT = struct.Struct("=QQQQQ III 4x 24x")


class ShownDisk:
    """One disk as the file at ``folder / path``, until this process ends."""

    def __init__(self, folder: Path, path: str, server: str, export: str) -> None:
        self._path = path
        self._reader = DiskReader(server, export)
        self.size = self._reader.size
        self._error: FleetVirtError | None = None
        self._device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        mode = os.stat(folder / path)
        self._owner, self._mode = (mode.st_uid, mode.st_gid), stat.S_IFREG | 0o400
        self._changed = int(mode.st_mtime)
        options = f"ro,nosuid,nodev,fd={self._device},rootmode=100000,user_id=0,group_id=0"
        argv = ["mount", "-i", "-t", "fuse", "-o", options, "fleet-virt", str(folder / path)]
        mounted = programs.execute(argv, descriptors=(self._device,))
        if mounted.status:
            said = mounted.stderr.decode("utf-8", "replace").strip()
            raise PlanRefused(f"the disk could not be shown: {said}")
        threading.Thread(target=self._serve, daemon=True).start()

    def digested(self) -> archives.SavedFile:
        """What the manifest says of it, once borg has read what it wants of it."""
        digest = self._reader.digest()
        if self._error is not None:
            raise self._error
        return archives.SavedFile(self._path, self.size, digest)

    def _serve(self) -> None:
        """Answer the kernel until the file is unmounted."""
        while True:
            try:
                request = os.read(self._device, _MOST_REQUEST)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.ENOENT, errno.EAGAIN):
                    continue
                return
            _length, kind, unique, *_rest = _IN.unpack_from(request)
            if kind in _UNANSWERED:
                continue
            status, content = 0, memoryview(b"")
            try:
                content = memoryview(self._answer(kind, request[_IN.size :]))
            except OSError as error:
                status = -(error.errno or errno.EIO)
            except FleetVirtError as error:  # whoever waits for the digest hears of it
                self._error, status = error, -errno.EIO
            except Exception as error:
                why = f"{self._path} could not be shown: {type(error).__name__}: {error}"
                self._error, status = PlanRefused(why), -errno.EIO
            if not self._reply(unique, status, content):
                self._reply(unique, -errno.EIO)  # else the one who asked waits for ever

    def _reply(self, unique: int, status: int, content: memoryview | bytes = b"") -> bool:
        """Whether the kernel took the answer."""
        head = _OUT.pack(_OUT.size + len(content), status, unique)
        try:
            os.writev(self._device, (head, content))
        except OSError as error:
            return error.errno == errno.ENOENT  # nobody waits for it any more
        return True

    def _answer(self, kind: int, words: bytes) -> memoryview | bytes:
        if kind == _READ:
            _file, offset, count = _READ_IN.unpack_from(words)
            return self._reader.content(offset, count)
        if kind == _LSEEK:
            _file, offset, whence = _LSEEK_IN.unpack_from(words)
            return struct.pack("=Q", self._reader.sought(offset, whence))
        if kind == _GETATTR:
            return self._attributes()
        if kind == _OPEN:
            return struct.pack("=QII", 0, _DIRECT_IO, 0)
        if kind in (_RELEASE, _FLUSH):
            return b""
        if kind == _STATFS:
            return _STATFS_OUT.pack(self.size // 4096, 0, 0, 1, 0, 4096, 255, 4096)
        if kind == _INIT:
            _major, _minor, ahead, flags = _INIT_IN.unpack_from(words)
            flags &= _FLAG_MAX_PAGES
            return _INIT_OUT.pack(*_VERSION, ahead, flags, 0, 0, 4096, 1, _MAX_PAGES, 0)
        raise OSError(errno.ENOSYS, "not there")

    def _attributes(self) -> bytes:
        return _ATTRIBUTES.pack(
            *(_VALID_SECONDS, 0, 0),
            *(1, self.size, -(-self.size // 512)),
            *([self._changed] * 3),
            *(0, 0, 0),
            *(self._mode, 1, *self._owner, 0, CHUNK),
            0,
        )
