# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What becomes of a VM after a move: every combination, against what must never happen."""

from __future__ import annotations

import itertools

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration import settling
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.settling import (
    Act,
    Arrival,
    DestinationState,
    SourceState,
    Verdict,
)

_BOTH = list(itertools.product(SourceState, DestinationState))
_BEFORE = ("running", "shutoff", None)
_UP = (SourceState.MOVING, SourceState.PAUSED, SourceState.RUNNING)


def test_every_combination_is_in_its_table() -> None:
    assert set(settling.VERDICTS) == set(_BOTH)
    assert set(settling.VERDICTS.values()) == set(Verdict)
    defined = (SourceState.OFF, SourceState.PAUSED, SourceState.RUNNING)
    assert set(settling.UNDONE) == set(itertools.product(defined, _BEFORE))
    assert set(settling.FINISHED) == set(itertools.product(Arrival, _BEFORE))


@pytest.mark.parametrize(("source", "destination"), _BOTH)
def test_what_both_ends_have_decides(source: SourceState, destination: DestinationState) -> None:
    verdict = settling.VERDICTS[source, destination]
    waits = verdict in (Verdict.AGAIN, Verdict.JOIN, Verdict.WAIT)
    if SourceState.SILENT is source or SourceState.MOVING is source:
        assert waits
        assert settling.verdict_of(source) is verdict
        return
    assert settling.verdict_of(source) is None
    if destination is DestinationState.SILENT:
        assert waits  # it may have the VM
    # it arrived, and does not run on the source as well
    finished = destination is DestinationState.ARRIVED and source not in _UP
    assert (verdict in (Verdict.FINISH, Verdict.REPLACE)) is finished
    # a definition is only taken away where there is another
    assert (verdict is Verdict.REPLACE) is (finished and source is not SourceState.ABSENT)
    # the source has the only one
    only = destination is DestinationState.ABSENT and source is not SourceState.ABSENT
    assert (verdict is Verdict.UNDO) is only
    # what is stopped there has never run, and the VM runs here
    rest = source is SourceState.RUNNING and destination is DestinationState.WAITING
    assert (verdict is Verdict.STOP) is rest


@pytest.mark.parametrize("source", [SourceState.OFF, SourceState.PAUSED, SourceState.RUNNING])
@pytest.mark.parametrize("before", _BEFORE)
def test_undone_it_is_what_it_was(source: SourceState, before: str | None) -> None:
    act, off, lost = settling.UNDONE[source, before]
    assert off is (source is SourceState.OFF or act is Act.STOP)
    if act is Act.STOP:  # a guest that ever ran is not ended
        assert (source, before) == (SourceState.PAUSED, "shutoff")
    if source is SourceState.PAUSED:
        assert act is not Act.LEAVE
    assert lost is (off and before == "running")  # else nobody would hear of it


@pytest.mark.parametrize("arrival", Arrival)
@pytest.mark.parametrize("before", _BEFORE)
def test_finished_its_old_disks_go_only_when_it_is_well(
    arrival: Arrival, before: str | None
) -> None:
    act, remove, lost = settling.FINISHED[arrival, before]
    well = arrival in (Arrival.RUNNING, Arrival.PAUSED) or before == "shutoff"
    assert remove is well
    assert (act is Act.STOP) is (arrival is Arrival.PAUSED and before == "shutoff")
    assert act is not Act.RESUME
    assert lost is (arrival is Arrival.OFF and before == "running")


@pytest.mark.parametrize(
    ("state", "expected"),
    [("running", "running"), ("shutoff", "shutoff"), (None, None), ("", None), ("odd", None)],
)
def test_what_is_noted_may_be_anything(state: str | None, expected: str | None) -> None:
    assert settling.was(state) == expected
