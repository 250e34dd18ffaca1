# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide for the whole fleet: where the VMs to move are, and where each of them goes."""

from __future__ import annotations

import dataclasses
import posixpath
import typing as t

from ..._errors import PlanRefused
from ..._records import dataclass, field
from ..._units import MIB
from ..base import duplicate_vm as twice
from ..base.names import playbook_command
from ..base.selected import Member, Selected, expand
from ..cards import leftover
from ..engine import located, proofs
from ..placement import decide as placement
from ..placement.offers import Wants, offers_from
from ..placement.types import DiskNeed, Placement, Policy, Ranked, Request
from . import lost_source
from .lost_source import Answer

Mute = t.Mapping[str, proofs.Silence]


@dataclass
class MigrationDecision:
    """``shares``: hypervisor to VMs that move from there, each with its destination's name;
    ``left``: destination to VMs that were moving there, each with the lost hypervisor it came from.
    ``notes`` say which rules of anti-affinity are broken; ``kept_away`` are the VMs that would fit
    somewhere without such rules, and do not with them.
    """

    shares: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    left: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    settled: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    kept_away: list[str] = field(default_factory=list)
    placements: list[Placement] = field(default_factory=list)


def decide(
    names: t.Sequence[str],
    host: str | None,
    answers: t.Mapping[str, Answer],
    hosts: t.Sequence[placement.PlacementHost],
    mute: Mute,
    policy: Policy,
    groups: t.Sequence[str] = (),
) -> MigrationDecision:
    """Where each VM of ``names``, names or patterns, and of ``groups`` goes; raises PlanRefused
    with every reason to refuse.

    ``host`` is their destination, None for the best of all; ``mute`` are those that did not
    respond.
    """
    selected = Selected.of(names, groups)
    if not selected:
        raise PlanRefused("no VM is named; give -e vm_name=web1")
    require("move", host, answers, mute)
    expanded = expand(
        selected,
        [
            Member(str(vm["name"]), vm["groups"], bool(vm.get("error")))
            for answer in answers.values()
            for vm in answer.get("vms") or ()
            if not vm.get("leftover")
        ],
    )
    problems = list(expanded.empty)
    if problems and not expanded.names:
        raise PlanRefused(located.none_meant(problems, selected, mute))
    decision = MigrationDecision()
    decision.problems += located.not_done("".join(located.more_meant(selected, mute)))
    fleet = placement.FleetLoad(hosts, policy)
    for name in expanded.names:
        problem = place_one(name, host, places_of(name, answers), answers, mute, fleet, decision)
        if problem:
            problems.append(problem)
    if problems:
        raise PlanRefused("; ".join(problems))
    return decision


def repair(
    names: t.Sequence[str],
    answers: t.Mapping[str, Answer],
    mute: Mute,
    lost: t.Collection[str] = (),
) -> MigrationDecision:
    """The interrupted moves to check: all of them, or those of ``names``.

    One whose other end does not respond is a problem; the others are repaired all the same. One
    whose source is among ``lost``, those declared lost, is settled on its destination.
    """
    decision = MigrationDecision()
    listed = [str(vm["name"]) for answer in answers.values() for vm in answer.get("vms") or ()]
    claimed = [name for name, source, _to in _claims(answers) if not _has(source, name, answers)]
    for name in dict.fromkeys([*names, *listed, *([] if names else claimed)]):
        every = places_of(name, answers)
        places = {where: vm for where, vm in every.items() if not vm.get("leftover")}
        endpoints = unfinished(name, places, answers) or _claimed(name, answers)
        if every and not places and endpoints is None:
            continue  # with its card it is cleared, which is no move
        if endpoints is not None:
            gone = endpoints[0] in lost and endpoints[0] not in answers
            problem = ends_silent(name, endpoints, answers, mute, gone=gone)
            if problem and _is_started_by_cell(name, endpoints, answers):
                problem = (
                    f"the move of {name!r} from {endpoints[0]} to {endpoints[1]} is unfinished; its"
                    f" cell has proven {endpoints[0]} off, and has it run elsewhere. When"
                    f" {endpoints[0]} is back, run ansible-playbook fleet.virt.repair_vms again,"
                    " which clears what is left of it"
                )
            if gone and not problem:
                problem = lost_source.elsewhere(name, endpoints, answers)
            if problem:
                decision.problems.append(problem)
            elif gone:
                decision.left.setdefault(endpoints[1], []).append((name, endpoints[0]))
            else:
                decision.shares.setdefault(endpoints[0], []).append((name, endpoints[1]))
            continue
        if places:
            decision.settled[name] = ", ".join(sorted(places))
        problem = _unclear(name, places, mute)
        if problem:
            decision.problems.append(problem)
    missing = {} if names else proofs.missing("repair", _asked(mute))
    if missing:
        decision.problems.append(
            "unfinished moves known only to a hypervisor that did not respond cannot be found"
            f" ({proofs.named(missing)}); {proofs.remedy(missing)}"
        )
    return decision


