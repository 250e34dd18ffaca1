# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Base images from another hypervisor that has them, over libvirt's verified TLS.

Received data is trusted no more than any other source: it must have the digest, and becomes a base
image in the same way. Holes are transferred as holes.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import typing as t

from ... import _libvirt
from ..._errors import FleetVirtError, PlanRefused
from ..._records import dataclass
from ..base.effects_connection import Connection, connect
from ..base.key_files import CONTROL
from ..hosts import read_listeners as listeners
from ..hosts.listeners import TLS_PORT
from ..storage import effects_storage as storage
from ..storage.base_name import BaseName, Digest
from ..storage.effects_storage import Pool
from . import effects_base_file as base_file
from . import effects_base_images as images
from .effects_base_images import BaseImage
from .options import Limits, not_queried, peer_uris

if t.TYPE_CHECKING:
    from ..._libvirt import VirStorageVol

_LONG = 6 * 3600.0
_PIECE = 1 << 18  # libvirt's maximum per message
_ZEROS = bytes(_PIECE)
_WAITING = 32  # pieces received and yet to be written
_POLL = 0.2
# libvirt-storage.h, libvirt-stream.h
_AT_HOLE = -3


@dataclass(frozen=True)
class Brought:
    """The result of a query: the base image (None: no peer has it), and the steps as text."""

    base: BaseImage | None
    steps: tuple[str, ...]


def peer_error() -> str:
    """Why this hypervisor and others cannot exchange images; empty if they can."""
    missing = _missing_certificates()
    if not missing and not listeners.is_open(TLS_PORT):
        return f"nothing listens on port {TLS_PORT} here (role libvirtd)"
    return missing


def _missing_certificates() -> str:
    missing = [path for path in CONTROL.values() if not os.path.exists(path)]
    return f"missing keys: {', '.join(missing)} (role libvirt_keys)" if missing else ""


def take(
    connection: Connection,
    base_pool: str,
    base_path: str,
    digest: Digest,
    peers: t.Sequence[str],
    *,
    name: str | None = None,
    volume: BaseName | None = None,
    limits: Limits | None = None,
) -> Brought:
    """Get the base image with this SHA-256 from the first of ``peers`` that has it.

    ``peers`` are addresses of hypervisors, queried in this order. ``name`` is the image's name
    here, by default its name on the peer, which makes it the same volume. An image that exists
    here already is used as it is, with ``volume`` only if its file has that name. The caller
    settles it (:func:`images.settle`). Raises PlanRefused for an invalid address; FleetVirtError
    if the disk here is full.
    """
    images.require_local(connection)
    uris = peer_uris(peers)
    seconds = (limits or Limits()).seconds

    def work() -> Brought:
        steps: list[str] = []
        with base_file.content_lock(digest.checksum):
            pool = images.find_pool(connection, base_pool, base_path, check=False)
            base = images.find_base(connection, pool, digest, volume) if pool else None
            if base is not None:
                return Brought(base, ())
            if uris and _missing_certificates():
                return Brought(None, (not_queried(_missing_certificates()),))
            for peer, uri in uris.items():
                try:
                    with connect(uri, connection.timeout) as far:
                        offered = _find(far, base_pool, base_path, digest)
                        if offered is None:
                            steps.append(f"{peer} does not have it")
                            continue
                        folder = pool.path if pool else base_path
                        base_file.require_room(folder, _occupied(far, offered.volume))
                        pool = pool or images.ensure_pool(connection, base_pool, base_path)
                        incoming = _Incoming(far, offered, seconds)
                        base = _receive(connection, pool, incoming, digest, name, volume)
                    return Brought(base, (*steps, f"{incoming} from {peer}"))
                except FleetVirtError as error:
                    steps.append(f"{peer}: {error}")
        return Brought(None, tuple(steps))

    return images.file_work(f"get image {digest} from another hypervisor", work)


def look(
    base_pool: str,
    base_path: str,
    digest: Digest,
    peers: t.Sequence[str],
    timeout: float,
    folder: str,
) -> tuple[int | None, list[str]]:
    """The bytes that the image occupies on the first of ``peers`` that has it, if it fits into
    ``folder`` here (None: no peer has it, or it does not fit); and the steps that :func:`take`
    would return."""
    steps: list[str] = []
    uris = peer_uris(peers)
    if uris and _missing_certificates():
        return None, [not_queried(_missing_certificates())]
    for peer, uri in uris.items():
        try:
            with connect(uri, timeout) as far:
                offered = _find(far, base_pool, base_path, digest)
                if offered is not None:
                    size = _size(far, offered.volume)
                    occupied = _occupied(far, offered.volume)
                    base_file.require_room(folder, occupied)
                    return occupied, [*steps, f"{_progress(size, size)} from {peer}"]
            steps.append(f"{peer} does not have it")
        except FleetVirtError as error:
            steps.append(f"{peer}: {error}")
    return None, steps


class _Offered(t.NamedTuple):
    """A base image on another hypervisor."""

    volume: VirStorageVol
    name: BaseName


