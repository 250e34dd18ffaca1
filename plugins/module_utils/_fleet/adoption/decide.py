# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide from all hypervisors' answers which VMs are adopted where, or why one is not.

Names, UUIDs and MAC addresses are unique in the fleet, so all hypervisors must answer.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..._errors import PlanRefused
from ..base import duplicate_vm as twice
from ..base.json_values import as_list, as_mappings, as_text
from ..base.names import playbook_command, require_named, valid_vm_name
from ..base.results import word
from ..base.tables import clean, table
from ..engine import located, proofs
from ..engine.outcomes import Answer, outcomes
from ..spec.domain import Defaults, from_options

_HEADS = ["VM", "HYPERVISOR", "RESULT", "OWN DISKS", "WHAT"]


@dataclass(frozen=True)
class Vm:
    """A VM that may be adopted, where it was found."""

    name: str
    uuid: str | None
    phase: str | None
    candidate: bool
    specification: Mapping[str, object] | None
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Defined:
    """Any VM of a hypervisor."""

    host: str
    name: str
    uuid: str | None
    macs: tuple[str, ...]
    phase: str | None


@dataclass(frozen=True)
class Seen:
    """What one hypervisor answered."""

    vms: tuple[Vm, ...]
    defined: tuple[Defined, ...]
    pool_ids: tuple[str, ...]


@dataclass(frozen=True)
class Fleet:
    """What each hypervisor of the play answered. ``silent`` did not respond and are not declared
    lost."""

    answers: Mapping[str, Seen]
    silent: located.Silences


