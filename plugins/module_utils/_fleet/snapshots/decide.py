# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide from all hypervisors' answers where a VM's snapshots are, and report on them."""

from __future__ import annotations

import datetime
import typing as t
from dataclasses import dataclass

from ..._errors import PlanRefused
from ..base.json_values import as_list, as_mappings, as_number, as_text
from ..base.results import word
from ..base.tables import clean, table
from ..engine import located, proofs
from ..engine.outcomes import Answer, outcomes

_HEADS = ["VM", "HYPERVISOR", "RESULT", "STEPS"]
_LIST_HEADS = [
    "VM",
    "HYPERVISOR",
    "SNAPSHOT",
    "PARENT",
    "CURRENT",
    "CREATED",
    "STATE",
    "KIND",
    "BY",
]


@dataclass(frozen=True)
class Vm:
    """A VM of a hypervisor, with what is shown of each of its snapshots."""

    name: str
    uuid: str | None
    phase: str | None
    snapshots: tuple[t.Mapping[str, object], ...]


@dataclass(frozen=True)
class Fleet:
    """The VMs of each hypervisor of the play. ``silent`` did not respond and are not declared
    lost."""

    vms_by_host: t.Mapping[str, tuple[Vm, ...]]
    silent: located.Silences


def fleet(
    registered: t.Mapping[str, Answer], expected: t.Sequence[str] | None, lost: t.Sequence[str]
) -> Fleet:
    """Parse the registered results; raises PlanRefused as :func:`located.sort` does."""
    answers, silent = located.sort(registered, "vms", expected, lost)
    return Fleet({name: _vms(answer) for name, answer in answers.items()}, silent)


def _vms(answer: Answer) -> tuple[Vm, ...]:
    return tuple(
        Vm(
            str(vm["name"]),
            as_text(vm.get("uuid")),
            as_text(vm.get("phase")),
            tuple(as_mappings(vm.get("snapshots"))),
        )
        for vm in as_mappings(answer.get("vms"))
    )


def decide(names: t.Sequence[str], seen: Fleet) -> dict[str, list[str]]:
    """The names of each hypervisor; raises PlanRefused with everything that is unproven."""
    where = located.locate(names, seen.vms_by_host, seen.silent)
    problems = where.problems
    if not proofs.missing("absent", seen.silent):
        problems += [
            f"no hypervisor has a VM {name!r}; fleet.virt.list shows the VMs"
            for name in where.absent
        ]
    if problems:
        raise PlanRefused("; ".join(problems))
    shares: dict[str, list[str]] = {}
    for name, (host, _vm) in where.places.items():
        shares.setdefault(host, []).append(name)
    return shares


def report(
    shares: t.Mapping[str, t.Sequence[str]], answers: t.Mapping[str, Answer], *, check: bool
) -> tuple[str, list[str]]:
    """The report as text, and the failures."""
    rows: list[list[str | None]] = []
    failures = []
    for vm in outcomes(shares, answers):
        entry = vm.entry or {}
        if vm.problem is not None:
            failures.append(vm.problem)
        outcome = word(vm.entry, "would change" if check else "changed", vm.problem)
        steps = "; ".join(map(str, as_list(entry.get("steps"))))
        rows.append([vm.name, vm.host, outcome, steps])
    return table(_HEADS, sorted(rows, key=lambda row: str(row[0]))) + "\n", failures


def listing(names: t.Sequence[str], seen: Fleet) -> tuple[str, list[str]]:
    """All snapshots of VMs (``names``, or all), as text, and the problems."""
    rows: list[list[str | None]] = []
    for host, vms in seen.vms_by_host.items():
        for vm in vms:
            rows += [[vm.name, host, *_row(one)] for one in vm.snapshots]
    there = {vm.name for vms in seen.vms_by_host.values() for vm in vms}
    lines = [table(_LIST_HEADS, sorted(rows, key=lambda row: (str(row[0]), str(row[1]))))]
    if not rows:
        lines = ["no VM of those that answered has snapshots"]
    lines += [f"{clean(host)}: no answer: {clean(one.why)}" for host, one in seen.silent.items()]
    unknown = [name for name in dict.fromkeys(names) if name not in there]
    more = f" (not all did: {proofs.named(seen.silent)})" if seen.silent else ""
    remedy = f". Remedy: {proofs.remedy(seen.silent)}" if seen.silent else ""
    text = f"on no hypervisor that answered{more}: {', '.join(unknown)}{remedy}"
    problems = [text] if unknown else []
    return "\n".join(lines) + "\n", problems


def _row(snapshot: t.Mapping[str, object]) -> list[str | None]:
    return [
        as_text(snapshot.get("name")),
        as_text(snapshot.get("parent")),
        "yes" if snapshot.get("current") else "",
        _time(as_number(snapshot.get("created"))),
        as_text(snapshot.get("state")),
        as_text(snapshot.get("kind")),
        "fleet.virt" if snapshot.get("managed") else "others",
    ]


def _time(seconds: int | None) -> str | None:
    try:
        moment = datetime.datetime.fromtimestamp(seconds or 0, datetime.timezone.utc)
    except (ValueError, OverflowError, OSError):
        return None
    return moment.strftime("%Y-%m-%d %H:%M:%SZ") if seconds else None
