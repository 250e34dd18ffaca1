# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A killed program takes along all that it has started, also what it starts at that moment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.tests import leftovers
from ansible_collections.fleet.virt.tests.integration.support import killing

# Each child has a session of its own, as Ansible's workers, and one that does the same
_BREEDS = """
import os, time
print("begun", flush=True)
end = time.monotonic() + 2
while time.monotonic() < end:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
        time.sleep(60)
        os._exit(0)
    time.sleep(0.002)
time.sleep(60)
"""


@pytest.mark.parametrize("turn", range(3))
def test_kill_tree_of_a_program_that_goes_on_starting_others_leaves_none(
    turn: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(leftovers.VARIABLE, f"killing-{turn}")
    monkeypatch.setattr(leftovers, "_SECONDS", 10)
    with subprocess.Popen([sys.executable, "-c", _BREEDS], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        killing.kill_tree(process.pid)
    assert leftovers.remaining(f"killing-{turn}") == []


def test_process_is_found_by_the_mark_of_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(leftovers.VARIABLE, "found-by-it")
    command = ["sleep", "60"]
    with subprocess.Popen(command) as ours:
        monkeypatch.setenv(leftovers.VARIABLE, "another")
        monkeypatch.setenv("FLEET_VIRT_LAB_PROCESS", f"{tmp_path}/labs/kept:hv1")
        with subprocess.Popen(command) as theirs:
            try:
                (line,) = leftovers.find("found-by-it")
                assert line.startswith(f"{ours.pid}: sleep 60 (of ")
                assert leftovers.find("another", kept="kept") == []
                assert len(leftovers.find("another", kept="other")) == 1
            finally:
                ours.kill()
                theirs.kill()
    assert leftovers.find("found-by-it") == []
