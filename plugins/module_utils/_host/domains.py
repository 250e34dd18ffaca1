# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading domains: what ``virt_query`` returns.

The cost is a constant number of calls for the host (lists, one bulk statistics call, one listing
per pool) and one description per domain.

This file is private to the collection.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from .._errors import FleetVirtError, LibvirtFailure, Problem, SpecError
from .._libvirt import ERR_NO_DOMAIN, ERR_NO_SUPPORT
from .._model import domain_entry, domain_info, domain_stats
from .._model.states import ACTIVE_STATES, reason_name, state_name
from . import addresses as guest_addresses
from .connection import Connection
from .deadline import Failed
from .pools import Volumes, describe_volume

# virConnectListAllDomainsFlags
_LIST_PERSISTENT = 4
_LIST_MANAGED_SAVE = 256
_LIST_AUTOSTART = 1024
_LIST_HAS_SNAPSHOT = 4096
# virDomainStatsTypes
_STATS_STATE = 1
_STATS_CPU_TOTAL = 2
_STATS_BALLOON = 4
_STATS_VCPU = 8
_STATS_INTERFACE = 16
_STATS_BLOCK = 32
_STATS_NOWAIT = 1 << 29  # VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT: skip what a job blocks
_SNAPSHOT_NO_FLAGS = 0


@dataclass(frozen=True)
class Wanted:
    """What to read: ``names`` (None: all), addresses, counters, sizes of disks, snapshots."""

    names: tuple[str, ...] | None = None
    ignore_missing: bool = False
    addresses: bool = False
    stats: bool = False
    storage: bool = True


@dataclass
class _Fleet:
    """The answers that cover all domains of one host."""

    stats: dict[str, dict[str, t.Any]] = field(default_factory=dict)
    stats_errors: dict[str, str] = field(default_factory=dict)
    flagged: dict[int, set[str] | None] = field(default_factory=dict)
    volumes: Volumes | None = None

    def has(self, flag: int, uuid: str) -> bool | None:
        uuids = self.flagged.get(flag)
        return None if uuids is None else uuid in uuids


def read_domains(connection: Connection, wanted: Wanted) -> list[dict[str, t.Any]]:
    """One entry a domain, sorted by name, the same keys in each.

    Raises SpecError for a name that is not there, LibvirtFailure when the list itself cannot be
    had. Whatever goes wrong with one domain is text in that domain's ``error``.
    """
    domains = connection.call("list domains", connection.raw.listAllDomains, 0)
    domains.sort(key=lambda domain: str(domain.name()))
    if wanted.names is not None:
        domains = _chosen(domains, wanted)
    if not domains:
        return []
    host = _read_host(connection, domains, wanted)
    outcomes = connection.each(
        lambda domain: _describe(domain, host, wanted),
        domains,
        lambda domain: f"read domain {domain.name()}",
    )
    entries = []
    for domain, outcome in zip(domains, outcomes):
        name, uuid = str(domain.name()), str(domain.UUIDString())
        if isinstance(outcome, Failed):
            entries.append(_broken(name, uuid, outcome.error))
        else:
            entries.append(outcome.value)
    if wanted.addresses:
        _add_addresses(connection, domains, entries)
    return entries


def _chosen(domains: list[t.Any], wanted: Wanted) -> list[t.Any]:
    names = wanted.names or ()
    known = {str(domain.name()) for domain in domains}
    unknown = [name for name in names if name not in known]
    if unknown and not wanted.ignore_missing:
        there = ", ".join(sorted(known)[:20]) or "none"
        more = f" and {len(known) - 20} more" if len(known) > 20 else ""
        raise SpecError(
            [
                Problem(
                    "names",
                    f"no domain {name!r} on this hypervisor; there are: {there}{more}",
                )
                for name in unknown
            ]
        )
    return [domain for domain in domains if str(domain.name()) in set(names)]


def _read_host(connection: Connection, domains: list[t.Any], wanted: Wanted) -> _Fleet:
    host = _Fleet()
    for flag in (_LIST_PERSISTENT, _LIST_MANAGED_SAVE, _LIST_AUTOSTART, _LIST_HAS_SNAPSHOT):
        try:
            listed = connection.call("list domains", connection.raw.listAllDomains, flag)
            host.flagged[flag] = {str(domain.UUIDString()) for domain in listed}
        except LibvirtFailure as error:
            if error.code != ERR_NO_SUPPORT:
                raise
            host.flagged[flag] = None
    groups = _STATS_STATE
    if wanted.storage:
        groups |= _STATS_BLOCK
        host.volumes = Volumes(connection)
    if wanted.stats:
        groups |= _STATS_CPU_TOTAL | _STATS_BALLOON | _STATS_VCPU | _STATS_INTERFACE | _STATS_BLOCK
    _read_stats(connection, domains, groups, host)
    return host


