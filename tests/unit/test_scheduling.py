# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Laboratory tests are shared out evenly, and always in the same way."""

from __future__ import annotations

from tests import scheduling

_FOLDER = "tests/integration"


def test_laboratories_come_first_and_the_longest_of_them() -> None:
    known = {f"{_FOLDER}/test_a.py": 9.0, f"{_FOLDER}/test_b.py": 50.0}
    tests = ["tests/unit/test_u.py::test_1", *(f"{file}::test_1" for file in known)]
    assert scheduling.in_order([*tests, f"{_FOLDER}/test_new.py::test_1"], known) == [
        f"{_FOLDER}/test_b.py",
        f"{_FOLDER}/test_new.py",
        f"{_FOLDER}/test_a.py",
        "tests/unit/test_u.py",
    ]


def test_what_leaves_something_behind_comes_last() -> None:
    last = f"{_FOLDER}/test_examples.py"
    tests = [f"{last}::test_1", f"{_FOLDER}/test_x.py::test_1", "tests/unit/test_u.py::test_1"]
    assert scheduling.in_order(tests, {last: 900.0})[:2] == [f"{_FOLDER}/test_x.py", last]


def test_what_shares_a_fleet_stays_together() -> None:
    tests = [f"{_FOLDER}/reading/test_{name}.py::test_1" for name in "abc"]
    assert scheduling.in_order([*tests, f"{_FOLDER}/test_x.py::test_1"], {}) == [
        "reading",
        f"{_FOLDER}/test_x.py",
    ]


def test_every_file_of_the_table_exists(checkout) -> None:
    known = scheduling.durations()
    assert [name for name in known if not (checkout / name).is_file()] == []
    assert all(scheduling.in_laboratory(name) for name in known)
