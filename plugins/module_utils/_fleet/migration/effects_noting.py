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

if t.TYPE_CHECKING:
    from .read_endpoints import Endpoints

_lock = threading.Lock()  # the moves of a run go on in threads


def leave(connection: Connection, ends: Endpoints, places: t.Mapping[str, str]) -> None:
    """Claim the name, UUID and MAC addresses of the VM here for its destination, and keep that this
    has answered.

    ``places`` has the machine UUID of each destination and when it was read, by its own clock, as
    ``UUID.AT``. No other VM is read: one that cannot be read must not keep this here.
    """
    volumes = []
    dom = find_domain(connection, ends.name) if ends.where in places else None
    if dom is not None:  # else it is there already, and was read there
        machine, _point, at = places[ends.where].partition(".")
        what = f"domain {ends.name}"
        root = parse(connection.call(f"read {what}", dom.XMLDesc, 0), what)
        stored = metadata.parse(root)
        run = str(uuid.uuid4())  # one for each, since each moves on by itself
        vm = {
            "run": run,
            "name": ends.name,
            "uuid": str(dom.UUIDString()),
            "groups": list(stored.groups) if stored else [],
            "macs": [str(mac.get("address")) for mac in root.iterfind("devices/interface/mac")],
        }
        volumes += [claim.volume for claim in note.claims_of(machine, int(at), run, [vm])]
    with _lock:
        notes.write(connection, volumes, {})
        effects_heard.keep(connection, [ends.address])
