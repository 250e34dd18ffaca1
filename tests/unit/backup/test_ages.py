# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which VMs have no backup as young as wished."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import SpecError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import (
    ages,
    archives,
    listing,
    report,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.listing import (
    Repository,
    SavedVm,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.options import (
    require_hours,
)

_NOW = datetime(2026, 11, 28, 12, tzinfo=timezone.utc)
_HOURS = 26.0


def _at(hours: float) -> str:
    """The moment so many hours ago."""
    return archives.moment(_NOW - timedelta(hours=hours))


def _repository(uuid: str, *hours: float, place: str = "/srv/backup") -> Repository:
    saved = (
        archives.Backup("web1", uuid, "hv1", _at(each), archives.SHUT_OFF, ())
        for each in sorted(hours, reverse=True)
    )
    return Repository(place, uuid, tuple(SavedVm(backup) for backup in saved))


@pytest.mark.parametrize(
    ("hours", "overdue"),
    [
        ([], True),
        ([27], True),
        ([26.001], True),
        ([26], False),
        ([100, 1], False),
        ([1, 100], False),
        ([-0.1], False),  # clocks differ
        ([-1], True),  # nobody saved that yet
        ([-1, 100], True),
        ([-1, 3], False),
    ],
)
def test_newest_backup_that_is_past_decides(hours: list[float], *, overdue: bool) -> None:
    found = ages.overdue([("web1", "u1")], [_repository("u1", *hours)], _HOURS, _NOW)
    assert bool(found) is overdue
    (listed,) = report.data([_repository("u1", *hours)], (_HOURS, _NOW))
    assert listed["overdue"] is overdue
    (listed,) = report.data([_repository("u1", *hours)])
    assert listed["overdue"] is None


def test_vms_are_named_with_their_newest_backup() -> None:
    vms = [("web2", "u2"), ("db1", "u3"), ("web1", "u1"), ("new1", "u4")]
    repositories = [_repository("u1", 30, 50), _repository("u2", 1), _repository("u3", 40)]
    found = ages.overdue(vms, repositories, _HOURS, _NOW)
    assert found == [
        {"name": "db1", "uuid": "u3", "at": _at(40)},
        {"name": "new1", "uuid": "u4", "at": None},
        {"name": "web1", "uuid": "u1", "at": _at(30)},
    ]
    (line,) = ages.lines(found, _HOURS)
    assert line == f"no backup of the last 26 h: db1 ({_at(40)}), new1 (none), web1 ({_at(30)})"
    assert ages.lines([], _HOURS) == []


def test_backup_in_any_place_counts_and_unread_repository_is_not_overdue() -> None:
    second = _repository("u1", 1, place="/srv/second")
    assert ages.overdue([("web1", "u1")], [_repository("u1", 90), second], _HOURS, _NOW) == []
    unread = listing.unread("/srv/backup", "u1", "borg: damaged")
    assert ages.overdue([("web1", "u1")], [unread], _HOURS, _NOW) == []
    (listed,) = report.data([unread], (_HOURS, _NOW))
    assert listed["overdue"] is None


def test_table_names_what_is_overdue() -> None:
    listed = report.data([_repository("u1", 30), _repository("u2", 1)], (_HOURS, _NOW))
    assert f"no backup of the last 26 h: web1 ({_at(30)})\n" in report.text(listed, _HOURS)
    assert "no backup" not in report.text(report.data([_repository("u1", 30)]))


@pytest.mark.parametrize("hours", [math.nan, math.inf, 0.0, -26.0, 1e9])
def test_what_is_no_span_of_time_is_refused(hours: float) -> None:
    with pytest.raises(SpecError, match=r"virt_backup_hours: .* is not a number of hours"):
        require_hours("virt_backup_hours", hours)


def test_spans_of_time() -> None:
    for hours in (0.5, 26.0, 8784.0):
        require_hours("virt_turn_hours", hours)
