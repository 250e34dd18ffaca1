# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a run of tests left a process behind, which is a failure of it.

A variable of the environment marks what a run starts, and forks keep it. What belongs to a
laboratory that is to stay up is let be.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.lab import processes
from tests.lab.paths import control_folder

__all__ = ["VARIABLE", "find", "mark", "remaining"]

VARIABLE = "FLEET_VIRT_RUN"
# As long as ssh keeps a connection that nobody uses, and a little longer
_SECONDS = 75.0


def mark() -> str:
    """Mark what this process starts from now on; the mark."""
    found = f"{os.getpid()}-{time.time_ns()}"
    os.environ[VARIABLE] = found
    return found


def find(marked: str, kept: str | None = None) -> list[str]:
    """What runs with this mark, besides this process and those that started it: a line for each.

    ``kept``: a laboratory that stays up.
    """
    entry = f"{VARIABLE}={marked}".encode()
    ours = processes.ancestors()
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) in ours:
            continue
        try:
            environment = (folder / "environ").read_bytes().split(b"\0")
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it has ended meanwhile
            continue
        command = b" ".join(words).decode(errors="replace")
        if entry not in environment or processes.dead(int(folder.name)):
            continue
        if kept is None or not _of_laboratory(kept, environment, command):
            found.append(f"{folder.name}: {command.strip()} ({_waits(folder)})")
    return sorted(found)


def remaining(marked: str, kept: str | None = None) -> list[str]:
    """The same once they had the time to end."""
    end = time.monotonic() + _SECONDS
    pause = 0.05
    while (found := find(marked, kept)) and time.monotonic() < end:
        time.sleep(pause)
        pause = min(1.0, 2 * pause)
    return found


def _of_laboratory(name: str, environment: list[bytes], command: str) -> bool:
    starts = f"{processes.MARK}=".encode()
    marks = (word[len(starts) :] for word in environment if word.startswith(starts))
    folders = {os.path.basename(mark.partition(b":")[0]) for mark in marks}
    return os.fsencode(name) in folders or f"{control_folder(name)}/" in command


def _waits(folder: Path) -> str:
    """What it waits for, as far as that can be seen, and which process started it."""
    try:
        parent = (folder / "status").read_text().split("PPid:", 1)[1].split(None, 1)[0]
        return f"of {parent}, in {(folder / 'wchan').read_text() or 'no call'}"
    except OSError:
        return "ending"
