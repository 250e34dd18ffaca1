# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the proof of a backup: what was left goes first, then one more is made."""

from __future__ import annotations

import dataclasses
import functools

from ..engine.steps import Plan, Step
from .definition import name_of
from .facts import ClearProof, ProofFacts, Prove
from .options import READ, SavedArchive


def plan(facts: ProofFacts, wanted: SavedArchive, depth: str) -> Plan[ProofFacts]:
    """The steps to one more proof."""
    steps = [_clear(uuid) for uuid in facts.left]
    what = f"{wanted.archive} of {wanted.vm}"
    if wanted.unbootable:
        text = f"read {what} back"
    else:
        text = f"{'read back and ' if depth == READ else ''}boot {what}"
    # Whatever a kill leaves is of this run's VM, which is new, and goes first the next time
    torn = functools.partial(_torn, uuid=wanted.proof)
    steps.append(Step(Prove(), text, _proven, torn=(torn,)))
    return Plan(tuple(steps))


def _clear(uuid: str) -> Step[ProofFacts]:
    effect = functools.partial(_cleared, uuid=uuid)
    return Step(ClearProof(uuid), f"remove {name_of(uuid)}, which a killed proof has left", effect)


def _cleared(facts: ProofFacts, *, uuid: str) -> ProofFacts:
    return dataclasses.replace(facts, left=tuple(left for left in facts.left if left != uuid))


def _proven(facts: ProofFacts) -> ProofFacts:
    return dataclasses.replace(facts, proven=True)


def _torn(facts: ProofFacts, *, uuid: str) -> ProofFacts:
    return dataclasses.replace(facts, left=(*facts.left, uuid))
