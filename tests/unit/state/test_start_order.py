# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VMs are started in their order and end in reverse."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state import plan as state_plan
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state import start_order
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state.plan import Facts, Wanted

_ORDERS = {"web1": 20, "db1": 10, "any1": None, "web2": 20, "first": 0}
_UP = [["first"], ["db1"], ["web1", "web2"], ["any1"]]


@pytest.mark.parametrize(
    ("wanted", "rounds"),
    [
        (Wanted("running"), _UP),
        (Wanted(reboot=True), _UP),
        (Wanted("running", reset=True), _UP),
        (Wanted("shutoff"), _UP[::-1]),
        (Wanted("saved"), _UP[::-1]),
        (Wanted("paused"), _UP[::-1]),
        (Wanted(autostart=True), [list(_ORDERS)]),
        (Wanted(reset=True), [list(_ORDERS)]),
    ],
)
def test_rounds(wanted: Wanted, rounds: list[list[str]]) -> None:
    assert start_order.rounds(list(_ORDERS), _ORDERS.__getitem__, wanted) == rounds
    assert start_order.rounds([], _ORDERS.__getitem__, wanted) == []


@pytest.mark.parametrize(
    ("facts", "wanted", "seconds"),
    [
        (Facts("a", "shutoff", delay=7), Wanted("running"), 7),
        (Facts("a", "shutoff", managed_save=True, delay=7), Wanted("running"), 7),
        (Facts("a", "crashed", active=True, delay=7), Wanted("running"), 7),
        (Facts("a", "running", active=True, delay=7), Wanted(reboot=True), 7),
        (Facts("a", "running", active=True, delay=7), Wanted("running"), 0),
        (Facts("a", "paused", "user", active=True, delay=7), Wanted("running"), 0),
        (Facts("a", "running", active=True, delay=7), Wanted("shutoff"), 0),
    ],
)
def test_only_what_was_started_is_waited_for(facts: Facts, wanted: Wanted, seconds: int) -> None:
    plan = state_plan.plan(facts, wanted)
    assert not plan.refusals
    other = Facts("b", "shutoff", delay=3)
    assert start_order.delay([(facts, plan)]) == seconds
    both = [(facts, plan), (other, state_plan.plan(other, Wanted("running")))]
    assert start_order.delay(both) == max(seconds, 3)
    assert start_order.delay([]) == 0
