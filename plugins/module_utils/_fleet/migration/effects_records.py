# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keeping libvirt's records of a VM's snapshots on both ends, removing them, and restoring them.

libvirt moves no VM that has such records, and a record is all that is removed: the contents of a
snapshot are in the disks. So the records are kept on both ends first (:mod:`.records`).
"""

from __future__ import annotations

import contextlib
import typing as t

from ... import _libvirt, _lxml
from ..._errors import LibvirtFailure, PlanRefused
from ..base import effects_definitions as definitions
from ..base import effects_files as files
from ..base import metadata
from ..base.effects_connection import Connection
from ..base.metadata import Metadata
from . import read_snapshots as snapshots
from .plan import claim_uuid
from .records import MOST_BYTES, Records, pack, secret_uuid, secret_xml, understood, unpack

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain, VirSecret

_MISSING = (_libvirt.ERR_NO_SECRET, _libvirt.ERR_NO_SUPPORT)
_SECRETS = "/etc/libvirt/secrets"
_SECONDS = 60.0  # for each change of a record


def keep(ends: t.Sequence[Connection], dom: VirDomain, name: str, run: str) -> Records:
    """Keep the records on all ``ends``; read back, so that each end is known to have them."""
    records = snapshots.records(ends[0], dom, run)
    claim = claim_uuid(str(dom.UUIDString()))
    for end in ends[1:]:
        _try(end, name, claim, records)
    value = pack(records)
    if len(value) > MOST_BYTES:
        raise PlanRefused(f"the records of the snapshots of {name!r} are too large; delete some")
    uuid = str(dom.UUIDString())
    for end in ends:
        what = f"keep the snapshots of {name} on {end.uri}"
        secret = end.call(what, end.conn.secretDefineXML, secret_xml(name, claim), 0)
        end.call(what, secret.setValue, value, 0)
        if kept(end, uuid, run) != records:
            raise PlanRefused(f"{what}: what was stored is not what libvirt returns; try again")
        if end.local:  # libvirt flushes the file, but not its name
            with contextlib.suppress(FileNotFoundError):
                files.flush(_SECRETS)
    return records


def _try(end: Connection, name: str, claim: str, records: Records) -> None:
    """Have the VM's claim there take the records, and remove them again: what that libvirt does not
    understand is known before anything is removed here."""
    what = f"see whether {end.uri} understands the snapshots of {name}"
    dom = end.call(what, end.conn.lookupByUUIDString, claim)
    version = end.call(what, end.conn.getLibVersion)
    _remove(end, dom, snapshots.records(end, dom, records.run).names)  # of a run that was killed
    flags = _libvirt.DOMAIN_SNAPSHOT_CREATE_REDEFINE
    for record in records.snapshots:
        xml = understood(record.xml, version, claim)
        end.call(f"{what}, {record.name}", dom.snapshotCreateXML, xml, flags, seconds=_SECONDS)
    _remove(end, dom, records.names)


def _remove(connection: Connection, dom: VirDomain, names: t.Sequence[str]) -> None:
    """Remove libvirt's records, children first, so that none gets another parent."""
    flags = _libvirt.DOMAIN_SNAPSHOT_DELETE_METADATA_ONLY
    for name in reversed(names):
        what = f"detach snapshot {name} of {dom.name()}"
        handle = connection.call(what, dom.snapshotLookupByName, name, 0)
        connection.call(what, handle.delete, flags, seconds=_SECONDS)


def kept(connection: Connection, uuid: str, run: str | None) -> Records | None:
    """The records that this end keeps of the VM ``uuid``, which the run ``run`` moves."""
    secret = _secret(connection, claim_uuid(uuid))
    if secret is None:
        return None
    try:
        value = connection.call("read the kept snapshots", secret.value, 0)
    except LibvirtFailure as error:
        if error.code != _libvirt.ERR_NO_SECRET:  # it has no value yet
            raise
        return None
    records = unpack(value)
    return records if records is not None and records.run == run else None


def _secret(connection: Connection, claim: str) -> VirSecret | None:
    try:
        return connection.call(
            "look for kept snapshots", connection.conn.secretLookupByUUIDString, secret_uuid(claim)
        )
    except LibvirtFailure as error:
        if error.code not in _MISSING:
            raise
        return None


def forget(connection: Connection, dom: VirDomain, records: Records) -> None:
    """Remove libvirt's records of the snapshots, if they are those that are kept."""
    if snapshots.records(connection, dom, records.run) != records:
        raise PlanRefused(f"the snapshots of {dom.name()!r} were changed meanwhile; try again")
    _remove(connection, dom, records.names)


def restore(
    connection: Connection,
    dom: VirDomain,
    records: Records,
    moved: t.Callable[[Metadata], Metadata] | None = None,
) -> None:
    """Have libvirt know the snapshots again, parents first, and the current one last.

    ``moved`` makes of the VM's metadata in a snapshot those that it has on this end.
    """
    name = str(dom.name())
    version = connection.call("read libvirt's version", connection.conn.getLibVersion)

    def define(snapshot: str, xml: str, more: int) -> None:
        flags = _libvirt.DOMAIN_SNAPSHOT_CREATE_REDEFINE | more
        text = understood(xml, version) if moved is None else _with_metadata(xml, version, moved)
        create = dom.snapshotCreateXML
        connection.call(f"restore {snapshot} of {name}", create, text, flags, seconds=_SECONDS)

    there = set(snapshots.records(connection, dom, records.run).names)
    for record in records.snapshots:
        if record.name not in there:
            define(record.name, record.xml, 0)
    for record in records.snapshots:
        if record.name == records.current:
            define(record.name, record.xml, _libvirt.DOMAIN_SNAPSHOT_CREATE_CURRENT)


def _with_metadata(xml: str, version: int, moved: t.Callable[[Metadata], Metadata]) -> str:
    root = _lxml.parse(understood(xml, version), "snapshot")
    for tag in ("domain", "inactiveDomain"):
        for domain in root.iterfind(tag):
            domain.tag = "domain"  # as the metadata's reader knows it
            stored = metadata.parse(domain)
            if stored is not None and not stored.broken:
                metadata.put(domain, moved(stored))
            domain.tag = tag
    return _lxml.tostring(root)


def drop(connection: Connection, claim: str) -> None:
    """Remove what this end keeps for the VM whose claim has this UUID."""
    secret = _secret(connection, claim)
    if secret is not None:
        definitions.undefine_secret(connection, "remove the kept snapshots", secret)
