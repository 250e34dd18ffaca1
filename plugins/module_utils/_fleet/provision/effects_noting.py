# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Creating VMs: what is noted on the other hypervisors before the VMs are built.

A hypervisor that dies is remembered by them: so each claim is noted there first, and what they did
not know yet of the others goes along.
"""

from __future__ import annotations

import typing as t

from ..._errors import FleetVirtError
from ..base.effects_connection import Connection
from ..fencing import effects_heard as heard
from ..hosts.fleet_seen import SeenHypervisor
from ..notes import effects as notes
from ..notes import note
from ..notes import read as read_notes
from ..notes.handed import Handed
from . import read_others as others
from .effects_batch import Host

if t.TYPE_CHECKING:
    from ..base.snapshot import PlacementEntry


def claim_macs(here: Host, added: t.Mapping[str, t.Sequence[str]]) -> None:
    """Claim on this hypervisor the MAC addresses that VMs of it get, by UUID: no definition has
    them yet. Those of runs that ended long ago go."""
    connection = here.connection
    machine, at = str(here.capabilities["uuid"]), read_notes.now()
    claims = note.claims_of_macs(machine, at, here.settings.run, added)
    notes.write(connection, [claim.volume for claim in claims], {})
    notes.remove_old_claims(connection, machine, at)


def claimed_everywhere(
    here: Host, facts: PlacementEntry, added: t.Mapping[str, t.Sequence[str]]
) -> bool:
    """Note the claims of this run on every other hypervisor, and whether the fleet is still what it
    was when the VMs were placed. ``facts`` are those of this hypervisor with its claims, ``added``
    the MAC addresses that VMs get which existed before, by UUID."""
    settings = here.settings
    machine, at = str(facts["uuid"]), facts["at"]
    claims = note.claims_of(machine, at, settings.run, facts["vms"])
    claims += note.claims_of_macs(machine, at, settings.run, added)
    volumes = [claim.volume for claim in claims]

    answered: list[str] = []

    def first(far: Connection, host: SeenHypervisor) -> None:
        answered.append(host.address)
        _write(far, volumes, host.lacks, settings.readings)

    for own in (host for host in settings.seen if host.name == settings.home):
        _write(here.connection, (), own.lacks, settings.readings)
    unchanged = others.unchanged(settings.seen, settings.home, facts, settings.run, first)
    heard.keep(here.connection, answered)
    return unchanged


def _write(
    connection: Connection,
    claims: t.Sequence[str],
    lacks: t.Sequence[str],
    readings: t.Mapping[str, str],
) -> None:
    more = [volume for volume in lacks if volume not in readings]
    told = {volume: readings[volume] for volume in lacks if volume in readings}
    notes.write(connection, [*claims, *more], told)


def keep(connection: Connection, handed: Handed) -> str | None:
    """Note what the controller brings; why that failed, which does not prevent reading."""
    try:
        notes.write(connection, handed.claims, handed.readings)
    except FleetVirtError as error:
        return str(error)
    return None
