# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Secrets that libvirt keeps: what they are known by. Their values are never read.

This file is private to the collection.
"""

from __future__ import annotations

import typing as t

from ..._errors import LibvirtFailure
from ..._libvirt import SECRET_USAGE_TYPE_VOLUME
from ..base.connection import Connection

if t.TYPE_CHECKING:
    from ..._pure.domain.devices import Disk


def known(connection: Connection) -> list[str] | None:
    """UUIDs of all, and the usages of those for volumes; None where libvirt does not tell."""
    try:
        listed = connection.call("list secrets", connection.conn.listAllSecrets, 0)
    except LibvirtFailure:
        return None
    found = []
    for secret in listed:
        found.append(str(secret.UUIDString()))
        if secret.usageType() == SECRET_USAGE_TYPE_VOLUME:
            found.append(str(secret.usageID()))
    return sorted(found)


def problems(connection: Connection, home: str, disks: t.Iterable[Disk]) -> list[str]:
    """Which of the secrets of ``disks`` are not on the hypervisor ``home``."""
    wanted = [disk for disk in disks if disk.encryption_secret]
    there = set(known(connection) or ()) if wanted else set()
    return [
        f"disk {disk.name!r}: {home} has no secret {disk.encryption_secret!r} for volumes; define"
        " it there (virsh secret-define, secret-set-value), or name another"
        for disk in wanted
        if not {str(disk.encryption_secret), str(disk.encryption_secret).lower()} & there
    ]
