# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What libvirt or QEMU moves to no other hypervisor, wherever that is; host devices and disks
apart. A VM that is off is started paused to be moved, so this goes for it too."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from ..._lxml import Element


_VIRTIOFS = 10_000_000  # from this libvirt on it moves what a program of one's own shares


def reasons(root: Element, version: int) -> tuple[str, ...]:
    """Why a VM with this definition does not move from a libvirt of this version, each with its
    remedy."""
    return tuple(dict.fromkeys(_reasons(root, version)))


def _reasons(root: Element, version: int) -> t.Iterator[str]:
    for shared in root.iterfind("devices/shmem"):
        model, name = shared.find("model"), shared.get("name")
        kind = "ivshmem" if model is None else model.get("type")
        if kind == "ivshmem" or shared.get("role") != "master":
            yield (
                f"it has the shared memory {name!r} ({kind}), which moves only as ivshmem-plain"
                " or ivshmem-doorbell with role='master'; detach it"
            )
    for filesystem in root.iterfind("devices/filesystem"):
        driver, source = filesystem.find("driver"), filesystem.find("source")
        if driver is None or driver.get("type") != "virtiofs":
            continue
        socket = None if source is None else source.get("socket")
        if socket is None:
            path = source.get("dir") if source is not None else None
            yield f"it has the folder {path} of its hypervisor by virtiofs; detach it"
        elif version < _VIRTIOFS:
            yield (
                f"it has a file system by virtiofs ({socket}), which its hypervisor's libvirt"
                " before 10.0 does not move; detach it"
            )
    for nic in root.iterfind("devices/interface"):
        if nic.get("type") in ("vdpa", "hostdev"):
            yield f"it has a NIC of type {nic.get('type')}, a device of its hypervisor; detach it"
    if root.find("devices/tpm/backend[@type='passthrough']") is not None:
        yield "it has its hypervisor's own TPM; give it an emulated one"
    if root.find("launchSecurity") is not None:
        yield "its memory is encrypted with a key of its hypervisor's CPU (launchSecurity)"
    if (
        root.find("cpu/feature[@name='invtsc'][@policy='require']") is not None
        and root.find("clock/timer[@name='tsc'][@frequency]") is None
    ):
        yield (
            "its CPU requires invtsc without a frequency of the timer tsc, which no other"
            " hypervisor promises; leave invtsc out, or give the timer its frequency"
        )
