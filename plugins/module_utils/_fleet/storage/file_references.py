# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files that a definition or an image refers to, which matter before a file is removed.

Finding too much is better than finding too little: a name that turns out to mean something else
costs a question, one that is missed costs somebody's data.
"""

from __future__ import annotations

import json
import re
import struct
import typing as t

from ..._records import dataclass

if t.TYPE_CHECKING:
    from ..._lxml import Element

# Attributes of libvirt's domain, snapshot and checkpoint XML (and of our metadata) that hold paths
_PATHS = ("file", "dev", "path", "dir", "socket")
_VOLUME = ("pool", "volume")  # in a disk's source; our metadata calls the second one name
_OWN_VOLUME = ("pool", "name")
# Elements that give the format in which QEMU opens their source
_STORAGE = ("disk", "backingStore", "mirror")
_FILES = ("file", "dev")

# docs/interop/qcow2.txt and qed_spec.txt in QEMU's source
_QCOW_BACKING = struct.Struct(">QI")  # at 8, in all versions
_QCOW2_V2_HEADER, _QCOW2_V3_HEADER = 72, 104
_DATA_FILE = 1 << 2  # of the incompatible features of version 3
_EXTENSION = struct.Struct(">II")
_EXTENSION_DATA_FILE = 0x44415441
_EXTENSION_BACKING_FORMAT = 0xE2792ACA
_QED_BACKING = struct.Struct("<II")
_QED_BACKING_AT = 56
_VMDK = (b"KDMV", b"COWD", b"# Disk DescriptorFile")
_QUOTED = re.compile(rb'"([^"\0\r\n]{1,4096})"')
_MAX_NAME = 4096
_NO_PATH = re.compile("[\0\n]")
RAW = "raw"
_PROTOCOL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True)
class NamedFiles:
    """The references in a document: absolute paths, and volumes as (pool, name).

    ``formats`` has, for paths, and ``volume_formats``, for volumes, the formats in which QEMU opens
    them, one for each mention in the document; None where it gives none.
    """

    paths: frozenset[str]
    volumes: frozenset[tuple[str, str]]
    formats: frozenset[tuple[str, str | None]] = frozenset()
    volume_formats: frozenset[tuple[tuple[str, str], str | None]] = frozenset()


@dataclass(frozen=True)
class Below:
    """A file that an image is based on, and the format QEMU opens it as; None if not given."""

    name: str
    format: str | None = None


@dataclass(frozen=True)
class Qcow2References:
    """What the header of an image in qcow2 names; nothing if the image is in another format.
    ``data`` is its data file, ``?`` if it has one without a name."""

    backing: Below | None = None
    data: str | None = None


def of_definition(root: Element) -> NamedFiles:
    """All references in a domain's, snapshot's or checkpoint's XML, including our metadata."""
    paths: set[str] = set()
    volumes: set[tuple[str, str]] = set()
    formats: set[tuple[str, str | None]] = set()
    volume_formats: set[tuple[tuple[str, str], str | None]] = set()
    for element in root.iter():
        tag: object = element.tag
        if not isinstance(tag, str):  # a reference to an entity
            continue
        source = element.find("source") if tag in _STORAGE else None
        if source is not None:
            kind = _format_of(element)
            for name in _FILES:
                if source.get(name):
                    formats.add((str(source.get(name)), kind))
            if source.get("pool") and source.get("volume"):
                volume_formats.add(((str(source.get("pool")), str(source.get("volume"))), kind))
        text = (element.text or "").strip()
        if text.startswith("/"):  # nvram, loader, kernel, initrd and future ones
            paths.add(text)
        for name in _PATHS:
            value = element.get(name)
            if value and value.startswith("/"):
                paths.add(value)
        for pool, name in (_VOLUME, _OWN_VOLUME):
            if element.get(pool) and element.get(name):
                volumes.add((str(element.get(pool)), str(element.get(name))))
    return NamedFiles(
        frozenset(paths), frozenset(volumes), frozenset(formats), frozenset(volume_formats)
    )


def _format_of(storage: Element) -> str | None:
    """The format in which QEMU opens a ``<disk>``, ``<backingStore>`` or ``<mirror>``."""
    for tag in ("driver", "format"):
        child = storage.find(tag)
        if child is not None and child.get("type"):
            return str(child.get("type"))
    return None


