# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Retention: what is kept is what the policy says, as borg itself would keep it."""

from __future__ import annotations

import os
import random
import re
import subprocess
from datetime import datetime, timedelta, timezone

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import SpecError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import archives, keep
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.archives import ArchiveProof
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.keep import Policy
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.listing import (
    Repository,
    SavedVm,
)
from ansible_collections.fleet.virt.tests.unit.backup import _made

FIRST = datetime(2026, 10, 1, 2, 30, tzinfo=timezone.utc)
RULES = {"daily": 7, "weekly": 4, "monthly": 6}


def _vm(name: str, *proofs: str) -> SavedVm:
    found = (ArchiveProof(proof, name, name, "login:") for proof in proofs)
    return SavedVm(_made.of(name), tuple(found))


def _repository(*vms: SavedVm, more: tuple[str, ...] = ()) -> Repository:
    proofs = [proof.archive for vm in vms for proof in vm.proofs]
    names = [vm.archive for vm in vms]
    return Repository("/srv/backup", _made.UUID, vms, tuple(sorted([*names, *proofs, *more])))


def _days(count: int) -> list[str]:
    return [archives.moment(FIRST + timedelta(days=day)) for day in range(count)]


def _after(days: int, rules: dict[str, int]) -> list[str]:
    """What there is after a backup and a pruning on each of so many days."""
    there: list[str] = []
    for name in _days(days):
        there.append(name)
        repository = _repository(*map(_vm, there))
        plan = keep.plan(repository, Policy(rules))
        assert set(plan.kept) | set(plan.goes) == set(there)
        assert not plan.proofs
        there = [*plan.kept]
    return there


def test_sixty_days_of_backups_leave_exactly_what_the_policy_says() -> None:
    """The last day is Sunday, 29 November: seven days to Monday; the Sundays of the four weeks
    before; and the last day of October. There are no six months yet, so the first backup stays."""
    expected = {
        *(f"2026-11-{day}T02:30:00Z" for day in range(23, 30)),
        *(f"2026-11-{day:02}T02:30:00Z" for day in (22, 15, 8, 1)),
        "2026-10-31T02:30:00Z",
        "2026-10-01T02:30:00Z",
    }
    assert set(_after(60, RULES)) == expected


def test_pruning_daily_or_once_keeps_the_same() -> None:
    for days in range(1, 61):
        once = keep.plan(_repository(*map(_vm, _days(days))), Policy(RULES))
        assert {*once.kept} == {*_after(days, RULES)}, days


def _borg_keeps(repository: str, rules: dict[str, int]) -> set[str]:
    words = [word for rule, n in rules.items() for word in (f"--keep-{rule}", str(n))]
    env = {
        **os.environ,
        "BORG_BASE_DIR": f"{repository}.base",
        "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
        "TZ": "UTC",
    }
    done = subprocess.run(
        ["borg", "prune", "--dry-run", "--list", *words, repository],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = (done.stdout + done.stderr).splitlines()
    kept = [match for line in lines if (match := re.search(r"Keeping archive .*?: +(\S+Z) ", line))]
    return {match[1] for match in kept}


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[str]]:
    """A repository with 60 days of backups, some days with several and some with none."""
    repository = str(tmp_path_factory.mktemp("oracle") / "repository")
    chosen = random.Random(35)  # noqa: S311
    moments = sorted(
        FIRST + timedelta(days=day, minutes=chosen.randrange(1440))
        for day in range(60)
        for _time in range(chosen.choice([0, 1, 1, 1, 3]))
    )
    names = [archives.moment(at) for at in moments]
    env = {**os.environ, "BORG_BASE_DIR": f"{repository}.base", "TZ": "UTC"}
    subprocess.run(["borg", "init", "--encryption", "none", repository], env=env, check=True)
    for name in names:
        words = ["--timestamp", name.rstrip("Z"), f"{repository}::{name}", "/dev/null"]
        subprocess.run(["borg", "create", *words], env=env, check=True)
    return repository, names


@pytest.mark.parametrize(
    "rules",
    [
        RULES,
        {"daily": 1},
        {"last": 5},
        {"hourly": 30, "daily": 3},
        {"weekly": 3, "yearly": 2},
        {"monthly": 1, "weekly": 9},
        {"last": 1, "daily": 2, "weekly": 2, "monthly": 2, "yearly": 1},
        {"daily": 1000},
    ],
)
def test_rules_keep_what_borg_prune_keeps(
    simulated: tuple[str, list[str]], rules: dict[str, int]
) -> None:
    repository, names = simulated
    expected = _borg_keeps(repository, rules)
    assert expected
    assert keep.reasons(names, rules).keys() == expected


def test_last_proven_backup_stays_and_its_proof() -> None:
    first, second, third = _days(3)
    vms = (_vm(first, "booted"), _vm(second, "booted"), _vm(third, "read back"))
    plan = keep.plan(_repository(*vms), Policy({"last": 1}))
    assert plan.kept == {second: keep.LAST_PROVEN, third: "last 1"}
    assert plan.deleted == (f"{first}.proof.{first}", first)
    told = keep.plan(_repository(*vms), Policy({"last": 1}, proven=False))
    assert told.goes == (first, second)


def test_backup_that_last_failed_is_not_the_last_proven() -> None:
    first, second, third = _days(3)
    vms = (_vm(first, "booted"), _vm(second, "booted", "failed"), _vm(third))
    plan = keep.plan(_repository(*vms), Policy({"last": 1}))
    assert [*plan.kept] == [first, third]


def test_proof_without_its_backup_goes() -> None:
    first, second = _days(2)
    orphan = f"{first}.proof.{second}"
    plan = keep.plan(_repository(_vm(second), more=(orphan,)), Policy({"last": 1}))
    assert plan.deleted == (orphan,)


def test_archives_of_others_and_unreadable_ones_stay() -> None:
    first, second = _days(2)
    more = (first, f"{first}.proof.{second}", "home-2026", "home-2026.checkpoint")
    plan = keep.plan(_repository(_vm(second), more=more), Policy({"last": 1}))
    assert plan.deleted == ()


def test_checkpoint_goes_once_a_later_backup_is_complete() -> None:
    first, second, third = _days(3)
    more = (f"{first}.checkpoint", f"{second}.proof.{first}.checkpoint.1", f"{third}.checkpoint")
    plan = keep.plan(_repository(_vm(second), more=more), Policy({"last": 1}))
    assert plan.unfinished == more[:2]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "virt_keep: None is no policy"),
        ("daily", "virt_keep: 'daily' is no policy"),
        ({}, "it would keep nothing"),
        ({"daily": 0, "weekly": "0"}, "it would keep nothing"),
        ({"dayly": 7}, "did you mean daily"),
        ({"daily": -1}, "virt_keep.daily: -1 is not a number from 0"),
        ({"daily": "many", "wekly": 1}, "virt_keep.daily: .*\nvirt_keep.wekly: "),
        ({"daily": True}, "virt_keep.daily: "),
    ],
)
def test_policy_that_is_none_is_refused(value: object, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        keep.policy(value)


def test_policy_of_text_numbers_is_read() -> None:
    assert keep.policy({"daily": "7", "weekly": 0}).rules == {"daily": 7, "weekly": 0}
