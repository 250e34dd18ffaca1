# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a new VM must not have in common with another: its name, a MAC address, a static address.

Addresses are compared within a segment, a bridge and its VLAN tag: elsewhere the same address may
be meant, which is a remark. NAT and isolated networks repeat, and are not compared.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..base import ip
from ..hosts.segments import NicPlace, segment
from .facts import Placing, SeenHost, vms_of

if t.TYPE_CHECKING:
    from ..spec.domain import Domain

Answers = t.Mapping[str, Placing]


@dataclass
class Findings:
    """``problems`` prevent creation, ``remarks`` are told."""

    problems: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def compare(
    domain: Domain, host: str, answers: Answers, controller: t.Collection[str] = ()
) -> Findings:
    """``domain``, which goes to ``host``, with all that the hypervisors have, and with the
    addresses of the ``controller``."""
    findings = Findings()
    _names(domain, host, answers, findings)
    _macs(domain, host, answers, findings)
    _addresses(domain, host, answers, controller, findings)
    return findings


def _others(domain: Domain, host: str, answers: Answers) -> t.Iterator[tuple[str, t.Any]]:
    """The VMs of the fleet, except this one where it goes, which may have been claimed."""
    for name, answer in answers.items():
        for vm in vms_of(answer):
            if (vm["name"], name) != (domain.name, host):
                yield name, vm


def _names(domain: Domain, host: str, answers: Answers, findings: Findings) -> None:
    findings.problems += [
        f"{domain.name}: {vm['name']!r} is on {name}; VM names are unique, ignoring case: choose"
        f" another, or write {vm['name']}"
        for name, vm in _others(domain, host, answers)
        if vm["name"] != domain.name and vm["name"].lower() == domain.name.lower()
    ]


def _macs(domain: Domain, host: str, answers: Answers, findings: Findings) -> None:
    owners = {
        str(mac).lower(): f"{vm['name']!r} on {name}"
        for name, vm in _others(domain, host, answers)
        for mac in vm["macs"]
    }
    findings.problems += [
        f"{domain.name}: MAC address {nic.mac} of {nic.name!r} is already used by"
        f" {owners[nic.mac]}; give the NIC another"
        for nic in domain.nics
        if nic.mac in owners
    ]


def _addresses(
    domain: Domain,
    host: str,
    answers: Answers,
    controller: t.Collection[str],
    findings: Findings,
) -> None:
    wanted = list(_wanted(domain, _host(answers, host)))
    for address, where in wanted:
        taken = f"{domain.name}: address {address} on {where} is"
        for name, answer in answers.items():
            seen = answer.get("host")
            if seen is not None and address in _plain(seen.get("addresses")):
                findings.problems.append(f"{taken} the hypervisor {name}'s; choose another")
        if address in _plain(controller):
            findings.problems.append(f"{taken} the controller's; choose another")
        for name, vm in _others(domain, host, answers):
            segments = vm.get("segments") or []
            if vm["name"] == domain.name or address not in _plain(vm.get("addresses")):
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
    silent = [name for name, answer in answers.items() if answer.get("host") is None]
    if wanted and silent:
        findings.remarks.append(
            f"{domain.name}: its static addresses were not compared with VMs on"
            f" {', '.join(silent)}, which did not answer"
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
                    yield _normal(address), where


def _plain(addresses: t.Collection[str] | None) -> set[str]:
    return {_normal(address) for address in addresses or ()}


def _normal(address: str) -> str:
    """An address without its prefix length, in the one form of its kind."""
    text = str(address).partition("/")[0]
    try:
        return str(ip.address(text))
    except ValueError:
        return text
