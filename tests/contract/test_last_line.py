# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last line of a run, which is what others read: right, alone and always there."""

from __future__ import annotations

import os
import re
import signal
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
    told = done.stdout[done.stdout.find("\nfailed: ") :]  # just before the totals
    assert ("::test_b\n  assert 0\n" in told) == (FAILS in files), done.stdout


@pytest.mark.parametrize("argument", ["tests/unit/none", "tests/unit/none.py::test_a"])
@pytest.mark.parametrize("workers", ["0", "2"])
def test_path_that_does_not_exist_is_named(argument: str, workers: str) -> None:
    command = [sys.executable, "-m", "pytest", "--numprocesses", workers, "--dist", "loadgroup"]
    done = subprocess.run(
        [*command, argument], cwd=_tools.CHECKOUT, capture_output=True, text=True, check=False
    )
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stdout + done.stderr
    assert f"ERROR: {argument.partition('::')[0]}: not there; " in done.stderr
    assert "ARGS=tests/unit/base" in done.stderr


@pytest.mark.parametrize("workers", ["0", "2"])
def test_choice_of_no_test_is_named(workers: str) -> None:
    command = [sys.executable, "-m", "pytest", "--numprocesses", workers, "--dist", "loadgroup"]
    done = subprocess.run(
        [*command, "tests/unit/base/test_names.py", "-k", "no_such_test"],
        cwd=_tools.CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, done.stdout + done.stderr
    assert "tests/unit/base/test_names.py -k no_such_test; ARGS=" in done.stdout


COUNTED = """\
import json, os, pathlib, subprocess, sys
import pytest
from tests.lab import counts
UPPER = pathlib.Path(__file__).with_name("lab-{0}") / "hosts/hv1/upper"
LOGS = UPPER / "var/log/libvirt/qemu"
def boot(name):
    with (LOGS / (name + ".log")).open("a") as file:
        file.write("2026: starting up libvirt version: 11.3.0\\n")
@pytest.fixture(scope="module")
def lab():
    LOGS.mkdir(parents=True)
    counts.bring(UPPER)
    counts.note(UPPER.parents[2], fresh=True)
    boot("of-the-fixture")
    boot("of-the-fixture")
def test_boots(lab):
    boot("web1")
    (UPPER / "var/lib/lab-python/runs").write_text("...")
    with pytest.raises(FileNotFoundError):
        subprocess.run(["/nowhere/ansible-playbook", "x"])
    sys.audit("fleet_virt.ansible", ["ansible", "x"])
    boot("web1")
    boot("web1")
def test_boots_nothing(lab): pass
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_counts_of_all_processes_come_before_the_last_line(workers: str, tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"test_{number}.py").write_text(COUNTED.format(number))
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", "pytest.ini"]
    command += ["--numprocesses", workers, "--dist", "loadgroup", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, tmp_path], cwd=_tools.CHECKOUT, capture_output=True, text=True, check=False
    )
    lines = done.stdout.splitlines()
    place = next(n for n, line in enumerate(lines) if line.startswith("runs of Ansible"))
    assert lines[place : place + 3] == [
        "runs of Ansible: 4",
        "module runs on hypervisors: 6",
        "guest boots: 10 (arrived by a move or restored: 0)",
    ]
    shown = [line.split(maxsplit=1) for line in lines[place + 3 : -1]]
    assert [count for count, _who in shown] == ["3", "3", "2", "2"]
    assert shown[0][1].endswith("test_0.py::test_boots")
    assert shown[2][1].endswith("test_0.py::lab (fixture)")
    assert lines[-1] == "4 passed, 0 failed, 0 skipped"


LEAVES = """\
import subprocess
def test_leaves_something():
    {0}subprocess.Popen(["sleep", "600"], start_new_session=True)
    subprocess.Popen(["sleep", "{1}"], start_new_session=True)
"""


@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize("leaves", [True, False])
def test_run_that_leaves_a_process_behind_fails(leaves: bool, workers: str, tmp_path: Path) -> None:
    """One that ends soon is none."""
    (tmp_path / "test_it.py").write_text(LEAVES.format("" if leaves else "# ", 2))
    (tmp_path / "conftest.py").write_text("from tests import leftovers\nleftovers._SECONDS = 6\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", "pytest.ini"]
    command += ["--numprocesses", workers, "--dist", "loadgroup", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, tmp_path], cwd=_tools.CHECKOUT, capture_output=True, text=True, check=False
    )
    shown = re.findall("^left behind by this run: ([0-9]+): (.*) [(]", done.stdout, re.MULTILINE)
    for pid, _command in shown:
        os.kill(int(pid), signal.SIGKILL)
    assert [command for _pid, command in shown] == (["sleep 600"] if leaves else [])
    assert done.stdout.endswith(f"\n1 passed, {int(leaves)} failed, 0 skipped\n"), done.stdout
    assert done.returncode == int(leaves)
