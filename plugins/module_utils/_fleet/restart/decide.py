# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide for the whole fleet which VMs are restarted elsewhere, and on which hypervisor each."""

from __future__ import annotations

import posixpath
import typing as t
import uuid

from ..._errors import PlanRefused
from ..._records import dataclass, field
from ..base.names import CARD, command_on, playbook_command
from ..cards.card import parse_name
from ..engine import proofs
from ..fencing import plan as fencing
from ..migration.decide import request_of
from ..notes import note
from ..notes import silent as silent_notes
from ..placement import decide as placement
from ..placement.types import Policy
from . import plan
from .facts import CardEntry, RestartLook
from .options import SeenCard

Answers = t.Mapping[str, RestartLook]
Silent = t.Mapping[str, proofs.Silence]
_WITH_CARD = (
    "only a VM has one whose disks are all on storage that others share, in pools with an id"
)
# What else is lost with the hypervisor, whatever state a VM was in
SAVED = "memory that was saved to a file on {host} is lost, if there was any"


@dataclass
class RestartDecision:
    """``shares``: new hypervisor to the VMs that it takes over; ``running`` are those that are
    started then. ``origins``: which hypervisor had a VM, or two that may have it. ``failures`` are
    the reasons of VMs that stay. ``agent`` is the hypervisor that proves that the others are off,
    empty if no VM can be taken over. ``noting`` are those that note where the VMs go."""

    shares: dict[str, list[str]] = field(default_factory=dict)
    running: list[str] = field(default_factory=list)
    origins: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    agent: str = ""
    noting: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Silenced:
    """The ``addresses`` of each hypervisor that should be off; those that a person ``stated`` to be
    off, and those of which signs of life are ``ignored``, since something else gives them."""

    addresses: t.Mapping[str, t.Sequence[str]]
    stated: t.Collection[str] = ()
    ignored: t.Collection[str] = ()


def require_silence(
    hosts: t.Sequence[str],
    answers: Answers,
    silent: Silent,
    known: t.Sequence[str],
    given: Silenced,
) -> None:
    """Raise PlanRefused if one of the hypervisors shows any sign of life, to anybody, or if nobody
    looked who would have heard it.

    ``answers`` are of the hypervisors that responded.
    """
    for host in hosts:
        if host not in known:
            there = ", ".join(known)
            raise PlanRefused(
                f"virt_host: {host!r} is no hypervisor of this play; name the one that is off, for"
                f" example -e virt_host=hv3; there are: {there}"
            )
        silence = silent.get(host)
        if silence is not None and silence.reached:
            raise PlanRefused(fencing.alive([host], f"answers ({silence.why})", fenced=False))
    if not answers:
        raise PlanRefused(f"no hypervisor answered: {proofs.named(silent)}")
    for host in hosts:
        if host in answers:
            raise PlanRefused(_there(host, answers[host]))
    for asked, answer in answers.items():
        signs = {} if asked in hosts else answer.get("signs") or {}
        for address, said in signs.items():
            of = [host for host in hosts if address in given.addresses.get(host, ())] or hosts
            if not {*of} <= {*given.ignored}:
                sign = f"{said}, as {asked} sees it"
                raise PlanRefused(fencing.alive(of, sign, fenced=False))
    for host in hosts:
        if host not in given.stated and not any(
            hears(answer, given.addresses.get(host, ())) for answer in answers.values()
        ):
            raise PlanRefused(fencing.inaudible(host))


def _there(host: str, answer: RestartLook) -> str:
    """That the hypervisor itself has answered. One that was reinstalled has cards, and none of
    their VMs, so that nothing can be moved from it."""
    cards = [card for card in answer.get("cards") or () if card["hosts"] == [host]]
    lacking = sorted(card["name"] for card in cards if not card["defined"])
    cards_say = (
        f"; by their cards it has {', '.join(lacking)}, which it has not: what can be done says"
        f" {playbook_command('repair_vms')}"
    )
    return (
        f"{host} answers, so it is not down; move its VMs with"
        f" {playbook_command('evacuate', virt_host=host)}, or switch it off first"
        f"{cards_say if lacking else ''}"
    )


