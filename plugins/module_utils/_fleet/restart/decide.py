# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide for the whole fleet which VMs are restarted elsewhere, and on which hypervisor each."""

from __future__ import annotations

import typing as t

from ..._errors import PlanRefused
from ..._records import dataclass, field
from ..base.names import playbook_command
from ..engine import proofs
from ..fencing import plan as fencing
from ..migration.decide import request_of
from ..placement import decide as placement
from ..placement.types import Policy
from .facts import CardEntry, RestartLook

Answers = t.Mapping[str, RestartLook]
Silent = t.Mapping[str, proofs.Silence]
# What else is lost with the hypervisor, whatever state a VM was in
SAVED = "memory that was saved to a file on {host} is lost, if there was any"


@dataclass
class RestartDecision:
    """``shares``: new hypervisor to the VMs that it takes over; ``running`` are those that are
    started then. ``failures`` are the reasons of VMs that stay. ``agent`` is the hypervisor that
    proves that the other one is off, empty if no VM can be taken over."""

    shares: dict[str, list[str]] = field(default_factory=dict)
    running: list[str] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    agent: str = ""


def require_silence(host: str, answers: Answers, silent: Silent, known: t.Sequence[str]) -> None:
    """Raise PlanRefused if the hypervisor shows any sign of life, to anybody, or if nobody looked.

    ``answers`` are of the hypervisors that responded.
    """
    if host not in known:
        raise PlanRefused(f"{host!r} is no hypervisor of this play; there are: {', '.join(known)}")
    silence = silent.get(host)
    if silence is not None and silence.reached:
        raise PlanRefused(fencing.alive(host, f"answers ({silence.why})", fenced=False))
    if not answers:
        raise PlanRefused(f"no hypervisor answered: {proofs.named(silent)}")
    for asked, answer in answers.items():
        if asked != host and answer.get("sign"):
            sign = f"{answer['sign']}, as {asked} sees it"
            raise PlanRefused(fencing.alive(host, sign, fenced=False))
    if host in answers:
        raise PlanRefused(fencing.alive(host, "answers", fenced=False))


def decide(
    host: str,
    names: t.Sequence[str],
    answers: Answers,
    hosts: t.Sequence[placement.PlacementHost],
    silent: Silent,
    policy: Policy,
) -> RestartDecision:
    """Where each VM of ``host`` goes, those of ``names`` if there are any.

    ``answers`` are of the hypervisors that responded, of which ``host`` is none.
    """
    decision = RestartDecision()
    seen: dict[str, dict[str, CardEntry]] = {}
    for place, answer in answers.items():
        for entry in answer.get("cards") or ():
            seen.setdefault(str(entry["name"]), {})[place] = entry
    for name in names:
        if name not in seen:
            decision.failures[name] = _without_card(name, host, answers)
    unread = sorted({why for answer in answers.values() for why in answer.get("unread") or ()})
    for why in unread:
        decision.failures[why.partition(":")[0]] = why
    fleet = placement.FleetLoad(hosts, policy)
    largest = sorted(seen, key=lambda name: (-_memory(seen[name]), name))
    for name in largest:
        problem = _place(name, host, seen[name], answers, silent, fleet, decision)
        if problem:
            decision.failures[name] = problem
    if decision.shares:
        decision.agent = next(iter(decision.shares))
        decision.notes.append(SAVED.format(host=host))
    return decision


def _memory(entries: t.Mapping[str, CardEntry]) -> int:
    return max(entry["memory_mib"] for entry in entries.values())


def _without_card(name: str, host: str, answers: Answers) -> str:
    for place, answer in answers.items():
        if any(vm["name"] == name for vm in _vms(answer)):
            return f"{name!r} is on {place}, not on {host}"
    return (
        f"no card of {name!r} names {host}; only a VM has one whose disks are all on storage that"
        " others share, in pools with an id"
    )


def _vms(answer: RestartLook) -> t.Sequence[t.Mapping[str, object]]:
    host = answer.get("host")
    return [] if host is None else host["vms"]


def _place(
    name: str,
    host: str,
    entries: t.Mapping[str, CardEntry],
    answers: Answers,
    silent: Silent,
    fleet: placement.FleetLoad,
    decision: RestartDecision,
) -> str:
    """Put one VM into ``decision``; return the reason against it, if any."""
    entry = next(iter(entries.values()))
    seen = {(one["uuid"], *one["hosts"]) for one in entries.values()}
    if len(seen) > 1:
        return f"the cards of {name!r} that hypervisors see differ; see which of them is current"
    able = [place for place, one in entries.items() if not one["problems"]]
    other = next((one for one in entry["hosts"] if one != host), None)
    if other is not None:
        problem = _begun(name, host, other, entry, entries, silent)
        if problem:
            return problem
        able = [place for place in able if place == other]
    for place, answer in answers.items():
        if place != other and any(vm.get("uuid") == entry["uuid"] for vm in _vms(answer)):
            return (
                f"{place} has a VM of the UUID of {name!r}, although its card names {host}; see"
                " which of them is current before anything is started"
            )
    problems = {reason: None for one in entries.values() for reason in one["problems"]}
    if not able:
        return "; ".join(problems)
    request = request_of(name, entry, None)
    result = placement.rank(fleet, request)
    ranking = [candidate for candidate in result.ranking if candidate.host in able]
    chosen = other or (ranking[0].host if ranking else None)
    if chosen is None:
        rejected = [f"{one.host}: {one.reason}" for one in result.rejected if one.host in answers]
        return f"{name} fits nowhere. {'; '.join([*rejected, *problems])}"
    if name not in fleet.loads[chosen].names:
        fleet.add(chosen, request)
    decision.shares.setdefault(chosen, []).append(name)
    if entry["running"]:
        decision.running.append(name)
    for path in sorted({path for one in entries.values() for path in one["locked"]}):
        decision.notes.append(
            f"{path} of {name} is locked by a process now; if it still is once {host} is off,"
            f" {name} stays as it is"
        )
    return ""


def _begun(
    name: str,
    host: str,
    other: str,
    entry: CardEntry,
    entries: t.Mapping[str, CardEntry],
    silent: Silent,
) -> str:
    """Why a VM stays whose card names another hypervisor too: one that takes it over already, or
    the other end of a move."""
    if other not in entries:
        why = f" ({silent[other].why})" if other in silent else ""
        return (
            f"the card of {name!r} names {host} and {other}, and {other} does not answer{why}; only"
            f" {other} can go on with it, so bring it back, and run this again"
        )
    if entry["hosts"] != [host, other]:
        return (
            f"{name!r} was on its way from {other} to {host}; settle its move on {other} first:"
            f" {playbook_command('repair_vms', vm_name=name)}"
        )
    return ""
