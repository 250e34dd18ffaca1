# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading hypervisors for the inventory: guests with all their known addresses.

The result is plain data that can be cached.
"""

from __future__ import annotations

import ipaddress
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils import _libvirt
from ansible_collections.fleet.virt.plugins.module_utils._errors import (
    DeadlineExceeded,
    FleetVirtError,
    LibvirtFailure,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    effects_deadline as deadline,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_lookup import (
    list_domains,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.ip import usable
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import as_number
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.names import is_proof
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.states import state_name
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    domain_entry,
    domain_info,
    network_info,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    read_addresses as addresses,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    read_description as description,
)
from ansible_collections.fleet.virt.plugins.module_utils._records import dataclass
from ansible_collections.fleet.virt.plugins.plugin_utils.reading import _agents, _claims, _guests
from ansible_collections.fleet.virt.plugins.plugin_utils.reading._guests import Guest, GuestAddress
from ansible_collections.fleet.virt.plugins.plugin_utils.ssh import _from_host, _ssh

# Most trusted first, as in virt_wait
SOURCES = (*_claims.STRONG, "agent", "arp", *_from_host.SOURCES)
_RUNNING = ("running", "blocked")
# Reachable only from their hypervisor: NAT, and isolated networks
_BEHIND = ("nat", None)
_NEAR_SECONDS = 10.0

if t.TYPE_CHECKING:
    from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.snapshot import DomainEntry


@dataclass(frozen=True)
class Hypervisor:
    """A hypervisor: its name in the inventory, its connection, its zone, and its ``cell``.

    ``hosts``: its names and addresses in the inventory; ``lost``: it is not to be contacted.
    """

    name: str
    reached: _ssh.Reached
    zone: object = None
    hosts: tuple[str, ...] = ()
    lost: bool = False
    cell: object = None


@dataclass(frozen=True)
class ReadingSettings:
    """``timeout`` limits a call to libvirt, ``host_timeout`` a hypervisor, in seconds.

    ``from_host``: ask the hypervisor's machine for guests whose address no other source knows.
    """

    unmanaged: bool = False
    addresses: bool = True
    from_host: bool = True
    timeout: float = 10.0
    host_timeout: float = 30.0
    parallel: int = 64


def read_all(
    hypervisors: t.Sequence[Hypervisor], settings: ReadingSettings
) -> list[deadline.Outcome[list[Guest]]]:
    """The guests of every hypervisor, in the order of ``hypervisors``."""
    return deadline.each(
        lambda hypervisor: read(hypervisor.reached, settings),
        hypervisors,
        seconds=settings.host_timeout,
        what=lambda hypervisor: f"read {hypervisor.name}",
        parallel=settings.parallel,
    )


def read(reached: _ssh.Reached, settings: ReadingSettings) -> list[Guest]:
    """The guests of one hypervisor. Raises FleetVirtError."""
    with connect(reached.uri, settings.timeout) as connection:
        budget = connection.limit(settings.host_timeout)
        guests = read_from(connection, reached, settings)
        budget.require()  # one of many errors until here
        return guests


def read_from(
    connection: Connection, reached: _ssh.Reached, settings: ReadingSettings
) -> list[Guest]:
    """The guests of the hypervisor that ``connection`` leads to."""
    domains = [
        entry
        for entry in _domains(connection)
        if _guests.is_listed(entry["metadata"], settings.unmanaged)
    ]
    search = _Search(reached, connection, settings, domains)
    if settings.addresses:
        search.run()
    return [search.guest(entry) for entry in domains]


def _domains(connection: Connection) -> list[DomainEntry]:
    """Every domain as in ``virt_query``, with its state and without slow queries.

    Two calls for all domains, one for the XML of each, and one for the metadata of those that run.
    """
    states = _states(connection)
    outcomes = connection.each(
        lambda domain_and_state: _described(*domain_and_state),
        states,
        lambda domain_and_state: f"read domain {domain_and_state[0].name()}",
    )
    entries: list[DomainEntry] = []
    for (domain, _state), outcome in zip(states, outcomes):
        if isinstance(outcome, deadline.Failed):
            error = outcome.error
            if isinstance(error, LibvirtFailure) and error.code == _libvirt.ERR_NO_DOMAIN:
                continue  # removed meanwhile
            name, uuid = str(domain.name()), str(domain.UUIDString())
            entries.append(domain_entry.unreadable(name, uuid, str(error)))
        else:
            entries.append(outcome.value)
    return sorted(entries, key=lambda entry: entry["name"])


def _states(connection: Connection) -> list[tuple[_libvirt.VirDomain, int | None]]:
    """libvirt's domains, with their state number if one call can read all of them."""
    try:
        stats = connection.call(
            "read the state of all domains",
            connection.conn.getAllDomainStats,
            _libvirt.DOMAIN_STATS_STATE,
            _libvirt.CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT,
        )
        return [
            (domain, as_number(values.get("state.state")))
            for domain, values in stats
            if not is_proof(str(domain.name()))
        ]
    except LibvirtFailure as error:
        if error.code != _libvirt.ERR_NO_SUPPORT:
            raise
    except DeadlineExceeded:
        pass  # one of them hangs: read one by one, it becomes an entry with an error
    return [(domain, None) for domain in list_domains(connection)]


def _described(domain: _libvirt.VirDomain, state: int | None) -> DomainEntry:
    name, uuid = str(domain.name()), str(domain.UUIDString())
    info = domain_info.from_root(*description.shown(domain))
    entry = domain_entry.from_info(info, name, uuid)
    entry["state"] = state_name(state if state is not None else domain.state(0)[0])
    return entry