def _is_started_by_cell(name: str, ends: tuple[str, str], answers: t.Mapping[str, Answer]) -> bool:
    """Whether the source of its move is silent, and its cell has started it since, or will now."""
    source, destination = ends
    if source in answers or destination not in answers:
        return False
    vms = places_of(name, answers).values()
    held = [
        entry
        for answer in answers.values()
        for entry in answer.get("unmanaged") or ()
        if (entry["name"], entry["held_by"], entry["problem"]) == (name, source, None)
    ]
    return bool(held) or any(vm.get("ha") and vm["active"] and not vm["phase"] for vm in vms)


def _unclear(name: str, places: t.Mapping[str, Answer], mute: Mute) -> str | None:
    """The problem with a VM that is in no move between two known hypervisors."""
    if len(places) > 1:
        return twice.duplicate_vm_message(
            name, {where: vm["phase"] for where, vm in places.items()}
        )
    if not places:
        return _nowhere(name, mute) or f"no hypervisor has a VM {name!r}"
    for where, vm in places.items():
        if vm.get("unsound"):
            return f"whether {name!r} on {where} is in a move is not known: {vm['unsound']}"
        if vm["phase"] == "migrating":
            return (
                f"{name!r} on {where} is in phase migrating, but its metadata does not name the"
                " two hypervisors; inspect it with virsh dumpxml --inactive"
            )
    return None


def _known_by_card(name: str, answers: t.Mapping[str, Answer]) -> str | None:
    """Why a VM of a cell that is defined nowhere is not moved; None if no member knows of one."""
    for answer in answers.values():
        cell = answer["host"].get("cell")
        if cell and name in (answer["host"].get("cell_vms") or ()):
            gone = ", ".join(cell["unclean"])
            doubt = f"it may run on {gone}, which is not proven off" if gone else None
            return leftover.refusal(name, "", {"nowhere": cell["name"], "error": doubt})
    return None


def _nowhere(name: str, mute: Mute) -> str | None:
    missing = proofs.missing("absent", mute)
    if not missing:
        return None
    return (
        f"no hypervisor that answered has a VM {name!r}, but it may be on one that did not"
        f" ({proofs.named(missing)}); {proofs.remedy(missing)}"
    )


def _asked(mute: Mute) -> dict[str, proofs.Silence]:
    """Without those that ``--limit`` left out, which is on purpose."""
    return {name: one for name, one in mute.items() if one.asked}


def require(proof: str, host: str | None, answers: t.Mapping[str, Answer], mute: Mute) -> None:
    """Raise PlanRefused unless ``host``, the subject of the whole command, has responded."""
    if host is None or host in answers:
        return
    missing = proofs.missing(proof, mute, host)
    if missing:
        raise PlanRefused(
            f"{host} did not respond ({missing[host].why}), and nothing moves from or to it before"
            f" it does; {proofs.remedy(missing)}"
        )
    known = ", ".join(answers) or "none"
    raise PlanRefused(f"{host} is no hypervisor of this play; there are: {known}")


