# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ending a program the way a power cut of its machine would."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path


def kill_tree(top: int) -> None:
    """Kill a process and all that it started, at once: Ansible's workers have own sessions."""
    doomed = [top]
    for pid in doomed:
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                doomed += [int(child) for child in task.read_text(encoding="ascii").split()]
    for pid in doomed:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
