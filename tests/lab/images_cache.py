# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes out of a folder in which built things are kept."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from . import processes

__all__ = ["clean"]

UNUSED_DAYS = 14


def clean(builds: Iterable[Path], kept: Iterable[Path]) -> None:
    """Remove what killed builds left (the caller holds their lock: none is running) and what has
    been unused for long: who uses something kept sets its time."""
    for path in builds:
        processes.kill(path)
        shutil.rmtree(path)
    oldest = time.time() - UNUSED_DAYS * 86400
    for path in kept:
        if path.stat().st_mtime < oldest:
            shutil.rmtree(path)
