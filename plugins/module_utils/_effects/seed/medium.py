# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The seed medium of a VM that exists: whether it has done its work, and taking it away.

It holds secrets (the private half of the guest's host key), and a migration fails with it. So it
goes as soon as the guest is seen to be what it was seeded as: its SSH server shows the host key
that was made for it, which cloud-init installs after it has read and stored everything.

This file is private to the collection.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ... import _lxml
from ..._errors import PlanRefused
from ..._libvirt import (
    DOMAIN_AFFECT_CONFIG,
    DOMAIN_AFFECT_LIVE,
    DOMAIN_DEVICE_MODIFY_FORCE,
    DOMAIN_XML_INACTIVE,
)
from ..._pure.base.metadata import Metadata, OwnVolume
from ..base import lookup
from ..base.connection import Connection
from ..machine import owned, ownership

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain


def remove(connection: Connection, dom: VirDomain, *, unread: bool = False) -> bool:
    """Take the medium out of the VM, running or not, and delete it; whether there was one.

    With ``unread`` the guest has never seen it: then the host key on it is nobody's.

    Nothing happens to a VM that somebody is at work on. What a killed call left undone is done by
    the next: the metadata name the medium to the end.
    """
    stored = lookup.read_metadata(connection, dom)
    media = [volume for volume in stored.volumes if volume.role == "seed"] if stored else []
    if stored is None or not media or stored.phase is not None:
        return False
    active = bool(connection.call(f"read the state of {dom.name()}", dom.isActive))
    for volume in media:
        if active:
            _eject(connection, dom, volume.path, 0, DOMAIN_AFFECT_LIVE | DOMAIN_DEVICE_MODIFY_FORCE)
        if connection.call(f"read {dom.name()}", dom.isPersistent):
            _eject(connection, dom, volume.path, DOMAIN_XML_INACTIVE, DOMAIN_AFFECT_CONFIG)
    delete(connection, dom, media)
    rest = tuple(one for one in stored.volumes if one.role != "seed")
    stored = dataclasses.replace(stored, volumes=rest, host_key=None if unread else stored.host_key)
    write(connection, dom, stored, active=active)
    return True


def delete(connection: Connection, dom: VirDomain, media: t.Sequence[OwnVolume]) -> None:
    """Remove media of the VM that are in none of its drives.

    Raises PlanRefused for what is not the medium that was made, or is used by others.
    """
    if not media:
        return
    references = ownership.read_domains(connection)  # no image lies on a seed medium
    uuid = str(dom.UUIDString())
    # others may reach the storage, but a medium has one VM, whose UUID is on it
    stay = [owned.remove(connection, one, uuid, references, asked=True) for one in media]
    if any(stay):
        listed = "; ".join(str(one) for one in stay if one is not None)
        raise PlanRefused(f"the seed medium of {dom.name()!r} is not removed: {listed}")


def write(connection: Connection, dom: VirDomain, stored: Metadata, *, active: bool) -> None:
    """Replace our metadata in the definition, and in the running domain."""
    if connection.call(f"read {dom.name()}", dom.isPersistent):
        lookup.write_metadata(connection, dom, stored, DOMAIN_AFFECT_CONFIG)
    if active:
        lookup.write_metadata(connection, dom, stored, DOMAIN_AFFECT_LIVE)


def _eject(connection: Connection, dom: VirDomain, path: str, which: int, flags: int) -> None:
    """Empty the drive that has the file ``path``; the drive stays."""
    name = dom.name()
    text = connection.call(f"read {name}", dom.XMLDesc, which)
    for disk in _lxml.parse(text, f"domain {name}").findall("devices/disk"):
        source = disk.find("source")
        if source is None or source.get("file") != path:
            continue
        for child in list(disk):
            if child.tag in ("source", "backingStore", "mirror"):
                disk.remove(child)
        xml = _lxml.tostring(disk)
        connection.call(
            f"eject the seed medium of {name}", dom.updateDeviceFlags, xml, flags, seconds=60.0
        )
