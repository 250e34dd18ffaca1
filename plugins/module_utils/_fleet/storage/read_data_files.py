# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which data file a disk has: see ``data_files.py``.

libvirt knows of data files since 10.10; before, and in the definition of a VM that is off, the
header of the image alone tells.
"""

from __future__ import annotations

import os
import posixpath
import typing as t

from ..._errors import PlanRefused
from ..base import effects_deadline as deadline
from . import data_files, file_references

if t.TYPE_CHECKING:
    from ..._lxml import Element
    from ..base.effects_connection import Connection

_MAX_DEPTH = 16  # of a chain that is followed


def find(connection: Connection, disk: Element, path: str | None) -> str | None:
    """The data file of a ``<disk>``, or of an image below it; None without one."""
    named = data_files.named_in(disk)
    driver = disk.find("driver")
    kind = None if driver is None else driver.get("type")
    if named or not path or not path.startswith("/") or kind != "qcow2" or not connection.local:
        return named
    return deadline.call(
        lambda: in_chain(path), seconds=connection.timeout, what=f"read the header of {path}"
    )


def of_domain(connection: Connection, root: Element) -> dict[str, str]:
    """Those of all disks of a definition, by the file or block device of the disk."""
    data = {}
    for disk in root.iterfind("devices/disk"):
        source = disk.find("source")
        path = None if source is None else source.get("file") or source.get("dev")
        file = find(connection, disk, path)
        if path is not None and file is not None:
            data[path] = file
    return data


def in_chain(path: str) -> str | None:
    """What the headers of an image in qcow2 and of those below it say."""
    for _depth in range(_MAX_DEPTH):
        try:
            header = _header(path)
        except (FileNotFoundError, PermissionError):
            return None  # who needs it says so; on NFS, root may read nothing of QEMU's user
        except OSError as error:
            raise PlanRefused(f"{path} cannot be read: {error.strerror or error}") from None
        folder = posixpath.dirname(path)
        if header.data is not None:
            return posixpath.normpath(posixpath.join(folder, header.data))
        # what QEMU opens as raw may have any header
        if header.backing is None or header.backing.format == file_references.RAW:
            return None
        path = posixpath.normpath(posixpath.join(folder, header.backing.name))
    return None


def _header(path: str) -> file_references.Qcow2References:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return file_references.of_qcow2(lambda at, count: os.pread(descriptor, count, at))
    finally:
        os.close(descriptor)
