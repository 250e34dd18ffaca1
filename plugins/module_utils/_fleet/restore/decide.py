# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide for the whole fleet where VMs are restored, or why not."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._errors import PlanRefused
from ..._records import dataclass, field
from ..._units import MIB
from ..backup import archives
from ..base.names import command_on
from ..base.options import show
from ..cards import leftover
from ..migration.decide import request_of
from ..notes import rule
from ..placement import decide as placement
from ..placement.types import DiskNeed, Placement, Policy, Ranked, Request
from .facts import RestoreEntry, RestoreLook
from .options import SavedVm

Answers = t.Mapping[str, RestoreLook]


@dataclass
class RestoreDecision:
    """``shares``: hypervisor to the names of the VMs that it restores; ``there`` are those that
    were restored from that archive before."""

    shares: dict[str, list[str]] = field(default_factory=dict)
    there: dict[str, str] = field(default_factory=dict)


def decide(
    vms: t.Sequence[SavedVm],
    host: str | None,
    answers: Answers,
    hosts: t.Sequence[placement.PlacementHost],
    policy: Policy,
) -> RestoreDecision:
    """Where each VM goes: to ``host``, or the best; raises PlanRefused with every reason.

    ``answers`` are of the hypervisors that responded. What others may have is judged once they were
    asked what was noted of them, by :func:`confirm`.
    """
    if host is not None and host not in answers:
        known = ", ".join(answers) or "none"
        raise PlanRefused(f"vm_host: {host} is no hypervisor that answered; there are: {known}")
    decision, problems = RestoreDecision(), []
    fleet = placement.FleetLoad(hosts, policy)
    for vm in vms:
        problem = _place(vm, host, answers, fleet, decision)
        if problem:
            problems.append(problem)
    if problems:
        raise PlanRefused("; ".join(problems))
    return decision


def _place(
    vm: SavedVm,
    host: str | None,
    answers: Answers,
    fleet: placement.FleetLoad,
    decision: RestoreDecision,
) -> str:
    """Put one VM into ``decision``; return the reason against it, if any."""
    entries = entries_of(vm, answers)
    for place, entry in entries.items():
        if entry["state"] == "there":
            if host not in (None, place):
                return f"{vm.name!r} was restored to {place} already, not to {host}"
            decision.there[vm.name] = place
            return ""
    begun = [place for place, entry in entries.items() if entry["state"] == "begun"]
    problem = taken(vm, entries, answers, but=begun[0] if begun else "")
    if problem:
        return problem
    if begun:
        if len(begun) > 1 or host not in (None, begun[0]):
            return f"{vm.name!r} is being restored on {', '.join(begun)}; purge what is left there"
        reasons = entries[begun[0]]["problems"]
        if not reasons:
            decision.shares.setdefault(begun[0], []).append(vm.name)
        return "; ".join(reasons)
    able = [
        place for place, entry in entries.items() if not entry["problems"] and host in (None, place)
    ]
    ranked, rejected = _ranked(vm, able, entries, fleet)
    if not ranked:
        against = {one: None for entry in entries.values() for one in entry["problems"]}
        told = [f"{place}: {why}" for place, why in rejected.items() if host in (None, place)]
        where = "nowhere" if host is None else f"not on {host}"
        return f"{vm.name} fits {where}. {'; '.join([*told, *against])}"
    best, request = ranked[0]
    fleet.add(best.host, request)
    decision.shares.setdefault(best.host, []).append(vm.name)
    return ""


def _ranked(
    vm: SavedVm,
    able: t.Sequence[str],
    entries: t.Mapping[str, RestoreEntry],
    fleet: placement.FleetLoad,
) -> tuple[list[tuple[Ranked, Request]], dict[str, str]]:
    """The hypervisors of ``able``, best first, and why not others. Where its disks would be is not
    the same on all, so each is asked for its own."""
    made: dict[Request, Placement] = {}
    ranked: list[tuple[Ranked, Request]] = []
    rejected: dict[str, str] = {}
    for place in able:
        request = request_for(vm.name, entries[place])
        if request not in made:
            made[request] = placement.rank(fleet, request)
        result = made[request]
        ranked += [(one, request) for one in result.ranking if one.host == place]
        rejected.update({one.host: one.reason for one in result.rejected if one.host == place})
    return sorted(ranked, key=lambda pair: (pair[0].broken, pair[0].score, pair[0].host)), rejected


def taken(
    vm: SavedVm, entries: t.Mapping[str, RestoreEntry], answers: Answers, but: str = ""
) -> str:
    """Why the VM must not arise: another has its name, its UUID or a MAC address.

    On the hypervisor ``but`` this request has begun with it.
    """
    macs = {*macs_of(entries)}
    problems = []
    for place, answer in answers.items():
        host = answer.get("host")
        for other in [] if host is None else host["vms"]:
            if place == but and other["name"] == vm.name:
                continue
            if other.get("uuid") == vm.uuid:
                problems.append(
                    f"{place} has the VM that was saved, called {other['name']!r}, and a restore"
                    f" never touches one; restore beside it: -e vm_new_name={vm.name}-restored"
                )
            elif other["name"].lower() == vm.name.lower():
                problems.append(
                    f"a VM {other['name']!r} is on {place}, and a restore never touches one; choose"
                    f" another name: -e vm_new_name={vm.name}-restored"
                )
            elif macs & {mac.lower() for mac in other["macs"]}:
                problems.append(
                    f"{other['name']!r} on {place} has a MAC address of {vm.name!r}; restore a"
                    " copy: -e virt_restore_as=copy"
                )
    return "; ".join(problems)


