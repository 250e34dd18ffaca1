# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The execution environment's build context: Debian's packages, and nothing that is compiled.

The image itself is not built here: that needs podman or Docker, and a registry.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml
from ansible_collections.fleet.virt.tests.contract import _tools

DEFINITION = _tools.CHECKOUT / "docs/examples/execution-environment/execution-environment.yml"
# What consoles in the browser serve, and the bindings of the inventory and of reading directly
NEEDED = {
    "libvirt-clients",
    "node-xterm",
    "novnc",
    "openssh-client",
    "python3-libvirt",
    "python3-lxml",
    "python3-websockify",
}


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The context as ansible-builder makes it of the definition."""
    folder = tmp_path_factory.mktemp("execution-environment") / "context"
    programs = _tools.virtual_environment("builder")
    words = ["create", "-f", DEFINITION, "-c", folder, "--output-filename", "Containerfile"]
    _tools.run([programs / "ansible-builder", *words], folder.parent)
    return folder


def test_containerfile_is_of_debian_and_installs_no_compiler(context: Path) -> None:
    text = (context / "Containerfile").read_text(encoding="utf-8")
    assert 'ARG EE_BASE_IMAGE="docker.io/library/debian:13"' in text
    assert 'ARG PKGMGR="/usr/bin/apt-get"' in text
    # pip is there before it is used first
    packages = text.index("apt-get install -y --no-install-recommends git python3 python3-pip")
    assert packages < text.index("$PYCMD -m pip install")
    assert not {"gcc", "libvirt-dev", "python3-dev", "build-essential"} & set(text.split())


def test_packages_of_the_image_are_debians_and_bindings_are_not_compiled(context: Path) -> None:
    """What its own program finds in the collection and the definition, as the build runs it."""
    programs, build = _tools.virtual_environment("builder"), context / "_build"
    system, python = context / "system.txt", context / "python.txt"
    words = ["--user-bindep=bindep.txt", "--exclude-bindep-reqs=exclude-bindep.txt"]
    words += ["--exclude-pip-reqs=exclude-requirements.txt", f"--write-bindep={system}"]
    collections = _tools.CHECKOUT / ".venv" / "collections"
    interpreter, script = programs / "python", build / "scripts" / "introspect.py"
    _tools.run(
        [interpreter, script, "introspect", collections, *words, f"--write-pip={python}"], build
    )
    lines = [line.split("#")[0].split() for line in system.read_text().splitlines() if line]
    debian = {words[0] for words in lines if not {"[platform:rpm]", "platform:rpm]"} & {*words}}
    assert debian >= NEEDED
    assert not {name for name in debian if name == "gcc" or name.endswith(("-dev", "-config"))}
    assert not python.exists() or not {"libvirt-python", "lxml"} & {*python.read_text().split()}


def test_packages_exist_in_this_debian() -> None:
    listed = yaml.safe_load(DEFINITION.read_text(encoding="utf-8"))["dependencies"]["system"]
    names = {line.split()[0] for line in listed}
    assert names >= NEEDED
    words = ["apt-cache", "show", "--no-all-versions", *sorted(names)]
    known = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False).stdout
    found = {line.split()[1] for line in known.splitlines() if line.startswith("Package:")}
    assert found >= names
