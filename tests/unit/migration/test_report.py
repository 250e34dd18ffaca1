# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a repair says of cards."""

from __future__ import annotations

from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards.facts import CardEntry
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.report import report


def _repaired(*done: CardEntry, check: bool = False) -> tuple[str, list[str]]:
    lacking: list[CardEntry] = [
        {"name": "web1", "problem": None, "leftover": None},
        {"name": "web2", "problem": "a leftover"},
    ]
    answers = {"hv1": {"vms": [], "cards": list(done)}}
    cards = {"hv1": lacking}
    return report([], {"hv1": []}, answers, cards=cards, state="repaired", check=check)


def test_written_card_is_reported() -> None:
    text, failures = _repaired({"name": "web1", "problem": None, "leftover": None})
    assert text == "web1: its card on shared storage was written\n"
    assert failures == ["hv1: a leftover"]
    text, _failures = _repaired({"name": "web1", "problem": None, "leftover": None}, check=True)
    assert text == "web1: its card on shared storage would be written\n"


def test_card_that_was_not_written_is_a_failure() -> None:
    assert "hv1: the card of 'web1' on shared storage was not written" in _repaired()[1]
    assert "hv1: full" in _repaired({"name": "web1", "problem": "full", "leftover": None})[1]
