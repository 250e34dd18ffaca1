# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import subprocess
import time

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    read_processes as processes,
)


def test_a_process_whose_name_is_odd() -> None:
    rest = " ".join(["S", "17", *["0"] * 17, "4711", "0"])
    found = processes.parse(f"99 (sshd: (x) y) {rest}")
    assert found == processes.Process("sshd: (x) y", "S", 17, 4711)


def test_a_process_of_this_machine() -> None:
    found = processes.read(os.getpid())
    assert found.name
    assert found.parent == os.getppid()
    assert found.start_time == processes.start_time(os.getpid())
    lineage = list(processes.lineage(os.getpid()))
    assert lineage[0] == (os.getpid(), found)
    assert all(one.parent == above for (_pid, one), (above, _) in zip(lineage, lineage[1:]))


def test_one_that_has_ended_has_not_begun() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        assert processes.start_time(process.pid) is not None
        # a program's words are there a moment after it has begun
        limit = time.monotonic() + 10
        while processes.arguments(process.pid) == ("",) and time.monotonic() < limit:
            time.sleep(0.01)
        assert processes.arguments(process.pid)[:2] == ("sleep", "60")
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert processes.read(process.pid).state == "Z"
        assert processes.start_time(process.pid) is None
        process.wait()
        assert processes.start_time(process.pid) is None
        assert processes.arguments(process.pid) == ()
        with pytest.raises(OSError, match="No such"):
            processes.read(process.pid)
