# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sets of CPUs mean the same however they are written."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec import cpusets


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", {0}), ("0-3", {0, 1, 2, 3}), ("0-3,^2,8", {0, 1, 3, 8}), ("1,1", {1})],
)
def test_numbers(text: str, expected: set[int]) -> None:
    assert cpusets.numbers(text) == expected


@pytest.mark.parametrize(
    ("asked", "real", "same"),
    [("0,1,3", "0-1,3", True), ("0-3,^2", "0-1,3", True), ("0", "1", False), ("0", None, False)],
)
def test_same(asked: str, real: str | None, same: bool) -> None:
    assert cpusets.same(asked, real) is same
