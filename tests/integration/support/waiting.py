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

    :raises AssertionError: it did not within ``limit`` seconds; says what it returned last.
    """
    end = time.monotonic() + limit
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {limit:g} s, last answer {value!r}")
        time.sleep(pause)
