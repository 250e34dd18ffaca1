# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which file system a folder is on, and whether another machine may have it too."""

from __future__ import annotations

import os
import re
import typing as t
from pathlib import Path

# File systems that only one machine mounts. Whatever is not listed counts as shared: there is
# always one more network file system, and treating one as local costs data.
_LOCAL = frozenset(
    (
        *("bcachefs", "btrfs", "devtmpfs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs"),
        *("fuseblk", "hfsplus", "iso9660", "jfs", "minix", "msdos", "nilfs2", "ntfs", "ntfs3"),
        *("overlay", "ramfs", "reiserfs", "rootfs", "squashfs", "tmpfs", "ubifs", "udf", "vfat"),
        *("xfs", "zfs"),
    )
)
# File systems of the kernel itself, which hold no disks
_KERNEL = frozenset(
    (
        *("autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts"),
        *("efivarfs", "fuse.gvfsd-fuse", "fuse.lxcfs", "fuse.portal", "fusectl", "hugetlbfs"),
        *("mqueue", "nsfs", "proc", "pstore", "resctrl", "rpc_pipefs", "securityfs", "selinuxfs"),
        *("smackfs", "sysfs", "tracefs"),
    )
)
_NFS = ("nfs", "nfs4")
_ESCAPED = re.compile(rb"\\([0-7]{3})")


# What the kernel's NFS server exports (exportfs(8))
_EXPORTS = Path("/var/lib/nfs/etab")


def is_shared(folder: str) -> bool:
    """Whether other machines may access the folder: by its file system, or an NFS export."""
    real = os.path.realpath(folder)
    if kind_of(Path("/proc/self/mountinfo").read_bytes(), real) not in _LOCAL:
        return True
    try:
        exports = _EXPORTS.read_bytes()
    except FileNotFoundError:
        return False
    return is_exported(exports, real)


def has_shared() -> bool:
    """Whether this machine has any folder that others may access; asks no file system, so that
    nothing hangs."""
    mounts = Path("/proc/self/mountinfo").read_bytes()
    if not set(kinds(mounts)) <= _LOCAL | _KERNEL:
        return True
    try:
        return bool(_EXPORTS.read_bytes().strip())
    except FileNotFoundError:
        return False


def kinds(mounts: bytes) -> t.Iterator[str]:
    """The types of all file systems in a mountinfo file."""
    for line in mounts.split(b"\n"):
        _before, separator, after = line.partition(b" - ")
        if separator:
            yield os.fsdecode(after.split(b" ")[0])


def is_exported(exports: bytes, path: str) -> bool:
    """Whether ``path`` is in a folder that this machine exports; ``exports`` is an etab file."""
    wanted = os.fsencode(path)
    for line in exports.split(b"\n"):
        point = _unescaped(line.split(b"\t")[0].split(b" ")[0])
        if point and (wanted == point or wanted.startswith(point.rstrip(b"/") + b"/")):
            return True
    return False


def _unescaped(text: bytes) -> bytes:
    """Decode blanks and other special characters, which are written as three octal digits."""
    return _ESCAPED.sub(lambda match: bytes([int(match[1], 8) & 0xFF]), text)


def kind_of(mounts: bytes, path: str) -> str | None:
    """The type of the file system that holds ``path``; None if that is unknown."""
    mount = mount_of(mounts, path)
    return None if mount is None else mount.kind


class Mount(t.NamedTuple):
    """A mounted file system: its type, where, and the options of the file system itself."""

    kind: str
    point: str
    options: tuple[str, ...]


def mount(folder: str) -> Mount | None:
    """The file system that holds the folder."""
    return mount_of(Path("/proc/self/mountinfo").read_bytes(), os.path.realpath(folder))


def nfs_options(folder: str) -> tuple[str, ...] | None:
    """The options with which NFS is mounted that holds the folder; None for what is no NFS."""
    found = mount(folder)
    return found.options if found is not None and found.kind in _NFS else None


def nearest_mount(path: Path) -> Mount | None:
    """The file system that holds the path, or will once its missing folders are made."""
    path = path.expanduser().absolute()
    return mount(str(next(each for each in (path, *path.parents) if each.exists())))


def mount_of(mounts: bytes, path: str) -> Mount | None:
    """The file system that holds ``path``; None if that is unknown.

    ``mounts`` is a mountinfo file (proc(5)): bytes, since a mount point may have any name.
    """
    wanted = os.fsencode(path)
    match, longest = None, -1
    for line in mounts.split(b"\n"):
        before, separator, after = line.partition(b" - ")
        fields, own = before.split(b" "), after.split(b" ")
        if not separator or len(fields) < 5:
            continue
        point = _unescaped(fields[4])
        inside = wanted == point or wanted.startswith(point.rstrip(b"/") + b"/")
        if inside and len(point) >= longest:
            options = os.fsdecode(own[2]).split(",") if len(own) > 2 else []
            match = Mount(os.fsdecode(own[0]), os.fsdecode(point), tuple(options))
            longest = len(point)
    return match
