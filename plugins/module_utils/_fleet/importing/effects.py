# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What ``virt_import`` does on a hypervisor: disks of other formats become base images.

The files are from anyone. So qemu-img runs as the user nobody, with bounded memory and output, on
a header that was checked before, with the format given: it probes nothing.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import typing as t

from ..._errors import DeadlineExceeded, DependencyMissing, PlanRefused
from ..._records import dataclass
from ..base import durations
from ..base import effects_programs as programs
from ..base.effects_connection import Connection
from ..images import effects as image_effects
from ..images import effects_base_file as base_file
from ..images import effects_base_images as images
from ..images import effects_digests as digests
from . import disk_format
from .archive import BLOCK

if t.TYPE_CHECKING:
    from ..images.effects_base_images import BaseImage
    from .options import TransferredDisk

_LOCK_SECONDS = 6 * 3600.0
_MEMORY = 4 << 30
_OUTPUT = 4096
_PROGRAMS = (
    ("qemu-img", "qemu-utils or qemu-img"),
    ("prlimit", "util-linux"),
    ("setpriv", "util-linux"),
)


@dataclass(frozen=True)
class ImportPlace:
    """The pool of base images, and how many bytes a disk may take there."""

    pool: str
    path: str
    limit: int


def run(
    connection: Connection, disks: t.Sequence[TransferredDisk], place: ImportPlace
) -> dict[str, object]:
    """Make the base images; the module's result."""
    images.require_local(connection)
    for program, package in _PROGRAMS:
        if shutil.which(program) is None:
            raise DependencyMissing(f"{program} is not installed; install the package {package}")
    checked: set[str] = set()
    made = []
    changed = False
    for disk in disks:
        _verify(disk, checked)
        base, new = _converted(connection, disk, place)
        pool = images.find_pool(connection, place.pool, place.path, check=False)
        if pool is not None:
            made.append({"disk": disk["name"], **images.described(pool, base)})
        changed = changed or new
    for disk in disks:
        image_effects.remove_siblings(disk["received"], disk["digest"])
    return {"changed": changed, "images": made}


def _verify(disk: TransferredDisk, checked: set[str]) -> None:
    """Raise PlanRefused if the file is not the one that the controller has; it is read once."""
    path = disk["received"]
    if path in checked:
        return
    with _opened(path) as descriptor:
        came = str(digests.sha256(descriptor))
    if came != disk["digest"]:
        raise PlanRefused(
            f"{disk['image']} arrived with the SHA-256 {came} instead of {disk['digest']}: it"
            " changed in transit, or on the controller meanwhile; run this again"
        )
    checked.add(path)


def _converted(
    connection: Connection, disk: TransferredDisk, place: ImportPlace
) -> tuple[BaseImage, bool]:
    """The base image of a disk, and whether it is new."""
    pool = images.ensure_pool(connection, place.pool, place.path)
    part = re.sub(r"[^a-z0-9]", "", disk["name"]) or "x"

    def work() -> tuple[BaseImage, bool]:
        with base_file.folder_lock(pool.path, _LOCK_SECONDS):
            base_file.remove_abandoned(pool.path)
            before = {str(image.volume) for image in images.list_bases(connection, pool)}
            with _opened(disk["received"]) as source, base_file.new_file(pool.path, part) as new:
                _convert(disk, source, new.descriptor, _room(pool.path, place.limit))
                os.fchown(new.descriptor, os.geteuid(), os.getegid())
                digest = digests.sha256(new.descriptor)
                base = images.publish(connection, pool, new, disk["image"], digest)
        return base, str(base.volume) not in before

    base, new = images.file_work(f"convert {disk['image']}", work)
    images.settle(connection, pool, base)
    return base, new


def _room(folder: str, limit: int) -> int:
    """How many bytes may be written to the folder."""
    free, reserve = base_file.free_space(folder)
    return max(1 << 20, min(limit, free - reserve))


def _convert(disk: TransferredDisk, source: int, target: int, room: int) -> None:
    """Write the disk as qcow2 into the open file ``target``."""
    whole = os.fstat(source).st_size
    offset, size = disk["offset"], disk["size"]
    if not 0 <= offset <= offset + size <= whole:
        raise PlanRefused(
            f"{disk['image']}: its bytes are beyond the end of what arrived; run this again"
        )

    def read(place: int, count: int) -> bytes:
        count = min(count, size - place)  # a place in a file may be any number
        return os.pread(source, count, offset + place) if count > 0 else b""

    inspected = disk_format.inspect(read, size)
    if inspected.problems or inspected.format != disk["format"]:
        problems = inspected.problems or (f"is {inspected.format}, not {disk['format']}",)
        raise PlanRefused(f"disk {disk['image']} {'; it '.join(problems)}")
    user = _confined_user(source, target)
    options = [f"driver={inspected.format}", *_file(disk, source)]
    words = ["prlimit", f"--as={_MEMORY}", f"--fsize={room}", "--core=0", "--"]
    convert = ["qemu-img", "convert", "--image-opts", ",".join(options)]
    words += programs.bound([*convert, "-O", "qcow2", f"/proc/self/fd/{target}"])
    confined = programs.Confined((source, target), *user)
    seconds = durations.transfer(inspected.virtual_bytes)
    try:
        done = programs.execute_confined(words, confined, seconds=seconds, most=_OUTPUT)
    except DeadlineExceeded:
        raise PlanRefused(f"{disk['image']} was not converted within {seconds} seconds") from None
    if done.status:
        detail = " ".join(done.out.split())[:300].replace(f"/proc/self/fd/{source}", "it")
        full = done.status in (-25, 153) or "File too large" in detail
        remedy = (
            f"it has more than the {room >> 20} MiB that fit or are allowed (max_unpacked); free"
            " some space, or raise that limit if you trust it"
            if full
            else "it is damaged or truncated: copy it again"
        )
        raise PlanRefused(
            f"{disk['image']} could not be converted (qemu-img: {detail or f'exit {done.status}'});"
            f" {remedy}"
        )


def _file(disk: TransferredDisk, source: int) -> list[str]:
    """Where qemu-img reads: all of a file, or the bytes of a member of an archive."""
    path = f"/proc/self/fd/{source}"
    if disk["whole"]:
        return ["file.driver=file", f"file.filename={path}"]
    size = -(-disk["size"] // BLOCK) * BLOCK  # as the archive is padded
    return [
        "file.driver=raw",
        f"file.offset={disk['offset']}",
        f"file.size={size}",
        "file.file.driver=file",
        f"file.file.filename={path}",
    ]


def _confined_user(*descriptors: int) -> tuple[int | None, int | None]:
    """The user nobody, who gets the files, if this process is root."""
    if os.geteuid() != 0:
        return None, None
    nobody = pwd.getpwnam("nobody")
    for descriptor in descriptors:
        os.fchown(descriptor, nobody.pw_uid, nobody.pw_gid)
    return nobody.pw_uid, nobody.pw_gid


@contextlib.contextmanager
def _opened(path: str) -> t.Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
