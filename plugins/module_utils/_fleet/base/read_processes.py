# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Processes of this machine, as the kernel lists them in /proc/PID/stat (proc(5))."""

from __future__ import annotations

import os
import time
import typing as t
from pathlib import Path


class Process(t.NamedTuple):
    """A process; ``start_time`` is in clock ticks since the boot."""

    name: str
    state: str
    parent: int
    start_time: int


def boot_id() -> str:
    """The kernel's identity of this boot (random(4))."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def parse(text: str) -> Process:
    """Parse the text of a process's ``stat`` file."""
    # the name in parentheses may contain anything, blanks and parentheses too
    head, _sep, rest = text.rpartition(")")
    fields = rest.split()
    return Process(head.partition("(")[2], fields[0], int(fields[1]), int(fields[19]))


def read(pid: int) -> Process:
    """The process with this PID; raises OSError if there is none."""
    return parse(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace"))


def start_time(pid: int) -> int | None:
    """When the process started; None if there is no such process, or it has ended."""
    try:
        process = read(pid)
    except OSError:
        return None
    return None if process.state == "Z" else process.start_time


def is_same(boot: str, pid: int, started: int) -> bool:
    """Whether the process with this PID and start time of that boot still exists."""
    return pid > 0 and boot == boot_id() and start_time(pid) == started


def started_at(start_time: int) -> str:
    """When a process with this start time began, as UTC, to the second."""
    for line in Path("/proc/stat").read_text(encoding="ascii").splitlines():
        if line.startswith("btime "):
            seconds = int(line.split()[1]) + start_time / os.sysconf("SC_CLK_TCK")
            return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
    return "an unknown time"


def lineage(pid: int) -> t.Iterator[tuple[int, Process]]:
    """The process, its parent, and so on up to, but not including, process 1.

    Raises OSError if one of them ends meanwhile.
    """
    while pid > 1:
        process = read(pid)
        yield pid, process
        pid = process.parent


def arguments(pid: int) -> tuple[str, ...]:
    """The command line of the process; empty if there is no such process."""
    try:
        data = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ()
    return tuple(data.decode("utf-8", "surrogateescape").split("\0"))
