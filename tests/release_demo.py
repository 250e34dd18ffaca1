# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The demonstration of a release, once with every supported version of Ansible.

``make release-demo VERSION=1.0.0-rc1`` installs the file of ``make release`` with that version's
own ``ansible-galaxy``, and has each step of the demonstration done by what was installed: two
hypervisors, a VM that is created on one of them and answers to Ansible, and the reports.
"""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.fleet.virt.tests.contract import _tools, _versions

from tests.lab import paths

# Those that the demonstration, and what it suggests, call
_PROGRAMS = ("ansible", "ansible-galaxy", "ansible-inventory", "ansible-playbook")
_WRAPPER = """\
#!/bin/sh
export FLEET_VIRT_BOUND={bound}
exec {enter} {program} "$@"
"""


@dataclass(frozen=True)
class Controller:
    """An Ansible on a Debian of its own, and the collections that it has."""

    programs: Path
    collections: Path

    def run(self, *words: str | Path) -> str:
        """What one of its programs says; an exit status other than 0 is an error."""
        return _tools.run([self.programs / str(words[0]), *words[1:]], self.collections)


def controller(version: _versions.Version, release: Path, folder: Path) -> Controller:
    """Install a release for this version of Ansible, below ``folder``."""
    settings, programs = folder / "settings", folder / "programs"
    collections = folder / "collections"
    for place in (settings, programs, collections):
        place.mkdir(parents=True)
    _versions.write_settings(settings)
    root = _versions.root_tree(version.suite)
    venv = _versions.environment_for(version, root, settings)
    enter = shlex.join(_versions.entering(root, settings, venv, network=True))
    # the laboratory's keys and images, and where its connections are kept
    bound = shlex.quote("\n".join(map(str, (folder, paths.cache(), paths.RUN))))
    for program in _PROGRAMS:
        file = programs / program
        file.write_text(_WRAPPER.format(bound=bound, enter=enter, program=program))
        file.chmod(0o755)
    installed = Controller(programs, collections)
    copied = shutil.copy(release, folder)
    installed.run("ansible-galaxy", "collection", "install", "--offline", copied, "-p", collections)
    return installed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("release", help="its version, of which build/release has the file")
    parser.add_argument("--core", action="append", help="a version of Ansible (default: each)")
    options = parser.parse_args()
    release = _tools.CHECKOUT / "build" / "release" / f"fleet-virt-{options.release}.tar.gz"
    if not release.exists():
        print(
            f"there is no {release}: run `make release VERSION={options.release}`", file=sys.stderr
        )
        return 1
    lines, failed = [], False
    for version in _versions.VERSIONS:
        if version.core not in (options.core or [version.core]):
            continue
        with tempfile.TemporaryDirectory() as folder:
            installed = controller(version, release, Path(folder))
            listed = installed.run(
                *("ansible-galaxy", "collection", "list", "fleet.virt"),
                *("-p", installed.collections),
            )
            (found,) = re.findall(r"^fleet\.virt +(\S+)", listed, re.MULTILINE)
            demo = [_tools.CHECKOUT / "tests" / "demo", "--name", "release-demo"]
            places = ["--programs", installed.programs, "--collections", installed.collections]
            ended = subprocess.run([*demo, *places, "up"], check=False).returncode
            subprocess.run([*demo, "down"], check=True)
        failed = failed or ended != 0
        lines.append(f"fleet.virt {found}, ansible-core {version.core}: exit status {ended}")
    print("\n".join(lines))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
