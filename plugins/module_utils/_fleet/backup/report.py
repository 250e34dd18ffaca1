# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Backups as tables and records, and as the data of a result."""

from __future__ import annotations

import typing as t

from ..._errors import FleetVirtError
from ..._units import MIB, format_size
from ..base.selected import is_pattern, matches
from ..base.tables import csv_text, table
from . import ages

if t.TYPE_CHECKING:
    from datetime import datetime

    from .keep import Pruning
    from .listing import Repository, SavedVm

_HEADS = ("VM", "BACKUP", "SIZE", "NEW", "CONSISTENCY", "STATE", "PROVEN", "HYPERVISOR")
_COLUMNS = [
    *("place", "uuid", "vm", "archive", "at", "hypervisor", "consistency", "size", "added"),
    *("state", "proof", "proof_at", "proof_how", "error"),
]


class ListedProof(t.TypedDict):
    """The newest proof of a backup."""

    result: str
    at: str
    how: str


class ListedBackup(t.TypedDict):
    """A backup as a result has it; sizes are bytes. ``ahead``: it is later than the clock."""

    archive: str
    vm: str
    hypervisor: str
    at: str
    consistency: str
    size: int
    added: int | None
    state: str
    ahead: bool
    proof: ListedProof | None


class ListedVm(t.TypedDict):
    """A VM's repository."""

    place: str
    uuid: str
    name: str | None
    error: str | None
    unreadable: dict[str, str]
    notes: list[str]
    overdue: bool | None
    backups: list[ListedBackup]


def select(repositories: t.Sequence[Repository], names: t.Sequence[str]) -> list[Repository]:
    """The repositories of these VMs, by name as of any of their backups, pattern or UUID; all of
    them without names. Those that could not be read may be of any. Raises FleetVirtError."""
    if not names:
        return [*repositories]
    chosen = [
        repository
        for repository in repositories
        if repository.problem is not None or any(_is(repository, name) for name in names)
    ]
    missing = [name for name in names if not any(_is(each, name) for each in repositories)]
    if missing:
        unread = [each.uuid for each in repositories if each.problem is not None]
        more = f" (unless it is one that could not be read: {', '.join(unread)})" if unread else ""
        raise FleetVirtError(
            f"no backup of {', '.join(missing)}{more}; ansible-playbook fleet.virt.backups lists"
            " all there are"
        )
    return chosen


def _is(repository: Repository, name: str) -> bool:
    vms = {vm.backup.vm for vm in repository.all_vms}
    if name.lower() == repository.uuid or name in vms:
        return True
    return is_pattern(name) and any(matches(vm, name) for vm in vms)


Wished = tuple[float, "datetime"]


def data(repositories: t.Sequence[Repository], wished: Wished | None = None) -> list[ListedVm]:
    """What a result says of them; ``wished``: hours after which a backup is overdue, and now."""
    return [
        {
            "place": repository.place,
            "uuid": repository.uuid,
            "name": repository.name,
            "error": repository.problem,
            "unreadable": {**repository.unreadable},
            "notes": [*repository.notes],
            "overdue": _is_overdue(repository, wished),
            "backups": [
                *(_backup(vm, ahead=False) for vm in repository.vms),
                *(_backup(vm, ahead=True) for vm in repository.ahead),
            ],
        }
        for repository in repositories
    ]


def _is_overdue(repository: Repository, wished: Wished | None) -> bool | None:
    """None: nobody wishes to know, or it is not known."""
    if wished is None or repository.problem is not None:
        return None
    hours, now = wished
    return ages.is_overdue(ages.newest((vm.backup.at for vm in repository.vms), now), hours, now)


def _backup(vm: SavedVm, *, ahead: bool) -> ListedBackup:
    proof = vm.proof
    return {
        "archive": vm.archive,
        "vm": vm.backup.vm,
        "hypervisor": vm.backup.host,
        "at": vm.backup.at,
        "consistency": vm.backup.consistency,
        "size": vm.size,
        "added": vm.added,
        "state": vm.state,
        "ahead": ahead,
        "proof": None
        if proof is None
        else {"result": proof.proof, "at": proof.at, "how": proof.how},
    }


def text(vms: t.Sequence[ListedVm], hours: float | None = None) -> str:
    """The table of all backups, and below it what could not be read."""
    ordered = sorted(vms, key=lambda vm: (vm["name"] or "", vm["uuid"], vm["place"]))
    rows = [
        (
            backup["vm"],
            backup["at"],
            _size(backup["size"]),
            _size(backup["added"]),
            backup["consistency"],
            backup["state"],
            None if (proof := backup["proof"]) is None else f"{proof['at']} {proof['how']}",
            backup["hypervisor"],
        )
        for vm in ordered
        for backup in vm["backups"]
    ]
    count = len([vm for vm in vms if vm["backups"]])
    lines = [table(_HEADS, rows)] if rows else []
    lines.append(f"{len(rows)} backups of {count} VMs")
    late: list[ages.OverdueVm] = [
        {
            "name": vm["name"] or vm["uuid"],
            "uuid": vm["uuid"],
            "at": max((b["at"] for b in vm["backups"] if not b["ahead"]), default=None),
        }
        for vm in ordered
        if vm["overdue"]
    ]
    lines += ages.lines(late, hours or 0)
    return "\n".join([*lines, *_problems(ordered)]) + "\n"


