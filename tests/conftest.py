# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""For all tests: the collection under its own name, a clean environment, and the last lines."""

from __future__ import annotations

import atexit
import gc
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests import counting, leftovers, scheduling

CHECKOUT = Path(__file__).resolve().parents[1]


def _collections_tree() -> Path:
    """Return a folder in which ``ansible_collections/fleet/virt`` is this checkout."""
    tree = CHECKOUT / ".venv" / "collections"
    link = tree / "ansible_collections" / "fleet" / "virt"
    if not link.exists() or link.resolve() != CHECKOUT:
        tree = Path(tempfile.mkdtemp(prefix="fleet-virt-collections-"))
        atexit.register(shutil.rmtree, tree, ignore_errors=True)
        link = tree / "ansible_collections" / "fleet" / "virt"
        link.parent.mkdir(parents=True)
        link.symlink_to(CHECKOUT, target_is_directory=True)
    return tree


_TREE = _collections_tree()
sys.path.insert(0, str(_TREE))

# What a developer set for other work must not decide what a test sees.
for _name in [name for name in os.environ if name.startswith("ANSIBLE_")]:
    del os.environ[_name]
# Nor what it costs: each process of a run, and the next run, would compile all tests again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
os.environ["ANSIBLE_COLLECTIONS_PATH"] = str(_TREE)
os.environ["FLEET_VIRT_LAB_KERNEL"] = "1"  # a hundred guests are worth building one
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


@pytest.fixture(scope="session")
def checkout() -> Path:
    """Return the root of the collection."""
    return CHECKOUT


