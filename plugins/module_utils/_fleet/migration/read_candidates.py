# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading what the choice of a destination needs of a hypervisor and of the VMs to move."""

from __future__ import annotations

import typing as t

from ..._errors import FleetVirtError
from ..._libvirt import DOMAIN_XML_INACTIVE, ERR_NO_DOMAIN
from ..._lxml import parse
from ..._records import dataclass
from ..base import metadata as own_metadata
from ..base import read_caller as caller
from ..base.effects_connection import Connection
from ..base.effects_lookup import list_domains
from ..base.metadata import Metadata
from ..base.names import CLAIM
from ..base.selected import Selected
from ..cards import leftover
from ..cards.effects_keep import lacking as lacking_cards
from ..cell import effects_repair
from ..hosts import domain_info, read_host_names
from ..hosts import read_placement_facts as placement_facts
from ..storage import read_paths as paths
from ..storage.host_names import OF_MACHINE, HostName, HostNames
from . import read as migration_facts
from . import read_keys as migration_keys
from .types import Source

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..placement.facts import SeenHost
    from .facts import Compared, MigrateLook, MovingDemand, MovingVm


@dataclass(frozen=True)
class _Seen:
    """A domain with the metadata of its definition."""

    dom: VirDomain
    name: str
    uuid: str
    persistent: bool
    stored: Metadata
    files: tuple[str, ...]


def look(
    connection: Connection,
    names: t.Sequence[str],
    base_pool: str,
    base_path: str,
    *,
    groups: t.Sequence[str] = (),
    unfinished: bool = False,
    cards: bool = False,
    every: bool = False,
    home: str | None = None,
) -> MigrateLook:
    """Read the hypervisor with its promises, those of ``names``, names or patterns, and of
    ``groups`` that it has, and the claims of incoming VMs. Changes nothing.

    Without any of them, ``unfinished`` selects all VMs whose move was interrupted, ``every`` all
    VMs, ``home`` those evacuated from there and those being moved. A VM that cannot be read has
    ``error`` and affects no other. ``cards``: also the cards that are not as they should be.
    """
    selected = Selected.of(names, groups)
    # first: a VM that leaves meanwhile is among the VMs, or not on this hypervisor either
    seen = _seen(connection)
    host = placement_facts.read(connection, base_pool, base_path)
    claims = [vm for vm in seen if _is_claim(vm)]
    vms = [vm for vm in seen if not _is_claim(vm)]
    if selected or not (unfinished or every or home):
        vms = [vm for vm in vms if selected.takes(vm.name, vm.stored.groups)]
    elif not every:
        # once a VM has arrived, the phase is in its definition, not in its live state
        vms = [
            vm
            for vm in vms
            if vm.stored.phase == "migrating" or (home and home in vm.stored.evacuated_from)
        ]
    # such a file would hang libvirt, and with it requests about other VMs
    files = [file for vm in vms for file in vm.files] if connection.local else []
    hanging = paths.probe(files, connection.timeout).hanging
    left = {vm["uuid"]: vm.get("leftover") for vm in host["vms"]}
    entries = [_entry(connection, vm, hanging) for vm in vms]
    for entry in entries:
        entry["leftover"] = left.get(entry["uuid"])
    return {
        "changed": False,
        "host": t.cast("SeenHost", host),  # all that placement knows, and more than is checked
        "vms": entries,
        "warnings": [] if cards else leftover.warnings(caller.host(), entries),
        "claims": [
            {
                "name": claim.name[: -len(CLAIM)],
                "source": claim.stored.move.source,
                "destination": claim.stored.move.destination,
            }
            for claim in claims
            if claim.stored.move is not None
        ],
        "expired": migration_keys.for_incoming(),
        "missing_certificates": migration_keys.missing_for_incoming(),
        "cards": lacking_cards(connection, names) if cards else [],
        "unmanaged": effects_repair.lacking(connection, names) if cards else [],
    }


