# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the laboratory says when it cannot go on, and what it says as it goes."""

from __future__ import annotations

import sys
import threading
import time

__all__ = ["LabError", "Progress"]


class LabError(Exception):
    """Something the person at the keyboard can act on; the text names value, rule and remedy."""


class Progress:
    """One short line a step on standard error, with the seconds since the start."""

    def __init__(self, prefix: str = "lab", quiet: bool = False) -> None:
        self.prefix = prefix
        self.quiet = quiet
        self._begin = time.monotonic()
        self._lock = threading.Lock()

    @property
    def elapsed(self) -> float:
        """Seconds since this progress began."""
        return time.monotonic() - self._begin

    def __call__(self, text: str) -> None:
        if self.quiet:
            return
        with self._lock:
            print(f"{self.prefix} {self.elapsed:6.1f}s  {text}", file=sys.stderr, flush=True)
