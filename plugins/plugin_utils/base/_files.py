# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files on the controller."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_files as files


def write_if_changed(path: str, text: str, *, check: bool) -> str | None:
    """Write ``text`` to ``path``, as :func:`replace_if_changed` does.

    Returns its previous content ("" for a new file) if that changes or would change it, else None.
    """
    before = replace_if_changed(path, text.encode("utf-8"), check=check)
    return None if before is None else before.decode("utf-8", errors="replace")


def replace_if_changed(
    path: str, content: bytes, *, check: bool, option: str = "output_file"
) -> bytes | None:
    """Write ``content`` to ``path`` (mode 0600 when new; else owner, group and mode stay).

    Returns its previous content (empty for a new file) if that changes or would change it, else
    None. The new content is flushed and renamed into place: a reader sees the old or the new.
    """
    target = Path(path)
    try:
        status = _existing(target, option)
        before = target.read_bytes() if status else None
        if before == content:
            return None
        if not target.parent.is_dir():
            raise FleetVirtError(
                f"{option} {path}: the folder {target.parent} does not exist; create it first"
            )
        if check:
            return before or b""
        with files.replacing(target, mode=None, durable=files.Durable.CONTENT) as file:
            file.write(content)
            if status is not None:
                _keep(file.fileno(), status, f"{option} {path}")
    except OSError as error:
        raise FleetVirtError(f"{option} {path}: {error.strerror}") from None
    except ValueError:
        raise FleetVirtError(f"{option} {path!r}: is not a valid file path") from None
    return before or b""


def make_private_folder(path: Path, option: str) -> None:
    """Create the folder ``path`` and its missing parents, all with mode 0700."""
    try:
        for folder in (*reversed(path.parents), path):
            if not folder.is_dir():
                folder.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError:
        raise FleetVirtError(f"{option} {path}: is not a folder; name a folder") from None
    except OSError as error:
        raise FleetVirtError(f"{option} {path}: {error.strerror}") from None
    except ValueError:
        raise FleetVirtError(f"{option} {str(path)!r}: is not a valid folder path") from None


def _existing(target: Path, option: str) -> os.stat_result | None:
    """The status of an existing file; None if there is none. Raises FleetVirtError for other types.

    A rename would otherwise replace a device, a pipe or a link, too.
    """
    try:
        status = os.lstat(target)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISREG(status.st_mode):
        return status
    if stat.S_ISDIR(status.st_mode):
        raise FleetVirtError(f"{option} {target}: is a folder; name a file in it")
    if stat.S_ISLNK(status.st_mode):
        raise FleetVirtError(
            f"{option} {target}: is a symbolic link; name the file itself, or leave the option"
            " out to print it"
        )
    raise FleetVirtError(
        f"{option} {target}: is a device, a pipe or a socket; name a file, or leave the option"
        " out to print it"
    )


def _keep(descriptor: int, status: os.stat_result, what: str) -> None:
    """Give the new file the owner, group and mode of the one that it replaces."""
    own = os.fstat(descriptor)
    try:
        if (own.st_uid, own.st_gid) != (status.st_uid, status.st_gid):
            os.fchown(descriptor, status.st_uid, status.st_gid)
    except PermissionError:
        raise FleetVirtError(
            f"{what}: belongs to another user or group ({status.st_uid}:{status.st_gid}),"
            " which cannot be preserved; remove it, or name another file"
        ) from None
    os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & 0o777)