def hears(answer: RestartLook, addresses: t.Collection[str]) -> bool:
    """Whether the hypervisor with this answer would have heard one of these addresses, or did."""
    heard = {*(answer.get("audible") or ()), *(answer.get("signs") or ())}
    return not heard.isdisjoint(addresses)


def without_leftovers(answers: Answers) -> dict[str, RestartLook]:
    """The answers without the VMs of which a hypervisor only has what is left from before they were
    restarted elsewhere: they are not there, and prevent nothing."""
    kept = dict(answers)
    for place, answer in answers.items():
        left = {card["uuid"] for card in answer.get("cards") or () if not card["defined"]}
        host = answer.get("host")
        if host is not None and left:
            vms = [vm for vm in host["vms"] if vm.get("uuid") not in left]
            kept[place] = {**answer, "host": {**host, "vms": vms}}
    return kept


def decide(
    off: t.Sequence[str],
    names: t.Sequence[str],
    answers: Answers,
    hosts: t.Sequence[placement.PlacementHost],
    silent: Silent,
    policy: Policy,
    stated: t.Collection[str] = (),
) -> RestartDecision:
    """Where each VM of the hypervisors ``off`` goes, those of ``names`` if there are any.

    Of ``stated`` a person says that they are off, and no device does.
    ``answers`` are of the hypervisors that responded, of which ``off`` has none.
    """
    host = " or ".join(off)
    decision = RestartDecision()
    seen: dict[str, dict[str, CardEntry]] = {}
    twice = _several(answers)
    for place, answer in answers.items():
        for entry in answer.get("cards") or ():
            if not names or entry["name"] in names:
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
        problem = twice.get(name) or _unprotected(name, off, names, seen[name], stated)
        problem = problem or _place(name, off, seen[name], answers, silent, fleet, decision)
        if problem:
            decision.failures[name] = problem
    for name, place in ((name, place) for place, own in decision.shares.items() for name in own):
        if _lockless(seen[name], off, stated):
            decision.notes.append(
                f"{seen[name][place]['path']}: no lock holds a process of {host} off the disks of"
                f" {name}; only what you state by virt_fenced does"
            )
    if decision.shares:
        # looks again once the other is switched off, so one that would hear it
        decision.agent = max(
            decision.shares, key=lambda place: len(answers[place].get("audible") or ())
        )
        decision.noting = list(answers)
        decision.notes.append(SAVED.format(host=host))
    if not names:
        decision.notes += _staying(off, [*seen, *decision.failures], answers)
    return decision


def _several(answers: Answers) -> dict[str, str]:
    """Why VMs stay of which there is more than one card: by the name, or by the UUID of a VM that
    was renamed. One hypervisor sees each file once; what another sees is the same card if it is of
    the same VM with the same disks."""
    several: dict[str, str] = {}
    first: dict[str, CardEntry] = {}
    unread = [_unread_card(why) for one in answers.values() for why in one.get("unread") or ()]
    for answer in answers.values():
        own: dict[str, str] = {}
        for entry in answer.get("cards") or ():
            name = str(entry["name"])
            for key in (name, entry["uuid"]):
                other = first.setdefault(key, entry)
                broken = [path for of, path in unread if of == key and path != entry["path"]]
                if key in own or broken:
                    why = plan.second_card(own.get(key) or broken[0], entry["path"])
                elif _content(other) != _content(entry):
                    why = (
                        f"hypervisors see different cards, {other['path']} and {entry['path']}; run"
                        " this again and, if they still do, see which of them is current"
                    )
                else:
                    own[key] = entry["path"]
                    continue
                for one in (name, str(other["name"])):
                    several[one] = why
    return several


def _unread_card(why: str) -> tuple[str, str]:
    """The VM of a card that cannot be read, by the name of its file, and the file."""
    path = f"{why.partition(f'{CARD}: ')[0]}{CARD}"
    at = parse_name(posixpath.basename(path))
    return (path if at is None else at.name), path


