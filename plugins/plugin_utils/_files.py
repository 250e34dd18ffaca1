# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files on the controller.

This file is private to the collection.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError


def write_if_changed(path: str, text: str, *, check: bool) -> str | None:
    """Make ``path`` hold ``text`` (mode 0600 when new).

    Returns what it held before ("" when it is new) if that changes or would change it, else None.
    The new content is flushed and renamed into place: a reader sees the old or the new.
    """
    target = Path(path)
    try:
        before = target.read_text(encoding="utf-8", errors="replace") if target.is_file() else None
        if before == text:
            return None
        if not target.parent.is_dir():
            raise FleetVirtError(
                f"output_file {path}: the folder {target.parent} does not exist; create it first"
            )
        if target.is_dir():
            raise FleetVirtError(f"output_file {path}: is a folder; name a file in it")
        if check:
            return before or ""
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise FleetVirtError(f"output_file {path}: {error.strerror}") from None
    return before or ""
