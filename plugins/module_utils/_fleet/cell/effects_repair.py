# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Having cells manage VMs again that killed runs have held, and those that they do not know yet."""

from __future__ import annotations

import typing as t

from ..._errors import FleetVirtError
from ..base import read_caller as caller
from ..base import read_processes as processes
from ..base.effects_connection import Connection
from ..base.effects_lookup import find_uuid, read_metadata
from ..cards import read_cards, read_vms
from . import effects_hold, read, repairs
from .facts import UnmanagedVm

if t.TYPE_CHECKING:
    from ..base.metadata import Metadata
    from .facts import CellView, CellVm


def lacking(connection: Connection, names: t.Collection[str]) -> list[UnmanagedVm]:
    """The VMs that their cell does not manage, and that this hypervisor may change that for;
    ``names`` are those asked for, or else all of them."""
    if not connection.local or not read.is_member():
        return []
    view = read.here()
    if view is None or not view.quorate:
        return []  # its other members say so
    entries = [
        _entry(connection, view, vm)
        for vm in view.vms.values()
        if not vm.managed and repairs.may(vm, caller.host(), view)
    ]
    entries += _unknown(connection, view)
    chosen = [entry for entry in entries if not names or entry["name"] in names]
    return [entry for entry in chosen if names or not entry["at_work"]]


def _entry(connection: Connection, view: CellView, vm: CellVm) -> UnmanagedVm:
    stored, name = _defined(connection, vm.uuid)
    problem = repairs.problem(vm, view)
    at_work = vm.by == caller.host() and (effects_hold.is_held(vm.uuid) or _is_leased(stored))
    if at_work and not problem:
        problem = "a run is at work on it"
    return {
        "name": name or _name_of_card(connection, vm) or vm.uuid,
        "uuid": vm.uuid,
        "held_by": vm.by,
        "problem": problem,
        "at_work": at_work,
    }


def _unknown(connection: Connection, view: CellView) -> list[UnmanagedVm]:
    """VMs of this hypervisor that are to be the cell's, and are none of its resources."""
    entries: list[UnmanagedVm] = []
    for dom in connection.call("list domains", connection.conn.listAllDomains, 0):
        uuid = str(dom.UUIDString())
        stored, name = (None, "") if uuid in view.vms else _defined(connection, uuid)
        if stored is None or not stored.in_cell or stored.phase is not None:
            continue
        entries.append(
            {
                "name": name,
                "uuid": uuid,
                "held_by": None,
                "problem": None,
                "at_work": effects_hold.is_held(uuid),
            }
        )
    return entries


def _defined(connection: Connection, uuid: str) -> tuple[Metadata | None, str]:
    """What is stored with the VM here, and its name; empty if it is not here."""
    dom = find_uuid(connection, uuid)
    return (None, "") if dom is None else (read_metadata(connection, dom), str(dom.name()))


def _is_leased(stored: Metadata | None) -> bool:
    """Whether a living process works on it."""
    owner = None if stored is None or stored.phase is None else stored.owner
    return owner is not None and processes.is_same(owner.boot_id, owner.pid, owner.start_time)


def _name_of_card(connection: Connection, vm: CellVm) -> str:
    def look(folder: str) -> list[str]:
        files = read_cards.load_all(folder, lambda at: not at.hosts)
        return [file.at.name for file in files if file.card and file.card.uuid == vm.uuid]

    try:
        others = {*read_vms.shared_folders(connection).values()} - {vm.cards}
        for folder in (vm.cards, *sorted(others)):  # it may have been moved by a killed run
            names = connection.call("look for cards of the cell", look, folder)
            if names:
                return names[0]
    except (FleetVirtError, OSError):
        pass
    return ""


def repair(connection: Connection, vms: t.Iterable[str], *, check: bool) -> list[UnmanagedVm]:
    """Have the cell manage these VMs, by UUID, as they are; says of each that it does."""
    entries: list[UnmanagedVm] = []
    now = {entry["uuid"]: entry for entry in lacking(connection, ())} if vms else {}
    for uuid in vms:
        entry = now.get(uuid)
        if entry is None:
            continue  # done meanwhile, or a run is at work
        problem = entry["problem"]
        if not problem and not check:
            try:
                with effects_hold.working(uuid, seconds=0):
                    effects_hold.repair(connection, entry["name"], uuid)
            except FleetVirtError as error:
                problem = str(error)
        entries.append({**entry, "problem": problem})
    return entries
