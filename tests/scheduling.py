# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which process runs which tests, and how long each laboratory took.

Every process but the last two brings up a laboratory of its own and takes one file of tests after
the other: moves, then those that last longest as far as ``durations.txt`` knows them, the rest by
their names. The last two do the rest meanwhile, with what laboratories leave of the processors.
When the rest is done, the last one ends. The other, which first has made what laboratories will
need, then takes those files whose laboratories are their own affair, which the others leave to the
end, and brings up a laboratory as well.
"""

from __future__ import annotations

import collections
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

DURATIONS = Path(__file__).with_name("durations.txt")
_CHECKOUT = Path(__file__).resolve().parents[1]
_CONTRACT = "tests/contract/"
_CONTROLLER = "tests/contract/controller/"
_VERSIONS = "tests/contract/test_versions.py"
# Minutes of a processor in one test, a tenth of all that needs no laboratory
_LONGEST = "tests/contract/test_tools.py::test_sanity"
_LABORATORY = ("tests/integration/", "tests/faults/", "tests/lab/")
# What shares more than a laboratory stays together: a folder's own fleet, hosts set up once
_TOGETHER = {
    "tests/integration/keys/": "keys",
    "tests/integration/preflight/": "preflight",
    "tests/integration/reading/": "reading",
    "tests/integration/test_daemon.py": "roles",
    "tests/integration/test_roles.py": "roles",
}
# Those of provisioning leave base images in other places, which they stumble over
_FIRST = "tests/integration/migration/"
# Leave pools behind that moves and images stumble over; few seconds each, for all at the end
_LAST = "tests/integration/test_examples.py"
# Bring up laboratories of their own, or run what a laboratory is made of without one
BY_THEMSELVES = (
    "tests/faults/test_lab_cleanup.py",
    "tests/integration/test_demo.py",
    "tests/integration/test_lab.py",
    "tests/integration/test_lab_images.py",
)
_NICE = 15
_USUAL_NICE = os.nice(0)
_TWO_WITHOUT = 3  # processes, of which two begin without a laboratory
_MANY_FILES = 20  # of laboratory tests, which need everything
_UNKNOWN_SECONDS = 30.0  # for a file that is not in durations.txt yet


def durations(path: Path = DURATIONS) -> dict[str, float]:
    """Seconds by file of tests, as measured; lines of ``durations.txt`` are ``seconds file``."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    pairs = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    return {name: float(seconds) for seconds, name in pairs}


def in_laboratory(name: str) -> bool:
    """Whether a test or its file uses a laboratory."""
    return name.startswith(_LABORATORY)


def by_itself(name: str) -> bool:
    """Whether a test or its file goes without the laboratory of its process."""
    return _file(name) in BY_THEMSELVES


def _file(name: str) -> str:
    """The file of a test, or itself."""
    return name.split("::", 1)[0]


def _together(file: str) -> str:
    """The group of files that a file stays with; itself if there is none."""
    return next((group for start, group in _TOGETHER.items() if file.startswith(start)), file)


def scope(nodeid: str) -> str:
    """What a test is kept together with: all of one scope run in one process, in their order."""
    file = _file(nodeid)
    if file == _LAST or (file.startswith(_CONTRACT) and not file.startswith(_CONTROLLER)):
        return nodeid  # slow, and independent of each other
    return _together(file)


def in_order(nodeids: Iterable[str], known: Mapping[str, float]) -> list[str]:
    """The scopes of these tests, those that take longest first.

    Laboratories come before everything else, which fills in at the end, and those that any process
    can take after those that it cannot. Of the rest the longest test begins.
    """
    seconds: collections.Counter[str] = collections.Counter()
    laboratories = set()
    for file in dict.fromkeys(map(_file, nodeids)):
        if in_laboratory(file):
            laboratories.add(_together(file))
            seconds[_together(file)] += known.get(file, _UNKNOWN_SECONDS)
    scopes = dict.fromkeys(map(scope, nodeids))
    return sorted(
        scopes,
        key=lambda one: (
            *(_file(one) not in laboratories, by_itself(one), _file(one) == _LAST),
            *(not one.startswith(_FIRST), -seconds[one], one != _LONGEST, _file(one)),
        ),
    )


def arrange(items: list[pytest.Item]) -> None:
    """Put collected tests into the order in which their scopes are handed out."""
    order = in_order([item.nodeid for item in items], durations())
    places = {one: place for place, one in enumerate(order)}
    items.sort(key=lambda item: places[scope(item.nodeid)])


