# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Laboratory tests are shared out evenly, and always in the same way."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import scheduling

_FOLDER = "tests/integration"


def test_laboratories_come_first_and_the_longest_of_them() -> None:
    known = {f"{_FOLDER}/test_a.py": 9.0, f"{_FOLDER}/test_b.py": 50.0}
    tests = ["tests/unit/test_u.py::test_1", *(f"{file}::test_1" for file in known)]
    assert scheduling.in_order([*tests, f"{_FOLDER}/test_new.py::test_1"], known) == [
        f"{_FOLDER}/test_b.py",
        f"{_FOLDER}/test_new.py",
        f"{_FOLDER}/test_a.py",
        "tests/unit/test_u.py",
    ]


def test_moves_come_before_all_others() -> None:
    files = (f"{_FOLDER}/migration/test_m.py", f"{_FOLDER}/test_a.py")
    tests = [f"{file}::test_1" for file in files]
    assert scheduling.in_order(tests, {files[1]: 900.0}) == list(files)


def test_what_leaves_something_behind_comes_last_one_by_one() -> None:
    last = f"{_FOLDER}/test_examples.py"
    tests = [f"{last}::test_{name}" for name in "cab"]
    others = [f"{_FOLDER}/test_x.py", "tests/unit/test_u.py"]
    nodeids = [*tests, *(f"{file}::test_1" for file in others)]
    # in their order: what the last ones share stays from then on
    assert scheduling.in_order(nodeids, {last: 900.0}) == [others[0], *tests, others[1]]


def test_what_any_process_can_take_is_left_to_the_end() -> None:
    files = ("test_lab.py", "test_examples.py", "test_x.py")
    tests = [*(f"{_FOLDER}/{name}::test_1" for name in files), "tests/unit/test_u.py::test_1"]
    found = scheduling.in_order(tests, {f"{_FOLDER}/test_lab.py": 900.0})
    order = ("test_x.py", "test_examples.py::test_1", "test_lab.py")
    assert found == [*(f"{_FOLDER}/{name}" for name in order), "tests/unit/test_u.py"]


def test_checks_go_one_by_one_and_runs_of_ansible_by_their_files() -> None:
    checks = [f"tests/contract/test_tools.py::test_{name}" for name in "ba"]
    runs = [f"tests/contract/controller/test_c.py::test_{name}" for name in "ba"]
    scopes = set(map(scheduling.scope, [*checks, *runs]))
    assert scopes == {*checks, "tests/contract/controller/test_c.py"}


def test_longest_check_begins_and_has_its_share_of_the_processors(checkout: Path) -> None:
    check = "tests/contract/test_tools.py::test_sanity"
    file, _, function = check.partition("::")
    assert f"\ndef {function}(" in (checkout / file).read_text()
    tests = ["tests/contract/test_a.py::test_1", check, "tests/unit/test_u.py::test_1"]
    laboratory = f"{_FOLDER}/test_a.py"
    assert scheduling.in_order([*tests, f"{laboratory}::test_1"], {}) == [
        laboratory,
        check,
        tests[0],
        "tests/unit/test_u.py",
    ]
    script = (
        f"from tests import scheduling; import os; scheduling.go_by({check!r}); print(os.nice(0))"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=True)
    assert int(done.stdout) == os.nice(0)


def test_what_shares_a_fleet_stays_together() -> None:
    tests = [f"{_FOLDER}/reading/test_{name}.py::test_1" for name in "abc"]
    assert scheduling.in_order([*tests, f"{_FOLDER}/test_x.py::test_1"], {}) == [
        "reading",
        f"{_FOLDER}/test_x.py",
    ]


def test_two_processes_have_no_laboratory() -> None:
    assert scheduling.has_laboratory("gw0", 1)
    assert [scheduling.has_laboratory(f"gw{number}", 2) for number in range(2)] == [True, False]
    assert [scheduling.has_laboratory(f"gw{number}", 4) for number in range(5)] == [
        *(True, True, False, False),
        True,  # it takes the place of one that died
    ]
    ends = [scheduling.never_has_one(f"gw{number}", 4) for number in range(5)]
    assert ends == [False, False, False, True, False]
    assert not scheduling.never_has_one("gw1", 2)


_TEST = """
import os
import time

def test_one() -> None:
    time.sleep({0})
    with open({1!r}, "a") as file:
        print(__file__, os.environ["PYTEST_XDIST_WORKER"], os.nice(0), file=file)
"""


@pytest.mark.parametrize("processes", [3, 4])
@pytest.mark.parametrize("chosen", ["tests", "tests/integration"])
def test_what_needs_no_laboratory_runs_beside_them(
    checkout: Path, tmp_path: Path, chosen: str, processes: int
) -> None:
    ran = tmp_path / "ran"
    site = tmp_path / "site"
    for folder, seconds in (("contract", 0), ("integration", 0.5), ("integration/keys", 0.5)):
        (site / "tests" / folder).mkdir(parents=True)
        for name in "abc":
            text = _TEST.format(seconds, str(ran))
            (site / "tests" / folder / f"test_{name}.py").write_text(text)
    (site / "tests" / "integration" / "test_lab.py").write_text(_TEST.format(0, str(ran)))
    for name in ("conftest.py", "counting.py", "leftovers.py", "scheduling.py", "__init__.py"):
        shutil.copy(checkout / "tests" / name, site / "tests")
    shutil.copytree(checkout / "tests" / "lab", site / "tests" / "lab", copy_function=shutil.copy)
    alone = ["-p", "no:cacheprovider", "--import-mode=importlib", "-c", "/dev/null"]
    split = ["--numprocesses", str(processes), "--dist", "loadgroup", "--rootdir", str(site)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *alone, *split, chosen],
        cwd=site,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line.split() for line in ran.read_text().splitlines()]
    count = 10 if chosen == "tests" else 7
    assert len(lines) == count
    assert done.stdout.splitlines()[-1] == f"{count} passed, 0 failed, 0 skipped", done.stdout
    ((_, worker, own),) = [line for line in lines if "test_lab" in line[0]]
    *first, helper, last = [f"gw{number}" for number in range(processes)]
    assert worker == helper
    lines = [line for line in lines if "test_lab" not in line[0]]
    assert all("/integration/" in file for file, name, _ in lines if name in first)
    assert all("ontract" in file for file, name, _ in lines if name == last)
    assert len({worker for file, worker, _ in lines if "/keys/" in file}) == 1
    rest = ["ontract" in file for file, name, _ in lines if name == helper]
    assert rest == sorted(rest, reverse=True), "it helps the others after its own tests"
    nice = {int(nice) > os.nice(0) for file, _, nice in lines if "ontract" in file}
    assert nice == ({True} if chosen == "tests" else set())
    if chosen == "tests" and os.geteuid() == 0:
        assert int(own) < min(int(nice) for file, _, nice in lines if "ontract" in file)


def test_every_file_of_the_tables_exists(checkout: Path) -> None:
    known = {**scheduling.durations(), **dict.fromkeys(scheduling.BY_THEMSELVES, 0.0)}
    assert [name for name in known if not (checkout / name).is_file()] == []
    assert all(scheduling.in_laboratory(name) for name in known)
