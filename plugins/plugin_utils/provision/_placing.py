# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Placements from the facts of all hypervisors, and checks of claims."""

from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import duplicate_vm as twice
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    machine_types as machines,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import Json
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards import leftover
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import proofs
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.facts import ImageFacts
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import decide as placement
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import unique
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.demand import (
    request_of,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.facts import (
    DefinedVm,
    Placing,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import power
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _peers
from ansible_collections.fleet.virt.plugins.plugin_utils.base._fleet_variables import LIMITS
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Values, to_plain

if t.TYPE_CHECKING:
    from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.domain import Domain

Answers = t.Mapping[str, Placing]


def limits_of(name: str, task_vars: Values) -> dict[str, Json]:
    """The placement settings in the variables of the hypervisor ``name``."""
    values = _peers.of_host(name, task_vars)
    limits = {key: values.get(key) for key in LIMITS}
    return {key: to_plain(value) for key, value in limits.items() if value is not None}


def hosts_of(
    answers: Answers,
    limits: t.Mapping[str, t.Mapping[str, object]],
    lost: t.Collection[str] = (),
) -> list[placement.PlacementHost]:
    """The hypervisors as placement sees them; lost ones are silent."""
    answered = [name for name, answer in answers.items() if answer.get("host") is not None]
    silent = proofs.silences(answers, answered, None, lost)
    hosts = []
    for name, answer in answers.items():
        info = answer.get("host")
        if info is None:
            reason = silent[name].why if name in silent else "declared lost"
            hosts.append(placement.silent_host(name, reason))
        else:
            hosts.append(placement.host_from_info(info, limits.get(name, {}), name=name))
    return hosts


def place(
    domains: t.Sequence[Domain],
    images: t.Mapping[str, ImageFacts],
    hosts: t.Sequence[placement.PlacementHost],
    policy: placement.Policy,
    leftovers: str | None = None,
    *,
    every: bool = False,
) -> list[placement.Placement]:
    """A placement for each VM; an existing one is placed where it is. ``leftovers`` are what a
    copy gets of its source beside its settings. ``every``: with what is to be said of every
    hypervisor.

    Raises PlanRefused for a VM that exists on two hypervisors, or not on the requested one.
    """
    requests = [request_of(domain, images, leftovers) for domain in domains]
    placements = []
    for domain, result in zip(domains, placement.place(hosts, requests, policy, every=every)):
        there = {
            host.name: vm
            for host in hosts
            for vm in host.vms
            if vm.name == domain.name and host.name in result.existing
        }
        if len(result.existing) > 1:
            phases = {host: vm.phase for host, vm in there.items()}
            uuids = [vm.uuid for vm in there.values()]
            raise PlanRefused(twice.duplicate_vm_message(domain.name, phases, uuids))
        for host, vm in there.items():
            left = leftover.refusal(domain.name, host, vars(vm))
            if left:
                raise PlanRefused(left)
        wanted = domain.placement.host
        if result.existing and wanted not in (None, result.existing[0]):
            raise PlanRefused(
                f"{domain.name!r} exists on {result.existing[0]}, but {wanted} was requested;"
                " migrate it, or leave out vm_host"
            )
        placements.append(result)
    return placements


def not_unique(
    domains: t.Iterable[Domain],
    placements: t.Iterable[placement.Placement],
    answers: Answers,
    controller: t.Collection[str],
) -> dict[str, str]:
    """Why new VMs cannot have what they ask for, by name; those that fit nowhere are left out."""
    taken = unique.Taken(answers, controller)
    problems: dict[str, str] = {}
    for domain, placed in zip(domains, placements):
        own = taken.compare(domain, placed.host).problems if placed.host is not None else []
        if own:
            said = [problem.removeprefix(f"{domain.name}: ") for problem in own]
            problems[domain.name] = "; ".join(said)
    return problems


def require_unique(
    domains: t.Iterable[Domain],
    placements: t.Iterable[placement.Placement],
    answers: Answers,
    controller: t.Collection[str] = (),
    added: t.Mapping[str, t.Collection[str]] | None = None,
) -> list[str]:
    """Raise PlanRefused if a new VM has the name, ignoring case, the MAC address or the static
    address of an existing one. Returns remarks about addresses.

    ``placements`` are those of ``domains``, ``controller`` are its addresses. ``added`` are the MAC
    addresses that VMs get which exist, by name.
    """
    taken = unique.Taken(answers, controller)
    problems: list[str] = []
    remarks: list[str] = []
    for domain, result in zip(domains, placements):
        if not result.existing:
            findings = taken.compare(domain, result.host or "")
            problems += findings.problems
            remarks += findings.remarks
        elif added and domain.name in added:
            problems += taken.mac_problems(domain, result.existing[0], added[domain.name])
    if problems:
        raise PlanRefused("; ".join(problems))
    return remarks


def common_machine(answers: Answers) -> str | None:
    """The newest versioned machine type of all responding hypervisors."""
    hosts = [host for answer in answers.values() if (host := answer.get("host")) is not None]
    lists = [supported for host in hosts if (supported := host.get("machines"))]
    return machines.newest_common(lists, None)


def vms_of(answer: Placing) -> list[DefinedVm]:
    """The VMs of a hypervisor; none if it did not respond."""
    host = answer.get("host")
    return [] if host is None else host["vms"]


def is_awaited(domain: Domain, vm: DefinedVm | None) -> bool:
    """Whether the run waits for a VM that its hypervisor has as ``vm``.

    It is seeded, started, and was not shut off before unless the request says that it is started.
    """
    if not (domain.start and domain.wait):
        return False
    if vm is None:
        return domain.seed is not None
    said = power.says_start(domain)
    if domain.seed is None:
        # a request need not repeat the image, with which a seed is the default
        return said and bool(vm.get("seeded")) and "seed" not in domain.written
    return said or bool(vm["active"]) or vm["phase"] is not None


def conflicts(
    domain: Domain,
    host: str,
    images: t.Mapping[str, ImageFacts],
    answers: Answers,
    limits: t.Mapping[str, t.Mapping[str, object]],
    policy: placement.Policy,
    lost: t.Collection[str] = (),
) -> list[str]:
    """Conflicts of the claim of ``domain`` on ``host`` with the rest of the fleet."""
    hosts = hosts_of(answers, limits, lost)
    problems = []
    for name, answer in answers.items():
        for vm in vms_of(answer):
            if vm["name"] == domain.name and name == host:
                continue
            if vm["name"] == domain.name:
                problems.append(f"{name} has a VM of that name too")
            taken = {str(mac).lower() for mac in vm["macs"]} & {nic.mac for nic in domain.nics}
            if taken:
                problems.append(
                    f"{vm['name']} on {name} has the MAC address {', '.join(sorted(taken))}"
                )
    if not problems:
        problems += unique.Taken(answers).compare(domain, host).problems
    if not problems:
        rejected = placement.claim_conflicts(hosts, host, request_of(domain, images), policy)
        problems += [entry.reason for entry in rejected]
    return problems
