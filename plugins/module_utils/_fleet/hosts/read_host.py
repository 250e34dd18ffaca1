# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading a hypervisor: what ``virt_host_info`` returns."""

from __future__ import annotations

import typing as t

from ..._errors import FleetVirtError, LibvirtFailure
from ..._libvirt import ERR_NO_STORAGE_POOL, ERR_NO_STORAGE_VOL, ERR_NO_SUPPORT
from ..base.effects_connection import Connection
from ..base.effects_deadline import Failed, Value
from ..base.names import NOTES
from ..base.states import ACTIVE_STATES, STATES
from ..storage import huge_pages
from ..storage.read_pools import pool_entries
from ..storage.read_shared_pools import volumes_of_notes
from . import cells, host_info, network_info, read_cell
from . import read_placement_devices as placement_devices
from .read_bridges import bridges
from .read_domains import DomainQuery, read_domains, still_there, was_read

if t.TYPE_CHECKING:
    from ..._libvirt import VirNetwork
    from ..base.snapshot import DomainEntry, HostEntry, NetworkEntry, NumaEntry, PoolEntry
    from ..cell.facts import CellView

MAINTENANCE_VOLUME = "fleet-virt.maintenance"
_MIB = 1024 * 1024
_TEST = "TEST"  # libvirt's test driver gives in KiB what is documented to be bytes


def read_host(
    connection: Connection,
    base_pool: str,
    base_path: str | None = None,
    cell: CellView | None = None,
) -> HostEntry:
    """The hypervisor behind ``connection``, as documented for ``virt_host_info``.

    The maintenance mark is looked up in the pool of notes, which no other hypervisor has, and in
    that of base images, where an earlier version set it: ``base_pool``, else the one at
    ``base_path``. ``cell`` is what Pacemaker says, if that was read already.
    """
    conn = connection.conn
    model, installed, cpus, _mhz, nodes, sockets, cores, threads = connection.call(
        "read the node", conn.getInfo
    )
    capabilities = host_info.capabilities(
        connection.call("read capabilities", conn.getCapabilities), "capabilities"
    )
    topology = capabilities["topology"]
    total, free = _memory(connection, int(installed))
    numa = _numa(connection, capabilities["numa"], total)
    # one that has gone meanwhile is promised nothing, and is no reason to fail for the rest
    domains = still_there(read_domains(connection, DomainQuery(storage=False)))
    active = [entry for entry in domains if entry["state"] in ACTIVE_STATES]
    pools = pool_entries(connection)
    return {
        "name": str(connection.call("read the host name", conn.getHostname)),
        "uri": connection.uri,
        "uuid": capabilities["uuid"],
        "libvirt_version": version(_optional(connection, "read the version", conn.getLibVersion)),
        "hypervisor_version": version(_optional(connection, "read the version", conn.getVersion)),
        "domain_types": capabilities["domain_types"],
        "arch": capabilities["arch"],
        "cpu": {
            "model": capabilities["cpu_model"] or str(model),
            "sockets": topology["sockets"] or int(nodes) * int(sockets),
            "cores": topology["cores"] or int(cores),
            "threads": topology["threads"] or int(threads),
            "total": int(cpus),
            "running": sum(entry["vcpus"] or 0 for entry in active),
            "defined": sum(entry["vcpus_max"] or 0 for entry in domains),
        },
        "memory_mib": {
            "total": total,
            "free": free,
            "running": sum(_ordinary(entry) for entry in active),
            "defined": sum(_ordinary(entry) for entry in domains),
            "hugepages": huge_pages.entries(
                _set_aside(connection, capabilities["numa"]),
                (
                    (entry["state"] in ACTIVE_STATES, entry.get("hugepages", ()))
                    for entry in domains
                ),
            ),
        },
        "numa": numa,
        "pools": pools,
        "networks": _networks(connection),
        "bridges": bridges(connection),
        "domains": _counts(domains),
        "maintenance": _maintenance(connection, _marked_pool(pools, base_pool, base_path)),
        "cell": cells.entry(cell or read_cell.view(connection)),
        "errors": [
            f"{entry['name']}: {entry['error']}" for entry in domains if not was_read(entry)
        ],
    }


def _ordinary(entry: DomainEntry) -> int:
    return huge_pages.ordinary_mib(entry["memory_max_mib"], entry.get("hugepages", ()))


