# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading what a machine tells of itself and of others: its IDs, and whom its notes and the cards
on its storage name."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ..._errors import FleetVirtError
from ..base.effects_connection import connect
from ..cards import read_cards, read_vms
from ..hosts import host_info
from ..notes import read as read_notes
from ..notes.note import MaintenanceMark, Reading, notes, opened
from . import read_identity

if t.TYPE_CHECKING:
    from ..base.effects_connection import Connection
    from .identity import MachineFacts

_PROGRAMS = ("/usr/sbin/libvirtd", "/usr/sbin/virtqemud")
_ANY_FILE = "/etc/libvirt/libvirtd.conf"
_MOST_CARDS = 3  # of a hypervisor, by name


def is_installed() -> bool:
    """Whether this machine has libvirt."""
    return any(Path(program).exists() for program in _PROGRAMS)


def facts(uri: str, timeout: float, about: t.Collection[str]) -> MachineFacts:
    """What this machine tells of itself, and of the hypervisors ``about``."""
    told: MachineFacts = {
        "changed": False,
        "machine_id": read_identity.read(_ANY_FILE).usable_id,
        "uuid": None,
    }
    if not is_installed():
        return told
    with connect(uri, timeout) as connection:
        capabilities = connection.call("read capabilities", connection.conn.getCapabilities)
        told["uuid"] = host_info.capabilities(capabilities, "capabilities")["uuid"]
        told["noted"] = _noted(connection, about)
        told["cards"] = _cards(connection, about)
    return told


def _noted(connection: Connection, about: t.Collection[str]) -> dict[str, list[str]]:
    machines: dict[str, list[str]] = {}
    named = [
        (note.host, note.machine)
        for note in notes(read_notes.held(connection))
        if isinstance(note, MaintenanceMark)
    ]
    for volume, text in read_notes.texts(connection, ()).items():
        (note,) = notes([volume])
        body = opened(note, text) if isinstance(note, Reading) else None
        if body is not None:
            named.append((body[0], note.machine))
    for host, machine in named:
        if host in about and machine not in machines.setdefault(host, []):
            machines[host].append(machine)
    return machines


def _cards(connection: Connection, about: t.Collection[str]) -> dict[str, list[str]]:
    named: dict[str, list[str]] = {}
    for folder in sorted(set(read_vms.shared_folders(connection).values())):

        def look(folder: str = folder) -> list[tuple[str, str]]:
            return [(host, at.file) for at in read_cards.names(folder) for host in at.hosts]

        try:
            found = connection.call(f"look for cards in {folder}", look)
        except OSError as error:
            raise FleetVirtError(f"{folder}: {error.strerror or error}") from None
        for host, file in found:
            if host in about and len(named.setdefault(host, [])) < _MOST_CARDS:
                named[host].append(f"{folder}/{file}")
    return named