def places_of(name: str, answers: t.Mapping[str, Answer]) -> dict[str, Answer]:
    """The hypervisors that were asked about the VM and have it, with their answers."""
    return leftover.without(
        {
            where: vm
            for where, answer in answers.items()
            for vm in answer.get("vms") or ()
            if vm["name"] == name
        }
    )


def place_one(
    name: str,
    host: str | None,
    places: t.Mapping[str, Answer],
    answers: t.Mapping[str, Answer],
    mute: Mute,
    fleet: placement.FleetLoad,
    decision: MigrationDecision,
    *,
    relax: bool = False,
) -> str | None:
    """Put one VM into ``decision``; return the reason against it, if any.

    With ``relax`` one that fits nowhere by anti-affinity goes where it does without.
    """
    endpoints = unfinished(name, places, answers)
    if endpoints is not None:
        problem = ends_silent(name, endpoints, answers, mute)
        if problem:
            return problem
        decision.shares.setdefault(endpoints[0], []).append((name, endpoints[1]))
        if host not in (None, endpoints[1]):
            decision.problems.append(
                f"{name!r} has an unfinished move from {endpoints[0]} to {endpoints[1]}, which is"
                f" finished first; run this again to move it to {host}"
            )
        return None
    if not places:
        return _absent(name, answers, mute)
    if len(places) > 1:
        return twice.duplicate_vm_message(
            name, {where: vm["phase"] for where, vm in places.items()}
        )
    ((source, vm),) = places.items()
    left = leftover.refusal(name, source, vm)
    if left:
        return left
    if host == source:
        decision.settled[name] = source
        return None
    if vm.get("error"):
        return f"{name!r} stays on {source}, which cannot read it: {vm['error']}"
    if not all(str(disk["path"] or "").startswith("/") for disk in vm["disks"]):
        return f"{name!r} stays on {source}: it has a disk that is no file; only files can move"
    cell = offers_from(answers[source]["host"].get("offers")).cell or ""
    request = request_of(name, vm, host, cell)
    # A hypervisor with a domain that could not be read has no load, and no VMs in it
    counted = name in fleet.loads[source].names
    if counted:
        fleet.remove(source, request)
    result = placement.rank(fleet, request)
    if counted:
        fleet.add(source, request)
    ranking = _others(result, source)
    if not ranking:
        relaxed = dataclasses.replace(request, relaxed=True)
        if counted:
            fleet.remove(source, request)
        possible = _others(placement.rank(fleet, relaxed), source)
        if counted:
            fleet.add(source, request)
        if relax:
            ranking = possible
        elif possible:
            decision.kept_away.append(name)
    placed = Placement(name, ranking[0].host if ranking else None, ranking, result.rejected)
    if placed.host is None:
        return placement.describe(placed)
    if counted:
        fleet.remove(source, request)
    fleet.add(placed.host, request)
    decision.placements.append(placed)
    if ranking[0].broken:
        broken = "; ".join(ranking[0].notes[-ranking[0].broken :])
        decision.notes.append(f"{name} to {placed.host}: {broken}")
    decision.shares.setdefault(source, []).append((name, placed.host))
    return None


def _absent(name: str, answers: t.Mapping[str, Answer], mute: Mute) -> str:
    """Why a VM that no hypervisor has defined is not moved."""
    said = _known_by_card(name, answers) or _nowhere(name, mute)
    if said:
        return said
    known = sorted(str(vm["name"]) for answer in answers.values() for vm in answer["host"]["vms"])
    return f"no hypervisor has a VM {name!r}; there are: {', '.join(known[:20]) or 'none'}"


def _others(placed: Placement, source: str) -> tuple[Ranked, ...]:
    return tuple(candidate for candidate in placed.ranking if candidate.host != source)


