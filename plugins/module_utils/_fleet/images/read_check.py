# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checking an image file on this machine: its header ourselves, its structure with qemu-img."""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import stat
import struct

from ..._errors import DeadlineExceeded, DependencyMissing, PlanRefused
from ..base import effects_programs as programs
from ..storage import image_format
from ..storage.base_name import Digest
from ..storage.image_format import ImageFormat
from . import read_unpack as unpack
from .effects_digests import DigestCache

_SECONDS = 600.0
# Bytes: memory for a table of all clusters of the largest disk accepted, and of output
_LIMITED = ("prlimit", f"--as={4 << 30}", f"--fsize={1 << 20}", "--core=0", "--")
_LEAKS = 3  # qemu-img check: leaked clusters; wasteful but harmless
# QEMU locks bytes of the file it writes to: 100 + the number of the permission (file-posix.c)
_QEMU_WRITES = 101
_F_OFD_GETLK = 36  # fcntl.h on Linux; the module fcntl does not name it before Python 3.13
_FLOCK = struct.Struct("hhqqi4x")


def read_format(descriptor: int, shown: str) -> ImageFormat:
    """The format of an open file, from its header. Raises PlanRefused listing every problem."""
    head = os.pread(descriptor, image_format.HEAD_BYTES, 0)
    header = image_format.parse_header(head, os.fstat(descriptor).st_size)
    unpack.refuse(header, shown)
    return header


def is_packed(descriptor: int) -> bool:
    """Whether the open file is compressed in a format that this module unpacks."""
    head = os.pread(descriptor, image_format.HEAD_BYTES, 0)
    return image_format.packing(head) is not None


def judge(descriptor: int, shown: str) -> None:
    """Raise PlanRefused for a file that is not a usable image, as early as that is detectable."""
    if is_packed(descriptor):
        unpack.content_head(descriptor, shown)
    else:
        check_structure(descriptor, read_format(descriptor, shown), shown)


def read_content(
    descriptor: int, shown: str, cache: DigestCache, limit: int = unpack.LIMIT
) -> tuple[Digest, ImageFormat]:
    """SHA-256 and format of the open file's content, unpacked if it is compressed.

    ``limit``: maximum unpacked bytes. Raises PlanRefused if the header is not that of an image.
    """
    if not is_packed(descriptor):
        header = read_format(descriptor, shown)
        return cache.digest(descriptor, shown), header
    summed = cache.unpacked(
        descriptor, shown, lambda: unpack.content(unpack.file_blocks(descriptor), shown, limit)
    )
    if summed.size > limit:  # a cached size
        raise unpack.too_large(shown, limit)
    head = unpack.content_head(descriptor, shown)
    header = image_format.parse_header(head, summed.size)
    unpack.refuse(header, f"{shown} (unpacked)")
    return summed.digest, header


def refuse_if_written(descriptor: int, shown: str) -> None:
    """Raise PlanRefused while a QEMU process has the file open for writing."""
    query = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _QEMU_WRITES, 1, 0)
    try:
        answer = fcntl.fcntl(descriptor, _F_OFD_GETLK, query)
    except OSError:
        return  # a file system without locks
    if _FLOCK.unpack(answer)[0] != fcntl.F_UNLCK:
        raise PlanRefused(
            f"image {shown} is in use: a VM or another QEMU program has it open for writing; stop"
            " that first, or use a copy"
        )


def check_structure(descriptor: int, header: ImageFormat, shown: str) -> None:
    """Check the tables of a qcow2 file with qemu-img.

    The file may be hostile: if this process is root, the check runs as the user nobody (as the
    file's owner, if only that user may read it), with bounded memory, time and output, on a header
    that was checked before and with an explicit format.
    Raises PlanRefused, or DependencyMissing without qemu-img.
    """
    if header.format != "qcow2":
        return
    for program, package in (("qemu-img", "qemu-utils or qemu-img"), ("prlimit", "util-linux")):
        if shutil.which(program) is None:
            raise DependencyMissing(f"{program} is not installed; install the package {package}")
    confined = programs.Confined((descriptor,))
    status = os.fstat(descriptor)
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        user = nobody.pw_uid if status.st_mode & stat.S_IROTH else status.st_uid
        confined = programs.Confined((descriptor,), user, nobody.pw_gid)
    words = [*_LIMITED, "qemu-img", "check", "-q", "-f", "qcow2", f"/proc/self/fd/{descriptor}"]
    try:
        done = programs.execute_confined(words, confined, seconds=_SECONDS, most=4096)
    except DeadlineExceeded:
        raise PlanRefused(
            f"image {shown}: qemu-img check did not finish within {_SECONDS:g} seconds;"
            " make a clean copy with qemu-img convert"
        ) from None
    if done.status in (0, _LEAKS):
        return
    lines = [line.strip() for line in done.out.splitlines() if line.strip()]
    detail = "; ".join(lines[:2])[:200].replace(f"/proc/self/fd/{descriptor}", "it")
    detail = detail or f"exit {done.status}"
    raise PlanRefused(
        f"image {shown} is corrupt or truncated (qemu-img check: {detail});"
        " copy the image again, or download it again"
    )
