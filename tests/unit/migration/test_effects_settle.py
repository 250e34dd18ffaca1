# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a move that broke off leads to, by what both ends have; on two of libvirt's test drivers."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import (
    effects_settle as settle,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.settling import Verdict
from ansible_collections.fleet.virt.tests.unit._crash import Machines
from ansible_collections.fleet.virt.tests.unit._two_ends import FILES, OTHER, BothEnds, two_ends


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    monkeypatch.setattr(settle, "_SETTLE", 0.05)
    monkeypatch.setattr(settle, "_POLL", 0.01)
    monkeypatch.setattr(settle.migration_job, "clear", lambda _uuid: None)
    return Machines(tmp_path, monkeypatch)


_RUNNING, _PAUSED, _OFF = 1, 3, 5
_M = "migrating"
_HERE = {"files on hv1": sorted(FILES), "files on hv2": []}
_THERE = {"files on hv1": [], "files on hv2": sorted(FILES)}
# what this end has, what the other has, what the VM was; what is said, and what both have then
_DECIDED: dict[str, tuple[t.Any, t.Any, str, str | None, dict[str, t.Any]]] = {
    "it runs here": (
        ("running", _M), None, "running", "keeps running",
        {"web1 on hv1": (_RUNNING, None), **_HERE},
    ),
    "it was stopped for the last of its memory": (
        ("paused", _M), None, "running", "keeps running",
        {"web1 on hv1": (_RUNNING, None), **_HERE},
    ),
    "it was started for the move only": (
        ("paused", _M), None, "shutoff", "remains shut off",
        {"web1 on hv1": (_OFF, None), **_HERE},
    ),
    "its hypervisor went down": (
        ("shutoff", _M), None, "running", "ran before and is shut off now",
        {"web1 on hv1": (_OFF, None), **_HERE},
    ),
    "it was shut off": (
        ("shutoff", _M), None, "shutoff", "remains shut off",
        {"web1 on hv1": (_OFF, None), **_HERE},
    ),
    "QEMU waits there for what does not come": (
        ("running", _M), ("coming", _M), "running", "keeps running",
        {"web1 on hv1": (_RUNNING, None), **_HERE},
    ),
    "it has arrived": (
        None, ("running", _M), "running", None,
        {"web1 on hv2": (_RUNNING, None), **_THERE},
    ),
    "it has arrived and its definition is here still": (
        ("shutoff", _M), ("running", _M), "running", None,
        {"web1 on hv2": (_RUNNING, None), **_THERE},
    ),
    "it has arrived, started for the move only": (
        None, ("paused", _M), "shutoff", None,
        {"web1 on hv2": (_OFF, None), **_THERE},
    ),
    "it has arrived and does not run": (
        None, ("shutoff", _M), "running", None,
        {"web1 on hv2": (_OFF, None), "files on hv1": sorted(FILES),
         "files on hv2": sorted(FILES)},
    ),
}  # fmt: skip
_OPEN = "cannot determine which hypervisor owns"
_UNDECIDED: dict[str, tuple[t.Any, t.Any, bool, str]] = {
    "it runs on both": (("running", _M), ("running", _M), True, _OPEN),
    "it is on neither": (None, None, True, _OPEN),
    "it is here and the other is silent": (("running", _M), None, False, "does not respond"),
    "it is not here and the other is silent": (None, ("running", _M), False, _OPEN),
    "it is there without the marks": (None, ("running", None), True, _OPEN),
    "another of its name is there": (
        ("running", _M), ("running", _M, OTHER), True, _OPEN,
    ),
    "another of its name is there, and it is gone here": (
        None, ("running", _M, OTHER), True, _OPEN,
    ),
    "it is there, and is somebody's here": (
        ("shutoff", None), ("running", _M), True, "a VM must exist only once",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _DECIDED)
def test_where_both_ends_tell(machines: Machines, name: str) -> None:
    here, there, was, says, wanted = _DECIDED[name]
    with two_ends(machines, here, there, was) as fleet:
        job, told = fleet.settle()
        assert fleet.seen() == wanted
        assert job.changed is (says is None)
        if says is None:
            assert told is None
        else:
            assert str(told).startswith("Undone: ")
            assert says in str(told)


def test_what_waits_there_and_goes_just_when_it_is_stopped_is_no_obstacle(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As QEMU does whose connection was cut: the move is undone, as if it had not waited."""
    stop = BothEnds.stop

    def gone(self: BothEnds, connection: Connection, dom: t.Any) -> None:
        dom.destroy()
        stop(self, connection, dom)

    monkeypatch.setattr(BothEnds, "stop", gone)
    with two_ends(machines, ("running", _M), ("coming", _M)) as fleet:
        _job, told = fleet.settle()
        assert fleet.seen() == {"web1 on hv1": (_RUNNING, None), **_HERE}
        assert str(told).startswith("Undone: it broke off; 'web1' keeps running on hv1")


@pytest.mark.parametrize("name", _DECIDED)
def test_check_mode_says_what_is_done(machines: Machines, name: str) -> None:
    here, there, was, says, _wanted = _DECIDED[name]
    with two_ends(machines, here, there, was) as fleet:
        before = fleet.seen()
        verdict, found = fleet.predict_settling()
        assert fleet.one.effects.done == []
        assert fleet.seen() == before
        job, _told = fleet.settle()
        if there is not None and there[0] == "coming":  # it is stopped first, and then nobody waits
            assert (verdict, found) == (Verdict.STOP, None)
        else:
            assert [step.text for step in found.steps] == job.steps
            assert (verdict is Verdict.UNDO) is (says is not None)


_UNTOLD = [name for name, case in _UNDECIDED.items() if case[2] and case[3] == _OPEN]


@pytest.mark.parametrize("name", _UNTOLD)
def test_check_mode_does_not_know_what_nobody_does(machines: Machines, name: str) -> None:
    here, there, _answers, _says = _UNDECIDED[name]
    with two_ends(machines, here, there) as fleet:
        verdict, found = fleet.predict_settling()
        assert (verdict, found) == (Verdict.WAIT, None)


@pytest.mark.parametrize("name", _UNDECIDED)
def test_where_they_do_not_nothing_is_done(machines: Machines, name: str) -> None:
    here, there, answers, says = _UNDECIDED[name]
    with two_ends(machines, here, there) as fleet:
        before = fleet.seen()
        job, told = fleet.settle(answers)
        assert says in str(told)
        assert str(told).startswith("PlanRefused: ")
        assert fleet.seen() == before
        assert fleet.one.effects.done == []
        assert not job.changed


@pytest.mark.parametrize("name", _DECIDED)
def test_settling_may_be_killed_and_is_done_again(machines: Machines, name: str) -> None:
    here, there, was, _says, wanted = _DECIDED[name]
    with two_ends(machines, here, there, was) as fleet:
        fleet.settle()
        steps = fleet.one.effects.done
    assert len(steps) >= 3
    for number in range(1, len(steps) + 1):
        with two_ends(machines, here, there, was) as fleet:
            fleet.settle(kill_at=number)
            where = f"killed before {fleet.one.effects.done[-1]!r} ({number})"
            fleet.settle()
            assert fleet.seen() == wanted, where
            faults = [one for one in fleet.one.faults() if "belongs to no VM" not in one]
            assert faults == [], where
