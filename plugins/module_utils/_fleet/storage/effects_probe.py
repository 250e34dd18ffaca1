# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A file that another hypervisor's libvirt makes, to try whether two have the same storage."""

from __future__ import annotations

import os
import secrets
import time
import typing as t
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ..._errors import FleetVirtError
from ..base import effects_deadline as deadline
from ..base.effects_connection import Connection

if t.TYPE_CHECKING:
    from ..._libvirt import VirStorageVol

PREFIX = "fleet-virt.probe-"
_SECONDS = 5.0  # in which a file created there must show up here
_POLL = 0.1
_VOLUME = (
    "<volume><name>{}</name><capacity>{}</capacity><target><format type='{}'/></target></volume>"
)


@contextmanager
def probe(
    there: Connection, pool: str, key: str, size: int = 0, volume_format: str = "raw"
) -> Iterator[tuple[str, VirStorageVol]]:
    """An empty volume there, with its name; those of earlier runs of this ``key`` that were killed
    are removed."""
    prefix = f"{PREFIX}{key}-"
    handle = there.call(f"look for pool {pool}", there.conn.storagePoolLookupByName, pool)
    for left in there.call(f"list pool {pool}", handle.listAllVolumes, 0):
        if left.name().startswith(prefix):
            _remove(there, left)
    name = prefix + secrets.token_hex(8)
    xml = _VOLUME.format(name, size, volume_format)
    volume = there.call(f"make volume {name}", handle.createXML, xml, 0)
    try:
        yield name, volume
    finally:
        _remove(there, volume)


def appears(path: str, timeout: float) -> bool:
    """Whether a file that was made there shows up here soon."""
    limit = time.monotonic() + _SECONDS
    while not deadline.call(
        lambda: os.path.lexists(path), seconds=timeout, what=f"look for {path}"
    ):
        if time.monotonic() > limit:
            return False
        time.sleep(_POLL)
    return True


def _remove(there: Connection, volume: VirStorageVol) -> None:
    # it is empty, and the next run of its key removes it
    with suppress(FleetVirtError):
        there.call(f"remove volume {volume.name()}", volume.delete, 0)
