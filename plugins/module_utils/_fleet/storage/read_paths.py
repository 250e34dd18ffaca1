# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Detecting files on hanging mounts before libvirt accesses them, and their backing files.

libvirt reads a disk's header while it holds the domain's or the pool's lock. On a hanging mount
(a dead NFS server) it never releases that lock, and from then on every listing of that host hangs
for all clients. A thread of ours that hangs instead does no harm.
"""

from __future__ import annotations

import os
import stat
import typing as t

from ..._records import dataclass, field
from ..base import effects_deadline as deadline
from ..base.effects_deadline import Failed
from .image_format import BACKING_BYTES, backing_file

_PARALLEL = 32
_QCOW2 = b"QFI\xfb"


@dataclass(frozen=True)
class RegularFile:
    """A regular file: the bytes it occupies and the contents of its header.

    ``qcow2``: whether it is such an image, None if it may not be read. ``backing``: its backing
    file, None if it has none; ``backing_known`` is false where that has to be found out otherwise.
    """

    occupied: int
    qcow2: bool | None = None
    backing: str | None = None
    backing_known: bool = False


@dataclass
class Probed:
    """Probe results: regular files, paths that hang, and errors for the others."""

    files: dict[str, RegularFile] = field(default_factory=dict)
    hanging: set[str] = field(default_factory=set)
    errors: dict[str, str] = field(default_factory=dict)


def is_in(path: str, folder: str | None) -> bool:
    """Whether the file ``path`` is in ``folder``, however either is named: a pool's target, or a
    folder above a disk, may be a symbolic link. The file itself is not followed.

    Accesses the file system, which may hang, only if the names differ.
    """
    if folder is None or not path.startswith("/"):
        return False
    own = os.path.dirname(path)
    return own == folder.rstrip("/") or os.path.realpath(own) == os.path.realpath(folder)


def probe(paths: t.Iterable[str], seconds: float) -> Probed:
    """Read the header of each of ``paths`` (absolute, on this machine).

    One thread probes the paths of a folder; if one hangs, the whole folder counts as hanging
    after ``seconds``. All folders are probed at the same time.
    """
    folders: dict[str, list[str]] = {}
    for path in dict.fromkeys(paths):
        folders.setdefault(os.path.dirname(path), []).append(path)
    probed = Probed()
    groups = list(folders.items())
    outcomes = deadline.each(
        lambda group: [(path, _try(path)) for path in group[1]],
        groups,
        seconds=seconds,
        what=lambda group: f"read files in {group[0]}",
        parallel=_PARALLEL if len(groups) > 1 else 1,
    )
    for (_dummy, members), outcome in zip(groups, outcomes):
        if isinstance(outcome, Failed):
            probed.hanging.update(members)
            continue
        for path, answer in outcome.value:
            if isinstance(answer, RegularFile):
                probed.files[path] = answer
            elif answer is not None:
                probed.errors[path] = answer
    return probed


def _try(path: str) -> RegularFile | str | None:
    """The file, or the error; None for what must not be opened, as devices may react to that."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            return None
        occupied = status.st_blocks * 512
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except PermissionError:
            return RegularFile(occupied)
        try:
            head = os.read(descriptor, BACKING_BYTES)
        finally:
            os.close(descriptor)
    except OSError as error:
        return error.strerror or str(error)
    qcow2 = head.startswith(_QCOW2)
    try:
        return RegularFile(occupied, qcow2, backing_file(head), True)
    except ValueError:
        return RegularFile(occupied, qcow2)