def _content(entry: CardEntry) -> tuple[object, ...]:
    disks = tuple(disk["path"] for disk in entry["disks"])
    return (entry["name"], entry["uuid"], *entry["hosts"], disks)


def seen_cards(names: t.Collection[str], answer: RestartLook) -> list[SeenCard]:
    """The files of the cards by which these VMs were chosen for a hypervisor, as that saw them."""
    return [
        SeenCard(entry["name"], entry["path"], entry["identity"], entry["uuid"])
        for entry in answer.get("cards") or ()
        if entry["name"] in names
    ]


def _staying(off: t.Collection[str], known: t.Collection[str], answers: Answers) -> list[str]:
    """Which other VMs the hypervisors ``off`` had, as far as anybody noted: they stay there."""
    told = {place: noted for place, answer in answers.items() if (noted := answer.get("noted"))}
    moving = {*known}
    for answer in answers.values():
        moving |= {card["name"] for card in answer.get("in_cells") or ()}
    notes = []
    for host, last in silent_notes.known(told, off).items():
        names = sorted({vm.name for vm in last.vms} - moving)
        if names:
            notes.append(
                f"on {host} stays, as {last.by} noted at {last.at}: {', '.join(names)}; no card"
                f" names them: {_WITH_CARD}"
            )
    return notes


def claims(shares: t.Mapping[str, t.Sequence[str]], answers: Answers, run: str) -> list[str]:
    """The volumes of what the others note of the VMs that go to each hypervisor: should that one
    die, too, they know where each was. ``run`` names this run; each VM has claims of its own,
    since each moves on by itself."""
    volumes: list[str] = []
    for place, names in shares.items():
        answer = answers.get(place) or RestartLook()
        host = answer.get("host")
        at = None if host is None else host.get("at")
        if host is None or at is None:
            continue
        for entry in answer.get("cards") or ():
            if entry["name"] in names:
                own = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{run} {entry['uuid']}"))
                vm = {**entry, "run": own}
                made = note.claims_of(str(host.get("uuid")), at, own, [vm])
                volumes += [claim.volume for claim in made]
    return volumes


def _lockless(
    entries: t.Mapping[str, CardEntry], off: t.Collection[str], stated: t.Collection[str]
) -> list[str]:
    """Why no lock would hold off a process of a hypervisor that is only stated to be off."""
    hosts = {host for one in entries.values() for host in one["hosts"]}
    if hosts.isdisjoint({*off} & {*stated}):
        return []
    return list(dict.fromkeys(why for one in entries.values() for why in one["lockless"]))


def _unprotected(
    name: str,
    off: t.Sequence[str],
    names: t.Collection[str],
    entries: t.Mapping[str, CardEntry],
    stated: t.Collection[str],
) -> str:
    """Why a VM stays that nothing but a person's word protects, unless it is named for it."""
    problems = [] if name in names else _lockless(entries, off, stated)
    if not problems:
        return ""
    hosts = ",".join(off)
    again = playbook_command(
        "restart_elsewhere", virt_host=hosts, virt_fenced=",".join(stated), vm_name=name
    )
    return (
        f"{'; '.join(problems)}. If {' or '.join(host for host in off if host in stated)} still"
        f" ran, two would write to the disks of {name!r}. Have it proven off by its fence devices,"
        f" without virt_fenced; or, if you have seen that it is without power, name the VM: {again}"
    )


def _memory(entries: t.Mapping[str, CardEntry]) -> int:
    return max(entry["memory_mib"] for entry in entries.values())


def _without_card(name: str, host: str, answers: Answers) -> str:
    in_cell = _of_cell(name, answers)
    if in_cell:
        return in_cell
    for place, answer in answers.items():
        if any(vm["name"] == name for vm in _vms(answer)):
            return f"{name!r} is on {place}, not on {host}"
    return f"no card of {name!r} names {host}; {_WITH_CARD}"


