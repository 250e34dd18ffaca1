# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a new VM must not have in common with another: its name, a MAC address, a static address.

Addresses are compared within a segment, a bridge and its VLAN tag: elsewhere the same address may
be meant, which is a remark. NAT and isolated networks repeat, and are not compared.
"""

from __future__ import annotations

import typing as t

from ..._records import dataclass, field
from ..base import ip
from ..base.names import playbook_command
from ..hosts.segments import NicPlace, segment
from .facts import DefinedVm, Placing, SeenHost, vms_of

if t.TYPE_CHECKING:
    from ..spec.domain import Domain

Answers = t.Mapping[str, Placing]
Owners = dict[str, list[tuple[str, DefinedVm]]]  # hypervisor and VM


@dataclass
class Findings:
    """``problems`` prevent creation, ``remarks`` are told."""

    problems: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


class Taken:
    """What the VMs and hypervisors of ``answers`` have, read once for all VMs of a batch.

    ``controller``: its addresses.
    """

    def __init__(self, answers: Answers, controller: t.Collection[str] = ()) -> None:
        self._answers = answers
        self._controller = _plain(controller)
        self._silent = [name for name, answer in answers.items() if answer.get("host") is None]
        self._names: Owners = {}
        self._macs: Owners = {}
        self._addresses: Owners = {}
        self._hypervisors: dict[str, list[str]] = {}
        self._cells: dict[str, tuple[str, str]] = {}  # VMs that may be defined nowhere
        for name, answer in answers.items():
            seen = answer.get("host")
            for address in _plain(None if seen is None else seen.get("addresses")):
                self._hypervisors.setdefault(address, []).append(name)
            for known in (None if seen is None else seen.get("cell_vms")) or ():
                self._cells.setdefault(known.lower(), (name, known))
            for vm in vms_of(answer):
                self._names.setdefault(vm["name"].lower(), []).append((name, vm))
                for mac in vm["macs"]:
                    self._macs.setdefault(str(mac).lower(), []).append((name, vm))
                for address in _plain(vm.get("addresses")):
                    self._addresses.setdefault(address, []).append((name, vm))

    def compare(self, domain: Domain, host: str) -> Findings:
        """``domain``, which goes to ``host``, with all that is taken, except by itself there: it
        may have been claimed."""
        findings = Findings()
        findings.problems += [
            f"{domain.name}: {vm['name']!r} is on {name}; VM names are unique, ignoring case:"
            f" choose another, or write {vm['name']}"
            for name, vm in self._names.get(domain.name.lower(), ())
            if vm["name"] != domain.name
        ]
        if domain.name.lower() in self._cells and domain.name.lower() not in self._names:
            member, known = self._cells[domain.name.lower()]
            findings.problems.append(
                f"{domain.name}: {known!r} is a VM of the cell of {member}, defined nowhere and"
                f" known by its card; choose another name, or start it:"
                f" {playbook_command('state', vm_name=known, vm_state='running')}"
            )
        findings.problems += self.mac_problems(domain, host, [str(nic.mac) for nic in domain.nics])
        self._compare_addresses(domain, host, findings)
        return findings

    def mac_problems(self, domain: Domain, host: str, macs: t.Collection[str]) -> list[str]:
        """Why NICs of ``domain``, which is on ``host`` or goes there, cannot have these of their
        addresses."""
        problems = []
        for nic in domain.nics:
            owners = [
                f"{vm['name']!r} on {name}"
                for name, vm in self._macs.get(str(nic.mac), ())
                if nic.mac in macs and (name, vm["name"]) != (host, domain.name)
            ]
            if owners:
                problems.append(
                    f"{domain.name}: MAC address {nic.mac} of {nic.name!r} is already used by"
                    f" {owners[-1]}; give the NIC another"
                )
        return problems

    def _compare_addresses(self, domain: Domain, host: str, findings: Findings) -> None:
        wanted = list(_wanted(domain, _host(self._answers, host)))
        for address, where in wanted:
            taken = f"{domain.name}: address {address} on {where} is"
            findings.problems += [
                f"{taken} the hypervisor {name}'s; choose another"
                for name in self._hypervisors.get(address, ())
            ]
            if address in self._controller:
                findings.problems.append(f"{taken} the controller's; choose another")
            for name, vm in self._addresses.get(address, ()):
                segments = vm.get("segments") or []
                if vm["name"] == domain.name:
                    continue
                if where in segments:
                    findings.problems.append(
                        f"{taken} already used by {vm['name']!r} on {name}; choose another"
                    )
                elif segments:
                    findings.remarks.append(
                        f"{taken} also that of {vm['name']!r} on {name}, on another segment"
                        f" ({'; '.join(map(str, segments))})"
                    )
        if wanted and self._silent:
            findings.remarks.append(
                f"{domain.name}: its static addresses were not compared with VMs on"
                f" {', '.join(self._silent)}, which did not answer"
            )


def _host(answers: Answers, name: str) -> SeenHost | None:
    return (answers.get(name) or Placing()).get("host")


def _wanted(domain: Domain, seen: SeenHost | None) -> t.Iterator[tuple[str, str]]:
    """Each static address of the request, with the segment of its NIC."""
    networks = (None if seen is None else seen.get("networks")) or []
    bridges = {
        str(network.get("name")): network.get("bridge")
        for network in networks
        if network.get("forward") == "bridge"
    }
    for config in domain.seed.network if domain.seed else ():
        for nic in domain.nics:
            if config.name != nic.name and config.mac != nic.mac:
                continue
            vlan = None if nic.vlan is None else str(nic.vlan)
            where = segment(NicPlace(nic.type, nic.source, vlan), bridges)
            if where is not None:
                for address in config.addresses:
                    yield normal_address(address), where


def _plain(addresses: t.Collection[str] | None) -> set[str]:
    return {normal_address(address) for address in addresses or ()}


def normal_address(address: str) -> str:
    """An address without its prefix length, in the one form of its kind."""
    text = str(address).partition("/")[0]
    try:
        return str(ip.address(text))
    except ValueError:
        return text