@dataclass
class Decision:
    """The names that each hypervisor adopts, those that are refused with why, and the ids of
    pools that several hypervisors have."""

    shares: dict[str, list[str]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    shared_ids: list[str] = field(default_factory=list)


def fleet(
    registered: Mapping[str, Answer], expected: t.Sequence[str] | None, lost: t.Sequence[str]
) -> Fleet:
    """Parse the registered results; raises PlanRefused as :func:`located.sort` does."""
    answers, silent = located.sort(registered, "defined", expected, lost)
    return Fleet({name: _seen(name, answer) for name, answer in answers.items()}, silent)


def _seen(host: str, answer: Answer) -> Seen:
    vms = tuple(
        Vm(
            str(vm["name"]),
            as_text(vm.get("uuid")),
            as_text(vm.get("phase")),
            bool(vm.get("candidate")),
            _mapping(vm.get("specification")),
            tuple(map(str, as_list(vm.get("problems")))),
        )
        for vm in as_mappings(answer.get("vms"))
    )
    defined = tuple(
        Defined(
            host,
            str(vm["name"]),
            as_text(vm.get("uuid")),
            tuple(str(mac).lower() for mac in as_list(vm.get("macs"))),
            as_text(vm.get("phase")),
        )
        for vm in as_mappings(answer.get("defined"))
    )
    return Seen(vms, defined, tuple(map(str, as_list(answer.get("pool_ids")))))


def _mapping(value: object) -> Mapping[str, object] | None:
    return value if isinstance(value, Mapping) else None


def decide(
    names: t.Sequence[str],
    host: str | None,
    seen: Fleet,
    hypervisors: t.Collection[str],
    defaults: Defaults,
) -> Decision:
    """Which VMs are adopted; raises PlanRefused if that cannot be determined.

    ``host`` is the only hypervisor whose VMs are meant, ``hypervisors`` are names that no VM may
    have.
    """
    require_named(names)
    missing = proofs.missing("adopt", seen.silent)
    if missing:
        which = f"{', '.join(names)}: " if names else ""
        raise PlanRefused(
            f"{which}a VM with the same name, UUID or MAC address may be on a hypervisor that did"
            f" not respond ({proofs.named(missing)}); {proofs.remedy(missing)}"
        )
    if host is not None and host not in seen.answers:
        raise PlanRefused(
            f"vm_host: {host!r} is no hypervisor of this play; there are: {', '.join(seen.answers)}"
        )
    decision = Decision(shared_ids=_shared_ids(seen))
    taken = {name.lower() for name in hypervisors}
    everybody = [vm for answer in seen.answers.values() for vm in answer.defined]
    for where, answer in seen.answers.items():
        if host not in (None, where):
            continue
        for vm in answer.vms:
            if names and vm.name not in names:
                continue
            problems = [*vm.problems, *_clashes(vm, where, everybody)]
            if vm.name.lower() in taken:
                command = playbook_command(
                    "rename", vm_name=vm.name, vm_new_name=valid_vm_name(f"{vm.name}-vm")
                )
                problems.append(
                    f"{vm.name!r} is the name of a hypervisor; rename the VM, while it is shut off,"
                    f" with {command}"
                )
            problems += _unread(vm, defaults)
            if problems:
                decision.refused.append(f"{vm.name} on {where}: {clean('; '.join(problems))}")
            else:
                decision.shares.setdefault(where, []).append(vm.name)
    there = {vm.name for answer in seen.answers.values() for vm in answer.vms}
    decision.refused += [
        f"no hypervisor has a VM {name!r}; fleet.virt.list shows the VMs"
        for name in dict.fromkeys(names)
        if name not in there
    ]
    return decision


def _shared_ids(seen: Fleet) -> list[str]:
    ids = [one for answer in seen.answers.values() for one in set(answer.pool_ids)]
    return sorted({one for one in ids if ids.count(one) > 1})


def _clashes(vm: Vm, where: str, everybody: t.Sequence[Defined]) -> list[str]:
    """Other VMs with the name, UUID or a MAC address of a VM."""
    problems = []
    others = [domain for domain in everybody if (domain.host, domain.name) != (where, vm.name)]
    own = next(
        (domain for domain in everybody if (domain.host, domain.name) == (where, vm.name)), None
    )
    named = [other for other in others if other.name.lower() == vm.name.lower()]
    if named:
        other_name = playbook_command(
            "rename", vm_name=vm.name, vm_new_name=valid_vm_name(f"{vm.name}-2")
        )
        phases = {other.host: other.phase for other in named if other.name == vm.name}
        if phases:
            uuids = [vm.uuid, *(other.uuid for other in named if other.name == vm.name)]
            problems.append(twice.duplicate_vm_message(vm.name, {**phases, where: vm.phase}, uuids))
        problems += [
            f"{other.name!r} on {other.host} differs only in case; VM names are unique, ignoring"
            f" case: rename one of them, while it is shut off: {other_name}"
            for other in named
            if other.name != vm.name
        ]
    for other in others:
        if other not in named and vm.uuid is not None and other.uuid == vm.uuid:
            problems.append(f"{other.name!r} on {other.host} has the same UUID {vm.uuid}")
        same = sorted(set(other.macs) & set(own.macs if own else ()))
        if same and other not in named:
            problems.append(
                f"{other.name!r} on {other.host} also has the MAC address {', '.join(same)}; give"
                " one of them another"
            )
    return problems


def _unread(vm: Vm, defaults: Defaults) -> list[str]:
    """Why the specification cannot be read here."""
    if vm.problems or not vm.candidate:
        return []
    if vm.specification is None or vm.specification.get("name") != vm.name:
        return ["its hypervisor returned no specification"]
    _domain, problems = from_options(vm.specification, defaults=defaults)
    return [f"{one.path}: {one.message}" for one in problems]


def specifications(decision: Decision, seen: Fleet) -> list[Mapping[str, object]]:
    """Those of the VMs that are adopted, by name, as :func:`report` has them."""
    by_name = {
        vm.name: vm.specification
        for host, names in decision.shares.items()
        for vm in seen.answers[host].vms
        if vm.name in names and vm.candidate and vm.specification is not None
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
    answers: Mapping[str, Answer],
    refused: t.Sequence[str],
    *,
    check: bool,
) -> Report:
    """The outcome for each VM."""
    rows: list[list[str | None]] = []
    vms: dict[str, Mapping[str, object]] = {}
    failures = list(refused)
    for vm in outcomes(shares, answers):
        entry = vm.entry or {}
        spec = _mapping(entry.get("specification"))
        outcome = word(vm.entry, "would be adopted" if check else "adopted", vm.problem)
        notes = []
        if vm.problem is not None:
            failures.append(vm.problem)
        else:
            if entry.get("msg"):
                notes.append(str(entry["msg"]))
            elif spec is not None:
                vms[vm.name] = spec
                left = list(map(str, as_list(entry.get("undescribed"))))
                notes += [f"not described: {', '.join(left)}"] if left else []
            notes += [f"{kept['path']}: {kept['reason']}" for kept in _kept(entry)]
        owned = ", ".join(map(str, as_list(entry.get("owned")))) or "-"
        head = [vm.name, vm.host, outcome, owned]
        rows.append([*head, notes[0] if notes else None])
        rows += [["", "", "", "", note] for note in notes[1:]]
    text = table(_HEADS, rows) + "\n" if rows else "no VM to adopt\n"
    return Report(text, [vms[name] for name in sorted(vms)], failures)


def _kept(entry: Mapping[str, object]) -> list[Mapping[str, object]]:
    return list(as_mappings(entry.get("kept")))