def compare(connection: Connection, named: t.Mapping[str, list[dict[str, str]]]) -> Compared:
    """What this hypervisor lacks of what VMs of others name. Changes nothing."""
    lacking = {}
    for vm, entries in named.items():
        names = tuple(HostName(one["kind"], one["value"], one["use"]) for one in entries)
        missing = read_host_names.missing(connection, HostNames(names), moving=True)
        if missing:
            lacking[vm] = missing
    return {"changed": False, "lacking": lacking}


def _is_claim(vm: _Seen) -> bool:
    return vm.name.endswith(CLAIM) and vm.stored.phase == "creating" and vm.stored.move is not None


def _seen(connection: Connection) -> list[_Seen]:
    def read(dom: VirDomain) -> _Seen:
        name = str(dom.name())
        root = parse(dom.XMLDesc(DOMAIN_XML_INACTIVE), f"domain {name}")
        stored = own_metadata.parse(root) or Metadata()
        files = (source.get("file") for source in root.iterfind("devices/disk/source"))
        return _Seen(
            dom,
            name,
            str(dom.UUIDString()),
            bool(dom.isPersistent()),
            stored,
            tuple(str(file) for file in files if file),
        )

    listed = list_domains(connection)
    vms = connection.each_there(
        read, listed, lambda dom: f"read domain {dom.name()}", ERR_NO_DOMAIN
    )
    return sorted((vm for _dom, vm in vms), key=lambda vm: vm.name)


def _entry(connection: Connection, vm: _Seen, hanging: t.Collection[str]) -> MovingVm:
    """Describe a VM with its demands on a destination, or why they are unknown (``error``)."""
    stored = vm.stored
    unread: MovingVm = {
        "name": vm.name,
        "uuid": vm.uuid,
        "persistent": vm.persistent,
        "phase": stored.phase,
        "move": domain_info.move_entry(stored.move),
        "groups": list(stored.groups),
        "affinity": list(stored.affinity),
        "anti_affinity": list(stored.anti_affinity),
        "tags": list(stored.tags),
        "zone": stored.zone,
        "evacuated_from": list(stored.evacuated_from),
        "ha": stored.in_cell,
        "active": False,
        "vcpus": 0,
        "memory_mib": 0,
        "domain_type": None,
        "arch": None,
        "bridges": [],
        "networks": [],
        "nwfilters": [],
        "vsock": False,
        "disks": [],
        "media": [],
        "names": [],
        "error": None,
    }
    if not stored.made_here and stored.phase is None:
        unread["foreign"] = True
    silent = [file for file in vm.files if file in hanging]
    if silent:
        return {**unread, "error": f"{silent[0]} does not answer; check the storage it is on"}
    try:
        source = migration_facts.read_source(connection, vm.dom, "")
    except FleetVirtError as error:
        return {**unread, "error": str(error)}
    entry: MovingVm = {**unread, **_demand(source)}
    if source.in_pages:
        entry["hugepages"] = [*source.in_pages]
    return entry


def _demand(source: Source) -> MovingDemand:
    return {
        "active": source.active,
        "vcpus": source.vcpus,
        "memory_mib": source.memory_mib,
        "domain_type": source.domain_type,
        "arch": source.arch,
        "bridges": list(source.bridges),
        "networks": list(source.networks),
        "nwfilters": list(source.nwfilters),
        # one that is shut off needs it only when it is started
        "vsock": source.vsock and source.active,
        "disks": [
            {
                "path": disk.path,
                "bytes": disk.capacity,
                "backing": disk.chain[0][0] if disk.chain else None,
            }
            for disk in source.disks
            if disk.capacity
        ],
        "media": [disk.path for disk in source.disks if disk.is_drive and disk.path is not None],
        "names": [
            {"kind": name.kind, "value": name.value, "use": name.use}
            for name in source.names
            if name.kind in OF_MACHINE
        ],
    }
