# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is taken of a value from outside, and what is not."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import json_values


@pytest.mark.parametrize("value", [None, "text", 3, True, [1]])
def test_what_is_no_mapping_is_an_empty_one(value: object) -> None:
    assert json_values.as_mapping(value) == {}


def test_lists_and_the_mappings_in_them() -> None:
    assert json_values.as_list(({"a": 1}, 2)) == [{"a": 1}, 2]
    assert json_values.as_list("ab") == json_values.as_list(None) == json_values.as_list({}) == []
    assert json_values.as_mappings([{"a": 1}, 2, None]) == [{"a": 1}]


def test_text_and_numbers() -> None:
    assert json_values.as_text("a") == "a"
    assert json_values.as_text(1) is None
    assert json_values.as_number(1) == 1
    assert json_values.as_number(True) is None
    assert json_values.as_number("1") is None
