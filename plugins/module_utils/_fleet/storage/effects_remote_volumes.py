# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Removing a volume that the collection created on another hypervisor, through its libvirt.

The proof is that of :mod:`.owned`, as far as libvirt tells. It does not tell a file's inode, so the
metadata record only whether the volume was created. QEMU's lock shows when libvirt has ``qemu-img
resize`` give a qcow2 image the size that it has. A raw one libvirt would resize by itself, without
asking for the lock.
"""

from __future__ import annotations

import functools
import time
import typing as t

from ..._errors import LibvirtFailure
from ..._libvirt import STORAGE_VOL_FILE
from ..base.effects_connection import Connection
from ..base.metadata import BEGUN, MADE, NOT_MADE, OwnVolume
from . import blank_image, storage_info
from . import effects_storage as storage
from .effects_own_files import Stays
from .read_file_users import References

if t.TYPE_CHECKING:
    from ..._libvirt import VirStorageVol

_QCOW2 = "qcow2"
_CLUSTER = 65536
_ENDING = 3.0  # seconds in which the lock of a QEMU that ends is released
_POLL = 0.5


def remove(
    connection: Connection,
    volume: OwnVolume,
    uuid: str,
    references: References,
    volume_format: str | None,
) -> Stays | None:
    """Remove the volume of the domain ``uuid`` if that is safe; else return why it stays.

    ``references`` must have been read just before (:func:`.ownership.read_elsewhere`).
    ``volume_format`` is the one that it was created in; its header is not believed.
    """
    stays = why_stays(connection, volume, uuid, references, volume_format)
    if stays is None and volume.pool in references.pools:
        pool = storage.find_pool(connection, volume.pool, None)
        if pool is not None:
            storage.delete_volume(connection, pool, volume.name)
    return stays


def why_stays(
    connection: Connection,
    volume: OwnVolume,
    uuid: str,
    references: References,
    volume_format: str | None,
) -> Stays | None:
    """Why the domain's volume may not be removed; None if it may, or does not exist."""
    path = volume.path
    place = references.pools.get(volume.pool)
    pool = storage.find_pool(connection, volume.pool, None) if place is not None else None
    if place is None or pool is None:
        return Stays(path, f"pool {volume.pool!r}, where it was created, is gone")
    handle = storage.find_volume(connection, pool, volume.name)
    if handle is None:
        return None
    if pool.volume_path(volume.name) != path:
        return Stays(path, f"not in the pool {volume.pool!r}, where it was created")
    if connection.call(f"read volume {volume.name}", handle.info)[0] != STORAGE_VOL_FILE:
        return Stays(path, "not a regular file")
    # not References.users, which looks at the files of this machine
    users = sorted({user.text for user in references.by_path.get(path, ()) if user.uuid != uuid})
    if users:
        return Stays(path, "; ".join(users))
    reason = _foreign(connection, volume, handle)
    if reason is not None:
        return Stays(path, reason)
    if place.shared:
        return Stays(path, "on storage that other hypervisors can reach, which were not checked")
    return _in_use(connection, volume, handle) if volume_format == _QCOW2 else None


def _foreign(connection: Connection, volume: OwnVolume, handle: VirStorageVol) -> str | None:
    """Why the volume may not be the one that was created; None if it is."""
    if volume.made == NOT_MADE:
        return "it appeared after the name was claimed and before the volume was created"
    if volume.made == MADE:
        return None
    if volume.made not in ("", BEGUN):
        return "whether it is the file that was created can be told on its hypervisor only"
    if connection.call(f"read volume {volume.name}", is_blank, connection, handle):
        return None
    return "it has content, and may not have been created for this VM"


def _in_use(connection: Connection, volume: OwnVolume, handle: VirStorageVol) -> Stays | None:
    """Why the qcow2 image is, or may be, in use; None if it is not."""
    info = storage_info.volume(
        connection.call(f"read volume {volume.name}", handle.XMLDesc, 0), f"volume {volume.name}"
    )
    if info["format"] != _QCOW2:
        return None
    # libvirt refuses a size below what the file occupies
    size = max(info["capacity_bytes"] or 0, _rounded(info["allocation_bytes"] or 0))
    action = f"look whether volume {volume.name} is in use"
    limit = time.monotonic() + _ENDING
    while True:
        try:
            storage.patiently(connection, action, functools.partial(handle.resize, size, 0))
        except LibvirtFailure as error:
            if "lock" not in str(error):
                return Stays(volume.path, f"whether it is in use cannot be determined ({error})")
        else:
            return None
        if time.monotonic() > limit:
            return Stays(
                volume.path, f"in use (locked) by a program; see fuser -v {volume.path} there"
            )
        time.sleep(_POLL)


def _rounded(size: int) -> int:
    return -(-size // _CLUSTER) * _CLUSTER


def is_blank(connection: Connection, volume: VirStorageVol) -> bool:
    """Whether the volume was never written to."""

    def read(offset: int, length: int) -> bytes:
        stream = connection.conn.newStream(0)
        volume.download(stream, offset, length, 0)
        content = b""
        while piece := stream.recv(length):
            content += piece
        stream.finish()
        return content

    allocation = volume.info()[2]
    return blank_image.is_blank(read, hollow=not allocation) if allocation else True
