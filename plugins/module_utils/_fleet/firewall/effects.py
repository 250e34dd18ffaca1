# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Admitting peers through the active firewall of this machine, whichever it is.

Only accept rules are added, and only our own rules are removed, so no connection is cut.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import typing as t
from pathlib import Path

from ..._errors import FleetVirtError, Problem, SpecError
from ..base import effects_programs as programs
from ..base import read_processes as processes
from . import plan as firewall
from .effects_nftables import Nftables

if t.TYPE_CHECKING:
    from ..base.results import Diff

_NOTHING = {
    "nftables": "no nftables chain blocks the peers: there is nothing to open",
    "none": "no firewall is active here (firewalld, ufw, nftables): there is nothing to open",
}


class Backend(t.Protocol):
    """A firewall: reads our current rules (again for each plan), and applies the wanted ones."""

    name: str

    def plan(self) -> firewall.RulesChange:
        """Our current rules and the wanted ones."""

    def apply(self) -> None:
        """Apply the last plan."""


class Ufw:
    """ufw: its rules take effect and persist at once."""

    name = "ufw"

    def __init__(
        self, networks: t.Sequence[firewall.Network], ports: t.Sequence[firewall.Ports]
    ) -> None:
        self.wanted = firewall.ufw_lines(networks, ports)
        self.change = firewall.RulesChange((), ())

    def plan(self) -> firewall.RulesChange:
        own = firewall.ufw_own(programs.run(["ufw", "show", "added"]))
        self.change = firewall.RulesChange(tuple(sorted(own)), tuple(sorted(self.wanted)))
        return self.change

    def apply(self) -> None:
        for line in self.change.add:
            programs.run(["ufw", "--dry-run", *firewall.ufw_words(line, "prepend")])
        for line in self.change.add:
            programs.run(["ufw", *firewall.ufw_words(line, "prepend")])
        for line in self.change.remove:
            programs.run(["ufw", *firewall.ufw_words(line, "delete")])


class Firewalld:
    """firewalld: rich rules, in both the runtime and the permanent configuration, without a reload.

    A reload would drop what others have added to the runtime configuration only.
    """

    name = "firewalld"

    def __init__(
        self, networks: t.Sequence[firewall.Network], ports: t.Sequence[firewall.Ports]
    ) -> None:
        self.wanted = firewall.rich_rules(networks, ports)
        default = programs.run(["firewall-cmd", "--get-default-zone"]).strip()
        active = programs.run(["firewall-cmd", "--get-active-zones"])
        self.zones = firewall.zones(default, active)
        self.changes: list[tuple[str, tuple[str, ...], firewall.RulesChange]] = []

    def plan(self) -> firewall.RulesChange:
        self.changes = []
        kinds: tuple[tuple[str, ...], ...] = ((), ("--permanent",))
        for kind in kinds:
            zones = _by_zone(programs.run(["firewall-cmd", *kind, "--list-all-zones"]))
            # a zone that admitted peers earlier and is no longer in use is cleaned up, too
            for zone, lines in zones.items():
                wanted = tuple(sorted(self.wanted)) if zone in self.zones else ()
                own = tuple(sorted(firewall.own_rich_rules("\n".join(lines))))
                self.changes.append((zone, kind, firewall.RulesChange(own, wanted)))
        before, after = [], []
        for zone, kind, change in self.changes:
            what = f"zone {zone} ({'permanent' if kind else 'runtime'}): "
            before += [what + rule for rule in change.before]
            after += [what + rule for rule in change.after]
        return firewall.RulesChange(tuple(before), tuple(after))

    def apply(self) -> None:
        for zone, kind, change in self.changes:
            for verb, rules in (("add", change.add), ("remove", change.remove)):
                if rules:
                    named = [f"--{verb}-rich-rule={rule}" for rule in rules]
                    programs.run(["firewall-cmd", *kind, f"--zone={zone}", *named])
        programs.run(["firewall-cmd", "--check-config"])


