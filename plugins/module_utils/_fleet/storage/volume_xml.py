# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A storage volume as libvirt's XML (virStorageVolCreateXML)."""

from __future__ import annotations

import typing as t

from ... import _lxml
from ..._records import dataclass
from . import encryption


class Backing(t.NamedTuple):
    """The backing file of an overlay: always with its format, so that it is never probed."""

    path: str
    format: str


@dataclass(frozen=True)
class Permissions:
    """Mode in octal digits, and numeric owner and group; None leaves the choice to libvirt."""

    mode: str | None = None
    owner: int | None = None
    group: int | None = None


def render(
    name: str,
    capacity: int,
    volume_format: str,
    backing: Backing | tuple[str, str] | None = None,
    permissions: Permissions | None = None,
    secret: str | None = None,
) -> str:
    """The XML of a volume of ``capacity`` bytes, thin: nothing is preallocated.

    libvirt encrypts it with the ``secret``, given by its UUID or usage.
    """
    root = _lxml.new("volume", {"type": "file"})
    _lxml.add(root, "name", text=name)
    _lxml.add(root, "allocation", {"unit": "bytes"}, "0")
    _lxml.add(root, "capacity", {"unit": "bytes"}, str(capacity))
    target = _lxml.add(root, "target")
    _lxml.add(target, "format", {"type": volume_format})
    if permissions is not None:
        element = _lxml.add(target, "permissions")
        for key in ("mode", "owner", "group"):
            value = getattr(permissions, key)
            if value is not None:
                _lxml.add(element, key, text=str(value))
    if volume_format == "qcow2":
        _lxml.add(target, "compat", text="1.1")
    if secret is not None:
        encryption.add(target, secret)
    if backing is not None:
        path, backing_format = backing
        element = _lxml.add(root, "backingStore")
        _lxml.add(element, "path", text=path)
        _lxml.add(element, "format", {"type": backing_format})
    return _lxml.tostring(root)