def unproven(
    vm: SavedVm,
    entries: t.Mapping[str, RestoreEntry],
    answers: Answers,
    standing: rule.Standing,
) -> str:
    """Why a silent hypervisor may have a VM of that name, UUID or MAC address."""
    if standing.problem:
        return f"{vm.name}: {standing.problem}"
    there = leftover.uuids(
        other
        for answer in answers.values()
        if (host := answer.get("host")) is not None
        for other in host["vms"]
    )
    conflicts = rule.conflicts(_wanted(vm, entries), standing, there, vm.claimer)
    if not conflicts:
        return ""
    return f"{vm.name}: {'; '.join(conflicts)}. Remedy: {rule.remedies(standing)}"


def _wanted(vm: SavedVm, entries: t.Mapping[str, RestoreEntry]) -> rule.Wanted:
    return rule.Wanted(vm.name, macs_of(entries), vm.uuid)


def macs_of(entries: t.Mapping[str, RestoreEntry]) -> list[str]:
    """The MAC addresses that a VM gets, the same on every hypervisor."""
    return sorted({mac for entry in entries.values() for mac in entry["macs"]})


def request_for(name: str, entry: RestoreEntry) -> Request:
    """What the VM needs on the hypervisor whose entry it is: pools that may yet have to be made."""
    disks = (DiskNeed(disk["pool"], max(1, -(-disk["bytes"] // MIB))) for disk in entry["disks"])
    return dataclasses.replace(request_of(name, entry, None), disks=tuple(disks))


def entries_of(vm: SavedVm, answers: Answers) -> dict[str, RestoreEntry]:
    """What the hypervisors that answered say of a VM."""
    return {
        place: entry
        for place, answer in answers.items()
        for entry in answer.get("entries") or ()
        if entry["name"] == vm.name
    }


def left_out(vms: t.Sequence[SavedVm], shares: t.Mapping[str, t.Sequence[str]]) -> list[str]:
    """Which disks the VMs that are restored had, and are not in their backups, or otherwise."""
    restored = {name for names in shares.values() for name in names}
    manifests = [
        (vm.name, archives.read_manifest(vm.manifest)) for vm in vms if vm.name in restored
    ]
    said = [
        f"{name}: its backup was made without disk {one}, so it is restored without it"
        for name, manifest in manifests
        for one in manifest.left_out
    ]
    return said + [
        f"{name}: its disk {one.target} becomes one file; when it was saved, its data were in"
        f" another, {show(one.data)}"
        for name, manifest in manifests
        for one in manifest.one_file
    ]


def remarks(shares: t.Mapping[str, t.Sequence[str]], answers: Answers) -> list[str]:
    """What people are to look at before they start what is restored."""
    return [
        f"{name}: its definition in the backup has {', '.join(entry['reaches'])}, beside its disks;"
        " whoever can write to the place of backups can have written that: look at it before you"
        f" start it: {command_on(host, 'virsh', 'dumpxml', name)}"
        for host, names in shares.items()
        for name in names
        for entry in answers[host].get("entries") or ()
        if entry["name"] == name and entry["reaches"]
    ]


def confirm(
    vms: t.Sequence[SavedVm],
    shares: t.Mapping[str, t.Sequence[str]],
    answers: Answers,
    hosts: t.Sequence[placement.PlacementHost],
    standing: rule.Standing,
    policy: Policy,
    seen: t.Collection[str],
    *,
    check: bool,
) -> dict[str, str]:
    """Why claims of ``shares`` are withdrawn, by name: the fleet was read again with them.

    ``seen`` are claims that were noted before. In check mode nothing was claimed.
    """
    problems: dict[str, str] = {}
    by_name = {vm.name: vm for vm in vms}
    for host, names in shares.items():
        for name in names:
            vm, entries = by_name[name], entries_of(by_name[name], answers)
            if host not in entries:
                problems[name] = f"{host} did not answer once it had claimed {name!r}"
                continue
            problem = taken(vm, entries, answers, but=host)
            problem = problem or unproven(vm, entries, answers, standing)
            if not problem and not check:
                held = {
                    place: rule.Answering(
                        str(place_facts.get("uuid")), place_facts.get("notes") or ()
                    )
                    for place, answer in answers.items()
                    if (place_facts := answer.get("host")) is not None
                }
                problem = "; ".join(rule.claimed(_wanted(vm, entries), held, vm.claimer, seen))
            if not problem and not check:
                request = request_for(name, entries[host])
                rejected = placement.claim_conflicts(hosts, host, request, policy)
                problem = "; ".join(one.reason for one in rejected)
            if problem:
                problems[name] = problem
    return problems
