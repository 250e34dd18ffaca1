# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that are killed: the next ``up`` or ``down`` leaves nothing of their laboratories."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.support.traces import (
    PROGRAM,
    Traces,
    eventually,
    laboratory,
    python,
)
from tests.lab import cleanup, paths, processes, roots
from tests.lab.errors import Progress
from tests.lab.laboratory import Laboratory
from tests.lab.recipe import SUITES

NAME = f"k{os.getpid()}"
OTHER = f"o{os.getpid()}"
# Moments at which it is killed, of each kind
MOMENTS = int(os.environ.get("FLEET_VIRT_TRIALS", "1"))
SEED = 198018


@pytest.fixture
def traces() -> Iterator[Traces]:
    """What two laboratories leave; both are taken down in the end, and that leaves nothing."""
    roots.ensure_all([(suite, False) for suite in SUITES], Progress("roots"))
    found = Traces(NAME, OTHER)
    found.assert_none()
    yield found
    laboratory(NAME, "down")
    laboratory(OTHER, "down")
    found.assert_none()


def _begin(*words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [str(PROGRAM), "--name", NAME, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _kill_at_random_moments(
    traces: Traces, what: str, begin: Callable[[], subprocess.Popen[bytes]]
) -> None:
    """Kill a program at moments of its run, take its laboratory down, and look for what is left.

    The program alone is killed, as the kernel or a person would; its children are not.
    """
    began = time.monotonic()
    program = begin()
    assert program.wait() == 0
    duration = time.monotonic() - began
    laboratory(NAME, "down")
    traces.assert_none()

    chosen = random.Random(SEED)  # noqa: S311 - moments, not secrets
    # One in each tenth of the time, so that every stage is met.
    moments = [duration * (slot + chosen.random()) / MOMENTS for slot in range(MOMENTS)]
    chosen.shuffle(moments)
    there, clean = [], 0
    for moment in moments:
        program = begin()
        with contextlib.suppress(subprocess.TimeoutExpired):  # near its end it may be done
            program.wait(moment)
        program.kill()
        program.wait()
        there.append(len(traces.left()))
        laboratory(NAME, "down")
        traces.assert_none()
        clean += 1
    print(f"{clean} of {MOMENTS} kills during {duration:.1f} s of {what}: `down` left nothing")
    print(f"things there at the kills: {there}")
    assert clean == MOMENTS
    assert sum(count > 0 for count in there) >= MOMENTS // 2, "the kills came too early to matter"


def test_killed_at_random_moments_of_up(traces: Traces) -> None:
    _kill_at_random_moments(traces, "`up`", lambda: _begin("up", "2"))


TEST_RUN = """
import os

import pytest
from tests.lab.laboratory import Laboratory


@pytest.fixture(scope="module")
def lab():
    laboratory = Laboratory({name!r}, os.getpid())
    laboratory.up(2)
    yield laboratory
    laboratory.down()


def test_answers(lab):
    assert lab.ssh("hv1", "virsh list").returncode == 0


def test_power(lab):
    lab.kill("hv2")
    lab.start("hv2")
    assert lab.ssh("hv2", "true", user_root=False).returncode == 0


def test_network(lab):
    lab.cut("hv1")
    lab.heal("hv1")
    assert lab.add().name == "hv3"
"""


@pytest.mark.trials
def test_killed_at_random_moments_of_a_test_run(traces: Traces, tmp_path: Path) -> None:
    file = tmp_path / "test_run.py"
    file.write_text(TEST_RUN.format(name=NAME))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull]

    def begin() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*command, "--rootdir", str(tmp_path), str(file)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=dict(os.environ, PYTHONPATH=str(PROGRAM.parents[2])),
        )

    _kill_at_random_moments(traces, "a test run", begin)


def test_up_after_a_killed_up(traces: Traces) -> None:
    program = _begin("up", "2")
    assert eventually(lambda: len(traces.processes()) > 6)
    program.kill()
    program.wait()
    said = laboratory(NAME, "up", "1").stderr
    assert "removed what was left of an earlier one" in said
    lab = Laboratory(NAME)
    assert [(host.name, host.state) for host in lab.hosts] == [("hv1", "running")]
    assert lab.ssh("hv1", "hostname").stdout == "hv1\n"


