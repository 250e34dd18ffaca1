# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writing a restored file on the controller: for its user only, and over nothing."""

from __future__ import annotations

import stat
from pathlib import Path

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError, PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_files

_MODE = 0o600


def write(dest: str, content: bytes, *, check: bool) -> bool:
    """Have the file with that content; whether it was written, or would be. Raises FleetVirtError
    where another file has that name."""
    path = Path(dest).expanduser().absolute()
    try:
        if not _differs(path, content):
            return False
        if not path.parent.is_dir():
            raise PlanRefused(f"{path.parent} is no folder here; create it first")
        if not check and not effects_files.publish(path, content, mode=_MODE):
            raise PlanRefused(_taken(path))  # it appeared meanwhile
    except OSError as error:
        raise FleetVirtError(f"{path}: {error.strerror}") from None
    return True


def _taken(path: Path) -> str:
    return f"{path} exists and is another file; refusing to overwrite it: name another"


def _differs(path: Path, content: bytes) -> bool:
    """False for the same file, which only its user can read; raises PlanRefused for others."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return True
    same = stat.S_ISREG(status.st_mode) and stat.S_IMODE(status.st_mode) == _MODE
    if not same or status.st_size != len(content) or path.read_bytes() != content:
        raise PlanRefused(_taken(path))
    return False
