# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run of tests costs is counted: nothing twice, and nothing is lost that goes away."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.tests import counting
from ansible_collections.fleet.virt.tests.lab import counts

_HYPERVISOR = Path(__file__).parents[1] / "lab" / "hypervisor"
_START = "2026-11-27 03:00:00.123+0000: starting up libvirt version: 11.3.0, hostname: hv1\n"
_COMMAND = "LC_ALL=C \\\n/usr/bin/qemu-system-x86_64 \\\n-name guest=web1 \\\n{}-msg timestamp=on\n"
_BOOT = _START + _COMMAND.format("")
_ARRIVAL = _START + _COMMAND.format("-incoming defer \\\n")


@pytest.mark.parametrize(
    ("argv", "count"),
    [
        (["/c/.venv/bin/ansible-playbook", "-i", "x", "fleet.virt.list"], 1),
        (["ansible", "hv1", "-m", "ping"], 1),
        (["ansible-inventory", "--list"], 1),
        ([Path("/usr/bin/python3"), Path("/usr/bin/ansible-doc"), b"-l"], 1),
        (["timeout", "5", "/usr/bin/ansible", "hv1"], 1),
        (["/bin/sh", "-c", ". activate\nansible hv1 -m ping && ansible-inventory --list"], 2),
        (["bash", "-ec", "! ansible hv1 -m ping | grep ansible"], 1),
        (["bash", "-c", "X=1 timeout 9 /v/bin/ansible-playbook a.yml; echo ansible is there"], 1),
        (["nsenter", "--mount", "env", "/bin/bash", "-c", "--", "/v/bin/ansible hv1"], 1),
        (["ssh", "-l", "root", "198.18.0.11", "--", "ansible hv1"], 1),
        (["ansible-lint", "--strict"], 0),
        (["ansible-test", "sanity"], 0),
        (["pip", "install", "ansible-core", "ansible"], 0),
        (["git", "clone", "/x/ansible_collections"], 0),
        (["sh", "-c"], 0),
        ([], 0),
    ],
)
def test_runs_of_ansible_in_a_command_are_counted(argv: list[str], count: int) -> None:
    assert counting.runs(argv) == count


class _Laboratory:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.upper = directory / "hosts" / "hv1" / "upper"
        self.logs = self.upper / "var/log/libvirt/qemu"
        self.logs.mkdir(parents=True)
        counts.bring(self.upper)

    def log(self, name: str, text: str) -> None:
        with (self.logs / f"{name}.log").open("a") as file:
            file.write(text)

    def run(self, count: int = 1) -> None:
        with (self.upper / "var/lib/lab-python/runs").open("a") as file:
            file.write("." * count)


@pytest.fixture
def counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[counting.Laboratories, _Laboratory]]:
    monkeypatch.setenv(counts.VARIABLE, str(tmp_path / "counts"))
    laboratories = counting.Laboratories(tmp_path / "counts")
    yield laboratories, _Laboratory(tmp_path / "labs" / "lab")
    laboratories.close()
    assert not (tmp_path / "counts").exists()


Counted = tuple[counting.Laboratories, _Laboratory]


def test_boots_and_module_runs_are_counted_once(counted: Counted) -> None:
    laboratories, lab = counted
    assert laboratories.new() == {}
    counts.note(lab.directory, fresh=True)
    lab.log("web1", _BOOT + "2026-11-27 03:00:09.000+0000: shutting down\n" + _BOOT)
    lab.log("web2", _ARRIVAL)
    lab.run(3)
    assert laboratories.new() == {"boots": 2, "taken over": 1, "modules": 3}
    assert laboratories.new() == {}
    lab.log("web2", _BOOT)
    # half of a line
    lab.log("web3", _ARRIVAL[:30])
    assert laboratories.new() == {"boots": 1}
    lab.log("web3", _ARRIVAL[30:])
    assert laboratories.new() == {"taken over": 1}


def test_kept_laboratory_counts_from_its_use_on(counted: Counted) -> None:
    laboratories, lab = counted
    lab.log("web1", _BOOT)
    lab.run(7)
    counts.note(lab.directory, fresh=False)
    lab.run()
    lab.log("web1", _ARRIVAL)
    counts.note(lab.directory, fresh=False)
    assert laboratories.new() == {"modules": 1, "taken over": 1}


def test_purged_guest_is_counted_though_its_log_is_gone(counted: Counted) -> None:
    laboratories, lab = counted
    counts.note(lab.directory, fresh=True)
    laboratories.new()  # from now on a thread looks
    lab.log("web1", _BOOT)
    deadline = time.monotonic() + 20
    while not any(path.suffix == ".log" for path in counts.kept(laboratories.folder)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    (lab.logs / "web1.log").unlink()
    lab.log("web1", _BOOT)
    assert laboratories.new()["boots"] == 2


def test_laboratory_that_went_down_and_up_again_is_counted(counted: Counted) -> None:
    laboratories, lab = counted
    for _ in range(2):
        counts.note(lab.directory, fresh=True)
        lab.log("web1", _BOOT)
        lab.run(2)
        counts.keep(lab.directory)
        shutil.rmtree(lab.directory)
        lab = _Laboratory(lab.directory)
    assert laboratories.new() == {"boots": 2, "modules": 4}


def test_without_a_run_of_tests_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(counts.VARIABLE)
    lab = _Laboratory(tmp_path / "lab")
    counts.note(lab.directory, fresh=True)
    counts.keep(lab.directory)
    assert os.listdir(tmp_path) == ["lab"]


_PYTHON = """
import sys
import lab_counted
lab_counted._FILE = sys.argv[1]
sys.path.insert(0, sys.argv[2])
import first, second
"""


@pytest.mark.parametrize(
    ("archive", "count"), [("ansible_fleet.virt.virt_query_payload.zip", 1), ("other.zip", 0)]
)
def test_module_run_by_a_python_of_its_own_adds_one(
    archive: str, count: int, tmp_path: Path
) -> None:
    with zipfile.ZipFile(tmp_path / archive, "w") as file:
        file.writestr("first.py", "")
        file.writestr("second.py", "")
    runs = tmp_path / "runs"
    runs.touch()
    subprocess.run(
        [sys.executable, "-c", _PYTHON, str(runs), str(tmp_path / archive)],
        env={"PYTHONPATH": str(_HYPERVISOR)},
        check=True,
    )
    assert runs.stat().st_size == count