class _Search:
    """Search for the addresses of one hypervisor's guests."""

    def __init__(
        self,
        reached: _ssh.Reached,
        connection: Connection,
        settings: ReadingSettings,
        domains: list[DomainEntry],
    ) -> None:
        self.reached = reached
        self.connection = connection
        self.settings = settings
        self.domains = domains
        self.sources: dict[str, dict[str, list[str]]] = {}
        self.hostnames: dict[str, str | None] = {}
        self.behind: dict[str, list[ipaddress.IPv4Network | ipaddress.IPv6Network]] = {}

    def run(self) -> None:
        """Ask in the order of SOURCES; the hypervisor's machine only if no other source knows."""
        running = [domain for domain in self.domains if domain["state"] in _RUNNING]
        for domain in self.domains:
            self.sources[domain["uuid"]] = {"static": list(domain["metadata"]["addresses"])}
        networked = [
            domain for domain in running if any(nic["type"] == "network" for nic in domain["nics"])
        ]
        if networked:
            self._networks(networked[0])
        self._libvirts("lease", addresses.from_leases, networked)
        self._ask_agents([domain for domain in running if domain["agent"]])
        unknown = self._unknown(running)
        if unknown and not self.connection.hanging:
            self._libvirts("arp", addresses.from_arp, unknown, quiet=True)
            unknown = self._unknown(running)
        if unknown and self.settings.from_host:
            seconds = min(_NEAR_SECONDS, self.settings.host_timeout / 2)
            self.add_from_host(_from_host.ask(self.reached, unknown, seconds))

    def add_from_host(self, answer: t.Mapping[str, t.Mapping[str, list[str]]]) -> None:
        """Store what the hypervisor's machine knows about our guests."""
        for uuid, sources in answer.items():
            if uuid in self.sources:
                self.sources[uuid].update(sources)

    def _unknown(self, running: list[DomainEntry]) -> list[DomainEntry]:
        return [
            domain
            for domain in running
            if domain["nics"] and not any(self.sources[domain["uuid"]].values())
        ]

    def _networks(self, first: DomainEntry) -> None:
        def read() -> list[str]:
            return [network.XMLDesc(0) for network in self.connection.conn.listAllNetworks(0)]

        try:
            for xml in self.connection.call("read networks", read):
                facts = network_info.network(xml)
                if facts["forward"] in _BEHIND:
                    self.behind[str(facts["name"])] = [
                        ipaddress.ip_interface(address).network for address in facts["addresses"]
                    ]
        except FleetVirtError as error:
            _note(first, str(error))

    def _libvirts(
        self,
        source: str,
        ask: t.Callable[[_libvirt.VirDomain], dict[str, list[str]]],
        guests: list[DomainEntry],
        *,
        quiet: bool = False,
    ) -> None:
        """Ask libvirt about each of ``guests``; ``quiet`` ignores failures."""
        conn = self.connection.conn
        outcomes = self.connection.each(
            lambda guest: ask(conn.lookupByUUIDString(guest["uuid"])),
            guests,
            lambda guest: f"addresses of {guest['name']} ({source})",
        )
        for guest, outcome in zip(guests, outcomes):
            if isinstance(outcome, deadline.Ok):
                self.sources[guest["uuid"]][source] = _of_nics(guest, outcome.value)
            elif not quiet:
                _note(guest, str(outcome.error))

    def _ask_agents(self, guests: list[DomainEntry]) -> None:
        if not guests or self.connection.hanging:
            return
        outcomes = _agents.ask(self.connection, [guest["uuid"] for guest in guests])
        for guest, outcome in zip(guests, outcomes):
            if isinstance(outcome, deadline.Failed):
                _note(guest, str(outcome.error).replace(guest["uuid"], guest["name"]))
            else:
                self.sources[guest["uuid"]]["agent"] = _of_nics(guest, outcome.value.addresses)
                self.hostnames[guest["uuid"]] = outcome.value.hostname

    def guest(self, entry: DomainEntry) -> Guest:
        """The facts of a domain, with its addresses."""
        return {
            "name": entry["name"],
            "uuid": entry["uuid"],
            "state": entry["state"],
            "vcpus": entry["vcpus"],
            "memory_mib": entry["memory_mib"],
            "title": entry["title"],
            "metadata": entry["metadata"],
            "error": entry["error"],
            "macs": [str(nic["mac"]).lower() for nic in entry["nics"] if nic["mac"]],
            "hostname": self.hostnames.get(entry["uuid"]),
            "addresses": self._addresses(entry),
        }

    def _addresses(self, entry: DomainEntry) -> list[GuestAddress]:
        """The addresses, most trusted source first, IPv4 first within each source.

        A network without router advertisements has only IPv4.
        """
        by_source = self.sources.get(entry["uuid"], {})
        networks = [
            network
            for nic in entry["nics"]
            if nic["type"] == "network"
            for network in self.behind.get(str(nic["source"]), ())
        ]
        by_address: dict[str, GuestAddress] = {}
        for source in SOURCES:
            some = filter(None, map(usable, by_source.get(source, ())))
            for address in sorted(some, key=lambda address: ":" in address):
                behind = not self.reached.local and any(
                    ipaddress.ip_address(address) in network for network in networks
                )
                new: GuestAddress = {"address": address, "source": source, "behind": behind}
                by_address.setdefault(address, new)
        return list(by_address.values())


def _of_nics(entry: DomainEntry, by_mac: t.Mapping[str, list[str]]) -> list[str]:
    macs = [str(nic["mac"] or "").lower() for nic in entry["nics"]]
    return [address for mac in macs for address in by_mac.get(mac, ())]


def _note(entry: DomainEntry, problem: str) -> None:
    entry["error"] = problem if entry["error"] is None else f"{entry['error']}; {problem}"
