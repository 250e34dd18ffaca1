# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The seed medium of an existing VM: checking whether it is still needed, and removing it.

It holds secrets (the guest's private host key), and a migration fails with it. So it is removed as
soon as the guest has proved that it applied its seed: its SSH server presents the host key that was
generated for it, which cloud-init installs after it has read and stored everything.
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
from ..base import effects_lookup as lookup
from ..base.effects_connection import Connection
from ..base.metadata import Metadata, OwnVolume
from ..storage import effects_own_files as owned
from ..storage import read_file_users as ownership

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain


def remove(connection: Connection, dom: VirDomain) -> bool:
    """Eject the medium from the VM, running or not, and delete it; returns whether there was one.

    A VM that another process is working on is not changed. The next call completes what a killed
    call left undone: the metadata name the medium until the end.
    """
    stored = lookup.read_metadata(connection, dom)
    media = [volume for volume in stored.volumes if volume.role == "seed"] if stored else []
    if stored is None or not media or stored.phase is not None:
        return False
    active = bool(connection.call(f"read the state of {dom.name()}", dom.isActive))
    for volume in media:
        eject(connection, dom, volume.path, active=active)
    delete(connection, dom, media)
    rest = tuple(own for own in stored.volumes if own.role != "seed")
    write(connection, dom, dataclasses.replace(stored, volumes=rest), active=active)
    return True


def delete(connection: Connection, dom: VirDomain, media: t.Sequence[OwnVolume]) -> None:
    """Remove media of the VM that are in none of its drives.

    Raises PlanRefused for a file that is not the medium that was created, or is used by others.
    """
    if not media:
        return
    references = ownership.read_domains(connection)  # no overlay is backed by a seed medium
    uuid = str(dom.UUIDString())
    # other hypervisors may share the storage, but a medium belongs to one VM, whose UUID is on it
    stay = [owned.remove(connection, volume, uuid, references, asked=True) for volume in media]
    if any(stay):
        listed = "; ".join(str(left) for left in stay if left is not None)
        raise PlanRefused(f"the seed medium of {dom.name()!r} was not removed: {listed}")


def write(connection: Connection, dom: VirDomain, stored: Metadata, *, active: bool) -> None:
    """Replace our metadata in the definition, and in the running domain."""
    if connection.call(f"read {dom.name()}", dom.isPersistent):
        lookup.write_metadata(connection, dom, stored, DOMAIN_AFFECT_CONFIG)
    if active:
        lookup.write_metadata(connection, dom, stored, DOMAIN_AFFECT_LIVE)


def eject(connection: Connection, dom: VirDomain, path: str, *, active: bool) -> None:
    """Eject the medium ``path`` from the running domain, then from its definition."""
    _eject_both(connection, dom, "source", ("file", path), active=active)


def eject_from(connection: Connection, dom: VirDomain, target: str, *, active: bool) -> None:
    """Empty the drive at ``target`` of the running domain, then of its definition."""
    _eject_both(connection, dom, "target", ("dev", target), active=active)


def _eject_both(
    connection: Connection, dom: VirDomain, tag: str, attribute: tuple[str, str], *, active: bool
) -> None:
    if active:
        flags = DOMAIN_AFFECT_LIVE | DOMAIN_DEVICE_MODIFY_FORCE
        _eject(connection, dom, tag, attribute, 0, flags)
    if connection.call(f"read {dom.name()}", dom.isPersistent):
        _eject(connection, dom, tag, attribute, DOMAIN_XML_INACTIVE, DOMAIN_AFFECT_CONFIG)


def _eject(
    connection: Connection,
    dom: VirDomain,
    tag: str,
    attribute: tuple[str, str],
    which: int,
    flags: int,
) -> None:
    """Eject the medium of the drive with this attribute of its ``tag``; the drive stays."""
    name = dom.name()
    text = connection.call(f"read {name}", dom.XMLDesc, which)
    for disk in _lxml.parse(text, f"domain {name}").findall("devices/disk"):
        element = disk.find(tag)
        if disk.find("source") is None or element is None or attribute not in element.items():
            continue
        for child in list(disk):
            if child.tag in ("source", "backingStore", "mirror"):
                disk.remove(child)
        xml = _lxml.tostring(disk)
        connection.call(
            f"eject the medium of {name}", dom.updateDeviceFlags, xml, flags, seconds=60.0
        )
