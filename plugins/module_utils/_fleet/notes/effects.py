# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writing notes on a hypervisor, this one or another that libvirt reaches."""

from __future__ import annotations

import contextlib
import os
import typing as t

from ..._errors import FleetVirtError, LibvirtFailure
from ..._libvirt import ERR_STORAGE_VOL_EXIST
from ..base.effects_connection import Connection
from ..base.names import NOTES
from ..storage import effects_storage as storage
from ..storage import storage_info
from ..storage.read_pools import pool_named
from ..storage.read_shared_pools import NOTES_PATH
from . import read
from .note import (
    Claim,
    MaintenanceMark,
    Note,
    Reading,
    is_news,
    notes,
    opened,
    parse,
    settles,
    superseded,
)

_MODE = "0600"  # they name every VM of the fleet


def write(connection: Connection, claims: t.Iterable[str], readings: t.Mapping[str, str]) -> None:
    """Hold these claims and readings, by their volumes' names; what a reading replaces goes.

    Each claim is there as a whole or not at all. A reading that a kill tore is recognised by its
    digest; it goes with the next one.
    """
    wanted = [*claims, *readings]
    if not wanted:
        return
    there = read.volumes(connection)
    pool = pool_of(connection)
    old: list[Note] = []
    for name in wanted:  # the claims come first, and nothing goes before all is there
        note, text = parse(name), readings.get(name, "")
        if note is None or name in there:
            continue
        if _make(connection, pool, name, text.encode()) and isinstance(note, Reading):
            body = opened(note, text)
            old += superseded(notes(there), note, body[1] if body else ())
    _remove(connection, pool, old)


def mark(connection: Connection, marks: t.Iterable[str]) -> None:
    """Hold these marks of maintenance, by their volumes' names, unless what is held of the same
    machine is newer or says the same; an older one goes."""
    for name in marks:
        there = notes(read.volumes(connection))
        note = parse(name)
        if not isinstance(note, MaintenanceMark) or not is_news(there, note):
            continue
        pool = pool_of(connection)
        _make(connection, pool, name, b"")
        others = [
            old for old in there if isinstance(old, MaintenanceMark) and old.machine == note.machine
        ]
        _remove(connection, pool, others)


def remove_old_claims(connection: Connection, machine: str, at: int) -> None:
    """Remove claims of this machine itself that no run can still be on its way with at that time;
    no reading of it is held here, which would."""
    there = notes(read.volumes(connection))
    old = [
        note
        for note in there
        if isinstance(note, Claim) and note.machine == machine and settles((), at, note)
    ]
    _remove(connection, pool_of(connection), old)


def keep(connection: Connection, name: str) -> None:
    """Hold an empty volume of that name, which is no note; nothing of this folder removes it."""
    _make(connection, pool_of(connection), name, b"")


def _make(connection: Connection, pool: storage.Pool, name: str, content: bytes) -> bool:
    """Create the volume with its content; whether it was not there."""
    try:
        volume = storage.create_volume(
            connection, pool, name, size=len(content), volume_format="raw", mode=_MODE
        )
    except LibvirtFailure as error:
        if error.code == ERR_STORAGE_VOL_EXIST:  # of this run, or another's of the same time
            return False
        raise
    if content:
        storage.upload(connection, volume, name, content)
    return True


def _remove(connection: Connection, pool: storage.Pool, old: t.Iterable[Note]) -> None:
    for note in old:
        with contextlib.suppress(FleetVirtError):  # another run removes the same
            storage.delete_volume(connection, pool, note.volume)


def pool_of(connection: Connection) -> storage.Pool:
    """The pool of notes, made where there is none, and started where it does not run: it is no
    one else's, so that whatever stopped it was no decision about it. One that runs while its folder
    was removed takes no note; libvirt makes the folder when it starts the pool again."""
    handle = pool_named(connection, NOTES)
    if handle is None:
        return storage.make_pool(connection, NOTES, NOTES_PATH)
    text = connection.call("read the pool of notes", handle.XMLDesc, 0)
    path = str(storage_info.pool(text)["path"] or NOTES_PATH)
    runs = connection.call("read the pool of notes", handle.isActive)
    if runs and connection.local and not os.path.isdir(path):
        connection.call("stop the pool of notes, whose folder is gone", handle.destroy)
        if pool_named(connection, NOTES) is None:  # it had no definition
            return storage.make_pool(connection, NOTES, NOTES_PATH)
    return storage.finish_pool(connection, storage.Pool(NOTES, path, handle))
