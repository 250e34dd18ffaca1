# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The disk of a guest, opened in libguestfs' appliance for reading and writing.

The hypervisor itself mounts nothing: a malicious file system or link of a guest only affects a
small VM of its own, which has no network.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import types
import typing as t

from ..._errors import DependencyMissing, PlanRefused
from ..base.names import INSTALL_GUEST_TOOLS
from . import effects_guest_system as guest_system
from . import guest_paths
from .effects_guest_system import Handle
from .guest_files import GuestFilesPlan

if t.TYPE_CHECKING:
    from .guest_image import Image

_MEMORY = 512  # MiB
_LARGEST = 2 * 1024 * 1024  # bytes of a file of the guest that is read
Disks = t.Sequence[tuple[str, str]]  # path and format


def available() -> bool:
    """Whether libguestfs' Python binding is installed on this hypervisor."""
    try:
        _binding()
    except DependencyMissing:
        return False
    return True


def require() -> None:
    """Raise DependencyMissing unless libguestfs' Python binding is installed here."""
    _binding()


def _binding() -> types.ModuleType:
    try:
        # by name, so that it is only imported where it is needed
        return importlib.import_module("guestfs")
    except ImportError:
        raise DependencyMissing(
            "a seed with method offline needs libguestfs and its Python binding on the hypervisor;"
            " install the package python3-guestfs (Debian, Ubuntu) or python3-libguestfs (others),"
            f" as {INSTALL_GUEST_TOOLS} does, or use method nocloud with an image that has"
            " cloud-init"
        ) from None


@contextlib.contextmanager
def opened(disks: Disks, *, readonly: bool = False) -> t.Iterator[MountedGuest]:
    """Open the guest on these disks, with its file systems mounted in the appliance.

    Raises PlanRefused if there is no supported system. What was written is on the disks when the
    context exits without an error.
    """
    handle = _launched(disks, readonly=readonly)
    try:
        where = ", ".join(path for path, _kind in disks)
        with _translated_errors(f"inspect {disks[0][0]}"):
            system = guest_system.mounted(handle, where, readonly=readonly)
        yield MountedGuest(handle, system, disks[0][0])
        try:
            handle.umount_all()
            handle.shutdown()
        except RuntimeError as error:
            raise IncompleteWrite(
                f"libguestfs could not close {disks[0][0]}: {_text(error)}"
            ) from None
    finally:
        handle.close()


def _launched(disks: Disks, *, readonly: bool) -> Handle:
    """Start an appliance; without KVM if it does not start with it."""
    for emulated in (False, True):
        # ignore the environment, which could enable a trace of every call and the data it writes
        handle: Handle = _binding().GuestFS(python_return_dict=True, environment=False)
        try:
            handle.set_backend("direct")
            handle.set_memsize(_MEMORY)
            if emulated:
                handle.set_backend_setting("force_tcg", "1")
            # a full disk of the hypervisor is an error, not a reason to stop and wait for space
            handle.config("-global", "scsi-hd.werror=report")
            for path, kind in disks:
                handle.add_drive_opts(path, format=kind, readonly=readonly)
            _launch(handle, disks[0][0])
        except PlanRefused:
            handle.close()
            if emulated:
                raise
        except BaseException:
            handle.close()
            raise
        else:
            return handle
    raise AssertionError("not reached")


def _launch(handle: Handle, path: str) -> None:
    try:
        handle.launch()
    except RuntimeError as error:
        raise PlanRefused(
            f"libguestfs could not open {path}: {_text(error)}; for details, run"
            " libguestfs-test-tool on the hypervisor"
        ) from None


def _text(error: Exception) -> str:
    return " ".join(str(error).split())[:500]


@contextlib.contextmanager
def _translated_errors(what: str) -> t.Iterator[None]:
    """Translate libguestfs' errors into PlanRefused."""
    try:
        yield
    except RuntimeError as error:
        raise PlanRefused(f"libguestfs could not {what}: {_text(error)}") from None


class IncompleteWrite(PlanRefused):
    """The seed is only partially on the disk, or that cannot be ruled out."""