def unfinished(
    name: str, places: t.Mapping[str, Answer], answers: t.Mapping[str, Answer]
) -> tuple[str, str] | None:
    """Source and destination of a move that was interrupted, or that is in progress.

    An incoming VM has no marks yet: a live VM travels without them, so only its UUID identifies it.
    If the source does not respond, the claim on the destination identifies it, and also if the
    source was read after the VM had left, and the destination before it had arrived. One that a
    third hypervisor has is in no move.
    """
    for vm in places.values():
        if vm["phase"] == "migrating" and vm.get("move"):
            source, destination = vm["move"]["source"], vm["move"]["destination"]
            same = {one["uuid"] for one in places.values()}
            if set(places) <= {source, destination} and len(same) == 1:
                return source, destination
    ends = _claimed(name, answers)
    return ends if ends is not None and set(places) <= {*ends} else None


def _claimed(name: str, answers: t.Mapping[str, Answer]) -> tuple[str, str] | None:
    """Source and destination of a VM with a claim that its source does not have."""
    for of, source, destination in _claims(answers):
        if of == name and not _has(source, name, answers):
            return source, destination
    return None


def _has(host: str, name: str, answers: t.Mapping[str, Answer]) -> bool:
    """Whether a hypervisor reports that it has a VM without having been asked about it."""
    answer = answers.get(host)
    if answer is None:
        return False
    vms = (*answer["host"]["vms"], *(answer.get("vms") or ()))
    return any(vm["name"] == name and not vm.get("leftover") for vm in vms)


def _claims(answers: t.Mapping[str, Answer]) -> list[tuple[str, str, str]]:
    """The VMs with a claim somewhere: name, source and destination."""
    return [
        (str(one["name"]), str(one["source"]), str(one["destination"]))
        for answer in answers.values()
        for one in answer.get("claims") or ()
    ]


def ends_silent(
    name: str,
    ends: tuple[str, str],
    answers: t.Mapping[str, Answer],
    mute: Mute,
    *,
    gone: bool = False,
) -> str | None:
    """Why an unfinished move cannot be checked: only both ends show which of them has the VM,
    unless the source is permanently ``gone``."""
    unknown = proofs.Silence("not among the hypervisors of this play, or declared lost")
    out = {one: mute.get(one, unknown) for one in ends if one not in answers}
    if gone:
        missing = proofs.missing("finish lost", out, ends[1])
    else:
        missing = proofs.missing("finish", out, *ends)
    if not missing:
        return None
    again = "run without --limit" if not any(_asked(missing)) else "bring it back"
    only = missing.get(ends[0])
    if only and len(missing) == 1 and only.asked and not only.reached:
        command = playbook_command("repair_vms", vm_name=name, virt_hypervisors_lost=ends[0])
        again += f" (if it is permanently gone, settle the move without it: {command})"
    return (
        f"the move of {name!r} from {ends[0]} to {ends[1]} is unfinished, and"
        f" {' and '.join(missing)} did not respond ({proofs.named(missing)}), so it is unknown"
        f" which of them has it; {again}, run ansible-playbook fleet.virt.repair_vms, and start"
        " nothing there before"
    )


def request_of(name: str, vm: Answer, host: str | None, cell: str = "") -> Request:
    """What the VM needs on its new hypervisor; ``cell`` is the one that restarts it, if one does,
    empty for any."""
    # a disk keeps its path, so it is the folder that matters, whatever pools are called
    disks = tuple(
        DiskNeed(
            posixpath.dirname(str(disk["path"])),
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
        affinity=tuple(vm["affinity"]),
        anti_affinity=tuple(vm["anti_affinity"]),
        wants=Wants(
            hugepages=tuple(
                (one["size_kib"], one["memory_mib"]) for one in vm.get("hugepages", ())
            ),
            nwfilters=tuple(vm.get("nwfilters") or ()),
            vsock=bool(vm.get("vsock")),
            cell=cell if vm.get("ha") else None,
            lacking=tuple(sorted((vm.get("lacking") or {}).items())),
        ),
    )
