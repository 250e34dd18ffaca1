# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A file that appears atomically and never changes afterwards.

It is written without a name (O_TMPFILE), so a process that dies leaves nothing. On file systems
without such files (NFS), it has a hidden name that identifies its owner until it is complete.
"""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import hashlib
import os
import re
import typing as t
from pathlib import Path

from ..._errors import PlanRefused
from ..._units import MIB
from ..base import effects_files as files
from ..base import effects_locks as locks
from ..base import read_caller as company
from ..base import read_sparse as sparse
from ..base.metadata import Owner
from ..base.names import playbook_command
from ..engine import effects_lease_holder as owner
from ..storage.base_name import Checksum, Digest

_PREFIX = ".fleet-virt-"
_OWNED = re.compile(
    re.escape(_PREFIX) + r"(?P<boot>[0-9a-f-]{36})\.(?P<pid>\d+)\.(?P<start>\d+)(\.[a-z0-9]+)?"
)
_UNNAMED = getattr(os, "O_TMPFILE", 0)
_NO_UNNAMED = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)
_BLOCK = sparse.BLOCK
_ZERO = sparse.ZERO
_LONG = 6 * 3600.0
# What stays free of a file system: the disks of VMs grow there
_RESERVE_PERCENT, _MOST_RESERVE = 5, 1024 * MIB
_UNCHECKED = 16 * MIB  # written at most until the free space is read again: others write, too
# linux/fs.h, as encoded on all architectures but PowerPC, MIPS and SPARC, which answer ENOTTY
_GET_FLAGS, _SET_FLAGS, _IMMUTABLE = 0x80086601, 0x40086602, 0x10


def folder_lock(folder: str, seconds: float) -> contextlib.AbstractContextManager[int]:
    """Hold the lock for writing to ``folder`` (flock(2) on the folder itself).

    It leaves no file behind and is released when its holder ends. Without it (NFS), work may be
    done twice, but nothing worse. Raises PlanRefused if it is not acquired within ``seconds``.
    """

    def lock(descriptor: int) -> None:
        try:
            locks.lock_file(descriptor)
        except BlockingIOError:
            raise
        except OSError:  # the file system has no locks
            pass

    refusal = (
        f"another run has been writing to {folder} for {seconds:g} seconds; find the process with"
        f" fuser {folder}, and try again"
    )
    return locks.held(folder, seconds, refusal, lock, folder=True)


def content_lock(checksum: Checksum) -> contextlib.AbstractContextManager[int]:
    """Hold the lock for downloading the content with this checksum (one byte of a lock file).

    It is separate from the folder's lock, so that a slow source does not delay other images. It is
    released when its holder ends. Raises PlanRefused if it is not acquired within hours.
    """
    place = int(checksum.digits[:15], 16)
    return locks.shared(
        "downloads",
        _LONG,
        f"been downloading {checksum}",
        lambda descriptor: fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place),
    )


@contextlib.contextmanager
def new_file(folder: str, part: str | None = None) -> t.Iterator[NewFile]:
    """A file in ``folder`` that is removed on exit, unless it was given a name.

    With ``part``, which distinguishes several files of one process, it has a hidden name from the
    beginning (:attr:`NewFile.path`), so that other processes can write to it.
    """
    descriptor, temporary = _open_new(folder) if part is None else _open_named(folder, f".{part}")
    new = NewFile(folder, descriptor, temporary)
    try:
        yield new
    finally:
        new.close()


def _open_new(folder: str) -> tuple[int, str | None]:
    if _UNNAMED:
        try:
            return os.open(folder, _UNNAMED | os.O_RDWR | os.O_CLOEXEC, 0o600), None
        except OSError as error:
            if error.errno not in _NO_UNNAMED or not os.path.isdir(folder):
                raise
    return _open_named(folder)


def _open_named(folder: str, ending: str = "") -> tuple[int, str]:
    me = owner.myself("")
    temporary = f"{folder}/{_PREFIX}{me.boot_id}.{me.pid}.{me.start_time}{ending}"
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    return os.open(temporary, flags, 0o600), temporary


class NewFile:
    """A file being written; ``descriptor`` is open for reading and writing."""

    def __init__(self, folder: str, descriptor: int, temporary: str | None) -> None:
        self.descriptor = descriptor
        self._folder = folder
        self._temporary = temporary

    @property
    def path(self) -> str:
        """The path for other processes before it has its final name."""
        if self._temporary is None:
            raise AssertionError("a file without a name has no path")
        return self._temporary

    def fill(self, blocks: t.Iterable[bytes]) -> Digest:
        """Write the blocks, zeros as holes; returns the SHA-256 of them all.

        Raises PlanRefused once the file system has only its reserve left.
        """
        summed = hashlib.sha256()
        size = written = checked = 0
        for block in _aligned(blocks):
            company.require()
            summed.update(block)
            if block != (_ZERO if len(block) == _BLOCK else bytes(len(block))):
                if written >= checked:
                    checked = written + _require_space(self._folder, written)
                _write_at(self.descriptor, block, size)
                written += len(block)
            size += len(block)
        os.ftruncate(self.descriptor, size)
        return Digest(summed.hexdigest())

    def publish(self, name: str) -> bool:
        """Flush, and give it its final name, mode 0644; False if that name is taken."""
        os.fchmod(self.descriptor, 0o644)
        _label(self.descriptor)
        os.fsync(self.descriptor)
        final = f"{self._folder}/{name}"
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # with a folder's descriptor, Python calls linkat(2); only that can follow the link
            source = self._temporary or f"/proc/self/fd/{self.descriptor}"
            os.link(source, final, src_dir_fd=folder, follow_symlinks=not self._temporary)
            if self._temporary:
                os.unlink(self._temporary)
                self._temporary = None
            os.fsync(folder)
        except FileExistsError:
            return False
        finally:
            os.close(folder)
        return True

    def close(self) -> None:
        """Close the file; without a final name it is removed."""
        os.close(self.descriptor)
        if self._temporary:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._temporary)


def free_space(folder: str) -> tuple[int, int]:
    """The free bytes of the file system, and how many of them must stay free."""
    space = os.statvfs(folder)
    reserve = space.f_blocks * space.f_frsize * _RESERVE_PERCENT // 100
    return space.f_bavail * space.f_frsize, min(_MOST_RESERVE, reserve)


def device(folder: str) -> int:
    """The device of the file system that ``folder``, which may be yet to be made, is on."""
    return os.stat(_existing(folder)).st_dev


def _existing(folder: str) -> str:
    """The folder, or the lowest one above it that exists."""
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder) or "/"
    return folder


def require_room(folder: str, needed: int) -> None:
    """Raise PlanRefused if ``needed`` bytes do not fit into the folder's file system, apart from
    its reserve. The folder may be yet to be created."""
    free, reserve = free_space(_existing(folder))
    if needed > max(0, free - reserve):
        raise PlanRefused(
            f"an image of {-(-needed // MIB)} MiB does not fit into {folder}: {free // MIB} MiB are"
            f" free, of which {-(-reserve // MIB)} MiB must stay free; free some space, or remove"
            f" unused base images ({playbook_command('images', virt_images_prune='true')})"
        )


def _require_space(folder: str, written: int) -> int:
    """How many bytes may be written before asking again; raises PlanRefused if it is not even one
    block. ``written`` are those of the file so far."""
    free, reserve = free_space(folder)
    room = free - reserve
    if room < _BLOCK:
        raise PlanRefused(
            f"writing an image to {folder} stopped after {written // MIB} MiB: it has only"
            f" {free // MIB} MiB free, of which {-(-reserve // MIB)} MiB must stay free; free some"
            " space, or use another directory"
        )
    return min(_UNCHECKED, room // 2, reserve // 2)


def _aligned(blocks: t.Iterable[bytes]) -> t.Iterator[bytes]:
    """The same bytes in blocks of one size, except the last; pieces of a stream vary in size."""
    rest = bytearray()
    for block in blocks:
        if not rest and len(block) == _BLOCK:
            yield block
            continue
        rest += block
        while len(rest) >= _BLOCK:
            yield bytes(rest[:_BLOCK])
            del rest[:_BLOCK]
    if rest:
        yield bytes(rest)


def _write_at(descriptor: int, block: bytes, offset: int) -> None:
    rest = memoryview(block)
    while rest:
        written = os.pwrite(descriptor, rest, offset)
        rest, offset = rest[written:], offset + written


def owner_of(name: str) -> Owner | None:
    """The process that a hidden name belongs to; None if it is not such a name."""
    match = _OWNED.fullmatch(name)
    if match is None:
        return None
    return Owner(match["boot"], int(match["pid"]), int(match["start"]), "")


def abandoned(folder: str) -> list[str]:
    """The names of unfinished files that dead processes left in ``folder``."""
    names = []
    for name in sorted(os.listdir(folder)):
        process = owner_of(name)
        if process is not None and not owner.is_alive(process):
            names.append(name)
    return names


def remove_abandoned(folder: str) -> list[str]:
    """Remove unfinished files that dead processes left in ``folder``; returns their names."""
    removed = []
    for name in abandoned(folder):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{folder}/{name}")
            removed.append(name)
    return removed


def make_immutable(path: str) -> bool:
    """Protect the file from all users including root (``chattr +i``); False if unsupported."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return _set_immutable(descriptor, True)
    finally:
        os.close(descriptor)


