# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other people's checks, each a case here, with the tool's own words when it fails."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from ansible_collections.fleet.virt.tests import release
from ansible_collections.fleet.virt.tests.contract import _tools, documentation


def test_ruff_check(project: Path, lint: Path) -> None:
    _tools.run([lint / "ruff", "check", "--no-cache", "."], project)


def test_ruff_format(project: Path, lint: Path) -> None:
    _tools.run([lint / "ruff", "format", "--no-cache", "--diff", "."], project)


def test_mypy_strict(project: Path, lint: Path) -> None:
    cache = _tools.cache_folder() / "mypy"
    command = [lint / "mypy", "--cache-dir", cache, "-p", "ansible_collections.fleet.virt.plugins"]
    _tools.run(command, project, _tools.environment(lint))


def test_yamllint(project: Path, lint: Path) -> None:
    _tools.run([lint / "yamllint", "--strict", "."], project)


def test_yamllint_in_plugins(project: Path, lint: Path, tmp_path: Path) -> None:
    for plugin in sorted(project.glob("plugins/*/*.py")):
        for name, text in documentation.texts(plugin).items():
            file = tmp_path / f"{plugin.parent.name}-{plugin.stem}-{name}.yml"
            file.write_text(text.removeprefix("\n"))
    assert {"modules-virt_query-RETURN.yml", "doc_fragments-_connection-DOCUMENTATION.yml"} <= {
        file.name for file in tmp_path.iterdir()
    }
    _tools.run([lint / "yamllint", "--strict", "-c", project / ".yamllint-docs", "."], tmp_path)


def test_ansible_lint(project: Path, lint: Path) -> None:
    env = _tools.environment(lint, ANSIBLE_COLLECTIONS_PATH=str(project.parents[2]))
    command = [lint / "ansible-lint", "--offline", "--strict", "--profile", "production"]
    _tools.run(command, project, env)


def test_documentation(project: Path, lint: Path) -> None:
    env = _tools.environment(lint, ANSIBLE_COLLECTIONS_PATH=str(project.parents[2]))
    command = [lint / "antsibull-docs", "lint-collection-docs", "--plugin-docs"]
    _tools.run([*command, "--validate-collection-refs", "all", "."], project, env)


def test_changelog(project: Path, lint: Path) -> None:
    env = _tools.environment(lint, ANSIBLE_COLLECTIONS_PATH=str(project.parents[2]))
    _tools.run([lint / "antsibull-changelog", "lint"], project, env)


def test_licences(project: Path, lint: Path) -> None:
    _tools.run([lint / "reuse", "--root", project, "lint"], project)


def test_sanity(installed: Path, lint: Path, tmp_path: Path) -> None:
    _tools.offline_get_pip(lint)
    path = os.pathsep.join([str(lint), _tools.pythons(tmp_path / "pythons")])
    env = {**_tools.environment(lint), "PATH": path}
    # One at a time: a second run would find half an environment of the first.
    with _tools.locked(_tools.cache_folder() / "sanity"):
        # It writes below tests/output, and other checks look at what is installed
        own = shutil.copytree(installed, tmp_path / "own")
        command = [lint / "ansible-test", "sanity", "--local", "--color", "no"]
        _tools.run(command, own / _tools.PREFIX, env)


def test_galaxy_importer(artifact: Path, tmp_path: Path) -> None:
    """Without ansible-lint, which is a test of its own here; ``make release`` has it too."""
    release.imported(artifact, tmp_path, lint=False)
    result = json.loads((tmp_path / "importer_result.json").read_text())
    names = {content["name"] for content in result["contents"]}
    assert {"virt_host_info", "virt_query"} <= names
