# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Moves: what the source notes before a VM leaves it.

The others know of the VM on its source. Should its destination die, the source says where it went,
until the destination was read with it; should both die, the others still have it on the source.
"""

from __future__ import annotations

import typing as t
import uuid

from ..base.effects_connection import Connection
from ..hosts import read_placement_facts as placement_facts
from ..notes import effects as notes
from ..notes import note


def leave(
    connection: Connection, moves: t.Iterable[tuple[str, str]], places: t.Mapping[str, str]
) -> None:
    """Claim the name, UUID and MAC addresses of each VM here for its destination.

    ``moves`` are names of VMs and of their destinations, ``places`` the machine UUID of each
    destination and when it was read, by its own clock, as ``UUID.AT``.
    """
    destinations = {name: places[to] for name, to in moves if to in places}
    if not destinations:
        return
    volumes = []
    for vm in placement_facts.defined(connection):
        place = destinations.get(vm["name"])
        if place is not None:
            machine, _point, at = place.partition(".")
            run = str(uuid.uuid4())  # one for each, since each moves on by itself
            claims = note.claims_of(machine, int(at), run, [{**vm, "run": run}])
            volumes += [claim.volume for claim in claims]
    notes.write(connection, volumes, {})
