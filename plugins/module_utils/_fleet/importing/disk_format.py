# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The format of a disk that is imported, by its first bytes, and what it refers to.

A header or descriptor can name other files, which QEMU would open and copy into the disk. So this
looks where QEMU looks, before it does; QEMU is then given the format, and probes none.
"""

from __future__ import annotations

import re
import struct
import typing as t
import uuid

from ..._records import dataclass
from ..base.options import show
from ..storage.image_format import HEAD_BYTES, MAX_VIRTUAL_BYTES, parse_header

if t.TYPE_CHECKING:
    from .archive import Read

Format = t.Literal["qcow2", "raw", "vmdk", "vhdx"]

_SECTOR = 512
# QEMU's block/vmdk.c: VMDK4Header after the magic, up to the grain directory
_VMDK = struct.Struct("<4sIIQQQQIQQ")
_AT_END = (1 << 64) - 1  # of a stream, whose directory is described by a footer
_FOOTER = 1024  # bytes from the end, where the footer's header is
_DESCRIPTOR_BYTES = 20 * _SECTOR  # what QEMU reads of a descriptor
_CREATE_TYPES = ("monolithicSparse", "streamOptimized")
_EXTENT = re.compile(r'^(?:RW|RDONLY|NOACCESS)\s+\d+\s+(\S+)(?:\s+"([^"]*)")?', re.MULTILINE)
ONE_FILE = (
    "if you trust where it comes from, make the disk one file where all its files are beside it"
    " (tar -xf unpacks an OVA): qemu-img convert -O qcow2 DISK disk.qcow2, and import that alone"
)
_WHOLE = f"export the VM with each disk in one file (OVF, streamOptimized), or {ONE_FILE}"
_DESCRIBED = f"DISK is its descriptor, which names it: {ONE_FILE}"
_NEWER = "convert it where it comes from (vmware-vdiskmanager -r DISK -t 0 NEW)"
# docs of VHDX (MS-VHDX): where the region table is, and what is looked up in it
_REGIONS = 192 << 10
_METADATA = uuid.UUID("8b7ca206-4790-4b9a-b8fe-575f050f886e")
_PARAMETERS = uuid.UUID("caa16737-fa36-4d43-b3b6-33f0aa44e76b")
_SIZE = uuid.UUID("2fa54224-cd1b-4876-b211-5dbed83bf4b8")
_PARENT = uuid.UUID("a8d35f2d-b30b-454d-abf7-d3d84834ab0c")
_HAS_PARENT = 2
_ENTRY = 32
_MOST_ENTRIES = 2047
_MERGE = (
    "merge its checkpoints first, where it comes from or in a copy (Merge-VHD), and import the disk"
    " that they become"
)


@dataclass(frozen=True)
class DiskFormat:
    """The format, the size of the disk in bytes, and why it is refused (empty if it is not)."""

    format: Format
    virtual_bytes: int
    problems: tuple[str, ...] = ()


def inspect(read: Read, size: int) -> DiskFormat:
    """The format of a disk of ``size`` bytes."""
    head = read(0, HEAD_BYTES)
    if head.startswith(b"KDMV"):
        return _checked("vmdk", *_vmdk(head, read, size))
    if head.startswith(b"vhdxfile"):
        return _checked("vhdx", *_vhdx(read))
    other = parse_header(head, size)
    problems = other.problems
    if head.startswith((b"# Disk DescriptorFile", b"COWD")):
        problems = (f"is a VMDK whose content is in other files, which are not read; {_WHOLE}",)
    return DiskFormat(other.format, other.virtual_bytes, problems)


def _checked(name: Format, virtual: int, problems: list[str]) -> DiskFormat:
    if virtual > MAX_VIRTUAL_BYTES:
        limit = MAX_VIRTUAL_BYTES >> 40
        problems = [*problems, f"claims a disk of {virtual} bytes; at most {limit} TiB are read"]
    elif not virtual and not problems:
        problems = ["contains a disk of 0 bytes, so it has no content; copy it again"]
    return DiskFormat(name, virtual, tuple(problems))


def _vmdk(head: bytes, read: Read, size: int) -> tuple[int, list[str]]:
    if len(head) < _VMDK.size:
        return 0, [f"is truncated: it has {size} bytes; copy it again"]
    fields = _VMDK.unpack_from(head)
    version, sectors, described, directory = fields[1], fields[3], fields[5], fields[9]
    problems: list[str] = []
    if not 1 <= version <= 3:
        problems.append(f"is VMDK version {version}; 1 to 3 are read: {_NEWER}")
    if sectors == 0:
        # QEMU would then open what the descriptor names
        problems.append(f"is a VMDK whose content is in other files, which are not read; {_WHOLE}")
    if directory == _AT_END:
        footer = read(size - _FOOTER, _VMDK.size) if size > _FOOTER else b""
        same = len(footer) == _VMDK.size and footer.startswith(b"KDMV")
        if not same or _VMDK.unpack(footer)[3] != sectors:
            problems.append("is truncated: the footer of its stream is missing; copy it again")
    # QEMU reads the second sector on, whatever the header says of where it is
    texts = [read(_SECTOR, _DESCRIPTOR_BYTES)]
    if described > 1:
        texts.append(read(min(described * _SECTOR, size), _DESCRIPTOR_BYTES))
    problems += _descriptor([text.partition(b"\0")[0] for text in texts], b"".join(texts))
    return sectors * _SECTOR, problems


def _descriptor(texts: t.Sequence[bytes], whole: bytes) -> t.Iterator[str]:
    """Problems of the descriptor within a VMDK."""
    text = texts[0].decode("utf-8", "replace").replace("\r\n", "\n")
    kind = re.search(r'^createType\s*=\s*"([^"]*)"', text, re.MULTILINE)
    if kind is None:
        yield f"is a part of a VMDK, without its descriptor; {_DESCRIBED}"
        return
    if kind[1] not in _CREATE_TYPES:
        yield (
            f"is a VMDK of the type {show(kind[1])}, whose content may be in other files; {_WHOLE}"
        )
    parent = re.search(r"^parentCID\s*=\s*(\w+)", text, re.MULTILINE)
    if b"parentFileNameHint" in whole or (parent and parent[1].lower() != "ffffffff"):
        yield f"is the difference to another disk (a snapshot); {ONE_FILE}"
    extents = _EXTENT.findall(text)
    foreign = [name for kind, name in extents if kind != "SPARSE" or "/" in name or "\\" in name]
    if len(extents) != 1 or foreign:
        named = f" ({show(foreign[0])})" if foreign else ""
        yield f"has {len(extents)} extents{named}, which may be other files; {_WHOLE}"


def _vhdx(read: Read) -> tuple[int, list[str]]:
    damaged = ["is a damaged or truncated VHDX; copy it again"]
    table = read(_REGIONS, 64 << 10)
    if table[:4] != b"regi":
        return 0, damaged
    regions = dict(_entries(table, 16, int.from_bytes(table[8:12], "little"), "<QI"))
    place, _length = regions.get(_METADATA, (0, 0))
    table = read(place, 64 << 10) if place else b""
    if table[:8] != b"metadata":
        return 0, damaged
    items = dict(_entries(table, 32, int.from_bytes(table[10:12], "little"), "<II"))
    if not {_PARAMETERS, _SIZE} <= items.keys():
        return 0, damaged
    size = int.from_bytes(read(place + items[_SIZE][0], 8), "little")
    flags = int.from_bytes(read(place + items[_PARAMETERS][0] + 4, 4), "little")
    if _PARENT in items or flags & _HAS_PARENT:
        return size, [f"is the difference to another disk (a checkpoint); {_MERGE}"]
    return size, []


def _entries(
    table: bytes, start: int, count: int, form: str
) -> t.Iterator[tuple[uuid.UUID, tuple[int, int]]]:
    """The entries of a table of VHDX: an identifier, where it is, and how long it is."""
    for index in range(min(count, _MOST_ENTRIES)):
        entry = table[start + index * _ENTRY : start + (index + 1) * _ENTRY]
        if len(entry) == _ENTRY:
            offset, length = struct.unpack_from(form, entry, 16)
            yield uuid.UUID(bytes_le=entry[:16]), (offset, length)
