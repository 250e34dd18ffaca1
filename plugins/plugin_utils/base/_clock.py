# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How far another machine's clock is from ours, as sure as the way there allows.

This file is private to the collection.
"""

from __future__ import annotations

import typing as t

TRIES = 3
COMMAND = "date +%s.%N"


def measure(ask: t.Callable[[], str], now: t.Callable[[], float]) -> dict[str, float] | None:
    """``offset`` of the other clock and its ``uncertainty``, seconds; None without an answer.

    The answer was made at some time between question and arrival, nobody knows when: the offset is
    right within half of that time. The quickest of several tries is the surest.
    """
    found: list[tuple[float, float]] = []
    for _dummy in range(TRIES):
        before = now()
        said = ask().strip()
        after = now()
        try:
            there = float(said.splitlines()[-1])
        except (IndexError, ValueError):
            continue
        found.append(((after - before) / 2, there - (before + after) / 2))
    if not found:
        return None
    uncertainty, offset = min(found)
    return {"offset": offset, "uncertainty": uncertainty}
