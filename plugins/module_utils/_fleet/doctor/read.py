# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading what the doctor wants to know of a hypervisor. Changes nothing."""

from __future__ import annotations

import hashlib
import os
import platform
import typing as t

from ... import _libvirt
from ..._errors import FleetVirtError
from ..._lxml import parse
from ..base import config_block
from ..base import effects_deadline as deadline
from ..base.effects_connection import Connection
from ..base.metadata import Metadata
from ..base.xml_values import attribute
from ..cards import read_cards
from ..cell import read_nowhere
from ..cell.facts import VM_PREFIX
from ..disk_move import plan as disk_move
from ..engine import effects_lease_holder as lease
from ..foresight.state import host_of
from ..hosts import cells, read_cell
from ..hosts import read_description as description
from ..migration import read_candidates
from ..notes import read as read_notes
from ..notes.note import latest, notes
from ..preflight import read_tls
from ..rolling import read as read_rolling
from ..storage import file_references, read_file_users
from ..storage.read_pools import list_handles
from ..storage.read_shared_pools import POOL_ID_FILE

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..base.snapshot import PlacementEntry
    from ..cell.facts import CellView
    from ..storage.read_file_users import PoolPlace, References
    from .facts import Checkup, Examined, ExaminedCellVm, ExaminedVm, Expiry, UnusedVolume

_SECONDS = 120.0  # for looking at all files
# What the set-up writes, alike on all hypervisors of a fleet
_SET_UP = (
    "/etc/libvirt/libvirtd.conf",
    "/etc/libvirt/virtproxyd.conf",
    "/etc/libvirt/qemu.conf",
)
_MARKS = (POOL_ID_FILE, "fleet-virt.maintenance")
Read = t.TypeVar("Read")


class _Errors(dict[str, str]):
    """Why checks could not be made."""

    def read(self, check: str, work: t.Callable[[], Read], otherwise: Read) -> Read:
        try:
            return work()
        except (FleetVirtError, OSError) as error:
            self[check] = str(error)
            return otherwise


def examine(connection: Connection, base_pool: str, base_path: str) -> Examined:
    """All that a move looks at, of all VMs, and what only the doctor asks for."""
    looked = read_candidates.look(
        connection, (), base_pool, base_path, cards=True, every=True, unfinished=False
    )
    host = host_of(looked)
    errors = _Errors()
    view = read_cell.view(connection)
    nowhere: tuple[list[UnusedVolume] | None, list[str]] = (None, [])
    unused, used = errors.read(
        "volumes", lambda: _volumes(connection, base_pool, base_path), nowhere
    )
    checkup: Checkup = {
        "arch": host["arch"],
        "libvirt": host["libvirt_version"],
        "qemu": host["hypervisor_version"],
        "kernel": platform.release(),
        "cpu": host["offers"]["cpu"],
        "setup": errors.read("set-up", _set_up, {}),
        "keys": errors.read("certificates", _keys, []),
        "vms": errors.read("VMs", lambda: _vms(connection), []),
        "unused": unused,
        "used": used,
        "noted": errors.read("notes", lambda: _noted(connection, host), {}),
        # once it is no longer in maintenance, an old mark means nothing
        "rolling": errors.read("marks", lambda: read_rolling.volumes(connection), [])
        if host["maintenance"]
        else [],
        "cell": cells.entry(view),
        "cell_vms": _cell_vms(view, errors.read("cards", lambda: _off(connection, view), {})),
        "errors": errors,
    }
    return {**looked, "checkup": checkup, "clock": None}


def _off(connection: Connection, view: CellView | None) -> dict[str, str]:
    """The names of the cell's VMs that are defined nowhere, by UUID."""
    known = [] if view is None else read_nowhere.vms(connection, None, view)
    return {card.uuid: card.name for _cell, card, _vm in known}


def _cell_vms(view: CellView | None, names: t.Mapping[str, str]) -> list[ExaminedCellVm]:
    return [
        {
            "uuid": vm.uuid,
            "name": names.get(vm.uuid),
            "resource": f"{VM_PREFIX}{vm.uuid}",
            "managed": vm.managed,
            "held_by": vm.by,
            "failed": vm.failed,
            "reason": vm.reason,
        }
        for vm in (view.vms.values() if view else ())
    ]


def _keys() -> list[Expiry]:
    entries = read_tls.keys()
    return [
        {
            "path": entry["path"],
            "kind": entry["kind"],
            "subject": entry["subject"],
            "until": entry["until"],
            "days": entry["days"],
        }
        for entry in entries
        if entry["kind"] != "key"
    ]


