# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading the notes that a hypervisor holds, by any transport."""

from __future__ import annotations

import time
import typing as t

from ..._errors import FleetVirtError, LibvirtFailure
from ..._libvirt import ERR_NO_STORAGE_POOL, ERR_NO_SUPPORT
from ..base.effects_connection import Connection
from ..base.names import NOTES
from .note import Reading, latest, notes

if t.TYPE_CHECKING:
    from ..._libvirt import VirStoragePool, VirStorageVol

_BYTES = 1024 * 1024  # of one reading; 1,000 VMs take 200 KiB


def now() -> int:
    """The time of this machine's clock, as notes have it."""
    return int(time.time() * 1000)


def pool(connection: Connection) -> VirStoragePool | None:
    """libvirt's object for the pool of notes; None if there is none, or it is inactive."""
    try:
        own = connection.call(
            "look for the pool of notes", connection.conn.storagePoolLookupByName, NOTES
        )
        return own if connection.call("read the pool of notes", own.isActive) else None
    except LibvirtFailure as error:
        if error.code in (ERR_NO_STORAGE_POOL, ERR_NO_SUPPORT):
            return None
        raise


def volumes(connection: Connection) -> dict[str, VirStorageVol]:
    """The notes by the names of their volumes; what cannot be read counts as no note."""
    try:
        there = pool(connection)
        if there is None:
            return {}
        listed = connection.call("list the notes", there.listAllVolumes, 0)
    except FleetVirtError:
        return {}
    names = {str(volume.name()): volume for volume in listed}
    return {name: names[name] for name in names if notes([name])}


def held(connection: Connection) -> list[str]:
    """The names of the notes that this hypervisor holds."""
    return sorted(volumes(connection))


def texts(connection: Connection, answering: t.Collection[str]) -> dict[str, str]:
    """The last readings of machines that are none of ``answering``, by their volumes."""
    there = volumes(connection)
    last = latest(note for note in notes(there) if isinstance(note, Reading))
    texts_by_volume = {}
    for machine, note in last.items():
        if machine not in answering:
            try:
                texts_by_volume[note.volume] = _content(connection, there[note.volume])
            except (FleetVirtError, UnicodeDecodeError):
                continue  # torn, or gone since
    return texts_by_volume


def _content(connection: Connection, volume: VirStorageVol) -> str:
    def read() -> bytes:
        stream = connection.conn.newStream(0)
        content = b""
        try:
            volume.download(stream, 0, _BYTES, 0)
            while len(content) < _BYTES:
                chunk = stream.recv(256 * 1024)
                if not chunk:
                    break
                content += chunk
            stream.finish()
        except BaseException:
            stream.abort()
            raise
        return content

    return connection.call(f"read note {volume.name()}", read).rstrip(b"\0").decode()
