# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ending a program the way a power cut of its machine would, and a module on a hypervisor."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

# Waits until Ansible has begun the module there; its process is $pid then. The shell that Ansible
# starts it with has the same words in its command line, and the module outlives that.
_BEGUN = r"""
for turn in $(seq 1 600); do
  pid=$(pgrep -f '^[^ ]*python3 [^ ]*AnsiballZ_{module}.py' | head -n 1)
  [ -n "$pid" ] && break
  sleep 0.02
done
[ -n "$pid" ] || exit 1
"""
KILL = "kill -9 $pid 2>/dev/null && echo killed; :"
_LIFETIME = r"""
begun=$(date +%s.%N)
while kill -0 $pid 2>/dev/null; do sleep 0.01; done
echo "$begun $(date +%s.%N)"
"""


def killer(module: str, after: float) -> str:
    """For the shell of a hypervisor: kill the module that is begun next, so many seconds after
    that. It says ``killed`` unless the module had ended."""
    return begun(module, f"sleep {after:.2f}; {KILL}")


def lifetime(module: str) -> str:
    """For the same: when the module that is begun next began and ended, in seconds."""
    return begun(module, _LIFETIME)


def begun(module: str, script: str) -> str:
    """For the same: do ``script`` as soon as the module is begun, whose process is $pid there."""
    return _BEGUN.format(module=module) + script


def seconds(said: str) -> float:
    """How long it took, of what :func:`lifetime` said."""
    begun, ended = map(float, said.split())
    return ended - begun


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