def _by_zone(listed: str) -> dict[str, list[str]]:
    """The lines of each zone in the output of ``--list-all-zones``."""
    zones: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in listed.splitlines():
        if line and not line[0].isspace():
            lines = zones.setdefault(line.split()[0], [])
        elif line.strip():
            lines.append(line)
    return zones


class Nothing:
    """No active firewall: no rules are created."""

    name = "none"

    def plan(self) -> firewall.RulesChange:
        return firewall.RulesChange((), ())

    def apply(self) -> None:
        """Do nothing."""


def find_backend(
    networks: t.Sequence[firewall.Network], ports: t.Sequence[firewall.Ports]
) -> Backend:
    """The firewall that is active on this machine."""
    done = programs.attempt(["firewall-cmd", "--state"])
    if done is not None and done.status == 0:
        return Firewalld(networks, ports)
    done = programs.attempt(["ufw", "status"])
    if done is not None and done.status == 0 and done.out.startswith("Status: active"):
        return Ufw(networks, ports)
    if programs.find("nft") is not None:
        return Nftables(networks, ports)
    return Nothing()


class FirewallResult(t.TypedDict):
    """The module's result."""

    changed: bool
    backend: str
    peers: list[str]
    rules: list[str]
    note: str | None
    diff: Diff


def open_ports(
    names: t.Sequence[str], ports: t.Sequence[str], *, controller: bool, check: bool
) -> FirewallResult:
    """Let ``names`` (addresses, networks, host names) reach ``ports``."""
    networks = resolve(names)
    if controller:
        networks += [
            network for network in map(firewall.parse_network, controller_addresses()) if network
        ]
    wanted = firewall.tidy(networks)
    backend = find_backend(wanted, firewall.parse_ports(ports))
    change = backend.plan()
    if change.changed and not check:
        backend.apply()
        left = backend.plan()
        if left.changed:
            raise FleetVirtError(
                f"{backend.name} accepted the rules but does not list them:"
                f" {left.add + left.remove}; is another program changing it at the same time?"
            )
    return {
        "changed": change.changed,
        "backend": backend.name,
        "peers": [firewall.short(network) for network in wanted],
        "rules": list(change.after),
        "note": None if change.after or change.before else _NOTHING.get(backend.name),
        "diff": {
            "before_header": backend.name,
            "before": "".join(f"{line}\n" for line in change.before),
            "after_header": backend.name,
            "after": "".join(f"{line}\n" for line in change.after),
        },
    }


def resolve(names: t.Sequence[str]) -> list[firewall.Network]:
    """The networks of ``names``, as this machine resolves them."""
    networks: list[firewall.Network] = []
    problems = []
    for index, name in enumerate(names):
        network = firewall.parse_network(name)
        if network is not None:
            networks += [] if network.is_loopback else [network]
            continue
        try:
            answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except OSError as error:
            problems.append(
                Problem(
                    f"networks[{index}]",
                    f"{name!r} is not an address and does not resolve here ({error.strerror});"
                    " set ansible_host to an address, or list networks",
                )
            )
            continue
        addresses = sorted({str(answer[4][0]).partition("%")[0] for answer in answers})
        # Debian resolves a machine's own name to loopback, where no peer connects from
        networks += [
            ipaddress.ip_network(address)
            for address in addresses
            if not ipaddress.ip_address(address).is_loopback
        ]
    if problems:
        raise SpecError(problems)
    return networks


def controller_addresses() -> list[str]:
    """The client address of the SSH connection that this module was started through.

    sudo removes the variable from our environment, but not from that of its own process.
    """
    with contextlib.suppress(OSError):
        for pid, _process in processes.lineage(os.getpid()):
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            for entry in environment:
                if entry.startswith(b"SSH_CONNECTION="):
                    address = entry.partition(b"=")[2].split()[0].decode("ascii", "replace")
                    return [address.partition("%")[0]]
    return []
