# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection as a user gets it: built, installed, and cut down to what running it needs."""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from ansible_collections.fleet.virt.tests import release
from ansible_collections.fleet.virt.tests.contract import _tools

RUNTIME = ("meta", "plugins", "roles", "playbooks")
SHIPPED = {
    *RUNTIME,
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "COPYING",
    "FILES.json",
    "LICENSES",
    "MANIFEST.json",
    "README.md",
    "REUSE.toml",
    "SECURITY.md",
    "changelogs",
    "docs",
    "extensions",
    "tests",
}


def files(folder: Path) -> set[str]:
    """Return the names of all files below ``folder``, without compiled ones."""
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_artifact_holds_what_users_need(artifact: Path) -> None:
    with tarfile.open(artifact) as tar:
        paths = [Path(name) for name in tar.getnames()]
    names = {path.parts[0] for path in paths}
    assert names - SHIPPED == set()
    tests = {str(path) for path in paths if path.parts[0] == "tests"}
    assert tests == {"tests", "tests/config.yml"}, "only ansible-test's settings are of use there"
    assert {"meta", "plugins", "playbooks", "README.md", "COPYING"} <= names


def test_release_has_its_version_and_a_summary(lint: Path, tmp_path: Path) -> None:
    project = _tools.copy_project(tmp_path)
    release.prepare(project, "1.0.0-rc1", lint)
    with tarfile.open(release.build(project, tmp_path, lint)) as tar:
        names = tar.getnames()
        files = {
            name: (tar.extractfile(name) or pytest.fail(name)).read().decode()
            for name in ("CHANGELOG.md", "MANIFEST.json", "changelogs/changelog.yaml")
        }
    assert json.loads(files["MANIFEST.json"])["collection_info"]["version"] == "1.0.0-rc1"
    (entry,) = yaml.safe_load(files["changelogs/changelog.yaml"])["releases"].values()
    assert entry["changes"]["release_summary"].startswith("First release: ")
    assert files["CHANGELOG.md"].count("### Release Summary") == 1
    assert [name for name in names if name.startswith("changelogs/fragments/")] == []


def test_installs_from_checkout_and_tarball_alike(
    installed: Path, lint: Path, tmp_path: Path
) -> None:
    # The real checkout, with whatever lies about in it: what it ignores must not be packed.
    command = [lint / "ansible-galaxy", "collection", "install", _tools.CHECKOUT, "-p", tmp_path]
    _tools.run(command, tmp_path, _tools.environment(lint))
    assert files(tmp_path / _tools.PREFIX) == files(installed / _tools.PREFIX)
    assert (installed / _tools.PREFIX / "MANIFEST.json").exists()


@pytest.fixture(scope="module")
def bare(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a collections folder with nothing but what the collection needs to run."""
    folder = tmp_path_factory.mktemp("bare")
    for name in RUNTIME:
        source = installed / _tools.PREFIX / name
        if source.exists():
            shutil.copytree(source, folder / _tools.PREFIX / name)
    assert {path.name for path in (folder / _tools.PREFIX).iterdir()} <= set(RUNTIME)
    return folder


@pytest.fixture(scope="module")
def environment(bare: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return that of an Ansible of this environment, which has libvirt's binding, with ``bare``."""
    return _tools.environment(
        _tools.programs(),
        ANSIBLE_COLLECTIONS_PATH=str(bare),
        ANSIBLE_HOME=str(tmp_path_factory.mktemp("ansible")),
        ANSIBLE_PYTHON_INTERPRETER=str(_tools.programs() / "python"),
        ANSIBLE_BECOME="false",
    )


@pytest.fixture(scope="module")
def ansible(bare: Path, environment: dict[str, str]) -> Iterator[_tools.Preloaded]:
    """Return Ansible's programs with ``bare``."""
    server = _tools.Preloaded(bare, environment)
    yield server
    server.close()


@pytest.fixture
def hosts(tmp_path: Path) -> Path:
    """Return an inventory of this machine."""
    path = tmp_path / "hosts.yml"
    path.write_text(
        json.dumps({"hypervisors": {"hosts": {"here": {"ansible_connection": "local"}}}})
    )
    return path


MODULES = sorted(path.stem for path in (_tools.CHECKOUT / "plugins" / "modules").glob("virt_*.py"))


def test_documentation_is_shown(environment: dict[str, str], tmp_path: Path) -> None:
    listed = ["ansible-doc", "--list", "--json", "fleet.virt"]
    shown = _tools.run(listed, tmp_path, environment)
    assert {f"fleet.virt.{name}" for name in MODULES} <= set(json.loads(shown))
    names = [f"fleet.virt.{name}" for name in MODULES]
    every = json.loads(_tools.run(["ansible-doc", "--json", *names], tmp_path, environment))
    for name in names:
        assert "uri" in every[name]["doc"]["options"], f"{name}: the action group sets uri for all"


@pytest.mark.parametrize("module", ["virt_host_info", "virt_query"])
def test_module_runs(ansible: _tools.Preloaded, hosts: Path, module: str) -> None:
    words = ["-i", hosts, "hypervisors", "-m", f"fleet.virt.{module}"]
    shown = ansible.run("ansible", *words, "-a", "uri=test:///default")
    result = json.loads(shown.partition("=>")[2])
    assert result["changed"] is False
    assert result["host" if module == "virt_host_info" else "domains"]


def test_module_defaults_reach_the_group(
    ansible: _tools.Preloaded, hosts: Path, tmp_path: Path
) -> None:
    defaults = {"group/fleet.virt.virt": {"uri": "test:///default"}}
    play = {
        "hosts": "hypervisors",
        "gather_facts": False,
        "module_defaults": defaults,
        "tasks": [
            {"name": "Read", "fleet.virt.virt_query": {}, "register": "read"},
            {
                "name": "Compare",
                "ansible.builtin.assert": {"that": ["read.domains[0].name == 'test'"]},
            },
        ],
    }
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    ansible.run("ansible-playbook", "-i", hosts, tmp_path / "play.yml")


def test_playbook_is_found_by_its_full_name(ansible: _tools.Preloaded, hosts: Path) -> None:
    """All of them, by one command."""
    paths = sorted((_tools.CHECKOUT / "playbooks").glob("*.yml"))
    names = [f"fleet.virt.{path.stem}" for path in paths]
    said = ansible.run("ansible-playbook", "-i", hosts, *names, "--syntax-check")
    read = re.findall(r"^playbook: .*/([^/]+)\.yml$", said, re.MULTILINE)
    assert read == [path.stem for path in paths], said
