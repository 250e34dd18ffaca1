# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Removing a file that the collection created, and no other: the only code that does.

A name proves nothing: it may have become free, and been taken by something else. So the metadata
record of a volume whether it was created, and which file it is: its inode and, where the file
system has them, the inode's generation, which differs when a number is reused. A volume that was
being created when its creator died is recognised by being empty: then there is nothing to lose.

What is in use always stays: referenced by a definition, backing another image, or locked.

A volume on another hypervisor is proven by what its libvirt tells (:mod:`.owned_elsewhere`).
"""

from __future__ import annotations

import errno
import os

from ..._errors import FleetVirtError, PlanRefused
from ..._records import dataclass
from ..base import effects_deadline as deadline
from ..base import read_file_identity as identity
from ..base.effects_connection import Connection
from ..base.metadata import BEGUN, MADE, NOT_MADE, OwnVolume
from . import blank_image
from . import effects_storage as storage
from . import read_file_users as ownership
from .read_file_users import References

_SECONDS = 60.0
_LARGEST_SEED = 16 * 1024 * 1024
IN_USE = "in use (locked) by a program"


@dataclass(frozen=True)
class Stays:
    """Why a volume is not removed."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def why_stays(
    volume: OwnVolume,
    uuid: str,
    references: References,
    *,
    proven: bool = False,
    asked: bool = False,
) -> Stays | None:
    """Why the domain's volume may not be removed; None if it may, or does not exist.

    ``proven``: the domain ran on it, so no proof is needed that it owns it. ``asked``: no
    other hypervisor that can reach the storage uses it.
    """
    path = volume.path
    pool = references.pools.get(volume.pool)
    if not os.path.lexists(path):
        return None
    if pool is None or pool.path is None or ownership.volume_path(volume, pool) != path:
        return Stays(path, f"not in the pool {volume.pool!r}, where it was created")
    if os.path.islink(path) or not os.path.isfile(path):
        return Stays(path, "not a regular file")
    users = sorted({user.text for user in references.users(path) if user.uuid != uuid})
    if users:
        return Stays(path, "; ".join(users))
    try:
        reason = None if proven else foreign(volume, uuid)
        locked = ownership.is_locked(path)
    except OSError as error:
        return Stays(path, f"it cannot be read ({error.strerror or error})")
    if reason is not None:
        return Stays(path, reason)
    if locked:
        return Stays(path, f"{IN_USE}; see fuser -v {path}")
    if pool.shared and not asked:
        return Stays(path, "on storage that other hypervisors can reach, which were not checked")
    return None


def remove(
    connection: Connection,
    volume: OwnVolume,
    uuid: str,
    references: References,
    *,
    proven: bool = False,
    asked: bool = False,
) -> Stays | None:
    """Remove the volume of the domain ``uuid`` if that is safe; else return why it stays.

    ``references`` must have been read just before. See :func:`why_stays` for the rest.
    """

    def look() -> Stays | None:
        return why_stays(volume, uuid, references, proven=proven, asked=asked)

    stays = deadline.call(look, seconds=_SECONDS, what=f"look at {volume.path}")
    if stays is not None:
        return stays
    try:
        _delete(connection, volume)
    except FleetVirtError as error:
        return Stays(volume.path, str(error))
    if os.path.lexists(volume.path):
        return Stays(volume.path, "libvirt has removed it, but it still exists")
    return None


def _delete(connection: Connection, volume: OwnVolume) -> None:
    there = os.path.lexists(volume.path)
    pool = storage.find_pool(connection, volume.pool, None)
    if pool is None and there:
        raise PlanRefused(f"pool {volume.pool!r} is gone")
    if pool is None:
        return
    if not there and storage.find_volume(connection, pool, volume.name) is None:
        return
    if not there or not storage.delete_volume(connection, pool, volume.name):
        # libvirt has not refreshed the pool since it appeared or vanished
        storage.patiently(connection, f"refresh pool {pool.name}", lambda: pool.existing.refresh(0))
    if there:
        storage.delete_volume(connection, pool, volume.name)


def foreign(volume: OwnVolume, uuid: str) -> str | None:
    """Why the file may not be the one that was created; None if it is."""
    descriptor = os.open(volume.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if volume.made == NOT_MADE:
            return "it appeared after the name was claimed and before the volume was created"
        if volume.made == MADE or identity.is_same(volume.made, identity.of_open(descriptor)):
            return None
        if volume.made not in ("", BEGUN):
            return "it is another file than the one that was created there"
        hollow = _is_hollow(descriptor)
        if blank_image.is_blank(lambda at, count: os.pread(descriptor, count, at), hollow=hollow):
            return None
        if volume.role == "seed" and _names(descriptor, uuid):
            return None
        return "it has content, and may not have been created for this VM"
    finally:
        os.close(descriptor)


def _is_hollow(descriptor: int) -> bool:
    """Whether nothing was ever written to the file, or, if it is small, only zeros."""
    try:
        os.lseek(descriptor, 0, os.SEEK_DATA)
    except OSError as error:
        return error.errno == errno.ENXIO
    small = os.fstat(descriptor).st_size <= _LARGEST_SEED
    return small and not any(os.pread(descriptor, _LARGEST_SEED, 0))


def _names(descriptor: int, uuid: str) -> bool:
    """Whether the file is the seed medium of the domain ``uuid``."""
    if os.fstat(descriptor).st_size > _LARGEST_SEED:
        return False
    return uuid.encode("ascii") in os.pread(descriptor, _LARGEST_SEED, 0)
