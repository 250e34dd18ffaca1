# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A release as a file: ``make release VERSION=1.0.0-rc1`` writes it to ``build/release``.

Galaxy's importer looks at it, with ansible-lint. The changelog is made of the fragments in a copy
of the project, so that nothing of the checkout changes. With ``--write`` it is written here too:
the version, the changelog, and the fragments gone, to be committed and tagged.
"""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
from pathlib import Path

from ansible_collections.fleet.virt.tests.contract import _tools

# Galaxy's own check before it takes a file. It gives ansible-lint 180 seconds, of which it takes 45
# of one processor: too few on a machine that is busy with tests.
IMPORTER = """\
[galaxy-importer]
CHECK_REQUIRED_TAGS = True
CHECK_CHANGELOG = True
RUN_ANSIBLE_DOC = True
RUN_ANSIBLE_LINT = {lint}
RUN_ANSIBLE_TEST = False
RUN_FLAKE8 = False
REQUIRE_V1_OR_GREATER = False
"""
# What a release changes
_CHANGED = ("CHANGELOG.md", "changelogs/changelog.yaml", "galaxy.yml")


def prepare(project: Path, version: str, programs: Path) -> None:
    """Give a copy of the project the version, and the changelog of it."""
    galaxy = project / "galaxy.yml"
    text, count = re.subn(
        r"^version: .*$",
        f"version: {version}",
        galaxy.read_text(encoding="utf-8"),
        flags=re.MULTILINE,
    )
    assert count == 1
    galaxy.write_text(text, encoding="utf-8")
    env = _tools.environment(programs, ANSIBLE_COLLECTIONS_PATH=str(project.parents[2]))
    for words in (["release", "--version", version], ["lint"]):
        _tools.run([programs / "antsibull-changelog", *words], project, env)


def build(project: Path, target: Path, programs: Path) -> Path:
    """Build the prepared copy; return the file."""
    words = ["collection", "build", "--force", "--output-path", target, project]
    _tools.run([programs / "ansible-galaxy", *words], project, _tools.environment(programs))
    version = re.search(r"^version: (.*)$", (project / "galaxy.yml").read_text(), re.MULTILINE)
    assert version is not None
    return target / f"fleet-virt-{version[1]}.tar.gz"


def imported(artifact: Path, folder: Path, *, lint: bool) -> str:
    """What Galaxy's importer says of a file, whose result it leaves in ``folder``; a complaint is
    an error."""
    programs = _tools.virtual_environment("importer")
    (folder / "importer.cfg").write_text(IMPORTER.format(lint=lint), encoding="utf-8")
    env = _tools.environment(
        programs, GALAXY_IMPORTER_CONFIG=str(folder / "importer.cfg"), TMPDIR=str(folder)
    )
    words = [programs / "python", "-m", "galaxy_importer.main", artifact]
    said = _tools.run(words, folder, env)
    wrong = [line for line in said.splitlines() if line.startswith(("WARNING", "ERROR"))]
    assert not wrong, "\n".join(wrong)
    return said


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("version")
    parser.add_argument("--write", action="store_true", help="change the checkout too")
    options = parser.parse_args()
    programs = _tools.virtual_environment("lint")
    target = _tools.CHECKOUT / "build" / "release"
    with tempfile.TemporaryDirectory() as folder:
        project = _tools.copy_project(Path(folder))
        prepare(project, options.version, programs)
        built = build(project, target, programs)
        print(imported(built, Path(folder), lint=True))
        if options.write:
            for name in _CHANGED:
                shutil.copy(project / name, _tools.CHECKOUT / name)
            for fragment in (_tools.CHECKOUT / "changelogs" / "fragments").glob("*.y*ml"):
                fragment.unlink()
    print(built.relative_to(_tools.CHECKOUT))


if __name__ == "__main__":
    main()