def _of_cell(name: str, answers: Answers) -> str:
    """Why a VM that a cell restarts is left to it; empty for one that is none's."""
    seen = [
        (place, card)
        for place, answer in answers.items()
        for card in answer.get("in_cells") or ()
        if card["name"] == name
    ]
    for place, card in seen:
        if not card["quorate"]:
            continue
        why = f"{name!r} is a VM of the cell {card['cell']!r}, which starts it elsewhere by itself"
        if card["unclean"]:
            gone = card["unclean"][0]
            stated = command_on(place, "stonith_admin", "--confirm", gone)
            return (
                f"{why} once {gone} is proven off; if you have seen that it is without power:"
                f" {stated}"
            )
        return f"{why}; if it does not run, see why: {playbook_command('doctor')}"
    if seen:
        return (
            f"{name!r} is a VM of a cell, of which no member with quorum answers, and any of them"
            " may run it; bring back more than half of its members"
        )
    return ""


def _vms(answer: RestartLook) -> t.Sequence[t.Mapping[str, object]]:
    host = answer.get("host")
    return [] if host is None else host["vms"]


def _place(
    name: str,
    off: t.Sequence[str],
    entries: t.Mapping[str, CardEntry],
    answers: Answers,
    silent: Silent,
    fleet: placement.FleetLoad,
    decision: RestartDecision,
) -> str:
    """Put one VM into ``decision``; return the reason against it, if any."""
    entry = next(iter(entries.values()))
    # seen by one hypervisor, it counts for all: others may lack the pool of the second
    seen = [why for one in entries.values() for why in one["problems"] if plan.TWO_CARDS in why]
    if seen:
        return seen[0]
    able = [place for place, one in entries.items() if not one["problems"]]
    others = [one for one in entry["hosts"] if one not in off]
    other = others[0] if others else None
    host = " and ".join(one for one in entry["hosts"] if one in off)
    if other is not None:
        problem = _begun(name, host, others, entry["hosts"], entries, answers, silent)
        if problem:
            return problem
        able = [place for place in able if place == other]
    for place, answer in answers.items():
        if place != other and any(vm.get("uuid") == entry["uuid"] for vm in _vms(answer)):
            return (
                f"{place} has a VM of the UUID of {name!r}, and no leftover of it, although its"
                f" card names {host}; see which is current before anything is started: if that on"
                f" {place}, remove {entry['path']} and run {playbook_command('repair_vms')}; else"
                " stop and undefine it there"
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
    decision.origins[name] = host
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
    others: t.Sequence[str],
    hosts: t.Sequence[str],
    entries: t.Mapping[str, CardEntry],
    answers: Answers,
    silent: Silent,
) -> str:
    """Why a VM stays whose card names ``others`` than those that are off: one that takes it over
    already, or the other end of a move. Any of them may have the VM, too."""
    dead = [one for one in others if one not in answers]
    if dead:
        reasons = [f"{one} ({silent[one].why})" if one in silent else one for one in dead]
        each = ",".join(one for one in hosts if one not in answers)
        return (
            f"the card of {name!r} names {' and '.join(hosts)}, and {' and '.join(reasons)} does"
            " not answer, but may have it; bring that back, or have all of them proven off:"
            f" {playbook_command('restart_elsewhere', virt_host=each)}"
        )
    last = hosts[-1]
    if len(others) > 1:
        also = [one for one in others if one != last]
        each = ",".join(one for one in hosts if one != last)
        return (
            f"the card of {name!r} names {' and '.join(hosts)}, and {' and '.join(also)} answers,"
            " but may have it; switch that off, and name it, too:"
            f" {playbook_command('restart_elsewhere', virt_host=each)}"
        )
    if others[0] != last:
        return (
            f"{name!r} was on its way from {others[0]} to {host}; settle its move on {others[0]}"
            f" first: {playbook_command('repair_vms', vm_name=name)}"
        )
    if last not in entries:
        return f"{last}, which the card of {name!r} names, does not see it; mount its storage there"
    return ""