def _set_up() -> dict[str, str]:
    """Digests of the blocks that the set-up wrote, by file."""
    digests = {}
    for path in _SET_UP:
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                lines, _others = config_block.split(file.read(), path)
        except FileNotFoundError:
            continue
        digests[path] = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
    return digests


def _noted(connection: Connection, host: PlacementEntry) -> dict[str, str]:
    """The content of what this hypervisor noted of the next one, by machine UUID: so each is read
    once in the fleet, and not by all others."""
    known = latest(notes(host["notes"]))
    own = str(host["uuid"])
    ring = sorted(known)
    if not ring:
        return {}
    chosen = next((machine for machine in ring if machine > own), ring[0])
    return read_notes.texts(connection, [machine for machine in ring if machine != chosen])


def _vms(connection: Connection) -> list[ExaminedVm]:
    def read(domain: VirDomain) -> ExaminedVm:
        root, stored = description.read(domain)
        known = stored or Metadata()
        holder = lease.holder(known.owner)
        move = disk_move.begun(known)
        return {
            "name": str(domain.name()),
            "uuid": str(domain.UUIDString()),
            "phase": known.phase,
            "active": bool(domain.isActive()),
            "managed": known.made_here,
            "holder": str(holder) if holder else None,
            "broken": known.broken,
            "ha": known.in_cell,
            "disk_move": {"disk": move.disk, "pool": move.pool} if move else None,
            "nic_macs": [
                address
                for mac in root.iterfind("devices/interface/mac")
                if (address := attribute(mac, "address"))
            ],
        }

    domains = connection.call("list domains", connection.conn.listAllDomains, 0)
    read_all = connection.each_there(
        read, domains, lambda domain: f"read domain {domain.name()}", _libvirt.ERR_NO_DOMAIN
    )
    return sorted((vm for _domain, vm in read_all), key=lambda vm: vm["name"])


def _volumes(
    connection: Connection, base_pool: str, base_path: str
) -> tuple[list[UnusedVolume] | None, list[str]]:
    """The volumes that nothing here uses, and the names of the files that something does.

    Base images are left out: which of them are unused, the playbook ``images`` says.
    """
    references = read_file_users.read(connection)
    folders = {
        pool.name: pool
        for pool in references.pools.values()
        if pool.type in read_file_users.FOLDER_TYPES and pool.active and pool.path
    }
    listed = {
        name: sorted(connection.call(f"list pool {name}", list_handles, pool.handle))
        for name, pool in folders.items()
        if name != base_pool and pool.path != base_path.rstrip("/")
    }

    def look() -> tuple[list[UnusedVolume], list[str]]:
        named = _named_by_cards(folders.values())
        unused = [
            entry
            for name, paths in listed.items()
            for path in paths
            if path not in named
            if (entry := _unused(references, folders[name], path)) is not None
        ]
        used = {os.path.basename(path) for path in (*references.by_path, *named)}
        return unused, sorted(used)

    return deadline.call(look, seconds=_SECONDS, what="look for volumes that nothing uses")


def _named_by_cards(pools: t.Iterable[PoolPlace]) -> set[str]:
    """The files that VMs of any hypervisor use by their cards. One that cannot be read may name
    any file, and raises."""
    paths: set[str] = set()
    for folder in sorted({str(pool.path) for pool in pools if pool.shared}):
        for file in read_cards.load_all(folder, lambda _at: True):
            if file.card is None:
                raise FleetVirtError(file.problem)
            for text in (file.card.definition, *file.card.snapshots):
                paths |= file_references.of_definition(parse(text, file.path)).paths
    return paths


def _unused(references: References, pool: PoolPlace, path: str) -> UnusedVolume | None:
    """The volume, if nothing refers to it and nothing has it open as QEMU does."""
    name = os.path.basename(path)
    if name in _MARKS or name.startswith(".") or references.users(path):
        return None
    try:
        size = os.stat(path).st_blocks * 512
        if not os.path.isfile(path) or read_file_users.is_locked(path):
            return None
    except FileNotFoundError:  # libvirt lists what was there when the pool was refreshed
        return None
    return {
        "pool": pool.name,
        "name": name,
        "path": path,
        "mib": -(-size // (1 << 20)),
        "shared": pool.shared,
        "id": pool.id,
    }