class MountedGuest:
    """The mounted file systems of a guest, and the features of its image."""

    def __init__(self, handle: Handle, system: guest_system.System, path: str) -> None:
        self._handle = handle
        self._system = system
        self._disk = path
        self._at = "/"  # the path being written

    @property
    def image(self) -> Image:
        """The features of the guest's image."""
        return self._system.image

    def look(self, path: str) -> str | None:
        """Look up a path, as :data:`guest_paths.Look`."""
        with _translated_errors(f"look up {path}"):
            if self._handle.is_symlink(path):
                return str(self._handle.readlink(path))
            return "" if self._handle.exists(path) else None

    def read(self, path: str) -> str:
        """The text of a file, empty if there is none."""
        place = guest_paths.resolved(path, self.look)
        with _translated_errors(f"read {path}"):
            if not self._handle.is_file(place):
                return ""
            if self._handle.filesize(place) > _LARGEST:
                raise PlanRefused(f"{path} in the image has more than {_LARGEST} bytes")
            # read_file would pass it, even a shadow file, through a file on the hypervisor
            content = bytes(self._handle.pread(place, _LARGEST, 0))
            return content.decode("utf-8", "surrogateescape")

    def write(self, plan: GuestFilesPlan) -> None:
        """Carry out the plan. Every path is checked before the first is written."""
        places = {path: guest_paths.resolved(path, self.look) for path in plan.paths()}
        for link, _target in plan.links:
            folder, _slash, name = link.rpartition("/")
            places[link] = f"{guest_paths.resolved(folder, self.look).rstrip('/')}/{name}"
        with _translated_errors("examine the image"):
            for file in plan.files:
                if self._handle.is_dir(places[file.path]):
                    raise PlanRefused(
                        f"{file.path} is a directory in the image; nothing was written"
                    )
        try:
            self._write(plan, places)
            free = self._free()
            self._verify(plan, places, free)
        except RuntimeError as error:
            raise self._incomplete(f"could not be written: {_text(error)}", self._free()) from None

    def _incomplete(self, what: str, free: str) -> IncompleteWrite:
        space = os.statvfs(self._disk)
        room = space.f_bavail * space.f_frsize // 1024
        return IncompleteWrite(
            f"{self._at} in the guest {what}. Free space: {free} in the guest's file system, and"
            f" {room} KiB on the hypervisor for {self._disk}. Do not start the guest before its"
            " seed is written again"
        )

    def _free(self) -> str:
        try:
            space = self._handle.statvfs("/")
        except RuntimeError:
            return "an unknown number of KiB"
        return f"{space['bavail'] * space['frsize'] // 1024} KiB"

    def _verify(self, plan: GuestFilesPlan, places: t.Mapping[str, str], free: str) -> None:
        """Mount everything again and compare: only this detects a full or broken disk.

        Linux defers writes, and errors at that point are not reported to any caller.
        """
        guest_system.mount_again(self._handle, self._system)
        links = {places[link]: target for link, target in plan.links}
        # two paths may lead to one file: the last that was written counts
        contents = {places[file.path]: file.content for file in plan.files}
        for self._at, content in contents.items():
            wanted = hashlib.sha256(content).hexdigest()
            if self._at not in links and self._handle.checksum("sha256", self._at) != wanted:
                raise self._incomplete("differs from what was written", free)
        for self._at, target in links.items():
            if self._handle.readlink(self._at) != target:
                raise self._incomplete("differs from what was written", free)
        for pattern in plan.removed:
            for path in self._handle.glob_expand(pattern):
                self._at = path
                if guest_paths.resolved(path, self.look) not in contents:
                    raise self._incomplete("exists again after it was removed", free)

    def _write(self, plan: GuestFilesPlan, places: t.Mapping[str, str]) -> None:
        handle = self._handle
        for pattern in plan.removed:
            for path in handle.glob_expand(pattern):
                self._at = path
                handle.rm_rf(path)
        for home in plan.homes:
            self._at = path = places[home.path]
            if not handle.is_dir(path) and handle.is_dir("/etc/skel"):
                handle.mkdir_p(path.rpartition("/")[0] or "/")
                handle.cp_r("/etc/skel", path)
                for name in handle.find(path):
                    handle.lchown(home.uid, home.gid, f"{path}/{name}")
        made = {home.path for home in plan.homes}
        for folder in plan.folders:
            self._at = path = places[folder.path]
            new = not handle.is_dir(path) or folder.path in made
            handle.mkdir_p(path)
            if new or folder.own:
                handle.chmod(folder.mode, path)
                handle.chown(folder.uid, folder.gid, path)
        for file in plan.files:
            self._at = path = places[file.path]
            new = not handle.exists(path)
            handle.mkdir_p(path.rpartition("/")[0] or "/")
            if new:
                handle.touch(path)
            if new or not file.keep:
                handle.chmod(file.mode, path)  # before anything that may be secret is in it
                handle.chown(file.uid, file.gid, path)
            handle.write(path, file.content)
        for link, target in plan.links:
            self._at = path = places[link]
            handle.mkdir_p(path.rpartition("/")[0] or "/")
            handle.ln_sf(target, path)
        handle.sync()
