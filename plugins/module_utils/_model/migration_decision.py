# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Seen from the whole fleet: where the VMs are that are to move, and where each of them goes.

This file is private to the collection.
"""

from __future__ import annotations

import posixpath
import typing as t
from dataclasses import dataclass, field

from .._errors import PlanRefused
from .._units import MIB
from . import placement
from .placement_types import DiskNeed, Placement, Policy, Request
from .tables import table

Answer = t.Mapping[str, t.Any]
_LOST = (
    "bring it back, or, if it is surely off for good, name it in virt_hypervisors_lost, for"
    ' example -e \'{{"virt_hypervisors_lost": ["{name}"]}}\''
)


@dataclass
class Decision:
    """``shares``: hypervisor to VMs that move from there, each with its destination's name."""

    shares: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    settled: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    placements: list[Placement] = field(default_factory=list)


def silent(
    answers: t.Mapping[str, Answer], expected: t.Sequence[str] | None, lost: t.Collection[str]
) -> dict[str, str]:
    """Why each hypervisor of the fleet that is not declared lost said nothing."""
    found = {
        name: str(answer.get("msg") or "it did not answer")
        for name, answer in answers.items()
        if not isinstance(answer.get("host"), t.Mapping) and name not in lost
    }
    for name in expected or ():
        if name not in answers and name not in lost:
            found[name] = "it was not asked (--limit)"
    return found


def decide(
    names: t.Sequence[str],
    host: str | None,
    answers: t.Mapping[str, Answer],
    hosts: t.Sequence[placement.PlacementHost],
    mute: t.Mapping[str, str],
    policy: Policy,
) -> Decision:
    """Where each of ``names`` goes; raises PlanRefused with everything that speaks against it.

    ``host`` is where they are to go, None for the best of all; ``mute`` are those that are silent.
    """
    if not names:
        raise PlanRefused("no VM is named; give -e vm_name=web1")
    problems = of_fleet(names, host, answers, mute)
    if problems:
        raise PlanRefused("; ".join(problems))
    found = Decision()
    fleet = placement.FleetLoad(hosts, policy)
    for name in dict.fromkeys(names):
        places = {
            where: vm
            for where, answer in answers.items()
            for vm in answer.get("vms") or ()
            if vm["name"] == name
        }
        problem = place_one(name, host, places, answers, fleet, found)
        if problem:
            problems.append(problem)
    if problems:
        raise PlanRefused("; ".join(problems))
    return found


def repair(
    names: t.Sequence[str], answers: t.Mapping[str, Answer], mute: t.Mapping[str, str]
) -> Decision:
    """What has to be looked at of interrupted moves: all of them, or those of ``names``.

    One whose other end is silent is a problem; the others are repaired all the same.
    """
    found = Decision()
    there: dict[str, dict[str, Answer]] = {}
    for where, answer in answers.items():
        for vm in answer.get("vms") or ():
            there.setdefault(str(vm["name"]), {})[where] = vm
    for name in dict.fromkeys([*names, *there]):
        unfinished = _unfinished(there.get(name, {}))
        if unfinished is None:
            where = ", ".join(sorted(there.get(name, {})))
            found.settled[name] = where
            if len(there.get(name, {})) > 1:
                found.problems.append(
                    f"{name!r} is defined on {where}, and neither came from the other: find out"
                    " which one is right, and remove the other on its hypervisor with virt_purge"
                )
            elif not where:
                silent_ones = ", ".join(mute)
                also = f" that answered (silent: {silent_ones})" if mute else ""
                found.problems.append(f"no hypervisor{also} has a VM {name!r}")
            continue
        missing = [one for one in unfinished if one not in answers]
        if missing:
            why = mute.get(missing[0], "not in the inventory")
            found.problems.append(
                f"the move of {name!r} from {unfinished[0]} to {unfinished[1]} is unfinished, and"
                f" {missing[0]} is silent ({why}); bring it back and run this again, and"
                " start nothing there before"
            )
            continue
        found.shares.setdefault(unfinished[0], []).append((name, unfinished[1]))
    return found


def of_fleet(
    names: t.Sequence[str],
    host: str | None,
    answers: t.Mapping[str, Answer],
    mute: t.Mapping[str, str],
) -> list[str]:
    """What speaks against moving anything: a hypervisor that is silent, or not known."""
    problems = []
    if mute:
        reasons = "; ".join(f"{name}: {why}" for name, why in mute.items())
        problems.append(
            f"a hypervisor that is silent may have {', '.join(names)} too, so nothing is moved:"
            f" {reasons}. {_LOST.format(name=next(iter(mute)))}"
        )
    if host is not None and host not in answers:
        known = ", ".join(answers) or "none"
        problems.append(f"{host} is no hypervisor of this play; there are: {known}")
    return problems


