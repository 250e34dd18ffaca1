# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How far a clock is off, as sure as the way there allows."""

from __future__ import annotations

import pytest
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _clock


def ask(answers: list[str], times: list[float]) -> dict[str, float] | None:
    replies, clock = iter(answers), iter(times)
    return _clock.measure(lambda: next(replies), lambda: next(clock))


def test_the_quickest_answer_is_the_surest() -> None:
    # question and arrival of each; the second takes 0.2 s, half of which is the uncertainty
    found = ask(["105.0\n", "207.1\n", "305.0\n"], [100.0, 104.0, 200.0, 200.2, 300.0, 304.0])
    assert found == pytest.approx({"offset": 7.0, "uncertainty": 0.1})


def test_a_greeting_before_the_answer_does_no_harm() -> None:
    found = ask(["Welcome\n100.5\n", "x", ""], [100.0, 101.0, 110.0, 110.1, 120.0, 120.1])
    assert found == pytest.approx({"offset": 0.0, "uncertainty": 0.5})


def test_no_answer() -> None:
    assert ask(["", "x", "date: not found"], [0.0] * 6) is None
