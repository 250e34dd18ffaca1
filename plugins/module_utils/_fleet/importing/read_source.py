# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is imported, on the controller: an OVA, an OVF with its files, or a disk.

Files are only read, and only those that the user named or that are beside the descriptor.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import typing as t
from dataclasses import replace
from urllib.parse import unquote

from ..._errors import FleetVirtError, PlanRefused
from ..._records import dataclass
from ..base import read_requirements as requirements
from ..base.options import show
from . import archive, disk_format, ovf
from .archive import Read
from .disk_format import DiskFormat
from .ovf import OvfDisk, OvfVm

_DESCRIPTOR_BYTES, _MANIFEST_BYTES = 4 << 20, 1 << 20
_BLOCK = 1 << 20
_LINE = re.compile(r"([A-Za-z0-9_/-]+)\s*\((.+)\)\s*=\s*([0-9A-Fa-f]+)\s*")
_ALGORITHMS = ("md5", *(f"sha{bits}" for bits in (1, 224, 256, 384, 512)), "sha3_256", "sha3_512")
_AGAIN = "copy it again"
_DISK_ALONE = "import its disk alone (-e virt_import=DISK; of an OVA, unpack it first: tar -xf)"
_WITHOUT_MANIFEST = (
    "import the OVF file without it: remove it from beside that (of an OVA, unpack it first: tar"
    " -xf)"
)


@dataclass(frozen=True)
class SourceFile:
    """``size`` bytes of the file ``path``, from ``offset`` on; ``whole`` is all of it."""

    path: str
    offset: int
    size: int
    whole: bool


@dataclass(frozen=True)
class ImportSource:
    """A VM, and of each of its disks where its content is and in which format; None is empty.
    ``uncompared`` are files of which its manifest says nothing that could be compared."""

    vm: OvfVm
    disks: tuple[tuple[SourceFile, DiskFormat] | None, ...]
    uncompared: tuple[str, ...] = ()

    @property
    def sizes(self) -> list[int]:
        """The sizes of the disks in bytes."""
        pairs = zip(self.vm.disks, self.disks)
        return [
            disk.capacity if inspected is None else inspected[1].virtual_bytes
            for disk, inspected in pairs
        ]


def source(path: str, *, verify: bool) -> ImportSource:
    """What the file ``path`` is; ``verify`` compares with the manifest, which reads all of it.

    Raises PlanRefused for whatever is no VM or disk that can be imported.
    """
    requirements.require(libvirt=False)
    try:
        with _opened(path, os.O_RDONLY) as whole:
            head = _reader(whole)(0, archive.BLOCK)
            if archive.is_archive(head):
                members = archive.members(_reader(whole), whole.size)
                files = {
                    member.name: SourceFile(path, member.offset, member.size, False)
                    for member in members
                }
                return _package(files, f"{path}: ", verify=verify)
            if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"<?xml", b"<Envelope", b"<ovf:")):
                return _package(_beside(path), f"{path}: ", verify=verify, descriptor=path)
        return _disk(path)
    except OSError as error:
        raise PlanRefused(f"{error.filename or path}: {error.strerror}") from None


def digest(file: SourceFile, algorithm: str) -> str:
    """A digest of these bytes, in hexadecimal."""
    summed = hashlib.new(algorithm)
    with _opened(file.path, os.O_RDONLY) as whole:
        read, place, end = _reader(whole), file.offset, file.offset + file.size
        while place < end:
            block = read(place, min(_BLOCK, end - place))
            if not block:
                raise PlanRefused(f"{file.path} became shorter while it was read; {_AGAIN}")
            summed.update(block)
            place += len(block)
    return summed.hexdigest()


class _Whole(t.NamedTuple):
    descriptor: int
    size: int


@contextlib.contextmanager
def _opened(path: str, flags: int) -> t.Iterator[_Whole]:
    # without O_NONBLOCK, opening a named pipe would block
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise PlanRefused(f"{path} is not a regular file; name an OVA, OVF or disk file")
        yield _Whole(descriptor, status.st_size)
    finally:
        os.close(descriptor)


def _reader(whole: _Whole) -> Read:
    return lambda offset, count: os.pread(whole.descriptor, count, offset)


def _inside(whole: _Whole, file: SourceFile) -> Read:
    """Reads nothing but these bytes of the file."""

    def read(offset: int, count: int) -> bytes:
        count = min(count, file.size - offset)  # an offset in a file may be any number
        return os.pread(whole.descriptor, count, file.offset + offset) if count > 0 else b""

    return read


def _beside(path: str) -> dict[str, SourceFile]:
    """The files in the folder of a descriptor by their names; links among them are none."""
    folder = os.path.dirname(path) or "."
    files = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                size = entry.stat(follow_symlinks=False).st_size
                files[entry.name] = SourceFile(f"{folder}/{entry.name}", 0, size, True)
    return files