def _problems(vms: t.Sequence[ListedVm]) -> list[str]:
    lines = []
    for vm in vms:
        if vm["error"] is not None:
            lines.append(f"{vm['uuid']}: {vm['error']}")
        lines += [f"{vm['uuid']}: {name}: {why}" for name, why in vm["unreadable"].items()]
        lines += vm["notes"]
    return lines


def _size(size: int | None) -> str:
    return format_size(None if size is None else -(-size // MIB))


def records(vms: t.Sequence[ListedVm]) -> str:
    """CSV, a line a backup, and one for each repository that could not be read."""
    rows: list[dict[str, object]] = []
    for vm in vms:
        of_vm = {"place": vm["place"], "uuid": vm["uuid"], "vm": vm["name"], "error": vm["error"]}
        for backup in vm["backups"]:
            proof = backup["proof"]
            proven = {
                "proof": proof and proof["result"],
                "proof_at": proof and proof["at"],
                "proof_how": proof and proof["how"],
            }
            rows.append({**of_vm, **backup, **proven})
        if vm["error"] is not None:
            rows.append({**of_vm})
    return csv_text(_COLUMNS, [[row.get(column) for column in _COLUMNS] for row in rows])


class PrunedVm(t.TypedDict):
    """What pruning did, or would do, in a VM's repository; ``remembered``: nothing, since this
    controller did not know it, but for remembering what is there."""

    place: str
    uuid: str
    name: str | None
    kept: dict[str, str]
    deleted: list[str]
    refused: list[str]
    remembered: bool
    notes: list[str]
    changed: bool
    failed: bool
    msg: str | None


def pruned(
    repository: Repository,
    pruning: Pruning | None,
    refused: t.Sequence[str] = (),
    error: str | None = None,
    *,
    remembered: bool = False,
) -> PrunedVm:
    """The outcome in a repository: what was planned, or why nothing was."""
    why = [*refused, *([error] if error is not None else [])]
    return {
        "place": repository.place,
        "uuid": repository.uuid,
        "name": repository.name,
        "kept": {} if pruning is None else {**pruning.kept},
        "deleted": [] if pruning is None else [*pruning.deleted],
        "refused": [*refused],
        "remembered": remembered,
        "notes": [*repository.notes],
        "changed": pruning is not None and bool(pruning.deleted) and not why,
        "failed": bool(why),
        "msg": "\n".join(why) or None,
    }


def pruned_text(vms: t.Sequence[PrunedVm], *, check: bool) -> str:
    """The table of what is kept, and why, and of what was or would be deleted, exactly."""
    verb = "would be deleted" if check else "deleted"
    rows = [
        (vm["name"] or vm["uuid"], archive, what)
        for vm in sorted(vms, key=lambda vm: (vm["name"] or "", vm["uuid"]))
        for archive, what in sorted(
            [
                *((name, f"kept: {why}") for name, why in vm["kept"].items()),
                *((name, "not deleted" if vm["failed"] else verb) for name in vm["deleted"]),
            ]
        )
    ]
    deleted = sum(len(vm["deleted"]) for vm in vms if not vm["failed"])
    lines = [table(("VM", "ARCHIVE", "WHAT"), rows)] if rows else []
    lines.append(f"{deleted} archives {verb}")
    new = [vm["name"] or vm["uuid"] for vm in vms if vm["remembered"]]
    if new:
        done = "would only be remembered" if check else "only remembered"
        lines.append(
            f"{done}, as this controller had not pruned there before (the next run prunes):"
            f" {', '.join(sorted(new))}"
        )
    lines += [note for vm in vms for note in vm["notes"]]
    lines += [str(vm["msg"]) for vm in vms if vm["msg"]]
    return "\n".join(lines) + "\n"


def pruned_records(vms: t.Sequence[PrunedVm]) -> str:
    """CSV, a line an archive."""
    rows = [
        (vm["place"], vm["uuid"], vm["name"], archive, what, why, vm["msg"])
        for vm in vms
        for archive, what, why in [
            *((name, "kept", reason) for name, reason in vm["kept"].items()),
            *((name, "deleted", None) for name in vm["deleted"]),
        ]
    ]
    return csv_text(["place", "uuid", "vm", "archive", "what", "rule", "error"], rows)
