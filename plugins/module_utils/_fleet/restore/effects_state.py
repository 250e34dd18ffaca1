# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of a restored VM's firmware and TPM, where libvirt has it.

libvirt gives the files to QEMU's user and swtpm's when the VM starts, and removes them along with
the definition.
"""

from __future__ import annotations

import io
import os
import posixpath
import shutil
import tarfile
import typing as t

from ..backup import archives
from ..backup.archives import ArchiveError, Manifest
from ..base import effects_files as files
from .definition import TPM_FOLDER
from .effects_archive import Archive

_MOST_MEMBERS = 100
_MOST_BYTES = 16 * 1024 * 1024


def put(archive: Archive, manifest: Manifest, path: str) -> None:
    """Write the state that belongs at ``path``, where nothing may be."""
    tpm = posixpath.dirname(path) == TPM_FOLDER
    file = manifest.file(archives.TPM if tpm else archives.NVRAM)
    if file is None:
        raise ArchiveError(f"{archive.where}: it has no state for {path}")
    content = archive.file(file)
    os.makedirs(posixpath.dirname(path), mode=0o711, exist_ok=True)
    if tpm:
        _unpack(content, path, archive.where)
    else:
        _write(path, content)
    files.flush(posixpath.dirname(path))


def _write(path: str, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())


def _unpack(content: bytes, folder: str, where: str) -> None:
    """Plain files and folders only, below ``folder``, of this process' user: libvirt gives them to
    swtpm's. Whoever could write to the place of backups may have written the archive."""
    os.mkdir(folder, 0o711)
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            members = archive.getmembers()
            if len(members) > _MOST_MEMBERS or sum(one.size for one in members) > _MOST_BYTES:
                raise ArchiveError(f"{where}: {archives.TPM} is too large")
            for member in members:
                path = _below(folder, member.name, where)
                source = archive.extractfile(member) if member.isfile() else None
                if member.isdir() and path != folder:
                    os.mkdir(path, 0o700)
                elif source is not None:
                    os.makedirs(posixpath.dirname(path), mode=0o700, exist_ok=True)
                    _write(path, source.read())
                elif not member.isdir():
                    raise ArchiveError(f"{where}: {archives.TPM} has more than plain files")
    except (tarfile.TarError, OSError) as error:
        raise ArchiveError(f"{where}: {archives.TPM} cannot be unpacked: {error}") from None


def _below(folder: str, name: str, where: str) -> str:
    path = posixpath.normpath(posixpath.join(folder, name))
    if path != folder and not path.startswith(f"{folder}/"):
        raise ArchiveError(f"{where}: {archives.TPM} has a file outside of its folder")
    return path


def remove(paths: t.Iterable[str]) -> None:
    """Remove the states that this collection wrote, as far as they are still there."""
    for path in paths:
        if posixpath.dirname(path) == TPM_FOLDER:
            shutil.rmtree(path, ignore_errors=True)
        elif os.path.lexists(path):
            os.unlink(path)