OWNER = """
import os
from tests.lab.laboratory import Laboratory
lab = Laboratory(sys.argv[1], os.getpid()).up(1)
print(lab.host("hv1").leader, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("verb", [["up", "1"], ["down"]], ids=["up", "down"])
def test_laboratory_of_a_dead_test_run_is_taken_down_by_any(
    traces: Traces, verb: list[str]
) -> None:
    with python(OWNER, NAME) as owner:
        _check_dead_owner(traces, owner, verb)


def _check_dead_owner(traces: Traces, owner: subprocess.Popen[str], verb: list[str]) -> None:
    assert owner.stdout is not None
    leader = int(owner.stdout.readline())
    assert leader in traces.processes()

    laboratory(OTHER, *verb)  # a living owner's laboratory is left alone
    assert Laboratory(NAME).host("hv1").state == "running"

    owner.kill()
    owner.wait()
    said = laboratory(OTHER, *verb).stderr
    assert f"took down laboratory {NAME!r}: its owner, process {owner.pid}, is dead" in said
    assert not processes.find(paths.lab_folder(NAME))
    assert not paths.lab_folder(NAME).exists()


def test_interrupted_up_takes_itself_down(traces: Traces) -> None:
    program = _begin("up", "2")
    assert eventually(lambda: len(traces.processes()) > 6)
    program.send_signal(signal.SIGTERM)
    assert program.wait(90) == 143
    traces.assert_none()


BUILD = """
import shutil
from dataclasses import replace
from pathlib import Path
from tests.lab import paths, recipe, roots
from tests.lab.errors import Progress
made = replace(recipe.recipe_for("bookworm", True), packages=("systemd",), append={"x": "y"})
target = paths.cache() / "roots" / made.name
with paths.locked(roots.lock_of(made.name)):
    if target.exists():  # a run of this test that was broken off let it be finished
        shutil.rmtree(target)
    print(made.name, flush=True)
    roots.build(made, target, Progress())
"""


def test_killed_builder_of_a_root_tree_leaves_nothing() -> None:
    with python(BUILD) as builder:
        _check_killed_builder(builder)


def _check_killed_builder(builder: subprocess.Popen[str]) -> None:
    assert builder.stdout is not None
    name = builder.stdout.readline().strip()
    folder = paths.cache() / "roots"

    def work() -> list[Path]:
        return list(folder.glob(f".{name}.*"))

    def at_work() -> list[int]:
        return [pid for path in work() for pid in processes.find(path)]

    # Well on its way: packages are being unpacked or fetched into the tree.
    assert eventually(lambda: any((path / "root/var").exists() for path in work()), 60)
    assert at_work()
    assert roots.sweep() == 0, "a tree somebody builds must be left alone"
    builder.kill()
    builder.wait()
    assert eventually(lambda: not at_work(), 10)
    laboratory(OTHER, "down")
    assert not work()
    assert not (folder / name).exists()
    (folder / f"{name}.log").unlink()
    mounts = Path("/proc/mounts").read_text()
    assert name not in mounts


def test_a_damaged_neighbour_at_work_stops_nobody(traces: Traces) -> None:
    """Whoever is at work on it takes it down; until then others come up beside it."""
    laboratory(OTHER, "up", "1")
    with paths.locked(cleanup.lock_of(paths.lab_folder(OTHER))):
        (paths.lab_folder(OTHER) / "laboratory.json").write_text('{"name": ')
        laboratory(NAME, "up", "1")
        assert Laboratory(NAME).host("hv1").state == "running"
    laboratory(OTHER, "down")
    laboratory(NAME, "down")
    traces.assert_none()


def test_state_file_that_is_damaged_is_taken_down(traces: Traces) -> None:
    laboratory(NAME, "up", "1")
    (paths.lab_folder(NAME) / "laboratory.json").write_text('{"name": ')
    done = laboratory(NAME, "kill", "hv1", check=False)
    assert done.returncode == 1
    assert "is damaged" in done.stderr
    laboratory(NAME, "down")
    traces.assert_none()
