# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pool and volume XML (virStoragePoolGetXMLDesc, virStorageVolGetXMLDesc) as facts.

MiB are rounded conservatively: existing or free space down, used or promised space up.
"""

from __future__ import annotations

import typing as t

from ..base.xml_values import (
    attribute,
    bytes_of,
    first_children,
    mib_down,
    mib_up,
    read_root,
    text_of,
)
from .pool_xml import MOUNT_OPTIONS

if t.TYPE_CHECKING:
    from ..._lxml import Element
    from ..base.snapshot import PoolInfo, PoolSource, VolumeInfo


def pool(xml: str, what: str = "pool") -> PoolInfo:
    """Facts about a storage pool. For an inactive pool libvirt reports sizes of 0.

    Raises XmlError if the document is not readable or not a ``<pool>``.
    """
    root = read_root(xml, "pool", what)
    top = first_children(root)
    return {
        "name": text_of(top.get("name")),
        "uuid": text_of(top.get("uuid")),
        "type": attribute(root, "type"),
        "path": text_of(first_children(top.get("target")).get("path")),
        "capacity_mib": mib_down(bytes_of(top.get("capacity"), "bytes")),
        "allocation_mib": mib_up(bytes_of(top.get("allocation"), "bytes")),
        "available_mib": mib_down(bytes_of(top.get("available"), "bytes")),
        "source": _pool_source(top.get("source")),
    }


def _pool_source(source: Element | None) -> PoolSource:
    """The source of the pool's space; credentials (``<auth>``) are left out."""
    children = first_children(source)
    hosts = [] if source is None else [host.get("name") for host in source.iterchildren("host")]
    devices = (
        [] if source is None else [device.get("path") for device in source.iterchildren("device")]
    )
    return {
        "name": text_of(children.get("name")),
        "format": attribute(children.get("format"), "type"),
        "dir": attribute(children.get("dir"), "path"),
        "hosts": [host for host in hosts if host],
        "devices": [device for device in devices if device],
    }


def nfs_options(xml: str, what: str = "pool") -> list[str] | None:
    """The mount options that a pool's definition gives for NFS; None for any other pool."""
    root = read_root(xml, "pool", what)
    if attribute(root, "type") != "netfs":
        return None
    source = first_children(first_children(root).get("source"))
    if attribute(source.get("format"), "type") not in (None, "auto", "nfs"):
        return None  # CIFS or GlusterFS
    version = attribute(source.get("protocol"), "ver")
    named = root.iterfind(f"{{{MOUNT_OPTIONS}}}mount_opts/{{{MOUNT_OPTIONS}}}option")
    given = [str(option.get("name") or "") for option in named]
    # libvirt gives the version first
    return [*([f"nfsvers={version}"] if version else []), *given]


def volume(xml: str, what: str = "volume") -> VolumeInfo:
    """Facts about a storage volume.

    Raises XmlError if the document is not readable or not a ``<volume>``.
    """
    root = read_root(xml, "volume", what)
    top = first_children(root)
    target, backing = first_children(top.get("target")), first_children(top.get("backingStore"))
    capacity = bytes_of(top.get("capacity"), "bytes")
    allocation = bytes_of(top.get("allocation"), "bytes")
    return {
        "name": text_of(top.get("name")),
        "key": text_of(top.get("key")),
        "type": attribute(root, "type"),
        "path": text_of(target.get("path")),
        "format": attribute(target.get("format"), "type"),
        "capacity_bytes": capacity,
        "allocation_bytes": allocation,
        "capacity_mib": mib_up(capacity),
        "allocation_mib": mib_up(allocation),
        "backing": text_of(backing.get("path")),
        "backing_format": attribute(backing.get("format"), "type"),
    }
