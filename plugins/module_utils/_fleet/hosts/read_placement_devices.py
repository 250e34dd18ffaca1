# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What VMs may need of a hypervisor beyond libvirt's own data: devices, memory, helpers.

Each is None where it is unknown, as for a hypervisor that is read remotely.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import stat
import typing as t
from pathlib import Path

from ..._errors import DeadlineExceeded
from ..base import effects_programs as programs

if t.TYPE_CHECKING:
    from ..base.snapshot import HugepagesEntry

_DEV = "/dev"
_VSOCK = "/dev/vhost-vsock"
_PAGES = Path("/sys/kernel/mm/hugepages")
_MEMINFO = Path("/proc/meminfo")
# Where QEMU's helpers are described (docs/interop/vhost-user.json)
_HELPERS = (Path("/etc/qemu/vhost-user"), Path("/usr/share/qemu/vhost-user"))
_NO_DEVICES = ("shm", "pts", "mqueue", "hugepages", "fd")
_MOST_DEVICES = 4096
_SECONDS = 5.0


def block_devices() -> list[str]:
    """Paths below /dev that are block devices, under all their names."""
    paths = []
    for folder, folders, names in os.walk(_DEV):
        if folder == _DEV:
            folders[:] = [child for child in folders if child not in _NO_DEVICES]
        for name in names:
            path = os.path.join(folder, name)
            with contextlib.suppress(OSError):
                if stat.S_ISBLK(os.stat(path).st_mode):
                    paths.append(path)
    return sorted(paths)[:_MOST_DEVICES]


def interfaces() -> list[str]:
    """Network interfaces of this machine."""
    return sorted(name for _index, name in socket.if_nameindex())


def openvswitch_bridges() -> list[str]:
    """Bridges of Open vSwitch; none if it is not installed or does not respond."""
    program = programs.find("ovs-vsctl")
    if program is None:
        return []
    try:
        done = programs.execute([program, "--timeout=3", "list-br"], seconds=_SECONDS)
    except (DeadlineExceeded, FileNotFoundError):
        return []
    return done.out.split() if done.status == 0 else []


def hugepages() -> list[HugepagesEntry]:
    """Huge pages by their size, those of the default size first."""
    match = re.search(r"^Hugepagesize:\s+(\d+) kB", _MEMINFO.read_text("ascii"), re.M)
    default = int(match[1]) if match else 0
    sizes: list[HugepagesEntry] = []
    for folder in _PAGES.glob("hugepages-*kB") if _PAGES.is_dir() else ():
        size = int(folder.name[len("hugepages-") : -len("kB")])
        with contextlib.suppress(OSError, ValueError):
            total, free = (
                int((folder / name).read_text("ascii"))
                for name in ("nr_hugepages", "free_hugepages")
            )
            sizes.append({"size_kib": size, "total": total, "free": free})
    return sorted(sizes, key=lambda entry: (entry["size_kib"] != default, entry["size_kib"]))


def has_vsock() -> bool:
    """Whether QEMU can open what a VM's vsock device needs of this machine's kernel."""
    return os.path.exists(_VSOCK)


def has_virtiofs() -> bool:
    """Whether QEMU's helper for virtiofs is installed, where libvirt looks for it."""
    for folder in _HELPERS:
        for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
            with contextlib.suppress(OSError, ValueError):
                helper = json.loads(path.read_text("utf-8"))
                if helper.get("type") == "fs" and os.access(str(helper.get("binary")), os.X_OK):
                    return True
    return False
