# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading the snapshots of a VM that may move."""

from __future__ import annotations

import dataclasses
import os
import typing as t

from ... import _lxml
from ..._libvirt import DOMAIN_SNAPSHOT_XML_SECURE
from ..base import effects_deadline as deadline
from ..base.effects_connection import Connection
from ..snapshots import parsed
from ..snapshots.facts import EXTERNAL, Snapshot, ordered
from .records import Records, SnapshotRecord, pack
from .types import SourceSnapshot

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain


def read(connection: Connection, dom: VirDomain) -> tuple[tuple[SourceSnapshot, ...], int]:
    """The VM's snapshots, parents first, and the bytes that libvirt's records of them take,
    packed; without passwords, which take a few more."""
    records = _records(connection, dom, "", 0)
    if not records.snapshots:
        return (), 0
    snapshots = [_snapshot(record.xml) for record in records.snapshots]
    media = {path for snapshot in snapshots for path in snapshot.media}
    present = _present(connection, media) if connection.local else media
    return tuple(
        dataclasses.replace(
            snapshot, media=tuple(path for path in snapshot.media if path in present)
        )
        for snapshot in snapshots
    ), len(pack(records))


def _present(connection: Connection, paths: t.Collection[str]) -> set[str]:
    """Those that exist: a snapshot often has a seed medium that is long gone."""
    return deadline.call(
        lambda: {path for path in paths if os.path.lexists(path)},
        seconds=connection.timeout,
        what="look for the media of snapshots",
    )


def records(connection: Connection, dom: VirDomain, run: str) -> Records:
    """libvirt's records of all snapshots of the VM, with the passwords in them."""
    return _records(connection, dom, run, DOMAIN_SNAPSHOT_XML_SECURE)


def _records(connection: Connection, dom: VirDomain, run: str, flags: int) -> Records:
    def ask() -> tuple[list[str], str | None]:
        texts = [snapshot.getXMLDesc(flags) for snapshot in dom.listAllSnapshots(0)]
        has_current = bool(texts) and dom.hasCurrentSnapshot(0)
        return texts, str(dom.snapshotCurrent(0).getName()) if has_current else None

    texts, current = connection.call(f"read the snapshots of {dom.name()}", ask)
    by_name = {parsed.snapshot(text).name: text for text in texts}
    names = [one.name for one in ordered(map(parsed.snapshot, texts))]
    return Records(run, current, tuple(SnapshotRecord(name, by_name[name]) for name in names))


def _snapshot(text: str) -> SourceSnapshot:
    root = _lxml.parse(text, "snapshot")
    domains = [one for tag in ("domain", "inactiveDomain") for one in root.iterfind(tag)]
    machines = [kind.get("machine") for domain in domains for kind in domain.iterfind("os/type")]
    memory = [str(one.get("file")) for one in root.iterfind("memory[@file]")]
    snapshot = parsed.snapshot(text)
    return SourceSnapshot(
        snapshot.name,
        snapshot.kind == EXTERNAL,
        tuple(dict.fromkeys(str(machine) for machine in machines if machine)),
        tuple(dict.fromkeys([*_files(snapshot), *memory])),
        tuple(disk.source for disk in snapshot.disks if not disk.taken and disk.source),
    )


def _files(snapshot: Snapshot) -> list[str]:
    own = [disk.source for disk in snapshot.disks if disk.taken]
    return [*own, *(path for _target, path in snapshot.files)]
