# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Many things of which some hang: each costs its own limit, together not much more."""

from __future__ import annotations

import os
import re
import threading
import time

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import (
    DeadlineExceeded,
    FleetVirtError,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    effects_deadline as deadline,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_deadline import (
    Failed,
    Ok,
)

SECONDS = 0.2


def act(item: str) -> str:
    """What the item says: hang for good, fail, have a defect, or return."""
    if item.startswith("hang"):
        threading.Event().wait()
    if item.startswith("fail"):
        raise FleetVirtError(f"{item} failed")
    if item.startswith("bug"):
        raise RuntimeError(item)
    return item.upper()


def said(outcome: deadline.Outcome[str]) -> str:
    return str(outcome.error) if isinstance(outcome, Failed) else outcome.value


def no_answer(item: str) -> str:
    return f"ask {item}: no answer within {SECONDS:g} seconds"


@pytest.mark.parametrize("parallel", [1, 3, 50])
@pytest.mark.parametrize(
    ("items", "expected", "limits"),
    [
        ([], [], 0),
        (["a"], ["A"], 0),
        (["a", "fail1", "b"], ["A", "fail1 failed", "B"], 0),
        (["hang1"], [no_answer("hang1")], 1),
        (["a", "hang1", "b"], ["A", no_answer("hang1"), "B"], 1),
        (["hang1", "fail1", "a"], [no_answer("hang1"), "fail1 failed", "A"], 1),
        (
            ["hang1", "hang2", "a", "hang3", "b"],
            [no_answer("hang1"), no_answer("hang2"), "A", no_answer("hang3"), "B"],
            2,
        ),
        ([f"hang{i}" for i in range(9)], [no_answer(f"hang{i}") for i in range(9)], 3),
    ],
)
def test_outcomes_in_order_within_the_limit(
    items: list[str], expected: list[str], limits: int, parallel: int
) -> None:
    started = time.monotonic()
    outcomes = deadline.each(
        act, items, seconds=SECONDS, what=lambda item: f"ask {item}", parallel=parallel
    )
    assert time.monotonic() - started < limits * SECONDS + 2
    assert [said(outcome) for outcome in outcomes] == expected


def test_several_that_hang_cost_their_time_together() -> None:
    items = [f"hang{i}" for i in range(8)]
    started = time.monotonic()
    deadline.each(act, items, seconds=0.5, what=str)
    # one alone, then four at a time: 3 limits in place of 8
    assert time.monotonic() - started < 3


def test_patience_ends() -> None:
    items = ["a", "hang1", "hang2", "hang3", "hang4", "hang5", "hang6", "b", "c"]
    outcomes = deadline.each(act, items, seconds=SECONDS, what=str, patience=3)
    errors = [type(o.error) for o in outcomes if isinstance(o, Failed)]
    assert errors.count(DeadlineExceeded) >= 3
    assert deadline.TooManyHang in errors
    assert re.fullmatch(
        "c: not attempted because [3-5] earlier calls are hanging", said(outcomes[-1])
    )
    assert isinstance(outcomes[0], Ok)


def test_a_defect_of_ours_is_raised() -> None:
    with pytest.raises(RuntimeError, match="bug"):
        deadline.each(act, ["a", "bug", "b"], seconds=5, what=str)


def test_an_answer_that_comes_too_late_changes_nothing() -> None:
    release = threading.Event()
    outcomes = deadline.each(
        lambda _: release.wait() and "late", [None], seconds=SECONDS, what=lambda _: "it"
    )
    release.set()
    time.sleep(0.05)
    assert isinstance(outcomes[0], Failed)


@pytest.mark.parametrize(
    ("item", "error"),
    [("a", None), ("fail1", FleetVirtError), ("hang1", DeadlineExceeded), ("bug", RuntimeError)],
)
def test_call(item: str, error: type[Exception] | None) -> None:
    if error is None:
        assert deadline.call(lambda: act(item), seconds=5, what="it") == "A"
        return
    with pytest.raises(error):
        deadline.call(lambda: act(item), seconds=SECONDS, what="it")


def test_threads_are_used_again() -> None:
    """Many short calls, one after the other, have one thread between them."""
    found = {deadline.call(threading.get_ident, seconds=5, what="say who") for _number in range(50)}
    assert len(found) <= 2  # a thread is free a moment after its answer


def test_a_child_process_has_threads_of_its_own() -> None:
    deadline.call(lambda: None, seconds=5, what="leave a free thread")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = deadline.call(lambda: 0, seconds=5, what="work in the child")
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
