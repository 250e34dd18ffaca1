# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The identity of a created file, so that no other file of the same name is mistaken for it.

An inode number is reused, often immediately, when its file is gone. Its generation differs then,
on file systems that have one.
"""

from __future__ import annotations

import array
import fcntl
import os

# FS_IOC_GETVERSION of linux/fs.h, as encoded on 64-bit machines but PowerPC, MIPS and SPARC
_GET_GENERATION = 0x80087601


def of_file(path: str) -> str:
    """The identity of the file ``path``, which must not be a link."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return of_open(descriptor)
    finally:
        os.close(descriptor)


def of_open(descriptor: int) -> str:
    """The identity of an open file."""
    inode = str(os.fstat(descriptor).st_ino)
    answer = array.array("I", [0, 0])  # the kernel writes the first four bytes
    try:
        fcntl.ioctl(descriptor, _GET_GENERATION, answer, True)
    except OSError:  # not supported by this file system
        return inode
    return f"{inode}.{answer[0]}"


def is_same(noted: str, current: str) -> bool:
    """Whether two identities are of the same file; another NFS client may lack the generation."""
    before, now = noted.split("."), current.split(".")
    return before[: len(now)] == now[: len(before)]
