# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Detecting and mounting the system on a guest's disks in libguestfs' appliance."""

from __future__ import annotations

import contextlib
import typing as t

from ..._errors import PlanRefused
from . import guest_image

if t.TYPE_CHECKING:
    from .guest_image import Image


class Handle(t.Protocol):
    """libguestfs' handle, as far as a seed needs it; each call may raise RuntimeError."""

    def set_backend(self, backend: str) -> None: ...
    def set_backend_setting(self, name: str, value: str) -> None: ...
    def set_memsize(self, memsize: int) -> None: ...
    def config(self, parameter: str, value: str) -> None: ...
    def add_drive_opts(self, path: str, *, format: str, readonly: bool) -> None: ...  # noqa: A002
    def launch(self) -> None: ...
    def shutdown(self) -> None: ...
    def close(self) -> None: ...

    def inspect_os(self) -> list[str]: ...
    def inspect_get_type(self, root: str) -> str: ...
    def inspect_get_distro(self, root: str) -> str: ...
    def inspect_get_major_version(self, root: str) -> int: ...
    def inspect_get_minor_version(self, root: str) -> int: ...
    def inspect_get_mountpoints(self, root: str) -> dict[str, str]: ...
    def list_devices(self) -> list[str]: ...
    def list_partitions(self) -> list[str]: ...
    def list_filesystems(self) -> dict[str, str]: ...
    def lvs(self) -> list[str]: ...
    def vfs_type(self, device: str) -> str: ...
    def mount(self, device: str, point: str) -> None: ...
    def mount_ro(self, device: str, point: str) -> None: ...
    def umount_all(self) -> None: ...
    def drop_caches(self, what: int) -> None: ...
    def sync(self) -> None: ...
    def statvfs(self, path: str) -> dict[str, int]: ...

    def exists(self, path: str) -> int: ...
    def is_file(self, path: str) -> int: ...
    def is_dir(self, path: str) -> int: ...
    def is_symlink(self, path: str) -> int: ...
    def readlink(self, path: str) -> str: ...
    def filesize(self, path: str) -> int: ...
    def pread(self, path: str, count: int, offset: int) -> bytes: ...
    def checksum(self, kind: str, path: str) -> str: ...
    def find(self, folder: str) -> list[str]: ...
    def glob_expand(self, pattern: str) -> list[str]: ...

    def write(self, path: str, content: bytes) -> None: ...
    def touch(self, path: str) -> None: ...
    def mkdir_p(self, path: str) -> None: ...
    def cp_r(self, source: str, target: str) -> None: ...
    def rm_rf(self, path: str) -> None: ...
    def ln_sf(self, target: str, link: str) -> None: ...
    def chmod(self, mode: int, path: str) -> None: ...
    def chown(self, owner: int, group: int, path: str) -> None: ...
    def lchown(self, owner: int, group: int, path: str) -> None: ...


_OPTIONAL = ("/boot", "/efi")  # nothing is written there
_LUKS = "crypto_LUKS"
_REMEDY = "seed it with method nocloud if it has cloud-init, or set seed to false"


class System(t.NamedTuple):
    """The features of the image, and its file systems with their mount points, in mount order."""

    image: Image
    mounts: tuple[tuple[str, str], ...]


def mounted(handle: Handle, where: str, *, readonly: bool) -> System:
    """Mount the only Linux system on the disks; ``where`` names them.

    Raises PlanRefused if there is none, several, or another kind; the caller handles libguestfs'
    RuntimeError.
    """
    roots = list(handle.inspect_os())
    if not roots:
        raise PlanRefused(f"no operating system was detected on {where}: {_why_none(handle)}")
    if len(roots) > 1:
        raise PlanRefused(
            f"{where} has {len(roots)} operating systems ({', '.join(roots)}); cannot determine"
            " which one to seed: use an image with only one"
        )
    (root,) = roots
    kind = handle.inspect_get_type(root)
    if kind != "linux":
        raise PlanRefused(f"the system on {where} is {kind}; only Linux can be seeded offline")
    mount = handle.mount_ro if readonly else handle.mount
    points = handle.inspect_get_mountpoints(root)
    mounts: list[tuple[str, str]] = []
    for point in sorted(points, key=len):
        try:
            mount(points[point], point)
            mounts.append((points[point], point))
        except RuntimeError as error:
            if not point.startswith(_OPTIONAL):
                text = " ".join(str(error).split())[:500]
                raise PlanRefused(
                    f"{points[point]} of {where} cannot be mounted on {point}: {text}"
                ) from None
    version = f"{handle.inspect_get_major_version(root)}.{handle.inspect_get_minor_version(root)}"
    name = f"{handle.inspect_get_distro(root)} {version}".replace("unknown 0.0", "linux")
    name = name[:-2] if name.endswith(".0") else name
    image = guest_image.look(lambda path: bool(handle.exists(path)), name)
    return System(image, tuple(mounts))


def mount_again(handle: Handle, system: System) -> None:
    """Unmount everything, drop the caches, and mount it again read-only."""
    handle.umount_all()
    handle.drop_caches(3)
    for device, point in system.mounts:
        handle.mount_ro(device, point)


def _why_none(handle: Handle) -> str:
    """The reason why no system was detected, as far as known, with a remedy."""
    locked = [device for device in _devices(handle) if _is_locked(handle, device)]
    if locked:
        return f"{', '.join(locked)} is encrypted (LUKS) and its key is not available; {_REMEDY}"
    for device in sorted(handle.list_filesystems()):
        # swap and the like; a file system that cannot be mounted has no system
        with contextlib.suppress(RuntimeError):
            handle.mount_ro(device, "/")
            if handle.is_symlink("/etc"):
                return (
                    f"/etc on {device} is a symbolic link to {handle.readlink('/etc')} instead of a"
                    " directory; repair the image"
                )
            handle.umount_all()
    return f"it is empty, or of a type that libguestfs does not support; {_REMEDY}"


def _devices(handle: Handle) -> list[str]:
    """All devices that may hold a file system; libguestfs lists encrypted ones as none."""
    return [*handle.list_devices(), *handle.list_partitions(), *handle.lvs()]


def _is_locked(handle: Handle, device: str) -> bool:
    try:
        return bool(handle.vfs_type(device) == _LUKS)
    except RuntimeError:  # unknown content
        return False