def remove_immutable(path: str) -> None:
    """Remove the file, and flush its removal to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _set_immutable(descriptor, False)
    finally:
        os.close(descriptor)
    os.unlink(path)
    files.flush(os.path.dirname(path))


def _set_immutable(descriptor: int, wanted: bool) -> bool:
    try:
        flags = array.array("I", [0, 0])  # the kernel reads and writes the first four bytes
        fcntl.ioctl(descriptor, _GET_FLAGS, flags, True)
        if bool(flags[0] & _IMMUTABLE) != wanted:
            flags[0] ^= _IMMUTABLE
            fcntl.ioctl(descriptor, _SET_FLAGS, flags, True)
    except OSError:  # not on this file system, or not for this process: the mode must suffice
        return False
    return True


def _label(descriptor: int) -> None:
    """Set the SELinux label that libvirt gives to backing files, where there is SELinux.

    libvirt sets it when a VM starts, which fails for an immutable file unless it is already set.
    """
    if not os.path.isdir("/sys/fs/selinux/booleans"):
        return
    with contextlib.suppress(OSError, ValueError, IndexError):
        kinds = [
            line.partition("=")[2].strip()
            for line in Path("/etc/selinux/config").read_text(encoding="utf-8").splitlines()
            if line.startswith("SELINUXTYPE=")
        ]
        contexts = Path("/etc/selinux", kinds[0], "contexts/virtual_image_context")
        # the second line is the label for read-only files (libvirt's security_selinux.c)
        label = contexts.read_text(encoding="ascii").split()[1]
        os.setxattr(descriptor, "security.selinux", label.encode("ascii") + b"\0")
