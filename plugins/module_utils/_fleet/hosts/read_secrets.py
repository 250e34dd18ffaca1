# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Secrets that libvirt stores: their UUIDs and usages. Their values are never read."""

from __future__ import annotations

import typing as t

from ..._errors import LibvirtFailure
from ..._libvirt import SECRET_USAGE_TYPE_VOLUME
from ..base.effects_connection import Connection


class _DiskWithSecret(t.Protocol):
    """A disk of a specification, as far as its secret matters."""

    @property
    def name(self) -> str:
        """The disk's name."""

    @property
    def encryption_secret(self) -> str | None:
        """UUID or usage of the secret; None if the disk is not encrypted."""


def known(connection: Connection) -> list[str] | None:
    """UUIDs of all, and the usages of those for volumes; None if libvirt does not report them."""
    try:
        listed = connection.call("list secrets", connection.conn.listAllSecrets, 0)
    except LibvirtFailure:
        return None
    names = []
    for secret in listed:
        names.append(str(secret.UUIDString()))
        if secret.usageType() == SECRET_USAGE_TYPE_VOLUME:
            names.append(str(secret.usageID()))
    return sorted(names)


def problems(connection: Connection, home: str, disks: t.Iterable[_DiskWithSecret]) -> list[str]:
    """Problems of those of ``disks`` whose secrets are not on the hypervisor ``home``."""
    wanted = [disk for disk in disks if disk.encryption_secret]
    there = set(known(connection) or ()) if wanted else set()
    return [
        f"disk {disk.name!r}: {home} has no secret {disk.encryption_secret!r} for volumes; define"
        " it there (virsh secret-define, secret-set-value), or name another"
        for disk in wanted
        if not {str(disk.encryption_secret), str(disk.encryption_secret).lower()} & there
    ]