def _package(
    files: t.Mapping[str, SourceFile], where: str, *, verify: bool, descriptor: str = ""
) -> ImportSource:
    names = [name for name in files if name.lower().endswith(".ovf")]
    if descriptor:
        names = [os.path.basename(descriptor)]
    if descriptor and names[0] not in files:
        raise PlanRefused(f"{where}the descriptor is a link; name the file that it leads to")
    if len(names) != 1:
        raise PlanRefused(
            f"{where}it has {len(names)} OVF descriptors, and an OVA has one; unpack it into an"
            " empty folder (tar -xf ARCHIVE -C FOLDER) and import the one that is meant, or a disk"
        )
    text = _content(files[names[0]], _DESCRIPTOR_BYTES, where, _DISK_ALONE)
    try:
        vm = ovf.parse(text)
    except FleetVirtError as error:
        raise PlanRefused(f"{where}{error}") from None
    vm = replace(vm, disks=tuple(_named(disk, files) for disk in vm.disks))
    uncompared: tuple[str, ...] = ()
    if verify:
        named = [disk.file for disk in vm.disks if disk.file]
        uncompared = _verify(files, names[0], named, where)
    if not vm.disks:
        raise PlanRefused(f"{where}the VM has no disk; there is nothing to import")
    disks = tuple(_found(disk, files, where) for disk in vm.disks)
    return ImportSource(vm, disks, uncompared)


def _named(disk: OvfDisk, files: t.Mapping[str, SourceFile]) -> OvfDisk:
    """The disk with its file as that is called: a reference may be escaped, as ``a%20b.vmdk``."""
    if disk.file is None or disk.file in files:
        return disk
    return replace(disk, file=unquote(disk.file))


def _found(
    disk: OvfDisk, files: t.Mapping[str, SourceFile], where: str
) -> tuple[SourceFile, DiskFormat] | None:
    if disk.file is None:
        return None
    if disk.file not in files:
        raise PlanRefused(
            f"{where}the file {show(disk.file)} of a disk is missing, or is no regular file (no"
            " link is followed); copy all files of the export"
        )
    return files[disk.file], _inspected(files[disk.file], disk.file)


def _inspected(file: SourceFile, name: str) -> DiskFormat:
    with _opened(file.path, os.O_RDONLY | (os.O_NOFOLLOW if name != file.path else 0)) as whole:
        inspected = disk_format.inspect(_inside(whole, file), file.size)
    if inspected.problems:
        raise PlanRefused(f"disk {show(name)} {'; it '.join(inspected.problems)}")
    return inspected


def _disk(path: str) -> ImportSource:
    """A disk alone, without a description of its VM."""
    file = SourceFile(path, 0, os.stat(path).st_size, True)
    inspected = _inspected(file, path)
    name = os.path.basename(path).partition(".")[0]
    virtio = inspected.format in ("qcow2", "raw")
    vm = OvfVm(name, disks=(OvfDisk(path, inspected.virtual_bytes, virtio),))
    return ImportSource(vm, ((file, inspected),))


def _content(file: SourceFile, most: int, where: str, remedy: str) -> bytes:
    if file.size > most:
        raise PlanRefused(
            f"{where}{os.path.basename(file.path)} has a descriptor or manifest of {file.size}"
            f" bytes; at most {most} are read: {remedy}"
        )
    with _opened(file.path, os.O_RDONLY) as whole:
        return _inside(whole, file)(0, file.size)


def _verify(
    files: t.Mapping[str, SourceFile], descriptor: str, disks: t.Sequence[str], where: str
) -> tuple[str, ...]:
    """Compare the descriptor and the disks with the manifest, where there is one. Returns those
    of which it says nothing."""
    wanted = f"{os.path.splitext(descriptor)[0]}.mf".lower()
    manifest = next((file for name, file in files.items() if name.lower() == wanted), None)
    if manifest is None:
        return ()
    data = _content(manifest, _MANIFEST_BYTES, where, _WITHOUT_MANIFEST)
    compared: set[str] = set()
    for line in data.decode("utf-8-sig", "replace").splitlines():
        match = _LINE.fullmatch(line.strip())
        if match is None:
            continue
        name = match[2].strip().removeprefix("./")
        name = name if name in files else unquote(name)
        algorithm = re.sub("^sha[-_/](?=[0-9])", "sha", match[1].lower()).replace("-", "_")
        if name not in (descriptor, *disks) or name not in files or algorithm not in _ALGORITHMS:
            continue
        compared.add(name)
        came = digest(files[name], algorithm)
        if came != match[3].lower():
            raise PlanRefused(
                f"{where}{show(name)} has the {match[1].upper()} {came}, and its manifest says"
                f" {match[3].lower()}; it is damaged or was changed: {_AGAIN}"
            )
    return tuple(name for name in dict.fromkeys((descriptor, *disks)) if name not in compared)
