# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Existing disks that the VM does not own: whether they are there, and who uses them."""

from __future__ import annotations

import errno
import os
import stat
import typing as t

from ..._errors import FleetVirtError, LibvirtFailure
from ..._libvirt import ERR_NO_STORAGE_VOL
from ..storage import read_file_users as ownership
from ..storage import storage_info
from ..storage.read_pools import list_pools
from .effects_batch import Host

if t.TYPE_CHECKING:
    from ..spec.devices import Disk


def problems(host: Host, disks: t.Iterable[Disk], uuid: str | None = None) -> list[str]:
    """Problems of attaching those of ``disks`` that exist to the domain ``uuid``."""
    wanted = [disk for disk in disks if disk.exists]
    if not wanted:
        return []
    references = ownership.read(host.connection)
    texts = []
    for disk in wanted:
        try:
            path, problem = _look(host, disk)
        except FleetVirtError as error:
            path, problem = None, str(error)
        if problem is None and path is not None and not disk.readonly:
            users = {user.text for user in references.users(path) if user.uuid != uuid}
            if users:
                problem = (
                    f"{path}: {'; '.join(sorted(users))}; detach it there, or attach it read-only"
                )
        if problem is not None:
            texts.append(f"disk {disk.name!r}: {problem}")
    return texts


def _look(host: Host, disk: Disk) -> tuple[str | None, str | None]:
    """The disk's path, None for a network disk, and its problem."""
    if disk.volume is not None:
        return _volume(host, disk, disk.volume)
    if disk.dev is not None:
        return disk.dev, _device(host, disk.dev, readonly=disk.readonly)
    return None, None


def _volume(host: Host, disk: Disk, name: str) -> tuple[str | None, str | None]:
    connection, home = host.connection, host.settings.home
    pool = next(
        (handle for handle in list_pools(connection) if str(handle.name()) == disk.pool), None
    )
    if pool is None:
        return None, f"no pool {disk.pool!r} on {home}; name the pool that has {name!r}"
    try:
        volume = connection.call(f"find {disk.pool}/{name}", pool.storageVolLookupByName, name)
    except LibvirtFailure as error:
        if error.code != ERR_NO_STORAGE_VOL:
            raise
        return None, (
            f"pool {disk.pool!r} on {home} has no volume {name!r}; create it (virsh vol-create-as),"
            f" or refresh the pool if it exists (virsh pool-refresh {disk.pool})"
        )
    text = connection.call(f"read {disk.pool}/{name}", volume.XMLDesc, 0)
    info = storage_info.volume(text)
    path, real = str(volume.path()), info["format"]
    if real in ("qcow2", "raw") and real != disk.format:
        return path, f"{path} is {real}, not {disk.format}; set format: {real}"
    return path, None


def _device(host: Host, path: str, *, readonly: bool) -> str | None:
    home = host.settings.home
    try:
        if not stat.S_ISBLK(os.stat(path).st_mode):
            return f"{path} on {home} is not a block device; give one that lsblk lists"
        if readonly:
            return None
        # the kernel opens it exclusively once: not if it is mounted, swap, or part of another
        os.close(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_NONBLOCK | os.O_CLOEXEC))
    except FileNotFoundError:
        return f"there is no {path} on {home}; create it, or set host to the hypervisor that has it"
    except OSError as error:
        if error.errno == errno.EBUSY:
            return (
                f"{path} is in use by {home} itself: mounted, swap, or part of LVM or RAID (see"
                f" lsblk {path}); give another"
            )
        return f"{path} on {home}: {error.strerror or error}"
    return None