def _set_aside(connection: Connection, numa: list[NumaEntry]) -> dict[int, int]:
    """MiB in huge pages by their size, the default first. libvirt says it of each NUMA node; where
    the kernel knows of none, it says nothing, and this machine itself is read."""
    if not connection.local:
        return huge_pages.reserved(numa, huge_pages.DEFAULT)
    here = placement_devices.hugepages()
    default = here[0]["size_kib"] if here else huge_pages.DEFAULT
    if any(cell["hugepages"] for cell in numa) or connection.conn.getType() == _TEST:
        return huge_pages.reserved(numa, default)
    return {one["size_kib"]: one["size_kib"] * one["total"] // 1024 for one in here}


def _counts(domains: list[DomainEntry]) -> dict[str, int]:
    counts = dict.fromkeys((*STATES, "unknown"), 0)
    for entry in domains:
        counts[entry["state"] or "unknown"] += 1
    return counts


def _optional(connection: Connection, action: str, function: t.Callable[[], Value]) -> Value | None:
    """The result of the call, or None if the driver does not support it."""
    try:
        return connection.call(action, function)
    except LibvirtFailure as error:
        if error.code == ERR_NO_SUPPORT:
            return None
        raise


def version(number: int | None) -> str | None:
    """``9.0.0`` for 9000000 (libvirt's major * 1,000,000 + minor * 1,000 + release)."""
    if number is None:
        return None
    return f"{number // 1_000_000}.{number // 1_000 % 1_000}.{number % 1_000}"


def _memory(connection: Connection, installed: int) -> tuple[int, int | None]:
    """Total and free memory, MiB; ``installed`` is the total of virNodeGetInfo.

    virNodeGetMemoryStats reports the system's own figures; virNodeGetInfo asks NUMA nodes first,
    which on some machines report less than there is.
    """
    stats = (
        _optional(connection, "read memory", lambda: connection.conn.getMemoryStats(-1, 0)) or {}
    )
    total = int(stats["total"]) // 1024 if stats.get("total") else installed
    if "free" in stats:
        free = sum(int(stats.get(key, 0)) for key in ("free", "buffers", "cached")) // 1024
        return total, free
    free_bytes = None
    if connection.conn.getType() != _TEST:
        free_bytes = _optional(connection, "read memory", connection.conn.getFreeMemory)
    return total, None if free_bytes is None else int(free_bytes) // _MIB


def _numa(connection: Connection, cells: list[NumaEntry], total: int) -> list[NumaEntry]:
    """The cells of the capabilities with the free memory of each (virNodeGetCellsFreeMemory)."""
    if len(cells) == 1:
        cells[0]["memory_mib"] = total
    if [cell["id"] for cell in cells] != list(range(len(cells))) or (
        connection.conn.getType() == _TEST
    ):
        return cells
    free = _optional(
        connection,
        "read NUMA cells",
        lambda: connection.conn.getCellsFreeMemory(0, len(cells)),
    )
    for cell, free_bytes in zip(cells, free or []):
        cell["free_mib"] = int(free_bytes) // _MIB
    return cells


def _networks(connection: Connection) -> list[NetworkEntry]:
    networks = _optional(connection, "list networks", lambda: connection.conn.listAllNetworks(0))
    networks = sorted(networks or [], key=lambda network: str(network.name()))

    def read(network: VirNetwork) -> NetworkEntry:
        name = str(network.name())
        info = network_info.network(network.XMLDesc(0), f"network {name}")
        return {
            "name": name,
            "bridge": info["bridge"],
            "forward": info["forward"],
            "active": bool(network.isActive()),
            "autostart": bool(network.autostart()),
            "error": None,
        }

    outcomes = connection.each(read, networks, lambda network: f"read network {network.name()}")
    return [
        _unread(str(network.name()), str(outcome.error))
        if isinstance(outcome, Failed)
        else outcome.value
        for network, outcome in zip(networks, outcomes)
    ]


def _unread(name: str, error: str) -> NetworkEntry:
    return {
        "name": name,
        "bridge": None,
        "forward": None,
        "active": None,
        "autostart": None,
        "error": error,
    }


def is_in_maintenance(
    connection: Connection, base_pool: str, base_path: str | None = None
) -> bool | None:
    """Whether the mark is set, as :func:`read_host` says; None if that is unknown."""
    pool = _marked_pool(pool_entries(connection), base_pool, base_path)
    return _maintenance(connection, pool)


def _marked_pool(pools: t.Sequence[PoolEntry], base_pool: str, base_path: str | None) -> str:
    names = {str(pool["name"]) for pool in pools}
    by_path = (str(pool["name"]) for pool in pools if base_path and pool["path"] == base_path)
    return base_pool if base_pool in names else next(by_path, base_pool)


def _maintenance(connection: Connection, base_pool: str) -> bool | None:
    """Whether the mark is set, here or, by an earlier version, in the base pool; None if one of
    the pools exists but cannot be read."""
    marks = [is_marked(connection, pool) for pool in (NOTES, base_pool)]
    return True if True in marks else None if None in marks else False


def is_marked(connection: Connection, pool_name: str) -> bool | None:
    """Whether the mark is in this pool; None if it exists but cannot be read."""

    def read() -> bool:
        pool = connection.conn.storagePoolLookupByName(pool_name)
        if pool_name == NOTES and not pool.isActive():
            return False
        pool.storageVolLookupByName(MAINTENANCE_VOLUME)
        return True

    try:
        marked = bool(connection.ask("read the maintenance mark", read))
        # a pool of notes that somebody stopped still has what is in its folder
        stopped = pool_name == NOTES and not marked
        return marked or (stopped and MAINTENANCE_VOLUME in volumes_of_notes(connection))
    except LibvirtFailure as error:
        if error.code in (ERR_NO_STORAGE_POOL, ERR_NO_STORAGE_VOL, ERR_NO_SUPPORT):
            return False
        return None
    except (FleetVirtError, OSError):
        return None
