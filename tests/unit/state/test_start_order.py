# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VMs are started in their order and end in reverse."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state import plan as state_plan
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state import start_order
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state.actions import StateFacts
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state.plan import StateRequest
from ansible_collections.fleet.virt.tests.unit.state.operation_cases import CASES

_ORDERS = {"web1": 20, "db1": 10, "any1": None, "web2": 20, "first": 0}
_UP = [["first"], ["db1"], ["web1", "web2"], ["any1"]]


@pytest.mark.parametrize(
    ("wanted", "rounds"),
    [
        (StateRequest("running"), _UP),
        (StateRequest("shutoff"), _UP[::-1]),
        (StateRequest("saved"), _UP[::-1]),
        (StateRequest("paused"), _UP[::-1]),
        (StateRequest(autostart=True), [list(_ORDERS)]),
        *[(StateRequest("running", operations=(name,)), _UP) for name in CASES],
        *[
            (StateRequest(operations=(name,)), _UP if case.ordered else [list(_ORDERS)])
            for name, case in CASES.items()
        ],
    ],
)
def test_rounds(wanted: StateRequest, rounds: list[list[str]]) -> None:
    assert start_order.rounds(list(_ORDERS), _ORDERS.__getitem__, wanted) == rounds
    assert start_order.rounds([], _ORDERS.__getitem__, wanted) == []


@pytest.mark.parametrize(
    ("facts", "wanted", "seconds"),
    [
        (StateFacts("a", "shutoff", delay=7), StateRequest("running"), 7),
        (StateFacts("a", "shutoff", managed_save=True, delay=7), StateRequest("running"), 7),
        (StateFacts("a", "crashed", active=True, delay=7), StateRequest("running"), 7),
        (StateFacts("a", "running", active=True, delay=7), StateRequest(operations=("reboot",)), 7),
        (StateFacts("a", "running", active=True, delay=7), StateRequest("running"), 0),
        (StateFacts("a", "paused", "user", active=True, delay=7), StateRequest("running"), 0),
        (StateFacts("a", "running", active=True, delay=7), StateRequest("shutoff"), 0),
    ],
)
def test_only_what_was_started_is_waited_for(
    facts: StateFacts, wanted: StateRequest, seconds: int
) -> None:
    plan = state_plan.plan(facts, wanted)
    assert not plan.refusals
    other = StateFacts("b", "shutoff", delay=3)
    assert start_order.delay([(facts, plan)]) == seconds
    both = [(facts, plan), (other, state_plan.plan(other, StateRequest("running")))]
    assert start_order.delay(both) == max(seconds, 3)
    assert start_order.delay([]) == 0
