# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A folder of this machine in several hosts of a laboratory, as shared storage is."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ansible_collections.fleet.virt.tests.lab.laboratory import Laboratory

# open_tree(2) takes the folder, setns(2) enters the host's mounts, move_mount(2) puts it there
_SCRIPT = r"""
import ctypes, os, sys

source, target, pid = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)


def must(result, what):
    if result < 0:
        raise OSError(ctypes.get_errno(), what)
    return result


OPEN_TREE, MOVE_MOUNT, CLONE_NEWNS = 428, 429, 0x00020000
tree = must(libc.syscall(OPEN_TREE, -100, source.encode(), 1 | os.O_CLOEXEC), "open_tree")
space = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
root = os.open(f"/proc/{pid}/root", os.O_RDONLY)
must(libc.setns(space, CLONE_NEWNS), "setns")
os.fchdir(root)
os.chroot(".")
must(libc.syscall(MOVE_MOUNT, tree, b"", -100, target.encode(), 4), "move_mount")
"""


def inside(supervisor: int | None) -> int:
    """The first process of the host itself: the child of its supervisor with mounts of its own."""
    outside = os.readlink(f"/proc/{supervisor}/ns/mnt")
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text(encoding="ascii")
    for pid in map(int, children.split()):
        if os.readlink(f"/proc/{pid}/ns/mnt") != outside:
            return pid
    raise AssertionError(f"the host of process {supervisor} is not running")


@contextlib.contextmanager
def shared_folder(lab: Laboratory, folder: Path, at: str, hosts: Sequence[str]) -> Iterator[None]:
    """Have ``folder`` at the path ``at`` of the hosts."""
    mounted = []
    try:
        for host in hosts:
            lab.ssh(host, f"mkdir -p {at}")
            words = [str(folder), at, str(inside(lab.host(host).leader))]
            subprocess.run([sys.executable, "-c", _SCRIPT, *words], check=True)
            mounted.append(host)
        yield
    finally:
        for host in mounted:
            lab.ssh(host, f"umount -l {at}; rmdir {at}", check=False)
