# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a laboratory could leave behind on a machine, and its program as a process."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.lab import cgroups, fabric, paths, processes

__all__ = ["PROGRAM", "Traces", "eventually", "laboratory", "python"]

PROGRAM = Path(__file__).resolve().parents[2] / "lab" / "lab"


def eventually(condition: Callable[[], bool], limit: float = 15) -> bool:
    """Whether a condition comes true within a limit in seconds."""
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def laboratory(
    name: str, *words: str, check: bool = True, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run the laboratory's program to its end."""
    done = subprocess.run(
        [str(PROGRAM), "--name", name, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def python(text: str, *words: str) -> subprocess.Popen[str]:
    """Start a program of its own that uses the laboratory's package; it complains where we do.

    It ends with this process, however this ends.
    """
    head = f"import sys; sys.path.insert(0, {str(PROGRAM.parents[2])!r})\n"
    return subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", sys.executable, "-c", head + text, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _lines(*command: str) -> list[str]:
    return subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=30
    ).stdout.splitlines()


class Traces:
    """What is there of some laboratories, beyond what was there when this was made.

    Others may work on the machine at the same time: links, networks and control groups are those
    of the named laboratories; mounts, loop devices and namespaces are the machine's.
    """

    def __init__(self, *names: str) -> None:
        self._names = names
        self._before = self._machine()

    @staticmethod
    def _machine() -> set[str]:
        loops = [f"loop {line}" for line in _lines("losetup", "--noheadings", "--list")]
        namespaces = [f"netns {line}" for line in _lines("ip", "netns", "list")]
        mounts = [f"mount {line}" for line in Path("/proc/mounts").read_text().splitlines()]
        return {*loops, *namespaces, *mounts}

    def processes(self) -> list[int]:
        """The laboratories' processes."""
        return [
            pid
            for name in self._names
            for pid in processes.find(paths.lab_folder(name), control=paths.control_folder(name))
        ]

    def left(self) -> list[str]:
        """Everything that is there now, as text."""
        found = sorted(self._machine() - self._before)
        for name in self._names:
            link = fabric.link_name(name)
            if os.path.exists(f"/sys/class/net/{link}"):
                found.append(f"link {link}")
            for hierarchy in cgroups.hierarchies():
                found += map(str, hierarchy.glob(cgroups.group_name(name, "*")))
            for folder in (paths.lab_folder(name), paths.control_folder(name)):
                if folder.exists():
                    found.append(str(folder))
        for pid in self.processes():
            with contextlib.suppress(OSError):  # it went meanwhile
                found.append(f"process {pid} {Path(f'/proc/{pid}/comm').read_text().strip()}")
        if not paths.RUN.exists() and fabric.raised():
            found.append("fs.inotify.max_user_instances is still raised")
        return found

    def assert_none(self) -> None:
        """Fail with what is left, if that does not go by itself (somebody else's passing mount)."""
        if not eventually(lambda: not self.left()):
            raise AssertionError(f"left behind: {self.left()}")
