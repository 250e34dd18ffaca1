# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Control groups of hosts.

systemd-nspawn puts a machine's processes below the group it is started in, always under the same
name: two hosts started in one group would share it. So every host gets a group of its own in each
hierarchy that systemd uses, and since a group outlives its processes, ``down`` removes them.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from . import processes

__all__ = ["group_name", "hierarchies", "remove"]

_PREFIX = "fleet-virt-lab"


def hierarchies() -> list[Path]:
    """Where the hierarchies are mounted in which systemd keeps its groups."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        place, _, kind = line.partition(" - ")
        fields = kind.split()
        if fields[0] == "cgroup2" or (fields[0] == "cgroup" and "name=systemd" in fields[2]):
            found.append(Path(place.split()[4]))
    return found


def group_name(lab: str, host: str) -> str:
    """The group of a host, the same in every hierarchy."""
    return f"{_PREFIX}.{lab}.{host}"


def remove(lab: str, host: str = "*", limit: float = 10) -> None:
    """Remove the groups of a host, or of all hosts of a laboratory, whose processes were ended.

    :raises LabError: one is still in use after ``limit`` seconds.
    """

    def gone() -> bool:
        left = False
        for hierarchy in hierarchies():
            for group in hierarchy.glob(group_name(lab, host)):
                for folder, _, _ in os.walk(group, topdown=False):
                    # Busy for a moment after the last process in it has ended.
                    with contextlib.suppress(OSError):
                        os.rmdir(folder)
                left = left or group.exists()
        return not left

    processes.wait_for(gone, limit, lambda: f"control groups of {lab} are in use", pause=0.02)
