# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turns: of controllers that want one at once, exactly one gets it."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import (
    effects_borg,
    effects_turns,
    places,
    turns,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.effects_borg import Access
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.places import BackupPlace
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.turns import Turn
from ansible_collections.fleet.virt.tests.unit.backup import _made

NOW = datetime(2026, 11, 28, 2, 10, tzinfo=timezone.utc)
LAST = Turn(7, "control1", "2026-11-28T02:00:00Z")


def _take(place: BackupPlace, access: Access, by: str, now: datetime) -> tuple[bool, Turn]:
    return effects_turns.take(place, access, by, now, 12, check=False)


@pytest.mark.parametrize("hours", [0, 1, 11.8])
def test_turn_is_left_to_its_holder_within_the_hours(hours: float) -> None:
    assert turns.holder([LAST], NOW + timedelta(hours=hours), 12) == LAST


@pytest.mark.parametrize("at", ["2026-11-27T14:09:59Z", "2026-11-29T02:00:00Z", "", "yesterday"])
def test_turn_that_is_over_or_has_no_moment_stops_no_backup(at: str) -> None:
    assert turns.holder([Turn(7, "control1", at)], NOW, 12) is None


def test_turns_are_read_as_they_were_written_and_others_left_out() -> None:
    entries = [
        {"name": LAST.archive, "comment": LAST.comment},
        {"name": "turn-00000003", "comment": "["},
        {"name": "turn-3", "comment": LAST.comment},
        {"name": 5},
    ]
    read = turns.read(json.dumps({"archives": entries}))
    assert read == [Turn(3, "?", ""), LAST]
    assert turns.following(read, "control2", NOW).archive == "turn-00000008"
    assert turns.read("{") == turns.read("[]") == []


def test_controllers_at_once_have_a_single_turn(tmp_path: Path) -> None:
    """Also when the repository is to be made. Each has caches of its own, as on its own host."""
    (tmp_path / "place").mkdir()
    place = places.parse(str(tmp_path / "place"))
    names = [f"control{number}" for number in (1, 2, 3)]
    start = threading.Barrier(len(names))

    def controller(by: str) -> tuple[bool, Turn]:
        access = Access(_made.PASSPHRASE, str(tmp_path / by))
        start.wait()
        return _take(place, access, by, NOW)

    with ThreadPoolExecutor(len(names)) as pool:
        taken = dict(zip(names, pool.map(controller, names)))
    (winner,) = [by for by, (own, _turn) in taken.items() if own]
    assert {turn.by for _own, turn in taken.values()} == {winner}

    again = Access(_made.PASSPHRASE, str(tmp_path / "control1"))
    assert not _take(place, again, "control1", NOW + timedelta(hours=1))[0]
    assert _take(place, again, "control1", NOW + timedelta(hours=24)) == (
        True,
        Turn(2, "control1", "2026-11-29T02:10:00Z"),
    )


@pytest.mark.parametrize("state", ["folder", "configuration"])
def test_repository_that_another_controller_makes_is_waited_for(
    state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """borg makes a folder, then its files; until then it is no valid repository for borg."""
    repository = tmp_path / "place" / turns.REPOSITORY
    repository.mkdir(parents=True)
    access = Access(_made.PASSPHRASE, str(tmp_path / "borg"))
    if state == "configuration":
        (repository / "config").touch()

    def make() -> None:
        for file in repository.iterdir():
            file.unlink()
        effects_borg.make(access, str(repository))

    monkeypatch.setattr(effects_turns, "_POLL", 0.1)
    maker = threading.Timer(1.0, make)
    maker.start()
    try:
        place = places.parse(str(tmp_path / "place"))
        assert _take(place, access, "control1", NOW) == (
            True,
            Turn(1, "control1", "2026-11-28T02:10:00Z"),
        )
    finally:
        maker.join()


def test_repository_that_stays_damaged_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "place" / turns.REPOSITORY).mkdir(parents=True)
    access = Access(_made.PASSPHRASE, str(tmp_path / "borg"))
    monkeypatch.setattr(effects_turns, "_MAKING", 1.0)
    with pytest.raises(effects_borg.Damaged, match="not a valid repository"):
        _take(places.parse(str(tmp_path / "place")), access, "control1", NOW)


def test_turn_that_appears_after_reading_is_left_to_its_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "place").mkdir()
    place = places.parse(str(tmp_path / "place"))
    access = Access(_made.PASSPHRASE, str(tmp_path / "borg"))
    assert _take(place, access, "control1", NOW)[0]
    monkeypatch.setattr(turns, "holder", lambda *_words: None)
    monkeypatch.setattr(turns, "following", lambda *_words: Turn(1, "control2", ""))
    taken, turn = _take(place, access, "control2", NOW)
    assert (taken, turn.by) == (False, "control1")


def test_check_mode_takes_no_turn_and_makes_no_repository(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    place = places.parse(str(tmp_path / "place"))
    access = Access(_made.PASSPHRASE, str(tmp_path / "borg"))
    assert effects_turns.take(place, access, "control1", NOW, 12, check=True)[0]
    assert list((tmp_path / "place").iterdir()) == []


def test_old_turns_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "KEPT", 2)
    (tmp_path / "place").mkdir()
    place = places.parse(str(tmp_path / "place"))
    access = Access(_made.PASSPHRASE, str(tmp_path / "borg"))
    for day in range(4):
        assert _take(place, access, "control1", NOW + timedelta(days=day))[0]
    listed = effects_borg.run(access, ["list", "--short", f"{place}/turns"]).out
    assert listed.split() == ["turn-00000002", "turn-00000003", "turn-00000004"]
