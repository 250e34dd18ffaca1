# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a controller knew: what is missing or was put into the past stops pruning."""

from __future__ import annotations

import random

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import keep, known
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.keep import Policy
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.known import (
    Known,
    KnownError,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.listing import Repository
from ansible_collections.fleet.virt.tests.unit.backup._made import UUID
from ansible_collections.fleet.virt.tests.unit.backup.test_keep import (
    RULES,
    _days,
    _repository,
    _vm,
)

PLACE = "/srv/backup"


def _refusals(
    there: Repository, names: list[str], rules: dict[str, int], *accepted: str
) -> list[str]:
    return known.refusals(there, names, rules, accepted)


def test_missing_archive_is_named_and_can_be_accepted() -> None:
    days = _days(3)
    there = _repository(_vm(days[0]), _vm(days[2]))
    (refusal,) = _refusals(there, days, RULES)
    assert refusal.startswith(f"{UUID}::{days[1]} was there")
    accepted = refusal.rpartition("virt_prune_accept=")[2]
    assert not _refusals(there, days, RULES, accepted)
    assert not _refusals(there, days, RULES, UUID)
    assert _refusals(there, days, RULES, f"{UUID}::{days[0]}")


def test_archive_put_into_the_past_is_named() -> None:
    """It would be the last of its day, and a true one would go."""
    days = _days(3)
    forged = days[1].replace("02:30", "23:59")
    there = _repository(*map(_vm, sorted([*days, forged])))
    (refusal,) = _refusals(there, days, RULES)
    assert refusal.startswith(f"{UUID}::{forged} is new, and yet earlier than {days[2]}")


def test_later_archives_are_no_reason_to_refuse() -> None:
    days = _days(5)
    assert not _refusals(_repository(*map(_vm, days)), days[:3], RULES)
    assert not _refusals(_repository(*map(_vm, days)), [], RULES)


def test_what_another_controller_pruned_by_the_same_policy_is_not_missing() -> None:
    """However seldom this one prunes, and from whatever it knew."""
    chosen = random.Random(7)  # noqa: S311
    for _round in range(30):
        there: list[str] = []
        knew: list[str] = []
        for name in _days(60):
            there.append(name)
            there = [*keep.plan(_repository(*map(_vm, there)), Policy(RULES)).kept]
            if chosen.random() < 0.4:
                assert not _refusals(_repository(*map(_vm, there)), knew, RULES), (knew, there)
                knew = [*there]


def test_every_archive_that_the_policy_keeps_is_missed() -> None:
    knew = [*keep.plan(_repository(*map(_vm, _days(60))), Policy(RULES)).kept]
    for name in knew:
        there = _repository(*(_vm(other) for other in knew if other != name))
        assert [*_refusals(there, knew, RULES)], name


def test_last_proven_archive_is_missed_until_a_later_archive_is_proven() -> None:
    days = _days(4)
    knew = [days[0], days[2]]  # the first stayed because it was proven
    assert _refusals(_repository(_vm(days[2]), _vm(days[3])), knew, {"last": 1})
    later = _repository(_vm(days[2]), _vm(days[3], "booted"))
    assert not _refusals(later, knew, {"last": 1})


def test_repository_that_is_gone_is_named() -> None:
    knew = Known().with_repository(PLACE, UUID, _days(2))
    (problem,) = known.gone(PLACE, knew, [], [])
    assert f"virt_prune_accept={UUID}" in problem
    assert not known.gone(PLACE, knew, [UUID], [])
    assert not known.gone(PLACE, knew, [], [UUID])
    assert not known.gone("/srv/other", knew, [], [])


def test_file_is_read_as_it_was_written() -> None:
    days = _days(2)
    knew = Known().with_repository(PLACE, UUID, [*days, f"{days[0]}.proof.{days[1]}"])
    assert known.read(knew.text, "known.json") == knew
    assert knew.of(PLACE) == {UUID: tuple(days)}
    assert known.read(None, "known.json") == Known()
    assert known.read(knew.with_repository(PLACE, UUID, ()).text, "") == Known()


@pytest.mark.parametrize("text", ["", "{}", "[1]", "{", '{"fleet.virt": 2, "places": {}}'])
def test_damaged_file_is_not_taken_for_an_empty_file(text: str) -> None:
    with pytest.raises(KnownError, match=r"known\.json is not what this collection wrote"):
        known.read(text, "known.json")
