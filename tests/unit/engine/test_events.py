# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a hook and the journals are told of outcomes."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import events
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.outcomes import (
    Failure,
    Outcome,
)

CALLER = events.Caller("alice", "run-1", "virt_state")


@pytest.mark.parametrize(
    ("entry", "problem", "word", "news"),
    [
        ({"changed": True}, None, "changed", True),
        ({"changed": False}, None, "unchanged", False),
        ({"changed": False, "not_tried": True}, None, "not_tried", False),
        ({"changed": True}, Failure("hv1", "web1 on hv1: no"), "failed", True),
        (None, Failure("hv1", "web1 on hv1: it did not answer"), "failed", True),
    ],
)
def test_outcome_of_each_kind_has_its_word(
    entry: Mapping[str, object] | None, problem: str | None, word: str, news: bool
) -> None:
    event = events.of_outcome(CALLER, Outcome("hv1", "web1", entry, problem))
    assert (event.outcome, event.is_news, event.message) == (word, news, problem)


def test_event_is_single_line_of_ascii_with_any_name() -> None:
    caller = events.Caller("a\nb\x1b[31m\u202e", "run-1", "virt_state")
    event = events.Event(caller, "hv1", "web\n1", "failed", "\u2028" + "x" * 10_000)
    assert event.json.isascii()
    assert event.json.isprintable()
    assert len(event.json) < 3000
    told = json.loads(event.json)
    assert told["person"] == caller.person
    assert told["vm"] == "web\n1"
    assert list(told) == [
        *("event", "verb", "vm", "host", "outcome", "message", "person", "run"),
    ]


def test_module_result_has_event_per_changed_or_failed_vm() -> None:
    vms = [
        {"name": "web1", "changed": True, "failed": False, "msg": None},
        {"name": "web2", "changed": False, "failed": False, "msg": "as it was"},
        {"name": "web3", "changed": False, "failed": True, "msg": "refused"},
        {"name": "web4", "changed": False, "error": "cannot be read"},
    ]
    told = events.of_module(CALLER, "hv1", {"changed": True, "vms": vms})
    assert [(event.vm, event.outcome, event.message) for event in told] == [
        ("web1", "changed", None),
        ("web3", "failed", "refused"),
        ("web4", "failed", "cannot be read"),
    ]


@pytest.mark.parametrize(
    ("result", "count"),
    [
        ({"changed": True}, 1),
        ({"changed": False}, 0),
        ({"changed": False, "vms": [{"name": "web1", "error": "cannot be read"}]}, 0),
        ({"changed": False, "failed": True, "msg": "refused"}, 0),
    ],
)
def test_module_without_vms_has_event_if_changed(result: Mapping[str, object], count: int) -> None:
    told = events.of_module(CALLER, "hv1", result)
    assert [(event.host, event.vm) for event in told] == [("hv1", None)] * count
