# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hypervisors that compile Ansible's modules once.

Ansible sends each module as an archive of sources, which Python compiles anew in every run: half of
what a short module costs, the same each time. Here Python gets a line that it reads whenever it
starts, and a file that keeps what was compiled.
"""

from __future__ import annotations

import shutil
from pathlib import Path

__all__ = ["bring", "keep"]

_SOURCE = Path(__file__).parent / "hypervisor" / "lab_compiled.py"
# Outside of what tests look through for changes
_FOLDER = "var/lib/lab-python"
_LINES = f"/{_FOLDER}\nimport lab_compiled\n"


def keep(directory: Path) -> None:
    """All hosts of this laboratory, which is in the making, are to be such."""
    shutil.copyfile(_SOURCE, directory / _SOURCE.name)


def bring(directory: Path, upper: Path) -> None:
    """Write what a host that is prepared needs for it, if its laboratory's hosts are such."""
    if (directory / _SOURCE.name).exists():
        for folder in (_FOLDER, "usr/lib/python3/dist-packages"):
            (upper / folder).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(directory / _SOURCE.name, upper / _FOLDER / _SOURCE.name)
        (upper / "usr/lib/python3/dist-packages/lab-compiled.pth").write_text(_LINES)