@pytest.fixture(scope="session")
def collections_path() -> Path:
    """Return the folder to be given to Ansible as ``ANSIBLE_COLLECTIONS_PATH``."""
    return _TREE


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of these tests."""
    parser.addoption(
        "--write-durations",
        action="store_true",
        help="keep how long each file of laboratory tests took in tests/durations.txt",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep what shares a laboratory in one process, one after the other.

    With ``--dist loadgroup``; xdist's own groups rely on an attribute that pytest 9.2 has not.
    """
    return scheduling.scheduler(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell the processes without a laboratory that they are those."""
    if node.config.getvalue("dist") == "loadgroup":
        worker, count = node.gateway.id, len(node.nodemanager.specs)
        node.workerinput["laboratory"] = scheduling.has_laboratory(worker, count)
        node.workerinput["ends"] = scheduling.never_has_one(worker, count)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is for trials only is left out of other runs; the longest first where several processes
    share the tests."""
    if "FLEET_VIRT_TRIALS" not in os.environ:
        left_out = [item for item in items if item.get_closest_marker("trials")]
        if left_out:
            items[:] = [item for item in items if item not in set(left_out)]
            config.hook.pytest_deselected(items=left_out)
    if hasattr(config, "workerinput"):
        scheduling.arrange(items)
        # what one that ends early has begun would end with it
        if not config.workerinput.get("laboratory", True) and not config.workerinput["ends"]:
            scheduling.make_ready(items)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test with a laboratory of its own has its part of the processors."""
    if not getattr(item.config, "workerinput", {}).get("laboratory", True):
        scheduling.go_by(item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, object, object]:
    """No test finds in libvirt's test driver what another one left there.

    All connections of a process to ``test:///default`` share one hypervisor, which lasts as long as
    anything refers to one of them: a domain that a test kept, or the frame of an error.
    """
    result = yield
    libvirt = sys.modules.get("libvirt")
    if libvirt is not None and _left(libvirt):
        gc.collect()
        _remove(libvirt)
        if left := _left(libvirt):
            pytest.fail(f"left in libvirt's test driver, where others find it: {left}")
    return result


def _there(connection: Any) -> list[Any]:
    """What ``test:///default`` has in this process beside what each of them begins with."""
    listed = [
        *connection.listAllDomains(0),
        *connection.listAllStoragePools(0),
        *connection.listAllNetworks(0),
    ]
    return [one for one in listed if one.name() not in ("test", "default-pool", "default")]


def _left(libvirt: Any) -> list[str]:
    connection = libvirt.open("test:///default")
    try:
        running = [one.name() for one in connection.listAllDomains(0) if one.isActive()]
        stopped = [] if "test" in running else ["test, which does not run"]
        return stopped + sorted(one.name() for one in _there(connection))
    finally:
        connection.close()


def _remove(libvirt: Any) -> None:
    connection = libvirt.open("test:///default")
    try:
        for one in _there(connection):
            lasts = one.isPersistent()
            if one.isActive():
                one.destroy()
            if lasts:
                one.undefine()
        for one in connection.listAllDomains(0):
            if not one.isActive():
                one.create()
    finally:
        connection.close()


_MARK = pytest.StashKey[str]()
# Lines of an error that say nothing of its reason: what Ansible prints of tasks that went well
_NOISE = re.compile(r"(ok|changed|skipping|included): |PLAY |TASK |hv\d+ +:")
_MOST_LINES = 6  # from the begin of an error, and as many from its end


def reasons(text: str) -> list[str]:
    """The lines of a failure that tell its reason: of many, the first and the last.

    A log that is shown in part, as those of CI often are, ends with them.
    """
    lines = [line[1:].strip()[:300] for line in text.splitlines() if line.startswith("E ")]
    lines = [line for line in lines if line and not _NOISE.match(line)]
    if len(lines) <= 2 * _MOST_LINES:
        return lines
    return [*lines[:_MOST_LINES], "...", *lines[-_MOST_LINES:]]


class LastLine:
    """Count tests by name and print the totals after everything else."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}
        self.processes: list[str] = []
        self.reasons: dict[str, list[str]] = {}

    def left(self, found: list[str]) -> None:
        """Note processes that the run left behind, which is a failure."""
        self.processes = found
        self.outcomes["processes that are left"] = "failed"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the worst that happened to a test in set-up, call and tear-down."""
        if report.failed:
            self.outcomes[report.nodeid] = "failed"
            self.reasons.setdefault(report.nodeid, reasons(report.longreprtext))
        elif report.skipped:
            self.outcomes.setdefault(report.nodeid, "skipped")
        elif report.when == "call":
            self.outcomes.setdefault(report.nodeid, "passed")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that could not be read: its tests are missing, which is a failure."""
        if report.failed:
            self.outcomes[report.nodeid] = "failed"
        elif report.skipped:
            self.outcomes.setdefault(report.nodeid, "skipped")

    def line(self) -> str:
        """Return the line that ends every run."""
        counts = dict.fromkeys(("passed", "failed", "skipped"), 0)
        for outcome in self.outcomes.values():
            counts[outcome] += 1
        return ", ".join(f"{count} {outcome}" for outcome, count in counts.items())


def _file_of(argument: str) -> Path:
    return Path(argument.partition("::")[0])


def pytest_configure(config: pytest.Config) -> None:
    """Count in the process that reports, not in xdist's workers.

    Raises UsageError for a file that does not exist: with several processes none would be named.
    """
    config.pluginmanager.register(counting.Counting(), "counting")
    if hasattr(config, "workerinput"):
        if not config.workerinput.get("laboratory", True):
            scheduling.give_way()
        return
    missing = [path for path in map(_file_of, config.args) if not path.exists()]
    if missing:
        raise pytest.UsageError(
            f"{', '.join(map(str, missing))}: not there; what is to be run is a file or folder of"
            " this checkout, such as ARGS=tests/unit/base or"
            " ARGS=tests/unit/base/test_names.py::NAME, or words of a test's name:"
            " ARGS=\"-k 'query and paused'\""
        )
    config.stash[_MARK] = leftovers.mark()
    config.pluginmanager.register(counting.Counts(), "counts")
    config.pluginmanager.register(LastLine(), "last-line")
    config.pluginmanager.register(scheduling.Timing(), "timing")


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    """Name what chose no test at all: with several processes nothing else does."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        chosen = shlex.join(map(str, config.invocation_params.args))
        terminalreporter.write_line(
            f'no test is chosen by: {chosen}; ARGS="--collect-only -q FILE" lists those of a file'
        )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    """Once all processes of tests have ended: nothing that they started may go on."""
    yield
    if _MARK not in session.config.stash:
        return
    support = sys.modules.get("ansible_collections.fleet.virt.tests.integration.support.ansible")
    if support is not None:
        support.SERVERS.close()  # ended by its process otherwise, which goes on here
    found = leftovers.remaining(session.config.stash[_MARK], os.environ.get("FLEET_VIRT_LAB"))
    if found:
        session.config.pluginmanager.get_plugin("last-line").left(found)
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Print the totals: nothing of pytest comes after this."""
    last_line = config.pluginmanager.get_plugin("last-line")
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if last_line is not None and terminal is not None:
        terminal.ensure_newline()
        for line in last_line.processes:
            terminal.write_line(f"left behind by this run: {line}")
        for name, lines in last_line.reasons.items():
            terminal.write_line("\n  ".join([f"failed: {name}", *lines]))
        for line in config.pluginmanager.get_plugin("counts").lines():
            terminal.write_line(line)
        terminal.write_line(last_line.line())
