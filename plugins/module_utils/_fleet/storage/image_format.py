# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The format of an image file, by its first bytes and never by its name; and its problems.

An image may come from anyone. A qcow2 header can name other files, which QEMU would open as root
and expose to the guest, so such headers are refused here, before any QEMU program sees the file.
"""

from __future__ import annotations

import struct
import typing as t

from ..._records import dataclass

BACKING_BYTES = 4096  # every program that writes qcow2 puts the name of the backing file there
HEAD_BYTES = 64 * 1024  # what parse_header needs: the longest qcow2 header, and more
MAX_VIRTUAL_BYTES = 64 << 40

_SECTOR = 512
_QCOW2 = struct.Struct(">4sIQIIQIIQQIIQ")  # docs/interop/qcow2.txt in QEMU's source
_QCOW2_MORE = struct.Struct(">QQQII")  # version 3 only
_DIRTY, _CORRUPT, _DATA_FILE, _COMPRESSION, _EXTENDED_L2 = (1 << bit for bit in range(5))
_KNOWN = _DIRTY | _CORRUPT | _DATA_FILE | _COMPRESSION | _EXTENDED_L2
_MAX_L1_BYTES = 32 << 20  # QEMU's own limits for the tables it loads
_MAX_REFCOUNT_BYTES = 8 << 20

Packing = t.Literal["gz", "xz", "zst"]

_CONVERT = "convert it: qemu-img convert -O qcow2 {name} IMAGE new.qcow2"
_UNPACK = "unpack it first"
_DOWNLOAD = "it was not downloaded from the image's own URL; get the image itself"

# (offset, first bytes, what it is, what to do)
_OTHERS: tuple[tuple[int, bytes, str, str], ...] = (
    (0, b"KDMV", "a VMDK image", _CONVERT.format(name="-f vmdk")),
    (0, b"COWD", "a VMDK image", _CONVERT.format(name="-f vmdk")),
    (0, b"# Disk DescriptorFile", "a VMDK descriptor", _CONVERT.format(name="-f vmdk")),
    (64, b"\x7f\x10\xda\xbe", "a VDI image", _CONVERT.format(name="-f vdi")),
    (0, b"vhdxfile", "a VHDX image", _CONVERT.format(name="-f vhdx")),
    (0, b"conectix", "a VHD image", _CONVERT.format(name="-f vpc")),
    (0, b"QED\0", "a QED image", _CONVERT.format(name="-f qed")),
    (0, b"WithoutFreeSpace", "a Parallels image", _CONVERT.format(name="-f parallels")),
    (0, b"WithouFreSpacExt", "a Parallels image", _CONVERT.format(name="-f parallels")),
    (
        0,
        b"LUKS\xba\xbe",
        "encrypted (LUKS)",
        "decrypt it first; encrypted images are not supported",
    ),
    (0, b"\x1f\x8b", "compressed with gzip", f"{_UNPACK}: gunzip"),
    (0, b"\xfd7zXZ\0", "compressed with xz", f"{_UNPACK}: unxz"),
    (0, b"\x28\xb5\x2f\xfd", "compressed with zstd", f"{_UNPACK}: unzstd"),
    (0, b"BZh", "compressed with bzip2", f"{_UNPACK}: bunzip2"),
    (0, b"\x04\x22\x4d\x18", "compressed with lz4", f"{_UNPACK}: unlz4"),
    (0, b"PK\x03\x04", "a ZIP archive", f"{_UNPACK}: unzip"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", f"{_UNPACK}: 7z x"),
    (257, b"ustar", "a tar archive", f"{_UNPACK}: tar -xf"),
)
_TEXTS: tuple[tuple[bytes, str], ...] = (
    (b"<!doctype", "a web page"),
    (b"<html", "a web page"),
    (b"<?xml", "an XML document"),
)


# What can be decompressed on the fly: first bytes, name
_PACKED: tuple[tuple[bytes, Packing], ...] = (
    (b"\x1f\x8b", "gz"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zst"),
)


@dataclass(frozen=True)
class ImageFormat:
    """The format, the virtual size, and why it is refused (empty if it is not).

    ``virtual_bytes`` is 0 if a problem hides it.
    """

    format: t.Literal["qcow2", "raw"]
    virtual_bytes: int
    problems: tuple[str, ...] = ()


def packing(head: bytes) -> Packing | None:
    """The compression of a file with these first bytes, if it can be decompressed here."""
    for magic, name in _PACKED:
        if head.startswith(magic):
            return name
    # a skippable frame, by which pzstd begins (RFC 8878, 3.1.2)
    return "zst" if head[1:4] == b"\x2a\x4d\x18" and head[0] & 0xF0 == 0x50 else None


def parse_header(head: bytes, size: int) -> ImageFormat:
    """Check a file of ``size`` bytes by its first :data:`HEAD_BYTES` (all of a shorter one)."""
    if size == 0:
        return ImageFormat("raw", 0, ("is empty; copy the image again",))
    if head.startswith(b"QFI\xfb"):
        return _qcow2(head, size)
    other = _other(head)
    if other:
        return ImageFormat("raw", 0, (other,))
    return ImageFormat("raw", size, tuple(_raw_problems(head, size)))


def backing_file(head: bytes) -> str | None:
    """The backing file that a file's first :data:`BACKING_BYTES` name by an absolute path, if any.

    Raises ValueError if this cannot be decided here: other formats that can have one, relative
    names and URLs, and names outside these bytes.
    """
    if not head.startswith(b"QFI\xfb"):
        if any(head.startswith(magic, at) for at, magic, _what, _remedy in _OTHERS):
            raise ValueError("of another format")
        return None
    if int.from_bytes(head[4:8], "big") not in (2, 3) or len(head) < _QCOW2.size:
        raise ValueError("a header of another version, or a part of one")
    offset, length = struct.unpack_from(">QI", head, 8)
    if not offset:
        return None
    name = head[offset : offset + length]
    if len(name) != length or not name.startswith(b"/") or b"\0" in name:
        raise ValueError("a name that is not an absolute path here")
    return name.decode("utf-8")


def _other(head: bytes) -> str | None:
    for offset, magic, what, remedy in _OTHERS:
        if head[offset : offset + len(magic)] == magic:
            return f"is {what}; qcow2 and raw are supported: {remedy}"
    start = head[:1024].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    for magic, what in _TEXTS:
        if start.startswith(magic):
            return f"is {what}, not an image: {_DOWNLOAD}"
    return None


def _raw_problems(head: bytes, size: int) -> t.Iterator[str]:
    if size > MAX_VIRTUAL_BYTES:
        yield f"is {_tib(size)} in size; at most {_tib(MAX_VIRTUAL_BYTES)} is supported"
    for sector in (512, 4096):
        if head[sector : sector + 8] == b"EFI PART" and len(head) >= sector + 40:
            last = int.from_bytes(head[sector + 32 : sector + 40], "little")
            end = (last + 1) * sector
            if end > size:
                yield (
                    f"is truncated: it has {size} bytes, and its partition table says that the"
                    f" disk has {end}; copy the image again"
                )
                return
    if size % _SECTOR:
        yield (
            f"is not a disk image, or truncated: it is not qcow2, and its size of {size} bytes is"
            f" not a multiple of {_SECTOR} as a raw disk's is; copy the image again"
        )


def _qcow2(head: bytes, size: int) -> ImageFormat:
    version = int.from_bytes(head[4:8], "big")
    if len(head) >= 8 and version not in (2, 3):
        return ImageFormat(
            "qcow2",
            0,
            (
                f"is qcow version {version}; versions 2 and 3 are supported:"
                f" {_CONVERT.format(name='-f qcow')}",
            ),
        )
    need = _QCOW2.size + (_QCOW2_MORE.size if version == 3 else 0)
    if len(head) < need:
        return ImageFormat("qcow2", 0, (_truncated(size, "its header is incomplete"),))
    header = _Header(head, version)
    problems = [*_foreign(header), *_structure(header, size)]
    virtual = header.disk if header.virtual <= MAX_VIRTUAL_BYTES else 0
    return ImageFormat("qcow2", virtual, tuple(problems))


class _Header:
    """The fields of a qcow2 header that are checked."""

    def __init__(self, head: bytes, version: int) -> None:
        (
            _magic,
            _version,
            self.backing_offset,
            self.backing_length,
            self.cluster_bits,
            self.virtual,
            self.encryption,
            self.l1_entries,
            self.l1_offset,
            self.refcount_offset,
            self.refcount_clusters,
            _snapshots,
            _snapshots_offset,
        ) = _QCOW2.unpack_from(head)
        self.features = self.header_length = 0
        if version == 3:
            self.features, _compatible, _autoclear, _order, self.header_length = (
                _QCOW2_MORE.unpack_from(head, _QCOW2.size)
            )
        end = self.backing_offset + min(self.backing_length, 1023)
        self.disk = self.virtual // _SECTOR * _SECTOR  # what QEMU shows of it: whole sectors
        self.backing = head[self.backing_offset : end].decode("utf-8", "replace")


def _foreign(header: _Header) -> t.Iterator[str]:
    """Problems that would make QEMU read a file other than this one."""
    if header.backing_offset:
        name = header.backing if header.backing.isprintable() else ""
        shown = f" ({name[:80]!r})" if name else ""
        yield (
            f"has a backing file{shown}, so a VM would read the host's files through it; flatten"
            " it: qemu-img convert -O qcow2 IMAGE new.qcow2"
        )
    if header.features & _DATA_FILE:
        yield (
            "stores its data in another file (external data file), so a VM would read the host's"
            " files through it; flatten it: qemu-img convert -O qcow2 IMAGE new.qcow2"
        )
    if header.encryption:
        yield "is encrypted; decrypt it first: encrypted images are not supported"


def _structure(header: _Header, size: int) -> t.Iterator[str]:
    """Problems that show that the file is damaged or malicious."""
    unknown = header.features & ~_KNOWN
    if unknown:
        yield f"needs qcow2 features that are not supported here (bits {unknown:#x}); convert it"
    if header.features & _CORRUPT:
        yield "is marked as corrupt; get it again, or repair a copy: qemu-img check -r all"
    if header.features & _DIRTY:
        yield "was not closed properly; repair a copy: qemu-img check -r all"
    if not 9 <= header.cluster_bits <= 21:
        yield f"is corrupt: its clusters have 2^{header.cluster_bits} bytes; 2^9 to 2^21 can be"
        return
    cluster = 1 << header.cluster_bits
    if header.disk == 0:
        yield "contains a disk of 0 bytes; there is nothing to boot from"
    if header.virtual > MAX_VIRTUAL_BYTES:
        yield (
            f"claims to contain a disk of {_tib(header.virtual)};"
            f" at most {_tib(MAX_VIRTUAL_BYTES)} is supported"
        )
        return
    entry = 16 if header.features & _EXTENDED_L2 else 8
    reach = cluster * (cluster // entry)  # bytes of the disk that one L1 entry covers
    l1_bytes = header.l1_entries * 8
    if l1_bytes > _MAX_L1_BYTES or header.l1_entries * reach < header.virtual:
        yield f"is corrupt: its L1 table has {header.l1_entries} entries, which does not fit it"
    elif header.l1_offset % cluster:
        yield "is corrupt: its L1 table does not start at a cluster"
    elif header.l1_offset + l1_bytes > size:
        yield _truncated(size, f"its L1 table would end at {header.l1_offset + l1_bytes}")
    refcount_bytes = header.refcount_clusters * cluster
    if not header.refcount_offset or header.refcount_offset % cluster:
        yield "is corrupt: its refcount table does not start at a cluster"
    elif not 0 < refcount_bytes <= max(_MAX_REFCOUNT_BYTES, cluster):
        yield f"is corrupt: its refcount table has {refcount_bytes} bytes"
    elif header.refcount_offset + cluster > size:
        # the table's last cluster need not be written completely
        yield _truncated(size, f"its refcount table would start at {header.refcount_offset}")


def _truncated(size: int, why: str) -> str:
    return f"is truncated: it has {size} bytes, and {why}; copy the image again"


def _tib(count: int) -> str:
    return f"{count / (1 << 40):.1f} TiB"
