# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The words of reports."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import tables
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.results import word
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge import report as purge_report
from ansible_collections.fleet.virt.plugins.module_utils._fleet.snapshots import verb as snapshots
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state import (
    decide as state_decision,
)

# An entry and its word, wherever it is shown
WORDS: list[tuple[dict[str, t.Any], str]] = [
    ({"changed": True, "failed": False}, "changed"),
    ({"changed": False, "failed": False}, "unchanged"),
    ({"changed": False, "failed": True, "msg": "no room"}, "failed"),
    ({"changed": False, "failed": False, "not_tried": True}, "not tried"),
    ({"changed": False, "failed": True, "not_tried": True, "msg": "b failed"}, "not tried"),
]


@pytest.mark.parametrize(("entry", "expected"), WORDS)
def test_word_of_an_entry_is_the_same_in_every_report(
    entry: dict[str, t.Any], expected: str
) -> None:
    state = {"before": "running", "state": "running", "address": None}
    whole = {"name": "web1", "existed": True, "msg": None, "steps": [], **state, **entry}
    assert word(whole, "changed") == expected
    answers, shares = {"hv1": {"vms": [whole]}}, {"hv1": ["web1"]}
    told = state_decision.tell(shares, answers, state_decision.Told(), check=False)
    reports = [
        state_decision.report(told, "", check=False)[0],
        snapshots.VERB.report(shares, answers, check=False)[0],
        tables.made([{"name": "hv1", "vms": [whole]}]),
    ]
    for report in reports:
        row = report.splitlines()[1]
        assert f"  {expected}" in row, report
        assert ("unchanged" in row) == (expected == "unchanged"), report


def test_vm_whose_removal_was_not_tried_is_not_called_absent() -> None:
    vm = {
        "name": "web1",
        "failed": False,
        "not_tried": True,
        "msg": None,
        "removed": [],
        "kept": [],
    }
    text, failures = purge_report.report(
        ["web1"], {"hv1": ["web1"]}, {"hv1": {"vms": [vm]}}, check=False
    )
    assert "not tried" in text
    assert "not there" not in text
    assert failures == []
