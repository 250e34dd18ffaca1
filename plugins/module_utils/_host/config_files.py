# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading and replacing small configuration files, whole or not at all.

This file is private to the collection.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile

from .._errors import PlanRefused


def read(path: str) -> str | None:
    """The file's text, None where there is none. Raises PlanRefused for what is no text."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError:
        raise PlanRefused(f"{path} is not UTF-8: it is left alone") from None
    except PermissionError:
        raise PlanRefused(f"{path} cannot be read: become root there") from None


def write(path: str, text: str, mode: int = 0o644) -> None:
    """Replace the file, keeping its owner, mode and security label; ``mode`` is a new file's."""
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o755, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=f".{os.path.basename(path)}.")
    try:
        with open(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            try:
                status = os.stat(path)
                os.fchown(file.fileno(), status.st_uid, status.st_gid)
                os.fchmod(file.fileno(), status.st_mode & 0o7777)
                shutil._copyxattr(path, temporary)  # type: ignore[attr-defined]
            except FileNotFoundError:
                os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    parent = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)
