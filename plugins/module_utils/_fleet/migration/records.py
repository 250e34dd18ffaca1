# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""libvirt's records of a VM's snapshots, packed to be kept while the VM moves.

They may contain passwords of consoles. So they are kept as a secret of libvirt on each end: a file
that only root can read from its creation on and that libvirt flushes, which no read-only client
gets and no pool lists, and which travels as the definition does, in libvirt's verified TLS.
"""

from __future__ import annotations

import json
import typing as t
import uuid as uuids
import zlib

from ... import _lxml
from ..._records import dataclass

if t.TYPE_CHECKING:
    from ..._lxml import Element

# libvirt transfers no larger secret (REMOTE_SECRET_VALUE_MAX, 65536)
MOST_BYTES = 60 * 1024
_KNOWS_ITCO = 9001000


class SnapshotRecord(t.NamedTuple):
    """libvirt's record of a snapshot."""

    name: str
    xml: str


@dataclass(frozen=True)
class Records:
    """Those of all snapshots of a VM, parents first, and the name of its current one; ``run`` is
    the run that moves it."""

    run: str
    current: str | None = None
    snapshots: tuple[SnapshotRecord, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the snapshots, parents first."""
        return tuple(snapshot.name for snapshot in self.snapshots)

    def __repr__(self) -> str:
        return f"Records(run={self.run!r}, names={self.names!r})"  # no password in a traceback


def pack(records: Records) -> bytes:
    """The records as the value of a secret."""
    content = {"run": records.run, "current": records.current, "snapshots": records.snapshots}
    return zlib.compress(json.dumps(content).encode(), 9)


def unpack(value: bytes) -> Records | None:
    """The records that :func:`pack` packed; None if the value is nothing of the kind."""
    try:
        content = json.loads(zlib.decompress(value))
        snapshots = tuple(SnapshotRecord(str(name), str(xml)) for name, xml in content["snapshots"])
        return Records(str(content["run"]), content["current"], snapshots)
    except (zlib.error, ValueError, LookupError, TypeError):
        return None


def understood(xml: str, libvirt: int, uuid: str | None = None) -> str:
    """The record for a libvirt of this version, as libvirt does it with a VM's definition that it
    moves. ``uuid`` replaces the VM's."""
    root = _lxml.parse(xml, "snapshot")
    for domain in (one for tag in ("domain", "inactiveDomain") for one in root.iterfind(tag)):
        own = domain.find("uuid")
        if uuid is not None and own is not None:
            own.text = uuid
        remove_unknown(domain, libvirt)
    return _lxml.tostring(root)


def remove_unknown(domain: Element, libvirt: int) -> None:
    """Remove what a libvirt of this version does not know from a definition of a later one. One of
    9.1 or later writes down the watchdog that q35 machines have anyway."""
    devices = domain.find("devices")
    if devices is not None and libvirt < _KNOWS_ITCO:
        for watchdog in devices.findall("watchdog[@model='itco']"):
            devices.remove(watchdog)


def secret_uuid(claim: str) -> str:
    """The UUID of the secret that keeps the records of the VM whose claim has the UUID ``claim``:
    an end that has the claim alone finds it too."""
    return str(uuids.uuid5(uuids.UUID(claim), "snapshots"))


def secret_xml(name: str, claim: str) -> str:
    """The definition of that secret, which does not contain its value."""
    root = _lxml.new("secret", {"ephemeral": "no", "private": "no"})
    _lxml.add(root, "uuid", text=secret_uuid(claim))
    _lxml.add(root, "description", text=f"fleet.virt: snapshots of {name}, while it moves")
    return _lxml.tostring(root)
