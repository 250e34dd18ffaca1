# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Atomic file replacement: a file is complete or absent whenever the process or the machine dies.

The only module that renames files. New content is written beside its destination, readable by its
owner only whatever its final mode, flushed, and renamed into place in one step.
"""

from __future__ import annotations

import contextlib
import enum
import os
import shutil
import tempfile
import typing as t

_Path = t.Union[str, "os.PathLike[str]"]


class Durable(enum.Enum):
    """What survives a power failure of the machine; the death of the process alone does no harm."""

    NOTHING = "the former file, the new one or part of it: for what can be generated again"
    CONTENT = "the former file or the new one"
    NAME = "the new one, from the moment the call returned"


@contextlib.contextmanager
def replacing(
    path: _Path,
    *,
    mode: int | None = 0o600,
    owner: tuple[int, int] | None = None,
    durable: Durable = Durable.NAME,
    locked: bool = False,
    unfinished: str | None = None,
) -> t.Iterator[t.BinaryIO]:
    """A new file to write to, which replaces ``path`` on exit, but not after an exception.

    ``owner`` (user, group) and ``mode`` are set before it has its name; None leaves them as set on
    the open file. ``locked``: a lock ensures that no other process writes this file, so leftovers
    of a killed process are replaced, and secrets do not accumulate. ``unfinished`` is its name
    meanwhile, in a folder that other hosts have as well, whom that lock does not stop.
    """
    with _beside(path, locked, unfinished) as (file, name):
        yield file
        _settle(file, mode, owner, durable)
        os.replace(name, path)
    if durable is Durable.NAME:
        flush(_folder(path))


def write(
    path: _Path,
    data: bytes,
    *,
    mode: int = 0o600,
    owner: tuple[int, int] | None = None,
    durable: Durable = Durable.NAME,
    locked: bool = False,
    unfinished: str | None = None,
) -> None:
    """Replace or create the file, as ``replacing`` does."""
    with replacing(
        path, mode=mode, owner=owner, durable=durable, locked=locked, unfinished=unfinished
    ) as file:
        file.write(data)


def publish(path: _Path, data: bytes, *, mode: int) -> bool:
    """Create the file unless it exists, also when others do the same; return whether it did."""
    with _beside(path, locked=False) as (file, name):
        file.write(data)
        _settle(file, mode, None, Durable.NAME)
        try:
            os.link(name, path)
        except FileExistsError:
            return False
        finally:
            os.unlink(name)
    flush(_folder(path))
    return True


def create(path: _Path, data: bytes, *, mode: int, owner: tuple[int, int]) -> None:
    """Create a file in a folder that is not in use yet and will be moved into place as a whole.

    Raises FileExistsError. Only this user can read the file before its owner is set.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        _settle(file, mode, owner, Durable.CONTENT)


def prepare(path: _Path, data: bytes, mode: int) -> str:
    """Write a flushed file beside ``path`` to be moved there later; return its name.

    It has the owner, mode and security label of the existing file, or ``mode`` if there is none.
    """
    with _beside(path, locked=False) as (file, name):
        file.write(data)
        file.flush()
        try:
            status = os.stat(path)
        except FileNotFoundError:
            _settle(file, mode, None, Durable.CONTENT)
        else:
            own = (status.st_uid, status.st_gid)
            _settle(file, status.st_mode & 0o7777, own, Durable.NOTHING)
            shutil._copyxattr(path, name)  # type: ignore[attr-defined]
            os.fsync(file.fileno())
    return name


def move(old: _Path, new: _Path, *, durable: bool = True) -> None:
    """Rename a file or folder within its file system, in one step; an existing file is replaced.

    Of several processes that move the same one, one succeeds; the others get FileNotFoundError.
    """
    os.rename(old, new)
    if durable:
        flush(_folder(new))


def switch_link(link: _Path, to: str, temporary: _Path) -> None:
    """Point ``link`` at ``to`` atomically: opening it always yields the old or the new target.

    ``temporary`` is a name beside it, used under a lock.
    """
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)  # of a process that was killed
    os.symlink(to, temporary)
    move(temporary, link)


def flush(path: _Path) -> None:
    """Flush a file's content, or the names in a folder, to the disk (fsync(2))."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _beside(
    path: _Path, locked: bool, unfinished: str | None = None
) -> t.Iterator[tuple[t.BinaryIO, str]]:
    """A new file in the same folder, 0600 from the start, and its name; removed on an exception."""
    folder, base = os.path.split(os.fspath(path))
    if locked:
        name = os.path.join(folder, unfinished or f".{base}.new")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)  # of a process that was killed
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, 0o600)
    else:
        # the name may already have the maximum length of the file system, and this one is longer
        descriptor, name = tempfile.mkstemp(dir=folder or ".", prefix=f".{base[:60]}.")
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield file, name
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


def _settle(
    file: t.BinaryIO, mode: int | None, owner: tuple[int, int] | None, durable: Durable
) -> None:
    """Set the owner first, as that clears special bits of the mode; both before the flush."""
    file.flush()
    if owner is not None:
        os.fchown(file.fileno(), *owner)
    if mode is not None:
        os.fchmod(file.fileno(), mode)
    if durable is not Durable.NOTHING:
        os.fsync(file.fileno())


def _folder(path: _Path) -> str:
    return os.path.dirname(os.fspath(path)) or "."
