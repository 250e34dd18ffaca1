# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting for what happens elsewhere: on a condition and within a limit, never blindly."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Callable

Value = t.TypeVar("Value")


def wait_for(condition: Callable[[], Value], limit: float, what: str, pause: float = 0.1) -> Value:
    """Call ``condition`` until it returns something true, and return that.

    The pause is at least twice what the call took, up to a second: what is asked through ssh slows
    down what it waits for.

    :raises AssertionError: it did not within ``limit`` seconds; says what it returned last.
    """
    end = time.monotonic() + limit
    while True:
        begun = time.monotonic()
        value = condition()
        if value:
            return value
        now = time.monotonic()
        if now > end:
            raise AssertionError(f"{what}: not within {limit:g} s, last answer {value!r}")
        time.sleep(max(pause, min(1.0, 2 * (now - begun))))