def _find(far: Connection, base_pool: str, base_path: str, digest: Digest) -> _Offered | None:
    """The base image with this digest on that hypervisor."""
    pool = storage.find_pool(far, base_pool, base_path)
    if pool is None:
        return None
    names = far.call(f"list pool {pool.name}", pool.existing.listVolumes)
    for text in sorted(str(name) for name in names):
        name = BaseName.parse(text)
        if name is not None and name.digest == digest:
            volume = storage.find_volume(far, pool, text)
            return None if volume is None else _Offered(volume, name)
    return None


def _size(far: Connection, volume: VirStorageVol) -> int:
    """Size of the volume's file in bytes."""
    return int(far.call("read volume", volume.infoFlags, _libvirt.STORAGE_VOL_GET_PHYSICAL)[2])


def _occupied(far: Connection, volume: VirStorageVol) -> int:
    """Bytes that the volume's file occupies there: holes are transferred as holes."""
    return int(far.call("read volume", volume.info)[2])


def _progress(came: int, size: int) -> str:
    return f"{came} of {size} bytes ({100 * came // size if size else 100} %)"


def _receive(
    connection: Connection,
    pool: Pool,
    incoming: _Incoming,
    digest: Digest,
    name: str | None,
    volume: BaseName | None,
) -> BaseImage:
    with base_file.folder_lock(pool.path, _LONG):
        base_file.remove_abandoned(pool.path)
    with base_file.new_file(pool.path) as new:
        with contextlib.closing(incoming.blocks()) as blocks:
            came = new.fill(blocks)
        if came != digest:
            raise PlanRefused(
                f"{incoming} arrived with the SHA-256 {came} instead of {digest}; check that"
                " hypervisor with fleet.virt.virt_image_info and verify"
            )
        with base_file.folder_lock(pool.path, _LONG):
            called = name or incoming.name
            return images.publish(connection, pool, new, called, digest, volume=volume)


class _Incoming:
    """A volume being received from another hypervisor; as text, its progress.

    A separate thread receives it, while earlier pieces are hashed and written.
    """

    def __init__(self, far: Connection, offered: _Offered, seconds: float) -> None:
        self._far = far
        self._volume = offered.volume
        self._seconds = seconds
        self._size = _size(far, offered.volume)
        self._came = 0
        self._pieces: queue.Queue[bytes | int | FleetVirtError | None] = queue.Queue(_WAITING)
        self._over = threading.Event()
        # the digest is prepended again when the file is named
        self.name = offered.name.file_name

    def __str__(self) -> str:
        return _progress(self._came, self._size)

    def blocks(self) -> t.Generator[bytes, None, None]:
        """The file as it arrives, holes as zeros; raises FleetVirtError if it stalls or fails."""
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            for piece in self._arriving():
                length = piece if isinstance(piece, int) else len(piece)
                self._came += length
                if self._came > self._size:
                    raise PlanRefused(f"received more than the {self._size} bytes announced")
                if isinstance(piece, bytes):
                    yield piece
                else:
                    yield from _hole(length)
            if self._came < self._size:  # a hole at the end, which some versions omit
                rest, self._came = self._size - self._came, self._size
                yield from _hole(rest)
        finally:
            self._over.set()
            thread.join(5 * _POLL)
            if thread.is_alive():  # it hangs in libvirt; closing the connection would hang, too
                self._far.hanging += 1

    def _arriving(self) -> t.Iterator[bytes | int]:
        while True:
            try:
                piece = self._pieces.get(timeout=self._seconds)
            except queue.Empty:
                raise PlanRefused(
                    f"received nothing for {self._seconds:g} seconds (download_timeout) after"
                    f" {self}"
                ) from None
            if piece is None:
                return
            if isinstance(piece, FleetVirtError):
                raise PlanRefused(f"the transfer failed after {self}: {piece}")
            yield piece

    def _run(self) -> None:
        try:
            with _libvirt.calling("download"):
                self._download()
            self._put(None)
        except FleetVirtError as error:
            self._put(error)

    def _download(self) -> None:
        stream = self._far.conn.newStream(0)
        self._volume.download(stream, 0, 0, _libvirt.STORAGE_VOL_DOWNLOAD_SPARSE_STREAM)
        while not self._over.is_set():
            piece = stream.recvFlags(_PIECE, _libvirt.STREAM_RECV_STOP_AT_HOLE)
            if piece == _AT_HOLE:
                piece = stream.recvHole(0)
            elif not piece:
                stream.finish()
                return
            self._put(piece)
        stream.abort()

    def _put(self, piece: bytes | int | FleetVirtError | None) -> None:
        """Queue the piece, unless the receiver has stopped."""
        while not self._over.is_set():
            try:
                self._pieces.put(piece, timeout=_POLL)
            except queue.Full:
                continue
            return


def _hole(length: int) -> t.Iterator[bytes]:
    for _piece in range(length // _PIECE):
        yield _ZEROS
    if length % _PIECE:
        yield bytes(length % _PIECE)
