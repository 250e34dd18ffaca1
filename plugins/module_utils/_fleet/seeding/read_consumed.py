# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checking without waiting whether a running VM no longer needs its seed medium."""

from __future__ import annotations

import itertools
import typing as t

from ..._errors import FleetVirtError
from ..base.effects_connection import Connection
from ..base.metadata import Metadata
from ..hosts import read_neighbours as neighbours
from . import read_host_key as host_key
from .effects_waited import Guest

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain

_PORT = 22
_MOST = 4  # addresses to try


def medium(connection: Connection, dom: VirDomain, stored: Metadata | None) -> str | None:
    """The name of a medium that is no longer needed: the VM presents the host key from it.

    None if there is none, or that is unknown now.
    """
    media = [volume.name for volume in stored.volumes if volume.role == "seed"] if stored else []
    if stored is None or not media or not stored.host_key or stored.phase or not connection.local:
        return None
    guest = Guest(connection, connection, dom)
    guest.look()
    try:
        addresses = guest.candidates(neighbours.table())
        for address in itertools.islice(addresses, _MOST):
            if host_key.ask(address, _PORT, stored.host_key) is host_key.Proof.HOLDS:
                return media[0]
    except FleetVirtError:
        return None  # the next call may succeed
    return None
