# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the contract checks share: a copy of the project and its built artifact."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.tests.contract import _tools


@pytest.fixture(scope="session")
def lint() -> Path:
    """Return the folder of the tools' programs."""
    return _tools.virtual_environment("lint")


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the project as a clone would have it, at a path Ansible accepts."""
    return _tools.copy_project(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="session")
def artifact(project: Path, lint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the collection's tarball, built from the copy."""
    folder = tmp_path_factory.mktemp("artifact")
    command = [lint / "ansible-galaxy", "collection", "build", "--output-path", folder, project]
    _tools.run(command, folder, _tools.environment(lint))
    (built,) = folder.glob("*.tar.gz")
    return built


@pytest.fixture(scope="session")
def installed(artifact: Path, lint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for ``ANSIBLE_COLLECTIONS_PATH`` into which the tarball was installed."""
    folder = tmp_path_factory.mktemp("installed")
    command = [lint / "ansible-galaxy", "collection", "install", artifact, "-p", folder]
    _tools.run(command, folder, _tools.environment(lint))
    return folder


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_tools.Preloaded]:
    """Return Ansible's programs with the checkout as the collection and a home of their own."""
    home = tmp_path_factory.mktemp("home")
    server = _tools.Preloaded(home, {**os.environ, "HOME": str(home)})
    yield server
    server.close()
