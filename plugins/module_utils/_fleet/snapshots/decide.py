# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide from all hypervisors' answers where a VM's snapshots are, and report on them."""

from __future__ import annotations

import datetime
import typing as t

from ..base.results import word
from ..base.selected import Selected, expand
from ..base.tables import clean, table
from ..engine import located, proofs
from ..engine.outcomes import outcomes
from .facts import ListedSnapshot, SnapshotLook, Snapshotted, SnapshottedVm, SnapshotVm

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


Fleet = located.Fleet[SnapshotLook]


def fleet(
    registered: t.Mapping[str, SnapshotLook],
    expected: t.Sequence[str] | None,
    lost: t.Sequence[str],
) -> Fleet:
    """Who answered; raises PlanRefused as :func:`located.sort` does."""
    return located.sort(registered, "vms", expected, lost)


def _vms_by_host(seen: Fleet) -> dict[str, list[SnapshotVm]]:
    return {host: answer.get("vms") or [] for host, answer in seen.answers.items()}


def decide(
    names: t.Sequence[str], seen: Fleet, groups: t.Sequence[str] = (), host: str = ""
) -> located.Shares:
    """Where each VM of ``names``, names or patterns, and of ``groups`` is, only those on ``host``
    if one is named; raises PlanRefused with everything that is unproven."""
    return located.shares(Selected.of(names, groups), _vms_by_host(seen), seen.silent, host)


def report(
    shares: t.Mapping[str, t.Sequence[str]], answers: t.Mapping[str, Snapshotted], *, check: bool
) -> tuple[str, list[str]]:
    """The report as text, and the failures."""
    rows: list[list[str | None]] = []
    failures = []
    for vm in outcomes(shares, answers, SnapshottedVm):
        if vm.problem is not None:
            failures.append(vm.problem)
        outcome = word(vm.entry, "would change" if check else "changed", vm.problem)
        steps = "; ".join(vm.entry["steps"]) if vm.entry is not None else ""
        rows.append([vm.name, vm.host, outcome, steps])
    return table(_HEADS, sorted(rows, key=lambda row: str(row[0]))) + "\n", failures


def listing(
    names: t.Sequence[str], seen: Fleet, groups: t.Sequence[str] = ()
) -> tuple[str, list[str]]:
    """All snapshots of VMs (of ``names`` and ``groups``, or all), as text, and the problems."""
    rows: list[list[str | None]] = []
    vms = [(host, vm) for host, entries in _vms_by_host(seen).items() for vm in entries]
    for host, vm in vms:
        rows += [[vm["name"], host, *_row(snapshot)] for snapshot in vm["snapshots"]]
    there = {vm["name"] for _host, vm in vms}
    unread = [f"{vm['name']} on {host}: {vm.get('error')}" for host, vm in vms if vm.get("error")]
    lines = [table(_LIST_HEADS, sorted(rows, key=lambda row: (str(row[0]), str(row[1]))))]
    if not rows:
        lines = ["no VM of those that answered has snapshots"]
    lines += [f"{clean(host)}: no answer: {clean(one.why)}" for host, one in seen.silent.items()]
    known = located.members(vm for _host, vm in vms)
    expanded = expand(Selected.of(names, groups), known)
    unknown = [name for name in expanded.names if name not in there]
    more = f" (not all did: {proofs.named(seen.silent)})" if seen.silent else ""
    remedy = f". Remedy: {proofs.remedy(seen.silent)}" if seen.silent else ""
    text = f"on no hypervisor that answered{more}: {', '.join(unknown)}{remedy}"
    problems = [*unread, *expanded.empty, *([text] if unknown else [])]
    return "\n".join(lines) + "\n", problems


def _row(snapshot: ListedSnapshot) -> list[str | None]:
    return [
        snapshot["name"],
        snapshot["parent"],
        "yes" if snapshot["current"] else "",
        _time(snapshot["created"]),
        snapshot["state"],
        snapshot["kind"],
        "fleet.virt" if snapshot["managed"] else "others",
    ]


def _time(seconds: int | None) -> str | None:
    try:
        moment = datetime.datetime.fromtimestamp(seconds or 0, datetime.timezone.utc)
    except (ValueError, OverflowError, OSError):
        return None
    return moment.strftime("%Y-%m-%d %H:%M:%SZ") if seconds else None
