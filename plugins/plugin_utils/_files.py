# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files on the controller.

This file is private to the collection.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ansible_collections.fleet.virt.plugins.module_utils._effects.base import files
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError


def write_if_changed(path: str, text: str, *, check: bool) -> str | None:
    """Make ``path`` hold ``text`` (mode 0600 when new; else owner, group and mode stay).

    Returns what it held before ("" when it is new) if that changes or would change it, else None.
    The new content is flushed and renamed into place: a reader sees the old or the new.
    """
    target = Path(path)
    try:
        status = _existing(target)
        before = target.read_text(encoding="utf-8", errors="replace") if status else None
        if before == text:
            return None
        if not target.parent.is_dir():
            raise FleetVirtError(
                f"output_file {path}: the folder {target.parent} does not exist; create it first"
            )
        if check:
            return before or ""
        with files.replacing(target, mode=None, durable=files.Durable.CONTENT) as file:
            file.write(text.encode("utf-8"))
            if status is not None:
                _keep(file.fileno(), status, path)
    except OSError as error:
        raise FleetVirtError(f"output_file {path}: {error.strerror}") from None
    except ValueError:
        raise FleetVirtError(f"output_file {path!r}: is no path of a file") from None
    return before or ""


def _existing(target: Path) -> os.stat_result | None:
    """The file that is there; None if there is none. Raises FleetVirtError for what is no file.

    What is renamed into its place would take the place of a device, a pipe or a link, too.
    """
    try:
        status = os.lstat(target)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISREG(status.st_mode):
        return status
    if stat.S_ISDIR(status.st_mode):
        raise FleetVirtError(f"output_file {target}: is a folder; name a file in it")
    if stat.S_ISLNK(status.st_mode):
        raise FleetVirtError(
            f"output_file {target}: is a symbolic link; name the file itself, or leave the option"
            " out to have it on the screen"
        )
    raise FleetVirtError(
        f"output_file {target}: is a device, a pipe or a socket; name a file, or leave the option"
        " out to have it on the screen"
    )


def _keep(descriptor: int, status: os.stat_result, path: str) -> None:
    """Give the new file the owner, group and mode of the one whose place it takes."""
    own = os.fstat(descriptor)
    try:
        if (own.st_uid, own.st_gid) != (status.st_uid, status.st_gid):
            os.fchown(descriptor, status.st_uid, status.st_gid)
    except PermissionError:
        raise FleetVirtError(
            f"output_file {path}: belongs to another user or group ({status.st_uid}:"
            f"{status.st_gid}), which it would lose; remove it, or name another file"
        ) from None
    os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & 0o777)
