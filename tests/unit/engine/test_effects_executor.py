# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Steps are done in their order, in turns, and undone up to the point of no return."""

from __future__ import annotations

import time
import typing as t
from dataclasses import dataclass, field

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import (
    effects_executor as executor,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.steps import (
    Action,
    Step,
    interrupted,
    predict,
)

Seen = tuple[str, ...]


def step(kind: str, irreversible: bool = False, stage: int = 0) -> Step[Seen]:
    return Step(Action(), kind, lambda seen: (*seen, kind), irreversible=irreversible, stage=stage)


@dataclass
class Work:
    """Writes down what it is asked for; ``fails`` at one kind of step."""

    heard: list[str] = field(default_factory=list)
    name: str = ""
    fails: str = ""
    stays: str = ""
    waits: int = 0
    interrupted: bool = False

    def do(self, one: Step[Seen]) -> t.Iterator[None]:
        for _turn in range(self.waits):
            yield
        if one.text == self.fails:
            raise (KeyboardInterrupt if self.interrupted else ValueError)(one.text)
        self.heard.append(self.name + one.text)

    def undo(self, one: Step[Seen]) -> None:
        if one.text == self.stays:
            raise ValueError(f"{one.text} stays")
        self.heard.append(f"{self.name}not {one.text}")

    def finish(self) -> None:
        self.heard.append(f"{self.name}end")


A, B, C, GO = step("a"), step("b"), step("c"), step("go", irreversible=True)


def carried_out(steps: tuple[Step[Seen], ...], fails: str = "") -> tuple[list[str], t.Any]:
    work = Work(fails=fails)
    run = executor.Run(steps, work)
    executor.carry_out([run])
    return work.heard, run


def test_all_is_done_in_order() -> None:
    heard, run = carried_out((A, B, GO))
    assert heard == ["a", "b", "go", "end"]
    assert run.problem is None
    assert run.done == [A, B, GO]


def test_a_failure_is_undone_backwards() -> None:
    heard, run = carried_out((A, B, C), fails="c")
    assert heard == ["a", "b", "not b", "not a", "end"]
    assert str(run.problem) == "c"
    assert not run.irreversible


def test_failed_rollback_keeps_the_first_error_and_what_was_done_before() -> None:
    work = Work(fails="go", stays="b")
    run = executor.Run((A, B, C, step("go")), work)
    executor.carry_out([run])
    assert work.heard == ["a", "b", "c", "not c", "end"]
    assert str(run.problem).startswith("unexpected ValueError: go")
    assert "could not roll back 'b': unexpected ValueError: b stays" in str(run.problem)


def test_failed_step_that_may_be_partly_done_is_undone_first() -> None:
    def run(steps: tuple[Step[int], ...], **more: str) -> tuple[list[str], executor.Run[int]]:
        work = Work(fails="c", **more)
        run = executor.Run(steps, work, undo_failed=True)
        executor.carry_out([run])
        return work.heard, run

    assert run((A, B, C))[0] == ["a", "b", "not c", "not b", "not a", "end"]
    heard, stuck = run((A, B, C), stays="c")
    assert heard == ["a", "b", "end"]
    assert "could not roll back 'c'" in str(stuck.problem)
    assert run((A, GO, C))[0] == ["a", "go", "end"]


def test_nothing_is_undone_once_there_is_no_way_back() -> None:
    assert carried_out((A, GO, C), fails="c")[0] == ["a", "go", "end"]
    heard, run = carried_out((A, GO, C), fails="go")
    assert heard == ["a", "end"], "it may have done a part of it"
    assert run.irreversible


def test_several_take_turns_and_each_fails_alone() -> None:
    heard: list[str] = []
    runs = [
        executor.Run((A, B), Work(heard, "slow ", waits=1)),
        executor.Run((A, B), Work(heard, "bad ", fails="b")),
        executor.Run((), Work(heard, "idle ")),
    ]
    executor.carry_out(runs)
    assert heard == ["bad a", "bad not a", "bad end", "slow a", "slow b", "slow end"]
    assert [str(run.problem) for run in runs] == ["None", "b", "None"]


def test_all_come_to_the_end_of_a_stage_before_any_begins_the_next() -> None:
    heard: list[str] = []
    first, second, last = step("a"), step("b", stage=2), step("c", stage=3)
    runs = [
        executor.Run((first, second, last), Work(heard, "1 ")),
        executor.Run((first, last), Work(heard, "2 ", waits=1)),
        executor.Run((first, second), Work(heard, "3 ", fails="b")),
        executor.Run((second, last), Work(heard, "4 ")),
    ]
    began = time.monotonic()
    executor.carry_out(runs)
    assert time.monotonic() - began < 3 * executor._POLL, "nobody sleeps between two stages"
    stages = [["1 a", "3 a", "2 a"], ["1 b", "3 not a", "3 end", "4 b"]]
    assert heard[:7] == [*stages[0], *stages[1]]
    assert sorted(heard[7:]) == ["1 c", "1 end", "2 c", "2 end", "4 c", "4 end"]


def test_an_interruption_undoes_what_all_of_them_did() -> None:
    heard: list[str] = []
    runs = [
        executor.Run((A, step("b", stage=1)), Work(heard, "1 ")),
        executor.Run((A, step("b", stage=1)), Work(heard, "2 ", fails="b", interrupted=True)),
        executor.Run((GO, step("b", stage=1), step("c", stage=2)), Work(heard, "3 ")),
    ]
    with pytest.raises(KeyboardInterrupt):
        executor.carry_out(runs)
    assert heard == ["1 a", "2 a", "3 go", "1 b", "1 end", "2 not a", "2 end", "3 end"]


def test_check_mode_and_crashes_use_the_same_description() -> None:
    torn = Step[Seen]("d", "d", lambda seen: (*seen, "d"), torn=(lambda seen: (*seen, "half"),))
    assert predict((), (A, torn)) == ("a", "d")
    assert list(interrupted((), (A, torn))) == [
        ("before: a", ()),
        ("after: a", ("a",)),
        ("before: d", ("a",)),
        ("within (1): d", ("a", "half")),
        ("after: d", ("a", "d")),
    ]
