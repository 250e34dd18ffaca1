# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What needs no hypervisor, on every supported version of Ansible, in root trees that have its
Python: unit tests, and those that run Ansible's programs.

Those that import nothing of Ansible are run once, unless FLEET_VIRT_TRIALS is set: then again with
each other Python.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import ansible.release
import pytest
from ansible_collections.fleet.virt.tests.contract import _tools
from ansible_collections.fleet.virt.tests.contract._imports import COLLECTION, imports
from ansible_collections.fleet.virt.tests.contract._versions import (
    IN_ROOT,
    NAMESPACES,
    VERSIONS,
    Version,
    environment_for,
    inside,
    root_tree,
    write_settings,
)

FOLDERS = ("tests/unit", "tests/contract/controller")


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with pip itself and its settings."""
    folder = tmp_path_factory.mktemp("settings")
    write_settings(folder)
    return folder


def python_runs_here(version: Version, request: pytest.FixtureRequest) -> bool:
    """Whether this run itself is of all these tests, with this Python on this Debian."""
    debian = platform.freedesktop_os_release().get("VERSION_CODENAME")
    python = ".".join(map(str, sys.version_info[:2]))
    if (debian, python) != (version.suite, version.python):
        return False
    if request.config.option.keyword or request.config.option.markexpr:
        return False
    collected = {item.path for item in request.session.items}
    return collected >= {
        path for folder in FOLDERS for path in (_tools.CHECKOUT / folder).rglob("test_*.py")
    }


def runs_here(version: Version, request: pytest.FixtureRequest) -> bool:
    """Whether this run itself is of all these tests, with this version on this Debian."""
    return ansible.release.__version__ == version.core and python_runs_here(version, request)


def reached(test: Path, known: dict[Path, set[tuple[str, ...]]]) -> set[tuple[str, ...]]:
    """Return all that a test and what it imports of ours import; ``known`` is by file."""
    seen, waiting = {test}, [test]
    names: set[tuple[str, ...]] = set()
    while waiting:
        file = waiting.pop()
        if file not in known:
            known[file] = {name for _line, name in imports(file)}
        names |= known[file]
        for name in known[file]:
            if name[: len(COLLECTION)] == COLLECTION:
                place = Path(*name[len(COLLECTION) :])
                files = (one.with_suffix(".py") for one in (place, place.parent) if one.name)
                new = {one for one in files if (_tools.CHECKOUT / one).exists()} - seen
                seen |= new
                waiting += new
    return names


def without_ansible() -> list[Path]:
    """Return the unit tests that, with all that they test, import nothing of Ansible.

    They are the same for each version of it. Plugins are not looked at: Ansible loads them.
    """
    unit = _tools.CHECKOUT / "tests" / "unit"
    of_features = [
        path for path in sorted(unit.glob("*/test_*.py")) if path.parent.name != "plugins"
    ]
    tests = [path.relative_to(_tools.CHECKOUT) for path in of_features]
    known: dict[Path, set[tuple[str, ...]]] = {}
    return [test for test in tests if all(name[0] != "ansible" for name in reached(test, known))]


def test_what_imports_ansible_is_run_with_every_version() -> None:
    left_out = set(map(str, without_ansible()))
    assert "tests/unit/base/test_effects_locks.py" in left_out
    assert "tests/unit/images/test_effects_download.py" not in left_out
    assert "tests/unit/reading/test_guests.py" in left_out
    assert "tests/unit/reading/test_direct.py" not in left_out
    # whose steps fetch images
    assert "tests/unit/provision/test_creation_crashes.py" not in left_out


@pytest.mark.parametrize("version", VERSIONS, ids=lambda it: f"{it.core}-python{it.python}")
def test_they_pass(version: Version, request: pytest.FixtureRequest) -> None:
    if runs_here(version, request):
        return  # they are tests of this run, and it fails with any of them
    if os.geteuid() != 0:
        pytest.skip("mounting the root trees of other Debians needs root")
    settings = request.getfixturevalue("settings")
    root = root_tree(version.suite)
    venv = environment_for(version, root, settings)
    ask = "import ansible.release, sys; print(ansible.release.__version__, *sys.version_info[:2])"
    told = inside(root, settings, venv, "python", "-c", ask).split()
    assert told == [version.core, *version.python.split(".")]
    command = ["python", "-m", "pytest", "-p", "no:cacheprovider", "-q", *FOLDERS]
    if python_runs_here(version, request) or "FLEET_VIRT_TRIALS" not in os.environ:
        command += [f"--ignore={path}" for path in without_ansible()]
    last = inside(root, settings, venv, *command).splitlines()[-1]
    assert re.fullmatch(r"[1-9][0-9]* passed, 0 failed, 0 skipped", last), last


@pytest.mark.parametrize("version", VERSIONS, ids=lambda it: f"{it.core}-python{it.python}")
def test_release_is_installed_and_its_playbooks_are_read(
    version: Version, artifact: Path, settings: Path
) -> None:
    """The file that is released, by that version's own programs and without a network."""
    if os.geteuid() != 0:
        pytest.skip("mounting the root trees of other Debians needs root")
    root = root_tree(version.suite)
    venv = environment_for(version, root, settings)
    shutil.copy(artifact, settings / "release.tar.gz")
    names = sorted(path.stem for path in (_tools.CHECKOUT / "playbooks").glob("*.yml"))
    script = (
        "export ANSIBLE_COLLECTIONS_PATH=/tmp/collections && ansible-galaxy collection install"
        " --offline /settings/release.tar.gz -p /tmp/collections"
        " && ansible-galaxy collection verify --offline fleet.virt && cd /tmp"
        f" && ansible-playbook --syntax-check {' '.join(f'fleet.virt.{name}' for name in names)}"
    )
    told = inside(root, settings, venv, "sh", "-c", script)
    read = re.findall(r"^playbook: /tmp/collections/.*/([^/]+)\.yml$", told, re.MULTILINE)
    assert read == names, told


def processes_naming(path: Path) -> list[str]:
    """Return the command lines of all processes that were started with ``path``."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = file.read_bytes().decode(errors="replace").replace("\0", " ")
            if str(path) in words:
                found.append(words)
    return found


def test_root_tree_stays_as_it_was(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    root = root_tree(VERSIONS[0].suite)
    (tmp_path / "pip.conf").touch()
    script = "touch /etc/fleet-virt-was-here /tmp/x && ! touch /checkout/x 2>/dev/null"
    inside(root, tmp_path, tmp_path, "sh", "-c", script)
    assert not (root / "etc" / "fleet-virt-was-here").exists()


def test_a_killed_run_leaves_nothing(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    root = root_tree(VERSIONS[0].suite)
    (tmp_path / "pip.conf").touch()
    started = ["sh", "-c", "touch /settings/started; exec sleep 600"]
    with subprocess.Popen(
        [*NAMESPACES, IN_ROOT, root, tmp_path, tmp_path, _tools.CHECKOUT, *started]
    ) as process:
        wait_for((tmp_path / "started").exists)
        assert processes_naming(tmp_path)
        process.kill()
    wait_for(lambda: not processes_naming(tmp_path))
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()


def wait_for(condition: Callable[[], object], limit_s: float = 20) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)
