# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Notes of hypervisors about one another, and what they prove while one of them is silent."""

from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import as_mapping
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import proofs
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes import note, rule
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.facts import (
    Placing,
    vms_of,
)
from ansible_collections.fleet.virt.plugins.module_utils._records import dataclass, field
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _stated
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import to_plain
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction

Answers = t.Mapping[str, Placing]
UNASKED = "virt_unasked"


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
) -> rule.Standing:
    """What is known of hypervisors that gave no answer; ``expected`` are those of the fleet, of
    which ``--limit`` may have left out some. Raises PlanRefused for unknown names, and if none
    answered."""
    there = answering(answers)
    known = list(dict.fromkeys([*answers, *expected]))
    problem = proofs.unknown_lost(lost, known) or proofs.unknown_names(UNASKED, excused, known)
    if problem:
        raise PlanRefused(problem)
    silent = proofs.missing("create", proofs.silences(answers, list(there), expected, lost))
    if silent and not there:
        raise PlanRefused(f"no hypervisor answered: {proofs.named(silent)}")
    return rule.judge(there, silent, texts, {*excused, *lost})


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
    for name, holder in there.items():
        others = {readings[other]: vms[other] for other in readings if other != name}
        wanted = note.lacking(note.notes(holder.held), others)
        if wanted:
            missing.lacks[name] = [reading.volume for reading in wanted]
            missing.readings.update(
                {
                    readings[o].volume: note.packed(texts[o])
                    for o in readings
                    if readings[o] in wanted
                }
            )
    held = {name: holder.held for name, holder in there.items()}
    machines = {name: holder.machine for name, holder in there.items()}
    for name, claims in note.passed_on(held, machines).items():
        if claims:
            missing.lacks[name] = [*claims, *missing.lacks.get(name, ())]
    return missing


def claims(claimed: Answers, run: str, but: str = "") -> list[str]:
    """The volumes of what ``run`` claims on hypervisors other than ``but``."""
    volumes = []
    for name, answer in claimed.items():
        host = answer.get("host")
        if host is not None and name != but and (at := host.get("at")) is not None:
            made = note.claims_of(str(host.get("uuid")), at, run, host["vms"])
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
