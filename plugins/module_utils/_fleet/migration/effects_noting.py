# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Moves: what the source notes before a VM leaves it.

The others know of the VM on its source. Should its destination die, the source says where it went,
until the destination was read with it; should both die, the others still have it on the source.
"""

from __future__ import annotations

import threading
import typing as t
import uuid

from ..._lxml import parse
from ..base import metadata
from ..base.effects_connection import Connection
from ..base.effects_lookup import find_domain
from ..fencing import effects_heard
from ..notes import effects as notes
from ..notes import note

_lock = threading.Lock()  # the moves of a run go on in threads


def leave(
    connection: Connection,
    moves: t.Iterable[tuple[str, str]],
    places: t.Mapping[str, str],
    answered: t.Iterable[str] = (),
) -> None:
    """Claim the name, UUID and MAC addresses of each VM here for its destination, and keep which
    addresses of destinations have ``answered`` this hypervisor.

    ``moves`` are names of VMs and of their destinations, ``places`` the machine UUID of each
    destination and when it was read, by its own clock, as ``UUID.AT``. No other VM is read: one
    that cannot be read must not keep these here.
    """
    volumes = []
    for name, to in moves:
        dom = find_domain(connection, name) if to in places else None
        if dom is None:  # it is there already, and was read there
            continue
        machine, _point, at = places[to].partition(".")
        root = parse(connection.call(f"read domain {name}", dom.XMLDesc, 0), f"domain {name}")
        stored = metadata.parse(root)
        run = str(uuid.uuid4())  # one for each, since each moves on by itself
        vm = {
            "run": run,
            "name": name,
            "uuid": str(dom.UUIDString()),
            "groups": list(stored.groups) if stored else [],
            "macs": [str(mac.get("address")) for mac in root.iterfind("devices/interface/mac")],
        }
        volumes += [claim.volume for claim in note.claims_of(machine, int(at), run, [vm])]
    with _lock:
        notes.write(connection, volumes, {})
        effects_heard.keep(connection, answered)
