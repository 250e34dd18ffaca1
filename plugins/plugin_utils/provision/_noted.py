# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Notes of hypervisors about one another, and what they prove while one of them is silent."""

from __future__ import annotations

import collections
import itertools
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import as_mapping
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import proofs
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes import note, rule
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.facts import (
    Placing,
    vms_of,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.facts import Claims
from ansible_collections.fleet.virt.plugins.module_utils._records import dataclass, field
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _stated
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import to_plain
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction

Answers = t.Mapping[str, Placing]
UNASKED = "virt_unasked"
_MOST = 768 * 1024  # bytes of readings that replace others, with one change of the fleet
_NAMED = 2  # times that each is named


def unasked(action: StagedAction[t.Any]) -> list[str]:
    """The hypervisors that this run need not ask, as an extra variable states."""
    return _stated.for_this_run(action, UNASKED)


def answering(answers: Answers) -> dict[str, rule.Answering]:
    """The hypervisors that answered, with the notes that they hold."""
    return {
        name: rule.Answering(str(host.get("uuid")), host.get("notes") or ())
        for name, answer in answers.items()
        if (host := answer.get("host")) is not None
    }


def standing(
    answers: Answers,
    lost: t.Collection[str],
    expected: t.Sequence[str],
    excused: t.Collection[str],
    texts: rule.Texts,
    *,
    only_macs: bool = False,
) -> rule.Standing:
    """What is known of hypervisors that gave no answer; ``expected`` are those of the fleet, of
    which ``--limit`` may have left out some. ``only_macs``: no VM is new, but MAC addresses of VMs
    are. Raises PlanRefused for unknown names, and if none answered."""
    there = answering(answers)
    known = list(dict.fromkeys([*answers, *expected]))
    problem = proofs.unknown_lost(lost, known) or proofs.unknown_names(UNASKED, excused, known)
    if problem:
        raise PlanRefused(problem)
    silent = proofs.missing("create", proofs.silences(answers, list(there), expected, lost))
    if silent and not there:
        raise PlanRefused(f"no hypervisor answered: {proofs.named(silent)}")
    told = {"done": "changed", "what": "with that MAC address"} if only_macs else {}
    return rule.judge(there, silent, texts, {*excused, *lost}, **told)


def text_of(name: str, answer: Placing) -> str:
    """The content of the reading of a hypervisor."""
    return note.text_of(name, vms_of(answer))


@dataclass
class Distribution:
    """What hypervisors lack of the notes, by their volumes, and the content of ``readings``."""

    lacks: dict[str, list[str]] = field(default_factory=dict)
    readings: dict[str, str] = field(default_factory=dict)


def distribution(answers: Answers) -> Distribution:
    """What each hypervisor that answered is to note, now that the fleet is changed."""
    texts = {name: text_of(name, answer) for name, answer in answers.items()}
    readings = {
        name: note.reading(str(host.get("uuid")), at, texts[name])
        for name, answer in answers.items()
        if (host := answer.get("host")) is not None and (at := host.get("at")) is not None
    }
    opened = {name: note.opened(reading, texts[name]) for name, reading in readings.items()}
    vms = {name: body[1] if body else [] for name, body in opened.items()}
    there = answering(answers)
    missing = Distribution()
    lacked: dict[str, dict[note.Reading, note.Reading | None]] = {}
    for name, holder in there.items():
        others = {readings[other]: vms[other] for other in readings if other != name}
        known = note.notes(holder.held)
        last = note.latest(known)
        lacked[name] = {one: last.get(one.machine) for one in note.lacking(known, others)}
    packed = {
        reading: note.packed(texts[name])
        for name, reading in readings.items()
        if any(reading in wanted for wanted in lacked.values())
    }
    later = _later(lacked, packed)
    for name, wanted in lacked.items():
        now = [one for one, before in wanted.items() if before is None or one not in later]
        if now:
            missing.lacks[name] = [reading.volume for reading in now]
            missing.readings.update({reading.volume: packed[reading] for reading in now})
    held = {name: holder.held for name, holder in there.items()}
    machines = {name: holder.machine for name, holder in there.items()}
    for name, claims in note.passed_on(held, machines).items():
        if claims:
            missing.lacks[name] = [*claims, *missing.lacks.get(name, ())]
    return missing


def _later(
    lacked: t.Mapping[str, t.Mapping[note.Reading, note.Reading | None]],
    packed: t.Mapping[note.Reading, str],
) -> set[note.Reading]:
    """The readings that replace older ones and are sent with a later change, so that what one
    change sends is limited however many VMs came or went since the last.

    What was made by the collection since is claimed, and claims are not put off. The reading goes
    first that replaces the oldest, by the clock of its hypervisor.
    """
    ages: dict[note.Reading, int] = {}
    sizes: collections.Counter[note.Reading] = collections.Counter()
    for wanted in lacked.values():
        for reading, before in wanted.items():
            if before is not None:
                ages[reading] = max(ages.get(reading, 0), reading.at - before.at)
                sizes[reading] += len(packed[reading]) + _NAMED * len(reading.volume)
    oldest = sorted(ages, key=lambda reading: (-ages[reading], reading.volume))
    sums = itertools.accumulate(sizes[reading] for reading in oldest)
    return {reading for reading, sent in zip(oldest, sums) if sent > _MOST and reading != oldest[0]}


def claims(claimed: t.Mapping[str, Claims], run: str, but: str = "") -> list[str]:
    """The volumes of what ``run`` claims on hypervisors other than ``but``."""
    volumes = []
    for name, answer in claimed.items():
        host = answer.get("host")
        if host is not None and name != but and (at := host.get("at")) is not None:
            machine, more = str(host.get("uuid")), answer.get("added_macs") or {}
            added = {str(vm.get("uuid")): more.get(vm["name"], []) for vm in host["vms"]}
            made = note.claims_of(machine, at, run, host["vms"])
            made += note.claims_of_macs(machine, at, run, added)
            volumes += [claim.volume for claim in made]
    return volumes


def texts_by_name(given: object) -> dict[str, str]:
    """Contents by volume, as a decision has them."""
    return {str(name): str(text) for name, text in as_mapping(to_plain(given)).items()}


def noted(answers: t.Mapping[str, t.Mapping[str, object]]) -> dict[str, str]:
    """The readings of silent machines that hypervisors told."""
    told: dict[str, str] = {}
    for answer in answers.values():
        told.update(texts_by_name(answer.get("noted")))
    return told
