# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parse libvirt's XML of a snapshot, and the disks of a definition."""

from __future__ import annotations

import typing as t

from ... import _lxml
from ..base import metadata
from ..base.xml_values import number, text_of
from .facts import EXTERNAL, INTERNAL, MADE_BY, MERGING, Snapshot, SnapshotDisk

if t.TYPE_CHECKING:
    from ..._lxml import Element

_PLACES = ("file", "dev", "name", "dir")  # attributes of <source>


def snapshot(text: str) -> Snapshot:
    """One snapshot by its XML."""
    root = _lxml.parse(text, "snapshot")
    domains = [one for tag in ("domain", "inactiveDomain") for one in root.iterfind(tag)]
    held = [disk for one in domains for disk in disks(one)]
    state = text_of(root.find("state")) or ""
    places = {
        one.get("snapshot") for one in (*root.iterfind("memory"), *root.iterfind("disks/disk"))
    }
    said = text_of(root.find("description")) or ""
    return Snapshot(
        name=text_of(root.find("name")) or "",
        parent=text_of(root.find("parent/name")),
        created=number(text_of(root.find("creationTime"))) or 0,
        state=state,
        kind=EXTERNAL if EXTERNAL in places or state == "disk-snapshot" else INTERNAL,
        ours=said in (MADE_BY, MADE_BY + MERGING),
        disks=tuple(dict.fromkeys(held)),
        stored=metadata.parse(_as_domain(domains[-1])) if domains else None,
        files=tuple(_files(root)),
        merging=said.endswith(MERGING),
    )


def _files(root: Element) -> t.Iterator[tuple[str, str]]:
    """The files that the VM has written to since, including those after reverting to it."""
    for tag in ("disks", "revertDisks"):
        for disk in root.iterfind(f"{tag}/disk"):
            source = disk.find("source")
            path = source.get("file") if source is not None else None
            if path:
                yield str(disk.get("name")), str(path)


def _as_domain(element: Element) -> Element:
    """A snapshot's ``<inactiveDomain>`` as a ``<domain>``."""
    element.tag = "domain"
    return element


def disks(domain: Element) -> t.Iterator[SnapshotDisk]:
    """The disks of a definition."""
    for disk in domain.iterfind("devices/disk"):
        target, driver, source = disk.find("target"), disk.find("driver"), disk.find("source")
        where = ""
        if source is not None:
            places = [str(source.get(one)) for one in _PLACES if source.get(one)]
            volume = f"{source.get('pool')}/{source.get('volume')}"
            where = volume if source.get("pool") else (places or [""])[0]
        yield SnapshotDisk(
            (target.get("dev") if target is not None else None) or "",
            where,
            # an empty drive has a format in one definition and none in the other
            driver.get("type") if driver is not None and where else None,
            disk.get("device") or "disk",
            disk.find("readonly") is not None,
            disk.get("snapshot"),
            disk.get("type") or "file",
        )
