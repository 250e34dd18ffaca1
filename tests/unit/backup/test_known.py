# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a controller knew: what is missing or was put into the past stops pruning."""

from __future__ import annotations

import dataclasses
import json
import random
import re
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import (
    archives,
    keep,
    known,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.keep import Policy
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.known import (
    Known,
    KnownError,
    KnownVm,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.listing import Repository
from ansible_collections.fleet.virt.tests.unit.backup._made import UUID
from ansible_collections.fleet.virt.tests.unit.backup.test_keep import (
    FIRST,
    RULES,
    _days,
    _repository,
    _vm,
)

PLACE = "/srv/backup"
NOW = datetime(2026, 11, 30, tzinfo=timezone.utc)
ONE, TWO = "11" * 32, "22" * 32


def _knew(names: Iterable[str], ids: str | None = None) -> KnownVm:
    return KnownVm(dict.fromkeys(names, ids))


def _refusals(
    there: Repository, names: Iterable[str], rules: dict[str, int], *accepted: str
) -> list[str]:
    return known.refusals(there, _knew(names), rules, accepted)


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
    knew = Known().with_vm(PLACE, UUID, _knew(_days(2)))
    (problem,) = known.gone(PLACE, knew, [], [])
    assert f"virt_prune_accept={UUID}" in problem
    assert not known.gone(PLACE, knew, [UUID], [])
    assert not known.gone(PLACE, knew, [], [UUID])
    assert known.gone(PLACE, knew, [], [PLACE]), "a place that is not mounted has none at all"
    assert not known.gone("/srv/other", knew, [], [])


def _of_ids(ids: dict[str, str], *ahead: str) -> Repository:
    """A repository with these archives, the last of which are ahead of the clock."""
    vms = [_vm(name) for name in ids if name not in ahead]
    late = tuple(_vm(name) for name in ahead)
    return dataclasses.replace(
        _repository(*vms, more=ahead), ids=ids, ahead=late, read_at=NOW, place=PLACE
    )


def test_archive_of_another_id_is_named_and_that_id_can_be_accepted() -> None:
    days = _days(3)
    knew = _knew(days, ONE)
    assert not known.refusals(_of_ids(dict.fromkeys(days, ONE)), knew, RULES, [])
    there = _of_ids({**dict.fromkeys(days, ONE), days[1]: TWO})
    (refusal,) = known.refusals(there, knew, RULES, [])
    assert refusal.startswith(f"{UUID}::{days[1]}: the id is another")
    assert "rename, recreate and upgrade" in refusal
    one, place = re.findall(r"virt_prune_accept=([^\s;]+)", refusal)
    assert (one, place) == (f"{UUID}::{days[1]}::{TWO}", PLACE)
    for right in (one, place, UUID):
        assert not known.refusals(there, knew, RULES, [right]), right
    for wrong in (f"{UUID}::{days[1]}", f"{UUID}::{days[1]}::{ONE}", "/srv"):
        assert known.refusals(there, knew, RULES, [wrong]), wrong
    missing = _of_ids({days[0]: ONE})
    assert known.refusals(missing, knew, RULES, [PLACE]), "a place is accepted for its ids alone"


def test_remedy_for_all_that_is_wrong_in_a_repository_is_a_single_command() -> None:
    """A missing, an inserted and a replaced archive."""
    days = _days(4)
    knew = _knew([days[0], days[2], days[3]], ONE)
    there = _of_ids({days[1]: ONE, days[2]: TWO, days[3]: ONE})
    of_id = f"{UUID}::{days[2]}::{TWO}"
    for accepted in ([], [f"{UUID}::{days[0]}"], [of_id]):
        refusals = known.refusals(there, knew, RULES, accepted)
        assert len(refusals) == 3 - len(accepted), refusals
        for refusal in refusals:
            right = re.findall(r"virt_prune_accept=([^\s;]+)", refusal)[0].split(",")
            assert right == [f"{UUID}::{days[0]}", f"{UUID}::{days[1]}", of_id]
            assert not known.refusals(there, knew, RULES, right)
    refusals = known.refusals(there, knew, RULES, [PLACE])
    assert len(refusals) == 2, refusals
    right = refusals[0].rpartition("=")[2].split(",")
    assert right[2:] == [PLACE]
    assert not known.refusals(there, knew, RULES, right)


def test_archive_without_an_id_does_not_pass_for_a_known_archive() -> None:
    days = _days(2)
    assert known.refusals(_of_ids({days[1]: ONE}), _knew(days[1:], TWO), RULES, [])
    there = dataclasses.replace(_of_ids(dict.fromkeys(days, ONE)), ids={})
    assert known.refusals(there, _knew(days, ONE), RULES, [])


def test_known_archive_of_the_future_is_not_the_newest_known() -> None:
    """Else every true archive that comes would be refused as earlier than it."""
    days, late = _days(4), "2031-01-01T00:00:00Z"
    there = _of_ids(dict.fromkeys([*days, late], ONE), late)
    assert not known.refusals(there, _knew([*days[:2], late], ONE), RULES, [])
    removed = _of_ids(dict.fromkeys(days, ONE))
    assert not known.refusals(removed, _knew([*days, late], ONE), RULES, [])
    seen = archives.moment(NOW)
    marked = KnownVm(dict.fromkeys([*days[:2], late], ONE), {late: seen})
    later = dataclasses.replace(there, read_at=NOW + timedelta(days=3650))
    assert not known.refusals(known.counted(later, marked, []), marked, RULES, [])


def test_archives_that_are_all_of_the_future_name_the_clock() -> None:
    days = _days(2)
    there = _of_ids(dict.fromkeys(days, ONE), *days)
    there = dataclasses.replace(there, read_at=FIRST - timedelta(days=40))
    for knew in (None, _knew(days, ONE)):
        (refusal,) = known.refusals(there, knew, RULES, [PLACE])
        assert "the clock here, which says 2026-08-22T02:30:00Z" in refusal
    assert not keep.plan(there, Policy(RULES)).deleted


def test_archive_made_long_before_its_moment_never_counts() -> None:
    """One access is not enough to put backups into many days that come."""
    days = _days(20)
    true, late = days[:10], [name.replace("02:30", "23:59") for name in days[10:]]
    first = dataclasses.replace(
        _of_ids(dict.fromkeys([*true, *late], ONE), *late), read_at=FIRST + timedelta(days=9.9)
    )
    knew = known.remembered(first, None, [])
    assert {*knew.ahead} == {*late}
    assert [*filter(knew.is_early, late)] == late[1:], "a clock may be wrong by less than a day"
    knew = known.read(Known().with_vm(PLACE, UUID, knew).text, "").of(PLACE)[UUID]
    now = FIRST + timedelta(days=19.95)
    there = dataclasses.replace(_of_ids(dict.fromkeys([*days, *late], ONE)), read_at=now)
    there = known.counted(there, knew, [])
    assert not known.refusals(there, knew, RULES, [])
    plan = keep.plan(there, Policy(RULES))
    assert {*days[13:]} <= {*plan.kept}, "the true ones of seven days"
    assert {plan.kept[name] for name in late[1:]} == {keep.AHEAD}
    (command,) = {re.findall(r"virt_prune_accept=(\S+)", note)[0] for note in there.notes[:1]}
    assert [*known.counted(there, knew, [command]).ahead] == [*there.ahead]
    fresh = dataclasses.replace(_of_ids(dict.fromkeys([*days, *late], ONE)), read_at=now)
    assert len(known.counted(fresh, knew, [command]).ahead) == len(there.ahead) - 1
    assert [vm.archive for vm in known.counted(fresh, knew, [PLACE]).ahead] == late[1:]
    assert {*known.remembered(fresh, knew, [PLACE]).ahead} == {*late[1:]}
    assert not known.counted(fresh, knew, [UUID]).ahead
    assert not known.remembered(fresh, knew, [UUID]).ahead
    after = known.remembered(fresh, knew, []).ahead
    assert after == {name: knew.ahead[name] for name in late[1:]}


def test_repository_that_is_unknown_is_new_unless_it_is_accepted() -> None:
    there = _of_ids(dict.fromkeys(_days(2), ONE))
    assert known.is_new(there, None, [])
    assert not known.is_new(there, _knew(_days(1)), [])
    assert not known.is_new(there, None, [UUID])
    assert known.is_new(there, None, [PLACE]), "a place is accepted for its ids alone"
    assert not known.is_new(_repository(), None, []), "nothing is there to be remembered"


def test_file_is_read_as_it_was_written() -> None:
    days = _days(3)
    vm = known.remembered(
        dataclasses.replace(
            _of_ids({days[0]: ONE, days[1]: TWO}), names=(*days[:2], f"{days[0]}.proof.{days[1]}")
        ),
        None,
        [],
    )
    knew = Known().with_vm(PLACE, UUID, vm)
    assert known.read(knew.text, "known.json") == knew
    assert knew.of(PLACE)[UUID].ids == {days[0]: ONE, days[1]: TWO}
    assert known.read(None, "known.json") == Known()
    assert known.read(knew.with_vm(PLACE, UUID, KnownVm()).text, "") == Known()


def _earlier_release_reads(text: str) -> dict[str, dict[str, list[str]]]:
    """What the first release read, which had version 1 alone; ValueError where it refused."""
    document = json.loads(text)
    if document.get("fleet.virt") != 1:
        raise ValueError("is not what this collection wrote there")
    places: dict[str, dict[str, list[str]]] = document["places"]
    return places


def test_earlier_release_refuses_the_file_and_its_own_is_read() -> None:
    days = _days(3)
    text = json.dumps({"fleet.virt": 1, "places": {PLACE: {UUID: days}}})
    assert _earlier_release_reads(text)[PLACE] == {UUID: days}
    knew = known.read(text, "")
    assert knew.of(PLACE)[UUID] == _knew(days)
    assert not known.refusals(_of_ids(dict.fromkeys(days, ONE)), knew.of(PLACE)[UUID], RULES, [])
    assert known.refusals(_of_ids({days[1]: ONE}), knew.of(PLACE)[UUID], RULES, [])
    with pytest.raises(ValueError, match="is not what this collection wrote"):
        _earlier_release_reads(knew.text)
    assert known.read(knew.text, "") == knew, "an id that is not known yet stays so"


def test_two_releases_prune_in_turns_and_neither_misses_what_the_other_deleted() -> None:
    """Of the same repository, with a backup of the future in it, each from its own controller."""
    chosen = random.Random(47)  # noqa: S311
    late = "2031-01-01T00:00:00Z"
    for _round in range(20):
        there: list[str] = [late]
        new, old = KnownVm(), []
        for day, name in enumerate(_days(60)):
            there.append(name)
            ids = dict.fromkeys(there, ONE)
            seen = dataclasses.replace(
                _of_ids(ids, late), read_at=FIRST + timedelta(days=day, hours=1)
            )
            if chosen.random() < 0.5:
                assert not known.refusals(seen, new, RULES, []), (new, there)
                there = [*keep.plan(seen, Policy(RULES)).kept]
                left = {name: one for name, one in ids.items() if name in there}
                new = KnownVm(dict(left), {late: archives.moment(FIRST)})
            else:  # which counts the backup of the future as the newest
                required = {*keep.reasons([*{*old, *there}], RULES)}
                assert not [name for name in old if name in required and name not in there]
                there = old = [*keep.reasons(there, RULES)]


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "[1]", "{", '{"fleet.virt": 3, "places": {}}', '{"fleet.virt": 2}'),
        '{"fleet.virt": 2, "places": []}',
        '{"fleet.virt": 2, "places": {"/srv": {"vm": ["2026-11-10T02:00:00Z"]}}}',
        '{"fleet.virt": 2, "places": {"/srv": {"vm": {}}}}',
        '{"fleet.virt": [], "places": {}}',
    ],
)
def test_damaged_file_is_not_taken_for_an_empty_file(text: str) -> None:
    with pytest.raises(KnownError, match=r"known\.json is not what this collection wrote"):
        known.read(text, "known.json")
