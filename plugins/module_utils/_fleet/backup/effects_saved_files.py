# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files that a backup reads, and the pipes that it writes to."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import tarfile
import time
import typing as t
from pathlib import Path

from ..base import read_sparse
from ..base.xml_values import nvram_file
from . import archives

if t.TYPE_CHECKING:
    from ..._lxml import Element
    from .facts import BackupDisk

_TPM = "/var/lib/libvirt/swtpm"


def identity(disk: BackupDisk) -> tuple[int, int, int] | None:
    """What of a disk's file is different once a VM has written to it."""
    if disk.block:
        return None
    with contextlib.suppress(FileNotFoundError):
        status = os.stat(disk.source)
        return status.st_ino, status.st_size, status.st_mtime_ns
    return None


def node(disk: BackupDisk) -> dict[str, object]:
    """How QEMU opens the file of a disk, which a start may use meanwhile."""
    driver = "host_device" if disk.block else "file"
    return {
        **{"node-name": disk.target, "driver": disk.format, "read-only": True},
        **{"force-share": True, "file": {"driver": driver, "filename": disk.source}},
    }


def digested(folder: Path, path: str) -> archives.SavedFile:
    """What the manifest says of a file."""
    digest, size = hashlib.sha256(), 0
    with open(folder / path, "rb", buffering=0) as file:
        for block in read_sparse.blocks(file.fileno()):
            digest.update(block)
            size += len(block)
    return archives.SavedFile(path, size, digest.hexdigest())


def opened(pipe: Path) -> int:
    """The pipe, once it has a reader."""
    while True:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
        time.sleep(0.02)


def copy_state(domain: Element, uuid: str, folder: Path) -> None:
    """Copy the state of the VM's firmware and of its TPM to the folder of its backup."""
    path = nvram_file(domain.find("os/nvram"))
    if path and os.path.exists(path):  # none before its first start
        shutil.copyfile(path, folder / archives.NVRAM)
    tpm = Path(_TPM, uuid)
    if domain.find("devices/tpm/backend[@type='emulator']") is not None and tpm.is_dir():
        with tarfile.open(folder / archives.TPM, "w") as archive:
            archive.add(tpm, arcname=".", filter=_without_lock)


def _without_lock(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """The member, unless it is the lock of a TPM's state."""
    return None if os.path.basename(member.name) == ".lock" else member
