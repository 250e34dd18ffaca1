# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Offset of another machine's clock, with its uncertainty."""

from __future__ import annotations

import typing as t

TRIES = 3
COMMAND = "date +%s.%N"


def measure(ask: t.Callable[[], str], now: t.Callable[[], float]) -> dict[str, float] | None:
    """``offset`` of the other clock and its ``uncertainty``, in seconds; None without a response.

    The clock was read at an unknown time between request and response, so the offset is accurate to
    half of that time. The quickest of several tries is the most accurate.
    """
    samples: list[tuple[float, float]] = []
    for _dummy in range(TRIES):
        before = now()
        output = ask().strip()
        after = now()
        try:
            remote = float(output.splitlines()[-1])
        except (IndexError, ValueError):
            continue
        samples.append(((after - before) / 2, remote - (before + after) / 2))
    if not samples:
        return None
    uncertainty, offset = min(samples)
    return {"offset": offset, "uncertainty": uncertainty}