def _read_stats(connection: Connection, domains: list[t.Any], groups: int, host: _Fleet) -> None:
    """One bulk call; where one domain makes it fail or hang, one call for each."""

    def read(chosen: list[t.Any]) -> list[tuple[str, dict[str, t.Any]]]:
        answer = connection.raw.domainListGetStats(chosen, groups, _STATS_NOWAIT)
        return [(str(domain.UUIDString()), values) for domain, values in answer]

    try:
        host.stats = dict(connection.call("read statistics of all domains", read, domains))
        return
    except LibvirtFailure as error:
        if error.code == ERR_NO_SUPPORT:
            return
    except FleetVirtError:
        pass  # the limit: somebody hangs, find out who
    outcomes = connection.each(
        lambda domain: read([domain]), domains, lambda domain: f"statistics of {domain.name()}"
    )
    for domain, outcome in zip(domains, outcomes):
        if isinstance(outcome, Failed):
            host.stats_errors[str(domain.UUIDString())] = str(outcome.error)
        else:
            host.stats.update(outcome.value)


def _describe(domain: t.Any, host: _Fleet, wanted: Wanted) -> dict[str, t.Any]:
    name, uuid = str(domain.name()), str(domain.UUIDString())
    entry = domain_info.parse(domain.XMLDesc(0), f"domain {name}")
    values = host.stats.get(uuid)
    if values is not None and "state.state" in values:
        numbers = (values["state.state"], values.get("state.reason", 0))
    else:
        numbers = tuple(domain.state(0))
    entry["state"] = state_name(numbers[0])
    entry["reason"] = reason_name(entry["state"], numbers[1])
    entry["autostart"] = host.has(_LIST_AUTOSTART, uuid)
    entry["persistent"] = host.has(_LIST_PERSISTENT, uuid)
    entry["managed_save"] = host.has(_LIST_MANAGED_SAVE, uuid)
    entry["snapshots"] = _snapshots(domain) if host.has(_LIST_HAS_SNAPSHOT, uuid) else []
    entry["error"] = host.stats_errors.get(uuid)
    entry["stats"] = domain_stats.counters(values or {}) if wanted.stats else None
    if host.volumes is not None:
        sizes = domain_stats.disk_sizes(values or {})
        hangs = entry["error"] is not None
        for disk in entry["disks"]:
            _complete_disk(disk, sizes, host.volumes, entry["state"], hangs)
    return entry


def _complete_disk(
    disk: dict[str, t.Any],
    sizes: t.Mapping[str, tuple[int | None, int | None]],
    volumes: Volumes,
    state: str,
    hangs: bool,
) -> None:
    disk["size_mib"], disk["allocation_mib"] = sizes.get(disk["target"], (None, None))
    if disk["type"] == "volume":
        handle = volumes.named(str(disk["pool"]), str(disk["volume"]))
    else:
        handle = volumes.at_path(disk["source"])
    if handle is None:
        return
    disk["pool"], disk["volume"] = handle.pool, handle.name
    # libvirt states the chain of a running domain; of one that is shut off only if its
    # definition does, so the header of the volume is asked (never where reading hangs already)
    unknown = not disk["backing_known"] and state not in ACTIVE_STATES
    if (unknown or disk["size_mib"] is None) and not hangs:
        try:
            volume = describe_volume(handle)
        except FleetVirtError:
            return
        disk["backing"] = disk["backing"] or volume["backing"]
        if disk["size_mib"] is None:
            disk["size_mib"] = volume["capacity_mib"]
            disk["allocation_mib"] = volume["allocation_mib"]


def _snapshots(domain: t.Any) -> list[dict[str, t.Any]]:
    current = domain.snapshotCurrent(0).getName() if domain.hasCurrentSnapshot(0) else None
    found = []
    for snapshot in domain.listAllSnapshots(_SNAPSHOT_NO_FLAGS):
        entry = domain_entry.snapshot(snapshot.getXMLDesc(0))
        found.append({**entry, "current": entry["name"] == current})
    return sorted(found, key=lambda entry: (entry["created"] or 0, entry["name"]))


def _broken(name: str, uuid: str, error: FleetVirtError) -> dict[str, t.Any]:
    """An entry of the usual shape for a domain that could not be read."""
    entry = domain_entry.unreadable(name, uuid)
    for key in ("state", "reason", "autostart", "persistent", "managed_save", "stats"):
        entry[key] = None
    entry["snapshots"] = []
    if isinstance(error, LibvirtFailure) and error.code == ERR_NO_DOMAIN:
        entry["error"] = "vanished while it was read"
    else:
        entry["error"] = str(error)
    return entry


def _add_addresses(
    connection: Connection, domains: list[t.Any], entries: list[dict[str, t.Any]]
) -> None:
    asked = [
        (domain, entry)
        for domain, entry in zip(domains, entries)
        if entry["state"] in ("running", "blocked")
    ]
    outcomes = connection.each(
        lambda pair: guest_addresses.read(pair[0], pair[1]),
        asked,
        lambda pair: f"addresses of {pair[1]['name']}",
        parallel=8,
    )
    for (_, entry), outcome in zip(asked, outcomes):
        if isinstance(outcome, Failed):
            entry["error"] = entry["error"] or str(outcome.error)
