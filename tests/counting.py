# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run of tests costs, printed at its end: runs of Ansible, of modules, and guests' boots.

- Ansible: programs of ansible-core that a test's process starts, forks of preloaded ones among
  them. What a program that a test runs starts in turn is not seen.
- Modules: what Ansible ran on hypervisors (tests/lab/counts.py).
- Boots: QEMU processes that libvirt started on hypervisors for guests, whoever asked for them; what
  it started to take over a guest that runs elsewhere, or that is on a disk, is counted apart.

Each process counts what it tests, and each report of a test takes along what is new. Fixtures that
several tests share have counts of their own.
"""

from __future__ import annotations

import collections
import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.lab import counts, processes
from tests.lab.errors import LabError
from tests.lab.paths import cache

ANSIBLE, MODULES, BOOTS, TAKEN_OVER = "ansible", "modules", "boots", "taken over"
_PROGRAMS = "ansible(?:-(?:config|console|doc|galaxy|inventory|playbook|pull|vault))?"
_PROGRAM = re.compile(_PROGRAMS)
# In a shell's text: where a command can stand
_COMMAND = re.compile(
    r"(?:^|[;&|(!])[ \t]*(?:(?:exec|nice|time|timeout +\S+|env|\w+=\S*)[ \t]+)*"
    rf"(?:[\w./~-]*/)?{_PROGRAMS}(?=[ \t]+[^ \t])",
    re.MULTILINE,
)
_SHELLS = {"bash", "dash", "sh"}
_START = re.compile(rb": starting up libvirt version: ")
_INCOMING = re.compile(rb"^-incoming ", re.MULTILINE)
_PAUSE = 0.2  # seconds: no guest is created, booted and purged sooner
_MOST = 10


def runs(argv: Sequence[Any]) -> int:
    """How many programs of ansible-core a command starts, by itself or by a shell."""
    words = [os.fsdecode(word) for word in argv]
    names = [os.path.basename(word) for word in words]
    for place, name in enumerate(names[:-2]):
        if name in _SHELLS and re.fullmatch("-[a-z]*c", words[place + 1]):
            text = next((word for word in words[place + 2 :] if word != "--"), "")
            return len(_COMMAND.findall(text))
    if names[:1] == ["ssh"]:
        return len(_COMMAND.findall(words[-1]))
    # the first word may be a Python, or a program that runs another
    paths = [name for word, name in zip(words[1:], names[1:]) if word.startswith("/")]
    return int(any(_PROGRAM.fullmatch(name) for name in [*names[:1], *paths]))


class Laboratories:
    """Counts in what a process's laboratories leave in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._offsets: dict[str, int] = {}
        self._watching: threading.Thread | None = None
        self._ended = threading.Event()

    def new(self) -> collections.Counter[str]:
        """What was counted since the last time."""
        found: collections.Counter[str] = collections.Counter()
        laboratories = counts.noted(self.folder)
        for directory, before in laboratories.items():
            counts.keep(directory)
            for name, size in before.items():
                self._offsets.setdefault(name, size)
        if laboratories and self._watching is None:
            self._watching = threading.Thread(target=self._keep, daemon=True)
            self._watching.start()
        for path in counts.kept(self.folder):
            offset = self._offsets.get(path.name, 0)
            try:
                size = path.stat().st_size
            except OSError:  # a name only, of what is gone
                continue
            if size <= offset:
                continue
            if path.suffix == ".log":
                with path.open("rb") as file:
                    file.seek(offset)
                    text = file.read()
                text = text[: text.rfind(b"\n") + 1]  # the rest is being written
                taken_over = len(_INCOMING.findall(text))
                found[BOOTS] += len(_START.findall(text)) - taken_over
                found[TAKEN_OVER] += taken_over
                self._offsets[path.name] = offset + len(text)
            else:
                found[MODULES] += size - offset
                self._offsets[path.name] = size
        return collections.Counter({what: count for what, count in found.items() if count})

    def _keep(self) -> None:
        """Whatever goes soon."""
        while not self._ended.wait(_PAUSE):
            for directory in counts.noted(self.folder):
                counts.keep(directory)

    def close(self) -> None:
        """Leave nothing."""
        self._ended.set()
        if self._watching:
            self._watching.join()
        shutil.rmtree(self.folder, ignore_errors=True)


class Counting:
    """In a process that runs tests."""

    def __init__(self) -> None:
        folder = _folder()
        os.environ[counts.VARIABLE] = str(folder)
        self.laboratories = Laboratories(folder)
        self._commands = 0
        self._found: dict[str, collections.Counter[str]] = {}
        sys.addaudithook(self._audit)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in {"subprocess.Popen", "fleet_virt.ansible"}:
            # one is (executable, argv, folder, environment), the other argv alone
            self._commands += runs(arguments[1 if event == "subprocess.Popen" else 0])

    def _charge(self, who: str) -> None:
        """What is new was for ``who``."""
        new = self.laboratories.new()
        if self._commands:
            new[ANSIBLE], self._commands = self._commands, 0
        if new:
            self._found.setdefault(who, collections.Counter()).update(new)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: Any, request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        """One that several tests share is charged itself."""
        if fixturedef.scope == "function":
            return (yield)
        self._charge(request._pyfuncitem.nodeid)
        try:
            return (yield)
        finally:
            place = f"{fixturedef.baseid}::" if fixturedef.baseid else ""
            self._charge(f"{place}{fixturedef.argname} (fixture)")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """What is new goes with the report."""
        report = yield
        self._charge(item.nodeid)
        found, self._found = self._found, {}
        if found:
            report.counts = {who: dict(new) for who, new in found.items()}  # type: ignore[attr-defined]
        return report

    def pytest_unconfigure(self) -> None:
        """At the end of the process."""
        self.laboratories.close()


class Counts:
    """Adds up, in the process that reports."""

    def __init__(self) -> None:
        self.of: dict[str, collections.Counter[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """What was new with a test."""
        for who, new in getattr(report, "counts", {}).items():
            self.of.setdefault(who, collections.Counter()).update(new)

    def lines(self) -> list[str]:
        """The totals, and who had most guests booted; nothing where nothing was counted."""
        total: collections.Counter[str] = collections.Counter()
        for numbers in self.of.values():
            total.update(numbers)
        if not total:
            return []
        shown = [
            f"runs of Ansible: {total[ANSIBLE]}",
            f"module runs on hypervisors: {total[MODULES]}",
            f"guest boots: {total[BOOTS]} (arrived by a move or restored: {total[TAKEN_OVER]})",
        ]
        boots = sorted((-numbers[BOOTS], who) for who, numbers in self.of.items())
        return [*shown, *(f"{-count:6} {who}" for count, who in boots[:_MOST] if count < 0)]


def _folder() -> Path:
    """A folder for this process, yet to be made; those of processes that are gone go."""
    try:
        place = cache() / "counts"
    except LabError:  # nor could there be a laboratory
        place = Path(tempfile.gettempdir()) / "fleet-virt-counts"
    for old in place.iterdir() if place.is_dir() else ():
        if processes.dead(int(old.name)):
            shutil.rmtree(old, ignore_errors=True)
    return place / str(os.getpid())
