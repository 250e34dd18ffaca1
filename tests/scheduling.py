# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which process runs which tests, and how long each laboratory took.

Every process brings up a laboratory of its own and takes one file of tests after the other: those
that last longest first as far as ``durations.txt`` knows them, the rest by their names.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

DURATIONS = Path(__file__).with_name("durations.txt")
_LABORATORY = ("tests/integration/", "tests/faults/", "tests/lab/")
# What shares more than a laboratory stays together: a folder's own fleet, hosts set up once
_TOGETHER = {
    "tests/integration/keys/": "keys",
    "tests/integration/preflight/": "preflight",
    "tests/integration/reading/": "reading",
    "tests/integration/test_daemon.py": "roles",
    "tests/integration/test_roles.py": "roles",
}
# Leaves pools behind that moves and images stumble over
_LAST = "tests/integration/test_examples.py"
_UNKNOWN_SECONDS = 30.0  # for a file that is not in durations.txt yet


def durations(path: Path = DURATIONS) -> dict[str, float]:
    """Seconds by file of tests, as measured; lines of ``durations.txt`` are ``seconds file``."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    pairs = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    return {name: float(seconds) for seconds, name in pairs}


def in_laboratory(name: str) -> bool:
    """Whether a test or its file uses a laboratory."""
    return name.startswith(_LABORATORY)


def _together(file: str) -> str:
    """The group of files that a file stays with; itself if there is none."""
    return next((group for start, group in _TOGETHER.items() if file.startswith(start)), file)


def scope(nodeid: str) -> str:
    """What a test is kept together with: all of one scope run in one process, in their order."""
    file = nodeid.split("::", 1)[0]
    if file.startswith("tests/contract/"):
        return nodeid  # slow, and independent of each other
    return _together(file)


def in_order(nodeids: Iterable[str], known: Mapping[str, float]) -> list[str]:
    """The scopes of these tests, those that take longest first.

    Laboratories come before everything else, which fills in at the end.
    """
    seconds: collections.Counter[str] = collections.Counter()
    laboratories = set()
    for file in dict.fromkeys(nodeid.split("::", 1)[0] for nodeid in nodeids):
        if in_laboratory(file):
            laboratories.add(_together(file))
            seconds[_together(file)] += known.get(file, _UNKNOWN_SECONDS)
    scopes = dict.fromkeys(map(scope, nodeids))
    return sorted(
        scopes, key=lambda one: (one not in laboratories, one == _LAST, -seconds[one], one)
    )


def arrange(items: list[pytest.Item]) -> None:
    """Put collected tests into the order in which their scopes are handed out."""
    order = in_order([item.nodeid for item in items], durations())
    places = {one: place for place, one in enumerate(order)}
    items.sort(key=lambda item: places[scope(item.nodeid)])


def scheduler(config: pytest.Config, log: Any) -> Any:
    """xdist's scheduler for ``--dist loadgroup``: scopes as above, in the order of the tests."""
    from xdist.scheduler import LoadScopeScheduling

    class Scopes(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope(nodeid)

    config.option.loadscopereorder = False  # by their number, which says little
    return Scopes(config, log)


class Timing:
    """Adds up how long each process spent on tests of its laboratory, and each file."""

    def __init__(self) -> None:
        self.laboratories: collections.Counter[str] = collections.Counter()
        self.files: collections.Counter[str] = collections.Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note set-up, call and tear-down of a test."""
        file = report.nodeid.split("::", 1)[0]
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