def of_image(read: t.Callable[[int, int], bytes]) -> list[Below]:
    """The files that the image is based on: backing file, data file, extents.

    ``read(offset, length)`` returns what the file has there, less at its end. A name may be
    relative to the image's folder. Names of protocols other than files are left out, and names
    that no file can have. Not to be used for what QEMU opens as raw: a guest can write anything
    there, such as a header that names its neighbours' disks.
    """
    head = read(0, 4096)
    if head.startswith(b"QFI\xfb"):
        references = _qcow(head, read)
    elif head.startswith(b"QED\0"):
        references = [Below(_qed(head, read))]
    elif head.startswith(_VMDK):
        # descriptors are text; in a monolithic file they begin within the first sectors
        references = [Below(_text(match)) for match in _QUOTED.findall(read(0, 64 * 1024))]
    else:
        references = []
    return [
        Below(file, reference.format)
        for reference in references
        for file in _files(reference.name)
        if _is_path(file)
    ]


def of_qcow2(read: t.Callable[[int, int], bytes]) -> Qcow2References:
    """The same for qcow2 alone, and which is which. Whether there is a data file is told by a bit:
    one that is only named is not opened."""
    head = read(0, 4096)
    if not head.startswith(b"QFI\xfb") or len(head) < _QCOW2_V2_HEADER:
        return Qcow2References()
    offset, length = _QCOW_BACKING.unpack_from(head, 8)
    extensions = _extensions(head[: offset or None], read)
    data = backing = None
    if head[4:8] == b"\0\0\0\3" and int.from_bytes(head[72:80], "big") & _DATA_FILE:
        data = next(iter(_files(extensions.get(_EXTENSION_DATA_FILE, "?"))), "?")
    if offset and 0 < length <= _MAX_NAME:
        files = [file for file in _files(_text(read(offset, length))) if _is_path(file)]
        backing = Below(files[0], extensions.get(_EXTENSION_BACKING_FORMAT)) if files else None
    return Qcow2References(backing, data)


def _is_path(name: str) -> bool:
    """Whether a file can have that name at all."""
    try:
        length = len(name.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:  # JSON may contain lone surrogates
        return False
    return 0 < length < _MAX_NAME and not _NO_PATH.search(name)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _qcow(head: bytes, read: t.Callable[[int, int], bytes]) -> list[Below]:
    if len(head) < 20:
        return []
    offset, length = _QCOW_BACKING.unpack_from(head, 8)
    extensions = _extensions(head[: offset or None], read)  # they come before the name
    references = []
    if offset and 0 < length <= _MAX_NAME:
        kind = extensions.get(_EXTENSION_BACKING_FORMAT)
        references.append(Below(_text(read(offset, length)), kind))
    if _EXTENSION_DATA_FILE in extensions:
        references.append(Below(extensions[_EXTENSION_DATA_FILE], RAW))
    return references


def _extensions(head: bytes, read: t.Callable[[int, int], bytes]) -> dict[int, str]:
    """Texts of the header's extensions, by type."""
    version = int.from_bytes(head[4:8], "big")
    if version < 2 or (version > 2 and len(head) < _QCOW2_V3_HEADER):
        return {}
    at = int.from_bytes(head[100:104], "big") if version > 2 else _QCOW2_V2_HEADER
    texts: dict[int, str] = {}
    for _dummy in range(32):  # extensions end with one of type 0
        if at + _EXTENSION.size > len(head):
            break
        kind, size = _EXTENSION.unpack_from(head, at)
        if kind == 0 or size > _MAX_NAME:
            break
        texts.setdefault(kind, _text(read(at + _EXTENSION.size, size)))
        at += _EXTENSION.size + (size + 7) // 8 * 8
    return texts


def _qed(head: bytes, read: t.Callable[[int, int], bytes]) -> str:
    if len(head) < _QED_BACKING_AT + _QED_BACKING.size:
        return ""
    offset, length = _QED_BACKING.unpack_from(head, _QED_BACKING_AT)
    return _text(read(offset, length)) if offset and 0 < length <= _MAX_NAME else ""


def _files(name: str) -> list[str]:
    """Paths in a name as QEMU reads it: a path, ``file:`` and a path, or ``json:`` and JSON."""
    if name.startswith("json:"):
        try:
            return list(_in_tree(json.loads(name[len("json:") :])))
        except (ValueError, RecursionError):
            return []
    if name.startswith("file:"):
        name = name[len("file:") :]
        return [name[2:] if name.startswith("///") else name]
    return [] if _PROTOCOL.match(name) else [name]


def _in_tree(value: object, key: str = "") -> t.Iterator[str]:
    if isinstance(value, dict):
        for name, below in value.items():
            yield from _in_tree(below, str(name))
    elif isinstance(value, list):
        for below in value:
            yield from _in_tree(below, key)
    elif isinstance(value, str) and key.rpartition(".")[2] in ("filename", "backing", "file"):
        yield from _files(value)