def twice(name: str, places: t.Iterable[str]) -> str:
    """A VM that is defined on several hypervisors, in words."""
    return (
        f"{name!r} is defined on {' and '.join(sorted(places))}; a VM exists once: find out"
        " which one is right, and remove the other on its hypervisor with virt_purge"
    )


def place_one(
    name: str,
    host: str | None,
    places: t.Mapping[str, Answer],
    answers: t.Mapping[str, Answer],
    fleet: placement.FleetLoad,
    found: Decision,
) -> str | None:
    """Put one VM into ``found``; what speaks against it."""
    if not places:
        known = sorted(
            str(vm["name"]) for answer in answers.values() for vm in answer["host"]["vms"]
        )
        return f"no hypervisor has a VM {name!r}; there are: {', '.join(known[:20]) or 'none'}"
    unfinished = _unfinished(places)
    if unfinished is not None:
        source, destination = unfinished
        if source not in answers:
            return (
                f"{name!r} came to {destination} from {source}, which is not in the inventory any"
                " more, and its move is not finished"
            )
        found.shares.setdefault(source, []).append((name, destination))
        return None
    if len(places) > 1:
        return twice(name, places)
    ((source, vm),) = places.items()
    if host == source:
        found.settled[name] = source
        return None
    request = _request(name, vm, host, answers[source])
    fleet.remove(source, request)
    result = placement.rank(fleet, request)
    fleet.add(source, request)
    ranking = tuple(one for one in result.ranking if one.host != source)
    placed = Placement(name, ranking[0].host if ranking else None, ranking, result.rejected)
    if placed.host is None:
        return placement.describe(placed)
    fleet.remove(source, request)
    fleet.add(placed.host, request)
    found.placements.append(placed)
    found.shares.setdefault(source, []).append((name, placed.host))
    return None


def _unfinished(places: t.Mapping[str, Answer]) -> tuple[str, str] | None:
    """Source and destination of a move that was interrupted, or that goes on.

    One that is coming in has no marks yet: a live VM travels without them, so only its UUID tells.
    """
    for vm in places.values():
        if vm["phase"] == "migrating" and vm.get("move"):
            source, destination = vm["move"]["source"], vm["move"]["destination"]
            same = {one["uuid"] for one in places.values()}
            if set(places) <= {source, destination} and len(same) == 1:
                return source, destination
    return None


def _request(name: str, vm: Answer, host: str | None, answer: Answer) -> Request:
    """What the VM asks of its new hypervisor."""
    pools = {
        str(pool["path"] or "").rstrip("/"): str(pool["name"]) for pool in answer["host"]["pools"]
    }
    disks = tuple(
        DiskNeed(
            pools.get(posixpath.dirname(str(disk["path"])), posixpath.dirname(str(disk["path"]))),
            max(1, -(-int(disk["bytes"]) // MIB)),
        )
        for disk in vm["disks"]
    )
    return Request(
        name=name,
        vcpus=int(vm["vcpus"]),
        memory_mib=int(vm["memory_mib"]),
        disks=disks,
        networks=tuple(vm["networks"]),
        bridges=tuple(vm["bridges"]),
        domain_type=vm["domain_type"],
        arch=vm["arch"],
        host=host,
        zone=vm["zone"],
        tags=tuple(vm["tags"]),
        groups=tuple(vm["groups"]),
        anti_affinity=tuple(vm["anti_affinity"]),
    )


def report(
    settled: t.Sequence[str], results: t.Mapping[str, Answer], *, check: bool
) -> tuple[str, list[str]]:
    """Text for people, and what failed."""
    rows: list[list[t.Any]] = [[name, None, None, "stays", None, None, None] for name in settled]
    failures: list[str] = []
    lines: list[str] = []
    for host, result in results.items():
        if result.get("vms") is None and (result.get("failed") or result.get("unreachable")):
            failures.append(f"{host}: {result.get('msg') or 'it did not answer'}")
        for vm in result.get("vms") or ():
            lines += vm["progress"]
            if vm["failed"]:
                failures.append(f"{vm['name']}: {vm['msg']}")
                word = "failed"
            elif not vm["changed"]:
                word = "was there"
            else:
                word = f"{'would move' if check else 'moved'} ({vm['flow']})"
            size = vm["bytes_to_copy"] if check else vm["bytes"]
            mib = round(size / MIB) if isinstance(size, (int, float)) else None
            seconds = vm["seconds"] if isinstance(vm["seconds"], (int, float)) else None
            downtime = vm["downtime_ms"] if isinstance(vm["downtime_ms"], (int, float)) else None
            rows.append([vm["name"], host, vm["destination"], word, mib, seconds, downtime])
    heads = ["VM", "FROM", "TO", "RESULT", "MIB", "SECONDS", "DOWNTIME MS"]
    return "\n".join([*lines, table(heads, rows)]) + "\n", failures
