# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which steps lead from every state libvirt knows to the one that is wanted."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import states
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.steps import (
    interrupted,
    predict,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state.actions import StateFacts
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state.operations import (
    GOALS,
    OPERATIONS,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state.options import require_sound
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state.plan import (
    StateRequest,
    is_reached,
    plan,
)
from ansible_collections.fleet.virt.tests.unit.state.operation_cases import CASES, facts


def kinds(now: StateFacts, wanted: StateRequest) -> list[str]:
    found = plan(now, wanted)
    assert not found.refusals
    return [type(step.action).__name__ for step in found.steps]


def refused(now: StateFacts, wanted: StateRequest) -> str:
    found = plan(now, wanted)
    assert not found.steps
    (text,) = found.refusals
    return text


# state, reason, steps to running, steps to shutoff; text: a part of why not
TABLE: list[tuple[str, str, list[str] | str, list[str] | str]] = [
    ("running", "booted", [], ["Shutdown"]),
    ("blocked", "unknown", [], ["Shutdown"]),
    ("shutoff", "shutdown", ["Start"], []),
    ("shutoff", "crashed", ["Start"], []),
    ("shutdown", "user", ["AwaitOff", "Start"], ["AwaitOff"]),
    ("crashed", "panicked", ["DestroyCrashed", "Start"], ["DestroyCrashed"]),
    ("pmsuspended", "unknown", ["Wake"], ["Wake", "Shutdown"]),
    ("nostate", "unknown", "cannot say whether it runs", "cannot say whether it runs"),
    ("unknown", "unknown", "cannot say whether it runs", "cannot say whether it runs"),
    ("paused", "user", ["Resume"], ["Resume", "Shutdown"]),
    ("paused", "unknown", ["Resume"], ["Resume", "Shutdown"]),
    ("paused", "ioerror", ["Resume"], ["Resume", "Shutdown"]),
    ("paused", "watchdog", ["Resume"], ["Resume", "Shutdown"]),
    ("paused", "from_snapshot", ["Resume"], ["Resume", "Shutdown"]),
    ("paused", "api_error", ["Resume"], ["Resume", "Shutdown"]),
    ("paused", "crashed", ["DestroyCrashed", "Start"], ["DestroyCrashed"]),
    ("paused", "starting_up", ["AwaitRunning"], ["AwaitRunning", "Shutdown"]),
    ("paused", "shutting_down", ["AwaitOff", "Start"], ["AwaitOff"]),
    ("paused", "migration", "being migrated", "being migrated"),
    ("paused", "postcopy", "being migrated", "being migrated"),
    ("paused", "postcopy_failed", "failed halfway", "failed halfway"),
    ("paused", "save", "being saved", "being saved"),
    ("paused", "dump", "being dumped", "being dumped"),
    ("paused", "snapshot", "snapshot of it", "snapshot of it"),
]


@pytest.mark.parametrize(("state", "reason", "to_running", "to_off"), TABLE)
def test_every_state_has_a_way_or_a_reason(
    state: str, reason: str, to_running: list[str] | str, to_off: list[str] | str
) -> None:
    for wanted, expected in (("running", to_running), ("shutoff", to_off)):
        now = facts(state, reason)
        if isinstance(expected, str):
            assert expected in refused(now, StateRequest(wanted))
            continue
        steps = plan(now, StateRequest(wanted)).steps
        assert [type(step.action).__name__ for step in steps] == expected
        assert all(step.text for step in steps)
        assert predict(now, steps).state == (wanted if expected else state)


def test_the_table_has_every_state_and_every_reason_for_a_pause() -> None:
    there = {(state, reason) for state, reason, _, _ in TABLE}
    assert {state for state, _ in there} >= set(states.STATES)
    paused = {states.reason_name("paused", number) for number in range(15)}
    assert {reason for state, reason in there if state == "paused"} == paused


def test_saved_memory_is_restored_and_never_thrown_away() -> None:
    saved = facts("shutoff", "saved", managed_save=True)
    steps = plan(saved, StateRequest("running")).steps
    assert [type(step.action).__name__ for step in steps] == ["Restore"]
    assert "saved memory" in steps[0].text
    assert kinds(saved, StateRequest("shutoff")) == []


def test_autostart_is_left_alone_unless_asked_for() -> None:
    for now in (True, False):
        assert kinds(facts("running", autostart=now), StateRequest("running")) == []
    assert kinds(facts("running"), StateRequest(autostart=True)) == ["Autostart"]
    assert kinds(facts("running", autostart=True), StateRequest(autostart=False)) == ["NoAutostart"]
    assert kinds(facts("shutoff"), StateRequest("running", autostart=True)) == [
        "Autostart",
        "Start",
    ]
    assert kinds(facts("paused", autostart=True), StateRequest(autostart=True)) == []


@pytest.mark.parametrize("phase", ["creating", "migrating", "purging", "of-a-later-version"])
def test_a_phase_keeps_everybody_away(phase: str) -> None:
    for now, wanted in [
        (facts("shutoff", phase=phase), StateRequest("running")),
        (facts("running", phase=phase), StateRequest("shutoff")),
        (facts("shutoff", phase=phase), StateRequest(autostart=True)),
    ]:
        assert f"'web1' is in phase {phase}" in refused(now, wanted)
    assert kinds(facts("running", phase=phase), StateRequest("running")) == []


def test_vm_in_unfinished_move_names_the_command_that_finishes() -> None:
    said = refused(facts("shutoff", phase="migrating"), StateRequest("running"))
    assert "end its move (ansible-playbook fleet.virt.repair_vms -e vm_name=web1)" in said


def test_a_transient_domain_is_not_lost() -> None:
    transient = facts("running", persistent=False)
    assert "would disappear" in refused(transient, StateRequest("shutoff"))
    assert "define it first" in refused(transient, StateRequest(autostart=True))
    assert kinds(facts("paused", "user", persistent=False), StateRequest("running")) == ["Resume"]


def test_a_domain_that_is_gone_is_not_destroyed_again() -> None:
    """Not every driver keeps a process for a crashed domain."""
    gone = facts("crashed", "panicked", active=False)
    assert kinds(gone, StateRequest("running")) == ["Start"]
    assert kinds(gone, StateRequest("shutoff")) == []


def test_steps_say_how_long_and_whether_by_force() -> None:
    running = facts("running")
    assert plan(running, StateRequest("shutoff", shutdown_timeout=90.0)).steps[0].text == (
        "shut down, within 90 s"
    )
    assert plan(running, StateRequest("shutoff", force=True)).steps[0].text == (
        "shut down, within 120 s or by force"
    )


def test_a_seed_medium_that_has_done_its_work_goes_first() -> None:
    now = facts("running", seed_medium="web1_seed.iso")
    assert kinds(now, StateRequest("shutoff")) == ["SeedMedium", "Shutdown"]
    steps = plan(now, StateRequest("running")).steps
    assert [step.text for step in steps] == ["remove the seed medium"]
    assert predict(now, steps) == facts("running")
    assert "in phase migrating" in refused(
        facts("running", seed_medium="web1_seed.iso", phase="migrating"), StateRequest()
    )


@pytest.mark.parametrize("wanted", ["running", "shutoff"])
def test_whatever_is_left_by_a_kill_leads_there_all_the_same(wanted: str) -> None:
    """Before, within and after every step: another plan, with which it is as wanted."""
    seen = 0
    for state, reason, *_ in TABLE:
        for saved in (True, False):
            now = facts(
                state, reason, managed_save=saved and state == "shutoff", seed_medium="seed.iso"
            )
            asked = StateRequest(wanted, autostart=True)
            for when, left in interrupted(now, plan(now, asked).steps):
                again = plan(left, asked)
                assert not again.refusals, when
                after = predict(left, again.steps)
                assert is_reached(after, wanted), when
                assert after.autostart, when
                assert (after.seed_medium, after.managed_save) == (
                    (None, False) if wanted == "running" else (None, now.managed_save)
                ), when
                seen += 1
    assert seen > 100


def test_every_operation_has_its_cases() -> None:
    assert set(CASES) == set(OPERATIONS)
    for name, operation in OPERATIONS.items():
        assert operation.action.operation == name


@pytest.mark.parametrize(
    ("name", "now", "state", "expected"),
    [(name, *row) for name, case in CASES.items() for row in case.plans],
)
def test_operation_from_each_state_has_a_way_or_a_reason(
    name: str, now: StateFacts, state: str | None, expected: list[str] | str
) -> None:
    asked = StateRequest(state, operations=(name,))
    if isinstance(expected, str):
        assert expected in refused(now, asked)
        return
    assert kinds(now, asked) == expected
    steps = plan(now, asked).steps
    done = type(steps[-1].action) is OPERATIONS[name].action
    assert predict(now, steps).operations == ((name,) if done else ())
    assert "in phase purging" in refused(replace(now, phase="purging"), asked)


@pytest.mark.parametrize(
    ("name", "now", "state"),
    [
        (name, now, state)
        for name, case in CASES.items()
        for now, state, expected in case.plans
        if not isinstance(expected, str)
    ],
)
def test_operation_killed_anywhere_is_finished(
    name: str, now: StateFacts, state: str | None
) -> None:
    asked = StateRequest(state, operations=(name,))
    for when, left in interrupted(now, plan(now, asked).steps):
        again = plan(left, asked)
        assert not again.refusals, when
        assert is_reached(predict(left, again.steps), asked.end), when


# state, reason, steps to paused, steps to saved; text: a part of why not
KEEPING: list[tuple[str, str, list[str] | str, list[str] | str]] = [
    ("running", "booted", ["Suspend"], ["Save"]),
    ("blocked", "unknown", ["Suspend"], ["Save"]),
    ("paused", "user", [], ["Save"]),
    ("paused", "ioerror", [], ["Save"]),
    ("paused", "starting_up", ["AwaitRunning", "Suspend"], ["AwaitRunning", "Save"]),
    (
        "paused",
        "shutting_down",
        "only a running domain can be paused",
        "only a running domain can be saved",
    ),
    (
        "paused",
        "crashed",
        "only a running domain can be paused",
        "only a running domain can be saved",
    ),
    ("paused", "migration", "being migrated", "being migrated"),
    ("paused", "save", "being saved", "being saved"),
    ("pmsuspended", "unknown", ["Wake", "Suspend"], ["Wake", "Save"]),
    (
        "shutoff",
        "shutdown",
        "only a running domain can be paused",
        "only a running domain can be saved",
    ),
    (
        "shutdown",
        "user",
        "only a running domain can be paused",
        "only a running domain can be saved",
    ),
    (
        "crashed",
        "panicked",
        "only a running domain can be paused",
        "only a running domain can be saved",
    ),
    (
        "nostate",
        "unknown",
        "only a running domain can be paused",
        "only a running domain can be saved",
    ),
]


@pytest.mark.parametrize(("state", "reason", "to_paused", "to_saved"), KEEPING)
def test_memory_is_kept_of_what_has_some(
    state: str, reason: str, to_paused: list[str] | str, to_saved: list[str] | str
) -> None:
    for wanted, expected in (("paused", to_paused), ("saved", to_saved)):
        now = facts(state, reason)
        if isinstance(expected, str):
            assert expected in refused(now, StateRequest(wanted))
            continue
        assert kinds(now, StateRequest(wanted)) == expected
        assert is_reached(predict(now, plan(now, StateRequest(wanted)).steps), wanted)


def test_what_is_saved_stays_so_and_a_transient_domain_is_not_saved() -> None:
    assert kinds(facts("shutoff", "saved", managed_save=True), StateRequest("saved")) == []
    assert "libvirt saves no memory" in refused(
        facts("running", persistent=False), StateRequest("saved")
    )
    assert kinds(facts("running", persistent=False), StateRequest("paused")) == ["Suspend"]


@pytest.mark.parametrize(
    ("wanted", "part"),
    [
        (StateRequest(), "nothing is requested"),
        *[
            (StateRequest(operations=pair), f"{CASES[pair[1]].contradicts}, and {pair[0]} does not")
            for pair in itertools.combinations(CASES, 2)
        ],
        *[
            (StateRequest(state, operations=(name,)), f"{case.contradicts}, and state {state} does")
            for name, case in CASES.items()
            for state in GOALS
            if state != "running"
        ],
        (StateRequest("shutoff", shutdown_timeout=-1), "shutdown_timeout: -1 is no time to wait"),
    ],
)
def test_what_cannot_be_meant_is_refused(wanted: StateRequest, part: str) -> None:
    with pytest.raises(PlanRefused, match=part):
        require_sound(wanted)


@pytest.mark.parametrize("name", CASES)
def test_operation_single_or_with_running_is_sound(name: str) -> None:
    require_sound(StateRequest(operations=(name,)))
    require_sound(StateRequest("running", operations=(name,)))
