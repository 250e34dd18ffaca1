# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Copying the file of a disk to another hypervisor as it is, with the snapshots in it.

It is sent through the destination's libvirt, over verified TLS, with holes as holes, and read back:
its digest there must be that of what was sent. libvirt does not flush what it receives, but QEMU
does when an image is closed that it changed; so libvirt has ``qemu-img resize`` give it the size
that it has.
"""

from __future__ import annotations

import functools
import hashlib
import os
import typing as t

from ..._errors import PlanRefused
from ..._libvirt import STORAGE_VOL_DOWNLOAD_SPARSE_STREAM, STORAGE_VOL_UPLOAD_SPARSE_STREAM
from ..._libvirt import STREAM_RECV_STOP_AT_HOLE as STOP_AT_HOLE
from ..base import durations
from ..base.effects_connection import Connection
from ..storage import effects_storage as storage
from ..storage import storage_info
from .types import NewVolume

if t.TYPE_CHECKING:
    from ..._libvirt import VirStorageVol

_PIECE = 1 << 18  # libvirt's maximum per message
_ZEROS = bytes(_PIECE)
_AT_HOLE = -3  # libvirt-stream.h


def size_of(path: str) -> int:
    """The bytes of the file, holes included."""
    return os.stat(path).st_size


def copy(remote: Connection, pool: storage.Pool, volume: NewVolume) -> None:
    """Fill the new, empty volume with the file of that path here, flushed; raises PlanRefused if
    it did not arrive as it is, or was changed meanwhile."""
    path, name, where = volume.path, volume.name, remote.uri
    handle = _handle(remote, pool, name)
    seconds = float(durations.transfer(size_of(path)))
    before = _identity(path)
    sent = remote.call(f"copy {path} to {where}", _send, remote, handle, path, seconds=seconds)
    came = remote.call(
        f"read {path} on {where}", _receive, remote, handle, size_of(path), seconds=seconds
    )
    if came != sent:
        raise PlanRefused(
            f"{path} arrived on {where} with the SHA-256 {came} instead of {sent}; check the"
            " storage of that hypervisor, and try again"
        )
    if _identity(path) != before:
        raise PlanRefused(f"{path} was changed while it was copied; keep its VM off, and try again")
    _flush(remote, pool, name, volume.format)


def _handle(remote: Connection, pool: storage.Pool, name: str) -> VirStorageVol:
    handle = storage.find_volume(remote, pool, name)
    if handle is None:
        raise PlanRefused(f"volume {name} is gone from {remote.uri}; try again")
    return handle


def _identity(path: str) -> tuple[int, ...]:
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _send(remote: Connection, handle: VirStorageVol, path: str) -> str:
    """Send the file; the SHA-256 of what was sent."""
    digest = hashlib.sha256()
    stream = remote.conn.newStream(0)
    try:
        handle.upload(stream, 0, 0, STORAGE_VOL_UPLOAD_SPARSE_STREAM)
        with open(path, "rb", buffering=0) as file:
            descriptor, size, at = file.fileno(), size_of(path), 0
            while at < size:
                data = _next_data(descriptor, at, size)
                if data > at:
                    stream.sendHole(data - at, 0)
                    _hash_zeros(digest, data - at)
                at = data
                hole = os.lseek(descriptor, at, os.SEEK_HOLE) if at < size else size
                while at < hole:
                    piece = os.pread(descriptor, min(_PIECE, hole - at), at)
                    if not piece:
                        raise PlanRefused(f"{path} became shorter while it was copied; try again")
                    digest.update(piece)
                    at += len(piece)
                    while piece:
                        piece = piece[stream.send(piece) :]
        stream.finish()
    except BaseException:
        stream.abort()
        raise
    return digest.hexdigest()


def _next_data(descriptor: int, at: int, size: int) -> int:
    try:
        return os.lseek(descriptor, at, os.SEEK_DATA)
    except OSError:  # nothing but a hole is left
        return size


def _receive(remote: Connection, handle: VirStorageVol, size: int) -> str:
    """The SHA-256 of the volume as its hypervisor reads it."""
    digest, came = hashlib.sha256(), 0
    stream = remote.conn.newStream(0)
    try:
        handle.download(stream, 0, 0, STORAGE_VOL_DOWNLOAD_SPARSE_STREAM)
        while True:
            piece = stream.recvFlags(_PIECE, STOP_AT_HOLE)
            if piece == _AT_HOLE:
                piece = stream.recvHole(0)
            if isinstance(piece, int):
                _hash_zeros(digest, piece)
                came += piece
                continue
            if not piece:
                break
            digest.update(piece)
            came += len(piece)
        stream.finish()
    except BaseException:
        stream.abort()
        raise
    _hash_zeros(digest, max(0, size - came))  # a hole at the end, which some versions omit
    return digest.hexdigest()


def _hash_zeros(digest: t.Any, length: int) -> None:
    for _piece in range(length // _PIECE):
        digest.update(_ZEROS)
    digest.update(_ZEROS[: length % _PIECE])


def _flush(remote: Connection, pool: storage.Pool, name: str, image_format: str) -> None:
    """Have libvirt see the image that the volume is now, and QEMU flush it."""
    action = f"refresh pool {pool.name} on {remote.uri}"
    storage.patiently(remote, action, functools.partial(pool.existing.refresh, 0))
    handle = _handle(remote, pool, name)
    text = remote.call(f"read volume {name}", handle.XMLDesc, 0)
    info = storage_info.volume(text, f"volume {name}")
    if info["format"] != image_format:
        raise PlanRefused(
            f"{name} on {remote.uri} is of format {info['format']} and not {image_format}"
        )
    action = f"flush volume {name} on {remote.uri}"
    capacity = info["capacity_bytes"] or 0
    storage.patiently(remote, action, functools.partial(handle.resize, capacity, 0))
