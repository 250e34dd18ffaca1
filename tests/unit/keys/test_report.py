# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hypervisors whose keys a run could not update."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.keys import report as keys_report

_LOOK: dict[str, t.Any] = {"kinds": {}}
_NO_ROUTE = {"unreachable": True, "msg": "no route"}
_SKIPPED = {"skipped": True}


@pytest.mark.parametrize(
    ("look", "applied", "away", "expected"),
    [
        (_LOOK, {"changed": True}, (), None),
        (_LOOK, _SKIPPED, (), None),
        (_NO_ROUTE, _SKIPPED, (), ("no route", False)),
        ({}, {}, (), ("it did not answer", False)),
        ({"failed": True, "msg": "no openssl"}, _SKIPPED, (), ("no openssl", True)),
        (_LOOK, _NO_ROUTE, (), ("no route", False)),
        (_LOOK, {"failed": True, "msg": "disk full"}, (), ("disk full", True)),
        (_NO_ROUTE, _SKIPPED, ("hv2",), None),
    ],
)
def test_who_gave_no_answer(
    look: t.Any, applied: t.Any, away: t.Any, expected: tuple[str, bool] | None
) -> None:
    found = keys_report.unanswered({"hv1": _LOOK, "hv2": look}, {"hv1": {}, "hv2": applied}, away)
    assert {name: (one.why, one.reached) for name, one in found.items()} == (
        {} if expected is None else {"hv2": expected}
    )


def test_what_is_missing_and_what_to_do() -> None:
    silent = keys_report.unanswered({"hv2": _NO_ROUTE}, {}, ())
    text = keys_report.problem(silent, ["hv3"], renew=False)
    assert "hv2 gave no answer (no route): it lacks new certificates, if any are due, and" in text
    assert "current CRL, so it may still accept hv3" in text
    assert "bring hv2 back; only if permanently gone" in text
    assert text.endswith("-e virt_hypervisors_lost=hv2; then run this again")
    text = keys_report.problem(silent, [], renew=True)
    assert "it lacks the new keys and certificates and the current CRL" in text
    assert "may still accept" not in text
