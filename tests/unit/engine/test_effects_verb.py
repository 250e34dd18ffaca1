# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the engine does for every verb: all or none, check mode, undoing, and the report."""

from __future__ import annotations

import contextlib
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import effects_verb as verb
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.steps import (
    Action,
    Plan,
    Step,
)
from ansible_collections.fleet.virt.plugins.module_utils._records import dataclass, field

Facts = tuple[str, ...]
_NO_CONNECTION: t.Any = None


@dataclass(frozen=True)
class _Add(Action):
    word: str


class _End(Action):
    pass


class _Switch(Action):
    moves_disks = True


@dataclass
class _Job(verb.ComparedJob[Facts]):
    did: list[str] = field(default_factory=list)
    cards: list[list[str]] = field(default_factory=list)

    def keep_card_now(self) -> None:
        self.cards.append([*self.did])
        raise PlanRefused("its storage is gone")

    def finish(self) -> None:
        self.after = tuple(self.did)

    def entry(self) -> verb.Shown:
        return {"steps": self.steps, "not_tried": self.not_tried}

    def shown(self) -> tuple[verb.Shown, verb.Shown]:
        return {"words": self.facts}, {"words": self.after}


def _do(job: _Job, add: _Add) -> None:
    if add.word == "broken":
        raise PlanRefused("it is broken")
    job.did.append(add.word)


_ACTIONS = (
    verb.Actions[_Job]()
    .on(_Add, _do, lambda job, add: job.did.remove(add.word))
    .simply(_End, lambda job: job.did.append("end"))
    .simply(_Switch, lambda job: job.did.append("switch"))
)


def _effect(word: str) -> t.Callable[[Facts], Facts]:
    return lambda facts: (*facts, word)


def _step(word: str) -> Step[Facts]:
    if word in ("end", "switch"):
        return Step(_End() if word == "end" else _Switch(), word, _effect(word))
    return Step(_Add(word), f"add {word}", _effect(word))


def _job(name: str, *words: str, refusals: tuple[str, ...] = ()) -> _Job:
    return _Job(_NO_CONNECTION, name, None, (), Plan(tuple(map(_step, words)), refusals))


def _run(*jobs: _Job, check: bool = False, together: bool = True) -> t.Any:
    return verb.planned(jobs, _ACTIONS.carry_out, check=check, together=together)


def test_check_mode_predicts_what_the_run_reports() -> None:
    predicted, real = _job("web1", "one", "end"), _job("web1", "one", "end")
    assert _run(predicted, check=True) == _run(real)
    assert (predicted.did, real.did) == ([], ["one", "end"])
    assert _run(_job("web1", "one"))["vms"] == [
        {
            "name": "web1",
            "uuid": None,
            "changed": True,
            "steps": ["add one"],
            "not_tried": False,
            "failed": False,
            "msg": None,
        }
    ]


def test_joint_jobs_with_a_refusal_are_not_tried() -> None:
    for check in (True, False):
        jobs = _job("web1", "one"), _job("web2", refusals=("no", "never")), _job("web3")
        result = _run(*jobs, check=check)
        assert (result["changed"], result["failed"], result["msg"]) == (False, True, "no; never")
        assert [vm["not_tried"] for vm in result["vms"]] == [True, False, False]
        assert [vm["failed"] for vm in result["vms"]] == [False, True, False]
        assert (result["diff"], jobs[0].did) == ([], [])


def test_separate_jobs_beside_a_refusal_are_done() -> None:
    jobs = _job("web1", "one"), _job("web2", refusals=("no",))
    result = _run(*jobs, together=False)
    assert (result["changed"], result["msg"], jobs[0].did) == (True, "no", ["one"])
    assert [diff["before_header"] for diff in result["diff"]] == ["web1"]


def test_job_with_a_failed_step_is_undone_without_others() -> None:
    jobs = _job("web1", "one", "two", "broken", "end"), _job("web2", "one", "end")
    result = _run(*jobs)
    assert [job.did for job in jobs] == [[], ["one", "end"]]
    assert [vm["msg"] for vm in result["vms"]] == ["it is broken", None]
    assert [vm["changed"] for vm in result["vms"]] == [False, True]
    assert (result["failed"], result["msg"]) == (True, "it is broken")


def test_steps_of_a_part_raise_what_failed_and_undo_what_was_done() -> None:
    job = _job("web1", "one")
    _ACTIONS.do(job, [_step("two")])
    with pytest.raises(PlanRefused, match="it is broken"):
        _ACTIONS.do(job, [_step("three"), _step("broken")])
    assert job.did == ["two"]
    assert isinstance(job.error, PlanRefused)


@pytest.mark.parametrize("word", ["one", "broken"])
def test_card_is_kept_after_any_step_was_begun(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    kept = []
    monkeypatch.setattr(_Job, "keep_cards", lambda job: kept.append(job.name))
    _run(_job("web1", "one", word), _job("web2"), _job("web3", refusals=("no",)), together=False)
    assert kept == ["web1"]
    with contextlib.suppress(PlanRefused):
        _ACTIONS.do(_job("web4"), [_step(word)])
    assert kept == ["web1", "web4"]


def test_card_that_could_not_be_kept_fails_its_vm(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(job: _Job) -> None:
        raise PlanRefused(f"no card of {job.name}")

    monkeypatch.setattr(_Job, "keep_cards", fail)
    done, broken = _job("web1", "one"), _job("web2", "broken")
    result = _run(done, broken)
    assert result["failed"]
    assert (done.problem, done.changed) == ("no card of web1", True)
    assert broken.problem == "it is broken; moreover, no card of web2"
    with pytest.raises(PlanRefused, match="no card of web3"):
        _ACTIONS.do(_job("web3"), [_step("one")])


def test_card_is_kept_as_soon_as_the_guest_writes_to_other_files() -> None:
    job = _job("web1", "before", "switch", "end")
    result = _run(job)
    assert job.cards == [["before", "switch"]], "and not only at the end, which a kill may prevent"
    assert (job.did, result.get("failed")) == (["before", "switch", "end"], None)
    assert _run(checked := _job("web1", "switch"), check=True)["changed"]
    assert checked.cards == []
