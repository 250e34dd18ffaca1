# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Machines other than guests: hypervisors, other hosts of the inventory, the controller.

Hypervisors are asked for their addresses, and for the owners of addresses that guests claim, only
if a guest claims an address and no host key identifies the machine there.
"""

from __future__ import annotations

import socket
import typing as t
from urllib.parse import urlsplit

from ansible.inventory.host import Host
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    effects_deadline as deadline,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import ip
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    read_addresses as addresses,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    read_neighbours as neighbours,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.reading import _claims, _guests, _reading
from ansible_collections.fleet.virt.plugins.plugin_utils.ssh import _from_host

_SECONDS = 10.0
_PATIENCE = 1.0  # seconds for replies on networks of the controller
_HERE = ""  # key of this controller among the hypervisors, whose names are not empty


class Addresses(t.TypedDict):
    """A hypervisor's resolved names, its own addresses, and owners of addresses near it."""

    names: list[str]
    own: list[str]
    owners: dict[str, str]


Kept = dict[str, Addresses]  # by hypervisor; can be cached
_NOTHING: Addresses = {"names": [], "own": [], "owners": {}}


def doubtful(
    guests: t.Iterable[_guests.Guest], pinned: t.Callable[[_guests.Guest], bool]
) -> list[str]:
    """Addresses of these guests that could be another machine's.

    That includes leases: any machine gets one that sends the ID of the client that had it before.
    """
    return [
        entry["address"] for guest in guests if not pinned(guest) for entry in guest["addresses"]
    ]


def ask(
    hypervisors: t.Sequence[_reading.Hypervisor],
    claimed: t.Mapping[str, t.Sequence[str]],
    settings: _reading.ReadingSettings,
) -> Kept:
    """The addresses of each hypervisor.

    :param claimed: by responding hypervisor, the addresses that its guests claim; without any, no
        hypervisor is asked.
    """
    if not any(claimed.values()):
        return {}
    seconds = min(_SECONDS, settings.host_timeout / 2)
    every = sorted({address for addresses in claimed.values() for address in addresses})

    def ask_hypervisor(hypervisor: _reading.Hypervisor) -> Addresses:
        names = [address for name in hosts_of(hypervisor) for address in _resolved(name)]
        about = _from_host.About([], {})
        if settings.from_host and hypervisor.name in claimed:
            about = _from_host.about(hypervisor.reached, claimed[hypervisor.name], seconds)
        return {"names": names, "own": about.own, "owners": about.owners}

    outcomes = deadline.each(
        ask_hypervisor,
        hypervisors,
        seconds=settings.host_timeout,
        what=lambda hypervisor: f"ask {hypervisor.name} for its addresses",
        parallel=settings.parallel,
    )
    here = neighbours.ask_for(every, _PATIENCE) if settings.from_host else {}
    known_addresses: Kept = {_HERE: {"names": [], "own": [], "owners": here}}
    known_addresses.update(
        (hypervisor.name, outcome.value)
        for hypervisor, outcome in zip(hypervisors, outcomes)
        if isinstance(outcome, deadline.Ok)
    )
    return known_addresses


def known(
    hypervisors: t.Sequence[_reading.Hypervisor], hosts: t.Iterable[Host], known_addresses: Kept
) -> _claims.Machines:
    """The machines, from the result of :func:`ask`; ``hosts`` are the inventory's so far."""
    own, reported, owners = {}, {}, {}
    for hypervisor in hypervisors:
        kept = known_addresses.get(hypervisor.name, _NOTHING)
        own[hypervisor.name] = set(
            filter(None, map(ip.usable, [*hosts_of(hypervisor), *kept["names"]]))
        )
        reported[hypervisor.name] = set(filter(None, map(ip.usable, kept["own"])))
        owners[hypervisor.name] = {str(key): str(mac) for key, mac in kept["owners"].items()}
    others: dict[str, str] = {}
    for host in hosts:
        address = ip.usable(str(host.vars.get("ansible_host") or host.name))
        if address is not None:
            others.setdefault(address, str(host.name))
    here = known_addresses.get(_HERE, _NOTHING)["owners"]
    return _claims.Machines(own, reported, others, addresses.is_local, owners, here)


def names(hypervisors: t.Sequence[_reading.Hypervisor], hosts: t.Iterable[Host]) -> set[str]:
    """Names of machines other than guests, in lower case."""
    own = [name for hypervisor in hypervisors for name in hosts_of(hypervisor)]
    own.append(socket.gethostname())
    short = [name.partition(".")[0] for name in own if ip.usable(name) is None]
    others = [str(host.vars.get("ansible_host") or "") for host in hosts]
    more = [str(host.name) for host in hosts]
    return {name.casefold() for name in (*own, *short, *others, *more) if name}


def hosts_of(hypervisor: _reading.Hypervisor) -> list[str]:
    """Names and addresses of a hypervisor, from the inventory and its connection."""
    reached = hypervisor.reached
    more = reached.ssh.host if reached.ssh else urlsplit(reached.uri).hostname
    return list(dict.fromkeys([*hypervisor.hosts, *([more] if more else [])]))


def _resolved(name: str) -> list[str]:
    if ip.usable(name) is not None:
        return []
    try:
        answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [str(answer[4][0]) for answer in answers]
