# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which files a definition or an image names: whoever removes a file has to know.

Meant to find too much rather than too little: a name that is found and means something else costs
a question, one that is missed costs somebody's data.

This file is private to the collection.
"""

from __future__ import annotations

import json
import re
import struct
import typing as t
from dataclasses import dataclass

if t.TYPE_CHECKING:
    from .._lxml import Element

# Attributes of libvirt's domain, snapshot and checkpoint XML (and of our metadata) that hold paths
_PATHS = ("file", "dev", "path", "dir", "socket")
_VOLUME = ("pool", "volume")  # of a disk's source; our metadata calls the second one name
_OWN_VOLUME = ("pool", "name")

# docs/interop/qcow2.txt and qed_spec.txt in QEMU's source
_QCOW_BACKING = struct.Struct(">QI")  # at 8, of all versions
_QCOW2_V3_HEADER = 104
_EXTENSION = struct.Struct(">II")
_EXTENSION_DATA_FILE = 0x44415441
_EXTENSIONS = (0xE2792ACA, _EXTENSION_DATA_FILE)  # the first holds the backing file's format
_QED_BACKING = struct.Struct("<II")
_QED_BACKING_AT = 56
_VMDK = (b"KDMV", b"COWD", b"# Disk DescriptorFile")
_QUOTED = re.compile(rb'"([^"\0\r\n]{1,4096})"')
_MAX_NAME = 4096
_PROTOCOL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True)
class Named:
    """What a document names: absolute paths, and volumes as (pool, name)."""

    paths: frozenset[str]
    volumes: frozenset[tuple[str, str]]


def of_definition(root: Element) -> Named:
    """Everything a domain's, snapshot's or checkpoint's XML names, our metadata included."""
    paths: set[str] = set()
    volumes: set[tuple[str, str]] = set()
    for element in root.iter():
        if not isinstance(element.tag, str):
            continue
        text = (element.text or "").strip()
        if text.startswith("/"):  # nvram, loader, kernel, initrd and whatever comes
            paths.add(text)
        for name in _PATHS:
            value = element.get(name)
            if value and value.startswith("/"):
                paths.add(value)
        for pool, name in (_VOLUME, _OWN_VOLUME):
            if element.get(pool) and element.get(name):
                volumes.add((str(element.get(pool)), str(element.get(name))))
    return Named(frozenset(paths), frozenset(volumes))


def of_image(read: t.Callable[[int, int], bytes]) -> list[str]:
    """Names of the files that the image is based on: backing file, data file, extents.

    ``read(offset, length)`` returns what the file has there, less at its end. A name may be
    relative to the image's folder. Names of other protocols than files are left out.
    """
    head = read(0, 4096)
    if head.startswith(b"QFI\xfb"):
        found = _qcow(head, read)
    elif head.startswith(b"QED\0"):
        found = [_qed(head, read)]
    elif head.startswith(_VMDK):
        # descriptors are text, in a monolithic file one that begins within the first sectors
        found = [_text(match) for match in _QUOTED.findall(read(0, 64 * 1024))]
    else:
        found = []
    return [file for name in found if name for file in _files(name)]


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _qcow(head: bytes, read: t.Callable[[int, int], bytes]) -> list[str]:
    if len(head) < 20:
        return []
    offset, length = _QCOW_BACKING.unpack_from(head, 8)
    found = []
    if offset and 0 < length <= _MAX_NAME:
        found.append(_text(read(offset, length)))
    version = int.from_bytes(head[4:8], "big")
    if version >= 3 and len(head) >= _QCOW2_V3_HEADER:
        at = int.from_bytes(head[100:104], "big")
        for _dummy in range(32):  # extensions end with one of kind 0
            if at + _EXTENSION.size > len(head):
                break
            kind, size = _EXTENSION.unpack_from(head, at)
            if kind == 0 or size > _MAX_NAME:
                break
            if kind == _EXTENSION_DATA_FILE:
                found.append(_text(read(at + _EXTENSION.size, size)))
            at += _EXTENSION.size + (size + 7) // 8 * 8
    return found


def _qed(head: bytes, read: t.Callable[[int, int], bytes]) -> str:
    if len(head) < _QED_BACKING_AT + _QED_BACKING.size:
        return ""
    offset, length = _QED_BACKING.unpack_from(head, _QED_BACKING_AT)
    return _text(read(offset, length)) if offset and 0 < length <= _MAX_NAME else ""


def _files(name: str) -> list[str]:
    """Paths in a name as QEMU takes it: a path, ``file:`` and a path, or ``json:`` and a tree."""
    if name.startswith("json:"):
        try:
            return list(_in_tree(json.loads(name[len("json:") :])))
        except (ValueError, RecursionError):
            return []
    if name.startswith("file:"):
        name = name[len("file:") :]
        return [name[2:] if name.startswith("///") else name]
    return [] if _PROTOCOL.match(name) else [name]


def _in_tree(value: t.Any, key: str = "") -> t.Iterator[str]:
    if isinstance(value, dict):
        for name, below in value.items():
            yield from _in_tree(below, str(name))
    elif isinstance(value, list):
        for below in value:
            yield from _in_tree(below, key)
    elif isinstance(value, str) and key.rpartition(".")[2] in ("filename", "backing", "file"):
        yield from _files(value)
