# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The supported versions of Ansible, each in a root tree of a Debian whose Python it runs with."""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.fleet.virt.tests.contract import _tools

from tests.lab import roots

PIP = "26.3"
# Killing the first process kills all that it started, and with the last one the mounts go.
NAMESPACES = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
IN_ROOT = Path(__file__).with_name("in_root")


@dataclass(frozen=True)
class Version:
    """One release of ansible-core and the Debian whose Python runs it."""

    core: str
    suite: str
    python: str


VERSIONS = [
    Version(core="2.18.19", suite="bookworm", python="3.11"),
    Version(core="2.19.14", suite="bookworm", python="3.11"),
    Version(core="2.21.5", suite="trixie", python="3.13"),
]


def root_tree(suite: str) -> Path:
    """Return the laboratory's root tree of a ready hypervisor, built if it is not there yet."""
    return roots.ensure(suite)


def entering(root: Path, settings: Path, venv: Path, *, network: bool = False) -> list[str]:
    """Return the words before a command that is to run in a root tree, without a network unless it
    is needed."""
    alone = [] if network else ["--net"]
    words = [*NAMESPACES, *alone, IN_ROOT, root, settings, venv, _tools.CHECKOUT]
    return [str(word) for word in words]


def inside(root: Path, settings: Path, venv: Path, *command: str, network: bool = False) -> str:
    """Run a command in a root tree."""
    return _tools.run([*entering(root, settings, venv, network=network), *command], venv)


def write_settings(folder: Path) -> None:
    """Write pip itself and its settings to a folder: a root tree may have neither."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    _tools.run([*pip, "download", "--quiet", "--no-deps", "-d", folder, f"pip=={PIP}"], folder)
    shutil.copy(_tools.private_home() / ".config" / "pip" / "pip.conf", folder)


def pytest_pins() -> list[str]:
    """Return what the unit tests need besides Ansible, pinned."""
    lines = (_tools.REQUIREMENTS / "unit.txt").read_text().splitlines()
    return [line for line in lines if re.match(r"[a-z].*==", line)]


def environment_for(version: Version, root: Path, settings: Path) -> Path:
    """Return an environment made by the Python of ``root``, on first use."""
    wanted = [f"ansible-core=={version.core}", *pytest_pins()]
    identity = "\n".join([str(root), PIP, *wanted])
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    folder = _tools.cache_folder() / "venvs" / f"matrix-{version.core}-{digest}"
    with _tools.locked(folder):
        complete = folder / "complete"
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            make = ["/usr/bin/python3", "-m", "venv", "--without-pip", "--system-site-packages"]
            inside(root, settings, folder, *make, "/venv")
            (pip,) = settings.glob("pip-*.whl")
            install = ["/venv/bin/python", f"/settings/{pip.name}/pip", "install", "--quiet"]
            inside(root, settings, folder, *install, *wanted, network=True)
            complete.touch()
    return folder
