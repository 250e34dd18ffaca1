# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Restart the VMs that need it: never two of a group at once, and no more after one failed."""

from __future__ import annotations

import typing as t

from ..._records import dataclass, field
from ..base.json_values import as_list, as_mapping, as_mappings
from ..engine.outcomes import Answer, outcomes
from .facts import Brought, StateLook, StateVm

Shares = t.Mapping[str, t.Sequence[str]]
# VMs without a group are restarted one after another too
_NO_GROUP = ("",)


@dataclass(frozen=True)
class Order:
    """The VMs restarted at the same time, by round and hypervisor, and the groups of each.

    ``unread``: VMs with unknown groups, with the reason; they are not restarted.
    """

    rounds: list[dict[str, list[str]]] = field(default_factory=list)
    groups: dict[str, list[str]] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Noted:
    """Their outcomes: ``failures`` by name, ``left`` are those of later rounds not begun."""

    restarted: list[str] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)


def required(
    made: t.Mapping[str, Answer], done: t.Mapping[str, t.Sequence[Answer]]
) -> dict[str, list[str]]:
    """The VMs by hypervisor that have changes waiting for their next start.

    ``made`` are answers, ``done`` the entries of earlier rounds of provisioning.
    """
    vms_by_host: dict[str, list[str]] = {}
    for host in dict.fromkeys([*done, *made]):
        entries = [*done.get(host, ()), *as_mappings((made.get(host) or {}).get("vms"))]
        names = [str(entry["name"]) for entry in entries if entry.get("restart_required") is True]
        if names:
            vms_by_host[host] = list(dict.fromkeys(names))
    return vms_by_host


def order(shares: Shares, answers: t.Mapping[str, StateLook]) -> Order:
    """Rounds for ``shares``; in none of them are two VMs of one group. ``answers`` have groups."""
    schedule = Order()
    places: dict[str, str] = {}
    for outcome in outcomes(shares, answers, StateVm):
        if outcome.entry is None or outcome.problem is not None:
            schedule.unread[outcome.name] = str(outcome.problem)
            continue
        places[outcome.name] = outcome.host
        schedule.groups[outcome.name] = outcome.entry["groups"]
    taken: list[set[str]] = []
    for name in sorted(places):
        own = set(schedule.groups[name] or _NO_GROUP)
        number = next((i for i, groups in enumerate(taken) if not own & groups), len(taken))
        if number == len(taken):
            taken.append(set())
            schedule.rounds.append({})
        taken[number] |= own
        schedule.rounds[number].setdefault(places[name], []).append(name)
    return schedule


def read_order(given: t.Mapping[str, object] | None) -> Order:
    """Parse an order returned through Ansible."""
    known = as_mapping(given)
    return Order(
        [{host: _texts(names) for host, names in shares.items()} for shares in _rounds(known)],
        {name: _texts(groups) for name, groups in as_mapping(known.get("groups")).items()},
        {name: str(why) for name, why in as_mapping(known.get("unread")).items()},
    )


def _rounds(known: t.Mapping[str, object]) -> list[t.Mapping[str, object]]:
    return [as_mapping(shares) for shares in as_list(known.get("rounds"))]


def _texts(values: object) -> list[str]:
    return [str(value) for value in as_list(values)]


def read_noted(given: t.Mapping[str, object] | None) -> Noted:
    """Parse earlier outcomes returned through Ansible."""
    known = as_mapping(given)
    failures = {name: str(why) for name, why in as_mapping(known.get("failures")).items()}
    return Noted(_texts(known.get("restarted")), failures, _texts(known.get("left")))


@dataclass(frozen=True)
class Answers:
    """One round, by hypervisor: who answered before it, its results, who answers now."""

    before: t.Mapping[str, Answer]
    restarted: t.Mapping[str, Brought]
    waited: t.Mapping[str, Answer]


def note(known: Order, number: int, answers: Answers, earlier: Noted) -> Noted:
    """The outcome of round ``number``, and the VMs left out because of it."""
    shares = {
        host: [name for name in names if name not in earlier.left]
        for host, names in known.rounds[number].items()
    }
    noted = Noted([*earlier.restarted], {**known.unread, **earlier.failures}, [*earlier.left])
    answered = _answered(answers.before)
    again: dict[str, list[str]] = {}
    failed: list[str] = []
    for outcome in outcomes(shares, answers.restarted):
        if outcome.problem is not None:
            noted.failures[outcome.name] = outcome.problem
            failed.append(outcome.name)
            continue
        noted.restarted.append(outcome.name)
        if outcome.name in answered:
            again.setdefault(outcome.host, []).append(outcome.name)
    for outcome in outcomes(again, answers.waited):
        entry = outcome.entry or {}
        if entry.get("answered") is False or outcome.problem is not None:
            why = (
                outcome.problem
                or f"{outcome.name} on {outcome.host}: {entry.get('msg') or 'no answer'}"
            )
            noted.failures[outcome.name] = f"{why}; it was restarted and no longer answers"
            failed.append(outcome.name)
    for host, name in _later(known, number):
        if name in noted.left:
            continue
        stops = [(other, group) for other in failed for group in _common(known, name, other)]
        if stops:
            noted.left.append(name)
            noted.failures[name] = f"{name} on {host}: {_not_begun(*stops[0])}"
    return noted


def _answered(before: t.Mapping[str, Answer]) -> set[str]:
    return {
        str(vm["name"])
        for answer in before.values()
        for vm in as_mappings(answer.get("vms"))
        if vm.get("answered") is True
    }


def _later(known: Order, number: int) -> t.Iterator[tuple[str, str]]:
    for shares in known.rounds[number + 1 :]:
        for host, names in shares.items():
            for name in names:
                yield host, name


def _common(known: Order, name: str, other: str) -> list[str]:
    groups = known.groups.get(other) or _NO_GROUP
    return [group for group in known.groups.get(name) or _NO_GROUP if group in groups]


def _not_begun(other: str, group: str) -> str:
    of = f"of its group {group!r}" if group else "in no group either"
    return (
        f"it was not restarted because {other!r}, {of}, failed before it; fix that and run the"
        " same command again"
    )
