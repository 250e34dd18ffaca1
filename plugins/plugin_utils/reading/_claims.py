# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decision which reported guest addresses may be connected to.

An agent, a console and ARP replies are a guest's own claim; a lease comes from libvirt, a static
address from the VM's creator. If a guest claimed the address of another machine, its commands would
run there: on any machine that accepts the same key, and on a hypervisor as root. A pinned host key
would refuse the other machine; VMs that were not seeded have none.
"""

from __future__ import annotations

import collections
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._records import dataclass, field
from ansible_collections.fleet.virt.plugins.plugin_utils.reading import _guests

# Sources other than the guest's own claim, most trusted first
STRONG = ("static", "lease")
_RUNNING = ("running", "blocked")
_MOST_NAMED = 3  # addresses in one sentence
_Place = tuple[str, str]  # the network in which an address is unique, and the address


@dataclass(frozen=True)
class Machines:
    """Known addresses of machines other than guests.

    :param hypervisors: addresses of each hypervisor, from the inventory.
    :param reported: addresses that each hypervisor reports itself; a hostile one may lie.
    :param hosts: hosts of the inventory by address.
    :param local: whether an address is this controller's.
    :param owners: by hypervisor, the MAC addresses of addresses in its neighbour table.
    :param here: the same for this controller, which decides where it connects to.
    """

    hypervisors: t.Mapping[str, t.Collection[str]] = field(default_factory=dict)
    reported: t.Mapping[str, t.Collection[str]] = field(default_factory=dict)
    hosts: t.Mapping[str, str] = field(default_factory=dict)
    local: t.Callable[[str], bool] = lambda _address: False
    owners: t.Mapping[str, t.Mapping[str, str]] = field(default_factory=dict)
    here: t.Mapping[str, str] = field(default_factory=dict)

    def hypervisor_at(
        self, address: str, behind: str | None = None, *, reported: bool = True
    ) -> str | None:
        """The hypervisor with this address; ``behind`` limits it to one hypervisor's networks."""
        for known in (self.hypervisors, self.reported if reported else {}):
            for name in known if behind is None else [behind]:
                if address in known.get(name, ()):
                    return name
        return None


@dataclass(frozen=True)
class _Claim:
    hypervisor: str
    guest: _guests.Guest
    entry: _guests.GuestAddress
    pinned: bool

    @property
    def address(self) -> str:
        return self.entry["address"]

    @property
    def behind(self) -> str | None:
        """Its hypervisor, if the address is only unique in that hypervisor's networks."""
        return self.hypervisor if self.entry["behind"] else None

    @property
    def runs(self) -> bool:
        return self.guest["state"] in _RUNNING

    @property
    def rank(self) -> int:
        source = self.entry["source"]
        return STRONG.index(source) if source in STRONG else len(STRONG)

    def is_same_vm(self, other: _Claim) -> bool:
        """Whether both are the same VM, which is on two hypervisors while it migrates."""
        return (self.guest["name"], self.guest["uuid"]) == (
            other.guest["name"],
            other.guest["uuid"],
        )

    def __str__(self) -> str:
        return f"VM {self.guest['name']!r} of {self.hypervisor} ({self.entry['source']})"


def settle(
    guests: t.Iterable[_guests.HostedGuest],
    machines: Machines,
    pinned: t.Callable[[_guests.Guest], bool],
) -> list[str]:
    """Remove addresses from guests that may be another machine's; returns warnings.

    :param guests: hypervisors and their guests.
    :param pinned: whether only a server with the guest's own host key will be accepted.
    """
    claims: dict[tuple[str | None, str], list[_Claim]] = collections.defaultdict(list)
    guests = list(guests)
    uuids = {mac: guest["uuid"] for _hypervisor, guest in guests for mac in guest["macs"]}
    for hypervisor, guest in guests:
        for entry in guest["addresses"]:
            claim = _Claim(hypervisor, guest, entry, pinned(guest))
            claims[claim.behind, claim.address].append(claim)
    dropped: dict[tuple[str, str], list[str]] = {}
    for contenders in claims.values():
        for claim in contenders:
            reason = _machine(claim, machines) or _rival(claim, contenders, machines)
            reason = reason or _another_here(claim, machines, uuids)
            if reason is not None:
                claim.guest["addresses"].remove(claim.entry)
                dropped.setdefault((str(claim), reason), []).append(claim.address)
    return [
        f"{claim}: not connecting to {_listed(addresses)}: {reason}"
        for (claim, reason), addresses in dropped.items()
    ]


def _listed(addresses: t.Sequence[str]) -> str:
    more = len(addresses) - _MOST_NAMED
    return ", ".join(addresses[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _machine(claim: _Claim, machines: Machines) -> str | None:
    """The reason why the address belongs to another machine than the guest, or None."""
    name = machines.hypervisor_at(claim.address, claim.behind, reported=not claim.pinned)
    if name is not None:
        return f"address of hypervisor {name}"
    if claim.pinned:
        return None
    if claim.behind is None and machines.local(claim.address):
        return "address of this controller"
    name = machines.hosts.get(claim.address)
    if name is not None and claim.behind is None and claim.entry["source"] not in STRONG:
        return f"address of {name}, a host of the inventory"
    mac = machines.owners.get(claim.hypervisor, {}).get(claim.address)
    if mac is not None and mac not in claim.guest["macs"]:
        return f"another machine has it ({mac})"
    return None


def _another_here(claim: _Claim, machines: Machines, guests: t.Mapping[str, str]) -> str | None:
    """The reason if the controller's neighbour table has another guest, which it would reach.

    A MAC address that no guest has may be that of a router, which responds for others.
    """
    mac = None if claim.pinned or claim.behind else machines.here.get(claim.address)
    if mac is None or guests.get(mac, claim.guest["uuid"]) == claim.guest["uuid"]:
        return None
    return f"another VM responds at it ({mac})"


def _rival(claim: _Claim, contenders: t.Sequence[_Claim], machines: Machines) -> str | None:
    """The reason if another guest has the address from a better or equal source, or None."""
    for other in contenders:
        if claim.is_same_vm(other):
            continue
        if other.rank < claim.rank:
            if _machine(other, machines) is None:
                return f"{other} has it"
            continue
        if claim.pinned:
            continue
        if other.runs and not claim.runs:
            return f"the VM is not running, and {other} has it"
        if other.rank > claim.rank or other.runs < claim.runs:
            continue
        # the guest that replies to ARP now may leave the address to the other a moment later
        return (
            f"{other} has it too, and it is unknown which is right; give one of them a lease, or"
            " another address"
        )
    return None
