# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A pool of files as libvirt's XML (virStoragePoolDefineXML): a directory, or one on NFS."""

from __future__ import annotations

import typing as t
import uuid

from ... import _lxml

if t.TYPE_CHECKING:
    from .nfs_options import NfsSource

# libvirt's namespace of mount options, since 5.1
MOUNT_OPTIONS = "http://libvirt.org/schemas/storagepool/fs/1.0"

# Of the UUIDs of the pools of directories that this makes, so that one that a kill left half made
# is told apart from one that somebody made, stopped, and keeps from starting at boot
_OURS = uuid.UUID("3b0f4f0e-6f0b-5d0e-9a53-2f6c1c6b7d11")


def uuid_of(name: str, path: str) -> str:
    """The UUID of a pool of that name in that folder if it was made here."""
    return str(uuid.uuid5(_OURS, f"{name}\n{path.rstrip('/')}"))


def render(name: str, path: str, nfs: NfsSource | None = None) -> str:
    """The XML of a pool in the directory ``path``, where libvirt mounts ``nfs`` if given."""
    root = _lxml.new("pool", {"type": "netfs" if nfs else "dir"})
    _lxml.add(root, "name", text=name)
    if nfs is None:
        _lxml.add(root, "uuid", text=uuid_of(name, path))
    if nfs:
        source = _lxml.add(root, "source")
        _lxml.add(source, "host", {"name": nfs.server})
        _lxml.add(source, "dir", {"path": nfs.export})
        _lxml.add(source, "format", {"type": "nfs"})
        _lxml.add(source, "protocol", {"ver": nfs.version})
    target = _lxml.add(root, "target")
    _lxml.add(target, "path", text=path)
    if nfs:
        options = _lxml.add(root, f"{{{MOUNT_OPTIONS}}}mount_opts")
        for option in nfs.mount_options:
            _lxml.add(options, f"{{{MOUNT_OPTIONS}}}option", {"name": option})
    return _lxml.tostring(root)
