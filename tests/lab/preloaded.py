# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hypervisors on which modules of Ansible start quickly.

Of what a short module costs, two thirds is the same each time: Python imports its library, libvirt
and lxml, and compiles what Ansible sends, an archive of sources. Here Python gets a line that it
reads whenever it starts, and a file that keeps what was compiled; and Ansible's Python is a program
that has a server fork, which has imported the rest, or a process of that server which has imported
what is in the archive as well.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from .record import HostRecord

__all__ = ["bring", "keep", "python"]

_SOURCES = Path(__file__).parent / "hypervisor"
_KEPT = "python"
# Outside of what tests look through for changes
_FOLDER = "var/lib/lab-python"
_LINES = f"/{_FOLDER}\nimport lab_compiled\n"
_SERVICE = f"""\
[Unit]
Description=A Python of which modules are forked

[Service]
ExecStart=/usr/bin/python3 /{_FOLDER}/lab_preloaded.py
Restart=always
"""
_UNITS = "usr/lib/systemd/system"


def keep(directory: Path) -> None:
    """All hosts of this laboratory, which is in the making, are to be such."""
    shutil.copytree(_SOURCES, directory / _KEPT, ignore=shutil.ignore_patterns("__pycache__"))


def bring(directory: Path, upper: Path, bare: bool) -> None:
    """Write what a host that is prepared needs for it, if its laboratory's hosts are such.

    What a bare one is to import is yet to be installed: it compiles once, and has no server.
    """
    if not (directory / _KEPT).exists():
        return
    (upper / "usr/lib/python3/dist-packages").mkdir(parents=True, exist_ok=True)
    (upper / "usr/lib/python3/dist-packages/lab-compiled.pth").write_text(_LINES)
    shutil.copytree(directory / _KEPT, upper / _FOLDER, dirs_exist_ok=True)
    if not bare:
        wanted = upper / _UNITS / "multi-user.target.wants"
        wanted.mkdir(parents=True, exist_ok=True)
        (upper / _UNITS / "lab-preloaded.service").write_text(_SERVICE)
        link = wanted / "lab-preloaded.service"
        link.unlink(missing_ok=True)
        link.symlink_to("../lab-preloaded.service")


def python(directory: Path, host: HostRecord) -> str:
    """The Python that Ansible is to use on a host."""
    if host.bare or not (directory / _KEPT).exists():
        return "/usr/bin/python3"
    return f"/{_FOLDER}/python3"
