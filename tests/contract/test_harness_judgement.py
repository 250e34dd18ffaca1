# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the harness of check mode says of modules that lie, and how it waits between rounds.

The modules run in this process, on files of a folder; tests/integration/test_harness.py runs some
of them on a hypervisor.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.fleet.virt.tests.integration import harness, snapshot
from ansible_collections.fleet.virt.tests.integration.support import liars, rounds
from ansible_collections.fleet.virt.tests.integration.support.ansible import Event, Run

_HOST = "hv1"


def _state(folder: Path) -> harness.State:
    return {_HOST: {"files": snapshot.files([str(folder)])}}


def _rounds(
    body: str, folder: Path, turns: Sequence[rounds.Round] = harness.ROUNDS
) -> Iterator[tuple[harness.Run, harness.State]]:
    """The rounds of a task with that body, and the state after each."""
    for turn in turns:
        names: dict[str, Any] = {"path": str(folder / "file"), "text": "wanted"}
        names["check"] = turn.check
        exec(body, names)  # noqa: S102 (a text of ours)
        failed = {(harness.TASK, _HOST): names["msg"]} if names["failed"] else {}
        results = {(harness.TASK, _HOST): names["result"]}
        status = 2 if failed else 0
        yield harness.Run(turn.name, status, "output", results, failed), _state(folder)


def _judged(body: str, folder: Path, expect_changed: bool = True) -> harness.HarnessResult:
    judge = harness.Judge(frozenset(["uuid"]), (), frozenset([harness.TASK]))
    return harness.judged(judge, _state(folder), _rounds(body, folder), expect_changed)


def test_honest_module_passes_judgement(tmp_path: Path) -> None:
    done = _judged(liars.HONEST, tmp_path)
    assert done.predicted[_HOST]["uuid"] == harness.GENERATED
    assert [done.real[_HOST]["changed"], done.again[_HOST]["changed"]] == [True, False]
    with pytest.raises(harness.Liar, match="expected changed=True"):
        _judged(liars.HONEST, tmp_path)
    _judged(liars.HONEST, tmp_path, expect_changed=False)


@pytest.mark.parametrize("name", liars.LIARS)
def test_lying_module_is_reported(name: str, tmp_path: Path) -> None:
    line, lie, message = liars.LIARS[name]
    with pytest.raises(harness.Liar, match=re.escape(message)):
        _judged(liars.lying(line, lie), tmp_path)


_REFUSING = liars.lying(
    "write = changed and not check",
    "write = False",
    liars.lying("failed = False", "failed = True"),
)


def _refused(body: str, folder: Path) -> harness.HarnessResult:
    turns = harness.ROUNDS[:2]
    return harness.judged_refused(_state(folder), _rounds(body, folder, turns), "cannot")


def test_refusing_module_passes_judgement(tmp_path: Path) -> None:
    assert set(_refused(_REFUSING, tmp_path).real) == {_HOST}


@pytest.mark.parametrize(
    ("line", "lie", "message"),
    [
        ("failed = True", "failed = check", "real run: not refused by {'hv1'}"),
        ("write = False", "write = not check", "real run was to be refused, but changed"),
        ("write = False", "write = check", "check mode was to be refused, but changed"),
        ('msg = "cannot"', 'msg = "cannot now" if check else "cannot"', "other messages"),
        ('msg = "cannot"', 'msg = "no"', "without 'cannot'"),
    ],
)
def test_lying_refusal_is_reported(line: str, lie: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(harness.Liar, match=re.escape(message)):
        _refused(liars.lying(line, lie, _REFUSING), tmp_path)


def _event(task: str, status: str = "ok", *, ignored: bool = False) -> Event:
    return Event(_HOST, task, status, ignored, {})


_LOOKS = [_event(f"a look around after {turn.name}") for turn in harness.ROUNDS]


def test_run_in_rounds_is_split_by_looks() -> None:
    events = [_event("x"), _LOOKS[0], _event("x", "failed", ignored=True), _LOOKS[1]]
    parts = rounds.parts(Run([], 0, "", "", events), 2)
    assert [part.returncode for part in parts] == [0, 0]
    assert [[event.task for event in part.events] for part in parts] == [["x"], ["x"]]


@pytest.mark.parametrize(("status", "returncode"), [("failed", 2), ("unreachable", 4)])
def test_run_that_stops_early_fails_that_round(status: str, returncode: int) -> None:
    stopped = [_event("x"), _LOOKS[0], _event("x", status)]
    parts = rounds.parts(Run([], returncode, "", "", stopped), 3)
    assert [part.returncode for part in parts] == [0, returncode, returncode]
    assert [len(part.events) for part in parts] == [1, 1, 0]
    # another host went on to the look
    parts = rounds.parts(Run([], returncode, "", "", [*stopped, _LOOKS[1]]), 2)
    assert [part.returncode for part in parts] == [0, returncode]


def _waits(play: Path, folder: str, times: int) -> Run:
    """What the play's tasks run to wait, so many times, until one fails."""
    wait = yaml.safe_load(play.read_text(encoding="utf-8"))[0]["tasks"][1]["vars"]["look_wait"]
    for _time in range(times):
        status = subprocess.run(["sh", "-c", f"{wait}'{folder}'"], check=False).returncode
        if status:
            return Run([], status, "", "")
    return Run([], 0, "", "")


def test_play_waits_until_look_is_done(tmp_path: Path) -> None:
    play = rounds.play_of(tmp_path, "all", [], harness.ROUNDS, become=False)
    looks: list[int] = []
    done = rounds.looking_between(
        lambda variables: _waits(play, variables["look_folder"], 3),
        lambda: looks.append(len(looks)),
    )
    assert (done.returncode, looks) == (0, [0, 1, 2])


def test_play_stops_when_look_fails(tmp_path: Path) -> None:
    play = rounds.play_of(tmp_path, "all", [], harness.ROUNDS, become=False)
    runs: list[Run] = []

    def run(variables: Any) -> Run:
        runs.append(_waits(play, variables["look_folder"], 3))
        return runs[-1]

    def look() -> None:
        raise LookupError("the hypervisor is gone")

    with pytest.raises(LookupError, match="the hypervisor is gone"):
        rounds.looking_between(run, look)
    assert [done.returncode for done in runs] == [1]
