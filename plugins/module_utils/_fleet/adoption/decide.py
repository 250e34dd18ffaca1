# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide from all hypervisors' answers which VMs are adopted where, or why one is not.

Names, UUIDs and MAC addresses are unique in the fleet, so all hypervisors must answer.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ..._errors import PlanRefused
from ..._records import dataclass, field
from ..base import duplicate_vm as twice
from ..base.names import playbook_command, require_named, valid_vm_name
from ..base.results import word
from ..base.selected import Member, Selected, expand
from ..base.tables import clean, table
from ..engine import located, proofs
from ..engine.outcomes import outcomes
from ..spec.options import Defaults, from_options
from .facts import AdoptableVm, Adopted, AdoptedVm, AdoptLook, AnyDefinedVm

_HEADS = ["VM", "HYPERVISOR", "RESULT", "OWN DISKS", "WHAT"]


Fleet = located.Fleet[AdoptLook]


@dataclass
class AdoptionDecision:
    """The names that each hypervisor adopts, those that are refused with why, and the ids of
    pools that several hypervisors have."""

    shares: dict[str, list[str]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    shared_ids: list[str] = field(default_factory=list)


def decide(
    names: t.Sequence[str],
    host: str | None,
    seen: Fleet,
    hypervisors: t.Collection[str],
    defaults: Defaults,
    *,
    disks: bool = False,
) -> AdoptionDecision:
    """Which VMs are adopted; raises PlanRefused if that cannot be determined.

    ``host`` is the only hypervisor whose VMs are meant, ``hypervisors`` are names that no VM may
    have. Where their ``disks`` are to be their own, nobody may have them too.
    """
    require_named(names)
    shared = proofs.missing("adopt disks", seen.silent) if disks else {}
    if shared:
        raise PlanRefused(
            "a hypervisor that did not respond may have the disks' pools too"
            f" ({proofs.named(shared)}); {proofs.remedy(shared)}; or leave out vm_adopt_disks"
        )
    concerned = proofs.missing("adopt", seen.silent, host)
    if concerned:
        raise PlanRefused(
            f"{host} did not respond ({proofs.named(concerned)}); {proofs.remedy(concerned)}"
        )
    if host is not None and host not in seen.answers:
        raise PlanRefused(
            f"vm_host: {host!r} is no hypervisor of this play; there are: {', '.join(seen.answers)}"
        )
    decision = AdoptionDecision(shared_ids=_shared_ids(seen))
    there = {vm["name"] for answer in seen.answers.values() for vm in answer.get("vms") or ()}
    meant = {
        vm["name"]
        for where, answer in seen.answers.items()
        for vm in answer.get("vms") or ()
        if host in (None, where)
    }
    expanded = expand(Selected.of(names), [Member(name, (), unread=False) for name in meant])
    decision.refused += expanded.empty
    taken = {name.lower() for name in hypervisors}
    everybody = [
        (where, vm) for where, answer in seen.answers.items() for vm in answer.get("defined") or ()
    ]
    for where, answer in seen.answers.items():
        if host not in (None, where):
            continue
        for vm in answer.get("vms") or ():
            name, why = vm["name"], vm.get("error")
            if names and name not in expanded.names:
                continue
            problems = [*([why] if why else vm["problems"]), *_clashes(vm, where, everybody)]
            if name.lower() in taken:
                command = playbook_command(
                    "rename", vm_name=name, vm_new_name=valid_vm_name(f"{name}-vm")
                )
                problems.append(
                    f"{name!r} is the name of a hypervisor; rename the VM, while it is shut off,"
                    f" with {command}"
                )
            problems += [] if problems else _unread(vm, defaults)
            if problems:
                decision.refused.append(f"{name} on {where}: {clean('; '.join(problems))}")
            else:
                decision.shares.setdefault(where, []).append(name)
    absent = [name for name in expanded.names if name not in there]
    silent = proofs.missing("absent", seen.silent)
    maybe = (
        f"no hypervisor that responded has it, but it may be on one that did not"
        f" ({proofs.named(silent)}); {proofs.remedy(silent)}"
    )
    decision.refused += [
        f"{name}: {maybe}"
        if silent
        else f"no hypervisor has a VM {name!r}; ansible-playbook fleet.virt.list shows the VMs"
        for name in absent
    ]
    if host is None and (not names or Selected.of(names).plural):
        decision.refused += located.not_done(proofs.named(silent))
    return decision


def _shared_ids(seen: Fleet) -> list[str]:
    ids = [one for answer in seen.answers.values() for one in set(answer.get("pool_ids") or ())]
    return sorted({one for one in ids if ids.count(one) > 1})


def _clashes(
    vm: AdoptableVm, where: str, everybody: t.Sequence[tuple[str, AnyDefinedVm]]
) -> list[str]:
    """Other VMs with the name, UUID or a MAC address of a VM."""
    problems = []
    name, uuid = vm["name"], vm["uuid"]
    others = [
        (host, other)
        for host, other in everybody
        if (host, other["name"]) != (where, name)
        if not (other.get("leftover") and other["uuid"] == uuid)
    ]
    own = next((own for host, own in everybody if (host, own["name"]) == (where, name)), None)
    macs = _macs(own) if own is not None else set()
    named = [(host, other) for host, other in others if other["name"].lower() == name.lower()]
    phases = {host: other["phase"] for host, other in named if other["name"] == name}
    if phases:
        uuids = [uuid, *(other["uuid"] for _host, other in named if other["name"] == name)]
        problems.append(twice.duplicate_vm_message(name, {**phases, where: vm["phase"]}, uuids))
    command = playbook_command("rename", vm_name=name, vm_new_name=valid_vm_name(f"{name}-2"))
    problems += [
        f"{other['name']!r} on {host} differs only in case; VM names are unique, ignoring case:"
        f" rename one of them, while it is shut off: {command}"
        for host, other in named
        if other["name"] != name
    ]
    for host, other in others:
        if (host, other) in named:
            continue
        if uuid is not None and other["uuid"] == uuid:
            problems.append(f"{other['name']!r} on {host} has the same UUID {uuid}")
        same = sorted(_macs(other) & macs)
        if same:
            problems.append(
                f"{other['name']!r} on {host} also has the MAC address {', '.join(same)}; give one"
                " of them another"
            )
    return problems


def _macs(vm: AnyDefinedVm) -> set[str]:
    return {mac.lower() for mac in vm["macs"]}


def _unread(vm: AdoptableVm, defaults: Defaults) -> list[str]:
    """Why the specification cannot be read here."""
    if vm["problems"] or not vm["candidate"]:
        return []
    if vm["specification"] is None or vm["specification"].get("name") != vm["name"]:
        return ["its hypervisor returned no specification"]
    _domain, problems = from_options(vm["specification"], defaults=defaults)
    return [f"{one.path}: {one.message}" for one in problems]


def specifications(decision: AdoptionDecision, seen: Fleet) -> list[Mapping[str, object]]:
    """Those of the VMs that are adopted, by name, as :func:`report` has them."""
    by_name = {
        vm["name"]: vm["specification"]
        for host, names in decision.shares.items()
        for vm in seen.answers[host].get("vms") or ()
        if vm["name"] in names and vm["candidate"] and vm["specification"] is not None
    }
    return [by_name[name] for name in sorted(by_name)]


@dataclass
class Report:
    """``text`` is the report; ``vms`` are the specifications, for the file."""

    text: str
    vms: list[Mapping[str, object]]
    failures: list[str]


def report(
    shares: Mapping[str, t.Sequence[str]],
    answers: Mapping[str, Adopted],
    refused: t.Sequence[str],
    *,
    check: bool,
) -> Report:
    """The outcome for each VM."""
    rows: list[list[str | None]] = []
    vms: dict[str, Mapping[str, object]] = {}
    failures = list(refused)
    for vm in outcomes(shares, answers, AdoptedVm):
        entry = vm.entry
        outcome = word(entry, "would be adopted" if check else "adopted", vm.problem)
        notes = []
        if vm.problem is not None:
            failures.append(vm.problem)
        elif entry is not None:
            if entry["msg"]:
                notes.append(entry["msg"])
            elif entry["specification"] is not None:
                vms[vm.name] = entry["specification"]
                left = ", ".join(entry["undescribed"])
                notes += [f"not described: {left}"] if left else []
            notes += [f"{file['path']}: {file['reason']}" for file in entry["kept"]]
        owned = ", ".join(entry["owned"]) if entry is not None else ""
        head = [vm.name, vm.host, outcome, owned or "-"]
        rows.append([*head, notes[0] if notes else None])
        rows += [["", "", "", "", note] for note in notes[1:]]
    text = table(_HEADS, rows) + "\n" if rows else "no VM to adopt\n"
    return Report(text, [vms[name] for name in sorted(vms)], failures)
