# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Snapshots as a verb on VMs, and the list of them."""

from __future__ import annotations

import datetime
import typing as t

from ..base.selected import Selected, expand
from ..base.tables import clean, table
from ..engine import located, proofs
from ..engine.declaration import Fleet, Verb
from .facts import ListedSnapshot, SnapshotLook, Snapshotted, SnapshottedVm, SnapshotVm
from .options import ARGUMENTS, wanted_of

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

VERB: Verb[SnapshotVm, SnapshottedVm] = Verb(
    arguments=ARGUMENTS,
    request=wanted_of,
    look=SnapshotLook,
    vm=SnapshotVm,
    done=Snapshotted,
    entry=SnapshottedVm,
    words=("changed", "would change"),
    columns={"STEPS": lambda vm: "; ".join(vm["steps"]) if vm is not None else ""},
)


def listing(
    names: t.Sequence[str], seen: Fleet, groups: t.Sequence[str] = ()
) -> tuple[str, list[str]]:
    """All snapshots of VMs (of ``names`` and ``groups``, or all), as text, and the problems."""
    rows: list[list[str | None]] = []
    vms = [(host, vm) for host, entries in VERB.vms_by_host(seen).items() for vm in entries]
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
