# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is shown of capacity, and of what would be."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._errors import Problem, SpecError
from ..._units import parse_mib
from ..base.json_values import as_mapping
from ..base.options import show, to_integer
from ..base.tables import csv_text, table
from ..migration.evacuation import LOST
from ..placement import decide as placement
from .capacity import Loss, Room
from .state import NewHost
from .what_if import PlannedStep

# Reasons that are shown of one loss, and names of VMs with one reason
_SHOWN = 3
_NOWHERE = " fits nowhere. "


def hosts_rows(hosts: t.Iterable[placement.PlacementHost]) -> list[dict[str, object]]:
    """What is promised on each hypervisor, and the limits; of a silent one neither is known."""
    rows: list[dict[str, object]] = []
    for host in hosts:
        known: dict[str, object] = {
            "vms": len(host.vms),
            "memory_mib": host.memory_promised_mib,
            "memory_limit_mib": host.memory_limit_mib,
            "vcpus": host.vcpus_promised,
            "vcpus_limit": host.vcpus_limit,
        }
        if host.problem_filter == placement.ANSWERED:
            known = dict.fromkeys(known)
        rows.append(
            {
                "name": host.name,
                **known,
                "problem": host.problem,
                "maintenance": host.maintenance,
            }
        )
    return rows


def rooms_text(rooms: t.Sequence[Room], shape: str) -> str:
    """How many VMs fit where, and what keeps the next one away."""
    rows = [[room.name, room.more, f"{_word(room.filter)}: {room.reason}"] for room in rooms]
    more, places = sum(room.more for room in rooms), sum(room.more > 0 for room in rooms)
    return (
        table(["HYPERVISOR", "MORE", "WHY NOT ANOTHER"], rows)
        + f"\n{more} more VMs of {shape} fit, on {places} of {len(rooms)} hypervisors\n"
    )


def _word(kind: str) -> str:
    """What a filter is called for people."""
    return "no answer" if kind == placement.ANSWERED else kind


def steps_text(steps: t.Sequence[PlannedStep], before: list[dict[str, object]]) -> str:
    """Where VMs would go, and the hypervisors afterwards."""
    rows = [
        [step.name, step.source, step.destination, step.reason or ("" if step.source else "new")]
        for step in steps
    ]
    plan = table(["VM", "FROM", "TO", "WHY"], rows) + "\n\n" if rows else "no VM moves\n\n"
    heads = ["HYPERVISOR", "VMS", "MEMORY", "OF", "VCPUS", "OF"]
    keys = ["name", "vms", "memory_mib", "memory_limit_mib", "vcpus", "vcpus_limit"]
    return plan + table(heads, [[row[key] for key in keys] for row in before]) + "\n"


def loss_text(number: int, losses: t.Sequence[Loss], then: str = "") -> str:
    """Whether the fleet survives, and if not, what is lost with which hypervisors."""
    if not number:
        return ""
    any_of = "any one hypervisor" if number == 1 else f"any {number} hypervisors"
    if not losses:
        return f"{then}the fleet survives the loss of {any_of}\n"
    rows = []
    for loss in losses:
        shown = _together(loss)
        if len(shown) > _SHOWN:
            shown = [*shown[:_SHOWN], "and others"]
        rows.append([", ".join(loss.lost), len(loss.problems), "; ".join(shown)])
    return (
        f"{then}the fleet does not survive the loss of {any_of}:\n"
        + table(["LOST", "VMS", "WITHOUT A PLACE"], rows)
        + "\n"
    )


def _together(loss: Loss) -> list[str]:
    """The reasons, each with all VMs that it keeps from others; that a hypervisor is lost which
    the row is about is none."""
    names_by_reason: dict[str, list[str]] = {}
    for problem in loss.problems:
        name, nowhere, why = problem.partition(_NOWHERE)
        for host in loss.lost:
            why = "; ".join(one for one in why.split("; ") if one != f"{host}: {LOST}")
        names_by_reason.setdefault(nowhere + why, []).append(name)
    told = []
    for reason, names in names_by_reason.items():
        verb = reason.replace("fits", "fit", 1) if len(names) > 1 else reason
        more = [f"{len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
        told.append(f"{', '.join([*names[:_SHOWN], *more])}{verb}")
    return told


def records(rows: t.Sequence[t.Mapping[str, object]]) -> str:
    """The rows as CSV."""
    heads = list(rows[0]) if rows else ["name"]
    return csv_text(heads, [[row[head] for head in heads] for row in rows])


def plain(losses: t.Iterable[Loss]) -> list[dict[str, object]]:
    """The losses as data."""
    return [{"lost": [*loss.lost], "problems": [*loss.problems]} for loss in losses]


def rooms_plain(rooms: t.Iterable[Room]) -> list[dict[str, object]]:
    """Room as data."""
    return [dataclasses.asdict(room) for room in rooms]


def new_hosts(given: t.Iterable[object]) -> list[NewHost]:
    """The hypervisors to be added, each the name of one that it is like, or more about it.

    Raises SpecError for any other.
    """
    hypervisors: list[NewHost] = []
    problems: list[Problem] = []
    for number, entry in enumerate(given, 1):
        fields = as_mapping(entry) or {"like": entry}
        unknown = sorted(set(fields) - {"name", "like", "memory", "cpus"})
        path = f"virt_add_hosts[{number - 1}]"
        if unknown or not isinstance(fields.get("like"), str):
            text = "write the name of a hypervisor that it is like, or like, name, memory, cpus"
            problems.append(Problem(path, text))
            continue
        try:
            memory, cpus = fields.get("memory"), fields.get("cpus")
            new = NewHost(
                str(fields.get("name") or f"new{number}"),
                str(fields["like"]).strip(),
                None if memory is None else parse_mib(memory),
                None if cpus is None else to_integer(cpus),
            )
        except ValueError as error:
            problems.append(Problem(path, str(error)))
            continue
        problems += [
            Problem(f"{path}.{key}", f"{show(fields[key])} is too few; give 1 or more")
            for key, size in (("memory", new.memory_mib), ("cpus", new.cpus))
            if size is not None and size < 1
        ]
        hypervisors.append(new)
    if problems:
        raise SpecError(problems)
    return hypervisors
