# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last line of a run, which is what others read: right, alone and always there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.tests.contract import _tools

PASSES = "def test_a(): pass\n"
FAILS = "def test_b(): assert 0\n"
SKIPS = "import pytest\ndef test_c(): pytest.skip('the reason')\n"
BREAKS_AFTER = """\
import pytest
@pytest.fixture
def thing():
    yield
    raise RuntimeError
def test_d(thing): pass
"""
BREAKS_BEFORE = """\
import pytest
@pytest.fixture
def other():
    raise RuntimeError
def test_e(other): pass
"""
UNREADABLE = "import no_such_module\n"


@pytest.mark.parametrize(
    ("files", "line", "status"),
    [
        ([PASSES], "1 passed, 0 failed, 0 skipped", 0),
        ([PASSES, SKIPS], "1 passed, 0 failed, 1 skipped", 0),
        ([PASSES, FAILS, SKIPS], "1 passed, 1 failed, 1 skipped", 1),
        ([PASSES, BREAKS_AFTER], "1 passed, 1 failed, 0 skipped", 1),
        ([PASSES, BREAKS_BEFORE], "1 passed, 1 failed, 0 skipped", 1),
        ([UNREADABLE], "0 passed, 1 failed, 0 skipped", 2),
        ([], "0 passed, 0 failed, 0 skipped", 5),
    ],
)
@pytest.mark.parametrize("workers", ["0", "2"])
def test_last_line(files: list[str], line: str, status: int, workers: str, tmp_path: Path) -> None:
    for number, text in enumerate(files):
        (tmp_path / f"test_{number}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", "pytest.ini"]
    command += ["--numprocesses", workers, "--dist", "loadgroup", "--durations", "5"]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", tmp_path],
        cwd=_tools.CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.endswith(f"\n{line}\n"), done.stdout + done.stderr
    assert done.returncode == (1 if workers != "0" and files == [UNREADABLE] else status)
    assert ("the reason" in done.stdout) == (SKIPS in files)
