# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading domains: what ``virt_query`` returns.

The cost is a constant number of calls for the host (lists, one bulk statistics call, one listing
per pool) and one description per domain.
"""

from __future__ import annotations

import time
import typing as t

from ... import _libvirt
from ..._errors import FleetVirtError, LibvirtFailure, Problem, SpecError
from ..._libvirt import ERR_NO_DOMAIN, ERR_NO_SUPPORT
from ..._records import dataclass, field
from ..base.effects_connection import Connection
from ..base.effects_deadline import Failed
from ..base.effects_lookup import list_domains
from ..base.selected import Selected, is_pattern, matches
from ..base.states import ACTIVE_STATES, reason_name, state_name
from . import domain_entry, domain_info, domain_stats
from . import read_addresses as guest_addresses
from . import read_description as description
from .read_disks import Disks

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..base.snapshot import DomainEntry, SnapshotEntry

_VANISHED = "vanished while it was read"
_QEMU = _libvirt.DOMAIN_STATS_BALLOON | _libvirt.DOMAIN_STATS_VCPU  # statistics that query QEMU
_BLOCK = _libvirt.DOMAIN_STATS_BLOCK  # those that open a disk
_CHEAP = _libvirt.DOMAIN_STATS_CPU_TOTAL | _libvirt.DOMAIN_STATS_INTERFACE
_LISTED = {  # what libvirt reports of all domains at once, by listing those that have it
    "persistent": _libvirt.CONNECT_LIST_DOMAINS_PERSISTENT,
    "managed_save": _libvirt.CONNECT_LIST_DOMAINS_MANAGEDSAVE,
    "autostart": _libvirt.CONNECT_LIST_DOMAINS_AUTOSTART,
    "snapshots": _libvirt.CONNECT_LIST_DOMAINS_HAS_SNAPSHOT,
}

_BUSY_SECONDS = 1.0  # for which a busy domain is retried; most are busy for a moment
_BUSY_PAUSE = 0.2

_Read = tuple["VirDomain", "DomainEntry"]  # with its entry


@dataclass(frozen=True)
class DomainQuery:
    """What to read: ``names``, names or patterns (None: all), addresses, counters, sizes of disks,
    snapshots."""

    names: tuple[str, ...] | None = None
    ignore_missing: bool = False
    addresses: bool = False
    stats: bool = False
    storage: bool = True


@dataclass
class _Host:
    """The replies that cover all domains of one host."""

    flagged: dict[str, set[str] | None] = field(default_factory=dict)
    stats: dict[str, domain_stats.Values] = field(default_factory=dict)
    stats_errors: dict[str, str] = field(default_factory=dict)
    disks: Disks | None = None

    def has(self, what: str, uuid: str) -> bool | None:
        uuids = self.flagged.get(what)
        return None if uuids is None else uuid in uuids


def read_domains(
    connection: Connection, wanted: DomainQuery, *, elsewhere: t.Collection[str] = ()
) -> list[DomainEntry]:
    """One entry per domain, sorted by name, with the same keys in each. Those with the names
    ``elsewhere`` exist, whether they are here or not.

    Raises SpecError for a name that does not exist, LibvirtFailure if the list itself cannot be
    read. Problems of one domain are in that domain's ``error``.
    """
    domains = list_domains(connection)
    domains.sort(key=lambda domain: str(domain.name()))
    if wanted.names is not None:
        domains = _chosen(domains, wanted, elsewhere)
    if not domains:
        return []
    host = _Host(flagged=_flagged(connection))
    entries: list[DomainEntry] = []
    readable: list[_Read] = []
    outcomes = connection.each(
        lambda domain: _describe(domain, host),
        domains,
        lambda domain: f"read domain {domain.name()}",
    )
    for domain, outcome in zip(domains, outcomes):
        if isinstance(outcome, Failed):
            entry = domain_entry.unreadable(
                str(domain.name()), str(domain.UUIDString()), _reason(outcome.error)
            )
        else:
            entry = outcome.value
            readable.append((domain, entry))
        entries.append(entry)
    if wanted.storage:
        host.disks = Disks(connection, [entry for _dummy, entry in readable])
    _read_stats(connection, readable, wanted, host)
    completed = connection.each(
        lambda pair: _complete(pair[0], pair[1], host, wanted),
        readable,
        lambda pair: f"read domain {pair[1]['name']}",
    )
    for (_dummy, entry), done in zip(readable, completed):
        if isinstance(done, Failed):
            _note(entry, _reason(done.error))
    if wanted.addresses:
        _add_addresses(connection, readable)
    for entry in entries:
        problem = entry["metadata"]["problem"]
        if problem is not None:
            _note(entry, problem)
    return entries


def was_read(entry: DomainEntry) -> bool:
    """Whether all was read that is promised to the domain; its metadata promise nothing."""
    return entry["error"] in (None, entry["metadata"]["problem"])


def still_there(entries: t.Iterable[DomainEntry]) -> list[DomainEntry]:
    """Those that did not vanish while they were read, as moved or removed ones do."""
    return [entry for entry in entries if _VANISHED not in (entry["error"] or "")]


def _note(entry: DomainEntry, problem: str) -> None:
    if entry["error"] is None:
        entry["error"] = problem
    elif problem not in entry["error"]:
        entry["error"] = f"{entry['error']}; {problem}"


def _chosen(
    domains: list[VirDomain], wanted: DomainQuery, elsewhere: t.Collection[str]
) -> list[VirDomain]:
    selected = Selected.of(wanted.names or ())
    known = {*elsewhere, *(str(domain.name()) for domain in domains)}
    unknown = [
        name
        for name in selected.names
        if name not in known
        and not (is_pattern(name) and any(matches(there, name) for there in known))
    ]
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
    return [domain for domain in domains if selected.takes(str(domain.name()))]


def _flagged(connection: Connection) -> dict[str, set[str] | None]:
    """UUIDs of the domains that each flag of virConnectListAllDomains selects."""
    uuids: dict[str, set[str] | None] = {}
    for what, flag in _LISTED.items():
        try:
            listed = connection.call("list domains", connection.conn.listAllDomains, flag)
            uuids[what] = {str(domain.UUIDString()) for domain in listed}
        except LibvirtFailure as error:
            if error.code != ERR_NO_SUPPORT:
                raise
            uuids[what] = None
    return uuids


def _read_stats(
    connection: Connection, readable: list[_Read], wanted: DomainQuery, host: _Host
) -> None:
    """Statistics of all domains; where disks hang, only what needs neither disk nor QEMU."""
    groups = _libvirt.DOMAIN_STATS_STATE
    if wanted.storage:
        groups |= _BLOCK
    if wanted.stats:
        groups |= _CHEAP | _QEMU | _BLOCK
    chosen: list[_Read] = []
    hanging: list[_Read] = []
    for pair in readable:
        hangs = host.disks is not None and host.disks.hang(pair[1])
        (hanging if hangs else chosen).append(pair)
    _bulk(connection, chosen, groups, host)
    _bulk(connection, hanging, groups & ~(_QEMU | _BLOCK), host)


def _bulk(connection: Connection, chosen: list[_Read], groups: int, host: _Host) -> None:
    """One call for all; where one domain makes it fail or hang, one call for each."""
    if not chosen:
        return

    def read(some: list[_Read]) -> list[tuple[str, domain_stats.Values]]:
        domains = [domain for domain, _dummy in some]
        answer = connection.conn.domainListGetStats(
            domains, groups, _libvirt.CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT
        )
        return [(str(domain.UUIDString()), values) for domain, values in answer]

    try:
        host.stats.update(connection.call("read statistics of all domains", read, chosen))
        if groups & _BLOCK:
            _ask_the_busy_again(connection, chosen, read, host)
        return
    except LibvirtFailure as error:
        if error.code == ERR_NO_SUPPORT:
            return
    except FleetVirtError:
        pass  # the limit: a domain hangs, find out which
    outcomes = connection.each(
        lambda pair: read([pair]), chosen, lambda pair: f"statistics of {pair[1]['name']}"
    )
    for (_dummy, entry), outcome in zip(chosen, outcomes):
        if isinstance(outcome, Failed):
            host.stats_errors[entry["uuid"]] = _reason(outcome.error)
        else:
            host.stats.update(outcome.value)


def _ask_the_busy_again(
    connection: Connection,
    chosen: list[_Read],
    read: t.Callable[[list[_Read]], list[tuple[str, domain_stats.Values]]],
    host: _Host,
) -> None:
    """Retry busy domains: libvirt omits what it would have to wait for, also while it starts."""
    until = time.monotonic() + _BUSY_SECONDS
    while True:
        chosen = [
            pair
            for pair in chosen
            if any(disk["source"] for disk in pair[1]["disks"])
            and domain_stats.was_busy(host.stats.get(pair[1]["uuid"], {}))
        ]
        if not chosen or time.monotonic() > until:
            return
        time.sleep(_BUSY_PAUSE)
        host.stats.update(connection.call("read statistics of busy domains", read, chosen))


def _describe(domain: VirDomain, host: _Host) -> DomainEntry:
    """The entry as far as libvirt has it in memory: no disk is accessed."""
    name, uuid = str(domain.name()), str(domain.UUIDString())
    info = domain_info.from_root(*description.shown(domain))
    entry = domain_entry.from_info(info, name, uuid)
    entry["autostart"] = host.has("autostart", uuid)
    entry["persistent"] = host.has("persistent", uuid)
    entry["managed_save"] = host.has("managed_save", uuid)
    entry["snapshots"] = _snapshots(domain) if host.has("snapshots", uuid) else []
    return entry


def _complete(domain: VirDomain, entry: DomainEntry, host: _Host, wanted: DomainQuery) -> None:
    """Add the state, the counters and what is known of the disks."""
    values = host.stats.get(entry["uuid"], {})
    number, reason = values.get("state.state"), values.get("state.reason", 0)
    if not isinstance(number, int) or not isinstance(reason, int):
        number, reason = domain.state(0)
    state = state_name(number)
    entry["state"] = state
    entry["reason"] = reason_name(state, reason)
    problem = host.stats_errors.get(entry["uuid"])
    if problem is not None:
        _note(entry, problem)
    active = state in ACTIVE_STATES
    if wanted.stats:
        counted = entry["stats"] = domain_stats.counters(values)
        if active and counted["cpu"]["time_ns"] is None:
            # libvirt reads it from control groups there; here from the process (virDomainGetInfo)
            counted["cpu"]["time_ns"] = int(domain.info()[4])
    if host.disks is not None:
        for problem in host.disks.complete(entry, domain_stats.disk_sizes(values, active)):
            _note(entry, problem)


def _snapshots(domain: VirDomain) -> list[SnapshotEntry]:
    current = domain.snapshotCurrent(0).getName() if domain.hasCurrentSnapshot(0) else None
    snapshots: list[SnapshotEntry] = []
    for snapshot in domain.listAllSnapshots(0):
        entry = domain_entry.snapshot(snapshot.getXMLDesc(0))
        snapshots.append({**entry, "current": entry["name"] == current})
    return sorted(snapshots, key=lambda entry: (entry["created"] or 0, entry["name"]))


def _reason(error: FleetVirtError) -> str:
    if isinstance(error, LibvirtFailure) and error.code == ERR_NO_DOMAIN:
        return _VANISHED
    return str(error)


def _add_addresses(connection: Connection, readable: list[_Read]) -> None:
    asked = [pair for pair in readable if pair[1]["state"] in ("running", "blocked")]
    outcomes = connection.each(
        lambda pair: guest_addresses.read(pair[0], pair[1]),
        asked,
        lambda pair: (
            f"ask the guest agent of {pair[1]['name']} for addresses"
            if pair[1]["agent"]
            else f"read leases of {pair[1]['name']}"
        ),
        parallel=4,  # fewer than a daemon serves at once for one client
    )
    for (_dummy, entry), outcome in zip(asked, outcomes):
        if isinstance(outcome, Failed):
            _note(entry, _reason(outcome.error))
