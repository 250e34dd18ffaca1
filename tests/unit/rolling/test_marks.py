# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Marks of rolling work, when a reboot is needed, and what is said of a turn."""

from __future__ import annotations

import re
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import rolling_marks
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.marks import Marked
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.rolling_marks import (
    BEGUN,
    PASSED,
    RollingMark,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes import note
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rolling import (
    marks,
    reboot,
    report,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rolling.marks import Progress
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rolling.report import TurnVerdict

_OWN, _OTHER = marks.digest_of(b"upgrade"), marks.digest_of(b"upgrade more")
_DAY = 24 * 3600 * 1000


def test_mark_is_read_from_its_volume_and_is_no_note() -> None:
    mark = RollingMark(BEGUN, _OWN, 7)
    assert rolling_marks.parse(mark.volume) == mark
    assert note.parse(mark.volume) is None
    for other in ("rolling.begun.xyz.1", "fleet-virt.maintenance", f"rolling.done.{_OWN}.1"):
        assert rolling_marks.parse(other) is None


@pytest.mark.parametrize(
    ("those", "expected"),
    [
        ([], Progress()),
        ([(BEGUN, _OWN)], Progress(begun=True)),
        ([(BEGUN, _OTHER)], Progress(begun=True)),
        ([(PASSED, _OWN)], Progress(passed=10, age=90)),
        ([(PASSED, _OTHER)], Progress()),
        ([(BEGUN, _OWN), (PASSED, _OWN)], Progress(begun=True, passed=10, age=90)),
    ],
)
def test_progress_is_of_the_same_tasks(those: list[tuple[str, str]], expected: Progress) -> None:
    volumes = [RollingMark(state, digest, 10).volume for state, digest in those]
    assert marks.progress([*volumes, "fleet-virt.maintenance"], _OWN, 100) == expected


def test_abandoned_run_counts_no_longer_once_its_newest_mark_is_old() -> None:
    old, new = Progress(passed=1, age=8 * _DAY), Progress(passed=2, age=6 * _DAY)
    assert marks.current({"hv1": old, "hv2": new}) == {"hv1": old, "hv2": new}
    begun = Progress(begun=True, passed=1, age=9 * _DAY)
    assert marks.current({"hv1": old, "hv2": begun}) == {
        "hv1": Progress(),
        "hv2": Progress(begun=True),
    }


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, None),
        ({"required": True}, "/run/reboot-required exists"),
        ({"required": True, "packages": ["linux", "linux", "dbus"]}, r"exists \(linux, dbus\)"),
        ({"kernels": {"6.1": 50.0, "6.2": 150.0, "6.3": 160.0}}, "kernel 6.3 was .* booted 6.1"),
        ({"kernels": {"6.1": 150.0, "6.0": 20.0}}, None),
        ({"restarting": True}, "needs-restarting"),
        ({"restarting": False}, None),
    ],
)
def test_reboot_is_needed_for_a_reason(given: dict[str, t.Any], why: str | None) -> None:
    facts = {"required": False, "packages": [], "kernels": {}, "running": "6.1", "booted": 100.0}
    reason = reboot.reason(reboot.RebootFacts(**{**facts, "restarting": None, **given}))
    if why is None:
        assert reason is None
    else:
        assert re.search(why, str(reason))


def test_turn_that_is_not_well_names_what_is_done_and_what_is_not_begun() -> None:
    verdicts = [TurnVerdict("hv2", text="done"), TurnVerdict("hv3", "Upgrade: no space left")]
    text, failures = report.turn_text(verdicts, [["hv1"], ["hv2", "hv3"], ["hv4"]], 1, ["hv0"])
    assert failures == {"hv3": "not well: Upgrade: no space left"}
    assert "hv3 is left in maintenance\n" in text
    assert "done: hv0, hv1, hv2; not well: hv3; not begun: hv4\n" in text
    assert "fleet.virt.return_vms -e virt_host=hv3" in text
    text, failures = report.turn_text(
        [TurnVerdict("hv1", text="done; fine")], [["hv1"], ["hv2"]], 0
    )
    assert (text, failures) == ("hv1: done; fine\n", {})


@pytest.mark.parametrize(
    ("missing", "why"),
    [
        (None, ""),
        (0, "no pool"),
        (1, "web1 still runs there; web1 has no place"),
        (2, "no boot"),
        (3, "no trial VM"),
    ],
)
def test_first_stage_without_its_outcome_says_why(missing: int | None, why: str) -> None:
    answers: list[t.Any] = [{"claimed": True}, {"ready": True}, {"rebooted": False}, {"well": True}]
    failed = ("no pool", "web1 still runs there", "no boot", "no trial VM")
    if missing is not None:
        answers[missing] = {"failed": True, "msg": failed[missing]}
        answers[missing + 1 :] = [{"skipped": True}] * (3 - missing)
    claimed, begun, rebooted, checked = answers
    moves = ["web1 has no place"]
    assert report.incomplete(claimed, begun, rebooted, checked, moves) == why
    assert "any more" in report.incomplete(claimed, begun, rebooted, {}, moves) or missing != 3


def test_mark_that_check_mode_predicts_is_not_left_by_it() -> None:
    made = Marked(maintenance=True, changed=True)
    kept = Marked(maintenance=True, changed=False)
    ended = Marked(maintenance=False, changed=True)
    for marked, check, left in (
        (made, False, True),
        (made, True, False),
        (kept, False, True),
        (kept, True, True),
        (Marked(), False, False),
        (ended, False, False),
    ):
        assert report.is_marked(marked, check=check) is left


@pytest.mark.parametrize(("running", "verb"), [(["web1"], "web1 runs"), (["a", "b"], "a, b run")])
def test_vm_that_runs_keeps_the_reboot_away_by_name(running: list[str], verb: str) -> None:
    assert reboot.kept_by([], "as requested") == ""
    text = reboot.kept_by(running, "as requested")
    assert text.startswith(f"it was to reboot (as requested), and {verb} there again")
    assert "run the same command again" in text


def test_maintenance_that_was_ended_keeps_the_reboot_away() -> None:
    text = reboot.kept_by([], "as requested", held=False)
    assert text.startswith("it was to reboot (as requested), and its maintenance was ended")
    assert "web1 runs" in reboot.kept_by(["web1"], "as requested", held=False)


def test_check_mode_foresees_the_reboot_although_no_vm_has_left_and_nothing_is_marked() -> None:
    assert reboot.kept_by(["web1"], "as requested", held=False, check=True) == ""


@pytest.mark.parametrize(
    ("status", "out", "needed"),
    [
        (1, "Core libraries have been updated:\n  * glibc\n\nReboot is required to fully"
         " utilize these updates.\n", True),
        (1, "Reboot is required to ensure that your system benefits from these updates.\n", True),
        (1, "Error: Failed to open the database of packages\n", False),
        (1, "", False),
        (0, "Reboot should not be necessary.\n", False),
        (2, "usage: needs-restarting [-r]\n", False),
    ],
)  # fmt: skip
def test_program_that_failed_asks_for_no_reboot(status: int, out: str, needed: bool) -> None:
    assert reboot.restarting(status, out) is needed