def _beginning(count: int) -> int:
    """How many of so many processes begin with a laboratory."""
    return count - (2 if count >= _TWO_WITHOUT else 1 if count > 1 else 0)


def has_laboratory(worker: str, count: int) -> bool:
    """Whether a process (xdist's gw0, gw1, ...) of so many begins with tests of laboratories."""
    return worker not in [f"gw{number}" for number in range(count)][_beginning(count) :]


def never_has_one(worker: str, count: int) -> bool:
    """Whether it ends when all is begun that needs no laboratory: the last of three or more."""
    return count >= _TWO_WITHOUT and worker == f"gw{count - 1}"


def give_way() -> None:
    """What a process does that begins without a laboratory: it takes what the others leave."""
    os.nice(_NICE)


def go_by(nodeid: str) -> None:
    """What it does before each test: only those of the contract layer give way, unless they run
    Ansible's programs or unit tests. Those have limits of time. So does the longest: with what two
    laboratories left of two processors, its three minutes once took more than thirty.

    Only root can have it back.
    """
    if os.geteuid() == 0:
        limited = nodeid.startswith((_CONTROLLER, _VERSIONS, _LONGEST))
        gives_way = nodeid.startswith(_CONTRACT) and not limited
        os.setpriority(os.PRIO_PROCESS, 0, _USUAL_NICE + (_NICE if gives_way else 0))


def make_ready(items: Iterable[pytest.Item]) -> None:
    """Have root trees and images made that laboratories will need, while they do other tests.

    Those that are there cost nothing. Whoever needs one that is being made waits for it, and says
    what is wrong with it.
    """
    files = {item.path for item in items if in_laboratory(item.nodeid)}
    if len(files) < _MANY_FILES or os.geteuid() != 0:
        return
    made = ("lab roots", "lab.images tiny", "lab.images debian")
    script = "; ".join(f"{sys.executable} -m tests.{one}" for one in made)
    subprocess.Popen(
        ["setpriv", "--pdeathsig", "TERM", "sh", "-c", script],
        cwd=_CHECKOUT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _rest(units: Mapping[str, Iterable[str]]) -> str | None:
    """The first scope of those left that needs no laboratory."""
    rest = (one for one, tests in units.items() if not any(map(in_laboratory, tests)))
    return next(rest, None)


def scheduler(config: pytest.Config, log: Any) -> Any:
    """xdist's scheduler for ``--dist loadgroup``: scopes as above, in the order of the tests."""
    from xdist.scheduler import LoadScopeScheduling

    class Scopes(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope(nodeid)

        def _assign_work_unit(self, node: Any) -> None:
            if not has_laboratory(node.gateway.id, self.numnodes):
                rest = _rest(self.workqueue)
                if rest is None and never_has_one(node.gateway.id, self.numnodes):
                    node.shutdown()  # when it has done what it was given
                    return
                chosen = rest or next(filter(by_itself, self.workqueue), None)
                if chosen is not None:
                    self.workqueue.move_to_end(chosen, last=False)
            super()._assign_work_unit(node)

    config.option.loadscopereorder = False  # by their number, which says little
    return Scopes(config, log)


class Timing:
    """Adds up how long each process spent on tests of its laboratory, and each file."""

    def __init__(self) -> None:
        self.laboratories: collections.Counter[str] = collections.Counter()
        self.files: collections.Counter[str] = collections.Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note set-up, call and tear-down of a test."""
        file = _file(report.nodeid)
        self.files[file] += report.duration
        if in_laboratory(file):
            node = getattr(report, "node", None)
            self.laboratories[node.gateway.id if node else "this process"] += report.duration

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        """Print the laboratories' times; with --write-durations keep those of the files."""
        if self.laboratories:
            terminalreporter.section("laboratories")
        for name, seconds in sorted(self.laboratories.items()):
            terminalreporter.write_line(f"{name}: {seconds // 60:.0f}:{seconds % 60:02.0f}")
        if config.getoption("write_durations"):
            known = {**durations(), **{k: v for k, v in self.files.items() if in_laboratory(k)}}
            old = DURATIONS.read_text(encoding="utf-8").splitlines(keepends=True)
            head = [line for line in old if line.startswith("#")]
            lines = [f"{seconds:.0f} {name}\n" for name, seconds in sorted(known.items())]
            DURATIONS.write_text("".join([*head, *lines]), encoding="utf-8")
