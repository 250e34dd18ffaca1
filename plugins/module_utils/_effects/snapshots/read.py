# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What libvirt says of a VM and of its snapshots.

This file is private to the collection.
"""

from __future__ import annotations

import os
import typing as t

from ... import _lxml
from ..._libvirt import DOMAIN_XML_INACTIVE
from ..._pure.base import metadata
from ..._pure.base.states import state_name
from ..._pure.base.xml_values import bytes_of, number, text_of
from ..._pure.machine import encryption
from ..._pure.snapshots.plan import EXTERNAL, INTERNAL, MADE_BY, Disk, Facts, Snapshot, ordered
from ..base import deadline
from ..base.connection import Connection

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..._lxml import Element

_MIB = 1024**2
_PLACES = ("file", "dev", "name", "dir")  # attributes of <source>


def facts(connection: Connection, raw: VirDomain) -> Facts:
    """The VM as it is now."""
    name = str(raw.name())

    def ask() -> tuple[Facts, str, str, list[str], str | None]:
        active = bool(raw.isActive())
        persistent = bool(raw.isPersistent())
        stored = raw.XMLDesc(DOMAIN_XML_INACTIVE) if persistent else raw.XMLDesc(0)
        now = raw.XMLDesc(0) if active else stored
        current = str(raw.snapshotCurrent(0).getName()) if raw.hasCurrentSnapshot(0) else None
        found = Facts(
            name=name,
            uuid=str(raw.UUIDString()),
            state=state_name(raw.state(0)[0]),
            active=active,
            persistent=persistent,
            managed_save=bool(raw.hasManagedSaveImage(0)),
        )
        return found, stored, now, [one.getXMLDesc(0) for one in raw.listAllSnapshots(0)], current

    found, stored, now, snapshots, current = connection.call(f"read domain {name}", ask)
    kept, running = _lxml.parse(stored, f"domain {name}"), _lxml.parse(now, f"domain {name}")
    disks = tuple(_disks(running))
    unfit = list(_unfit(name, running, active=found.active))
    if found.active and found.persistent and disks != tuple(_disks(kept)):
        unfit.append(
            f"{name!r} runs with other disks than its definition has; shut it down and start it, so"
            " that both are the same"
        )
    return Facts(
        **{
            **vars(found),
            "memory_mib": (bytes_of(running.find("memory"), "KiB") or 0) // _MIB,
            "free_mib": _free_mib(connection, disks),
            "disks": disks,
            "unfit": tuple(unfit),
            "stored": metadata.parse(kept),
            "snapshots": ordered(map(_snapshot, snapshots)),
            "current": current,
        }
    )


def _snapshot(text: str) -> Snapshot:
    root = _lxml.parse(text, "snapshot")
    domains = [one for tag in ("domain", "inactiveDomain") for one in root.iterfind(tag)]
    disks = [disk for one in domains for disk in _disks(one)]
    state = text_of(root.find("state")) or ""
    places = {
        one.get("snapshot") for one in (*root.iterfind("memory"), *root.iterfind("disks/disk"))
    }
    return Snapshot(
        name=text_of(root.find("name")) or "",
        parent=text_of(root.find("parent/name")),
        created=number(text_of(root.find("creationTime"))) or 0,
        state=state,
        kind=EXTERNAL if EXTERNAL in places or state == "disk-snapshot" else INTERNAL,
        ours=text_of(root.find("description")) == MADE_BY,
        disks=tuple(dict.fromkeys(disks)),
        stored=metadata.parse(_as_domain(domains[-1])) if domains else None,
    )


def _as_domain(element: Element) -> Element:
    """What a snapshot keeps of the next start's definition has a name of its own."""
    element.tag = "domain"
    return element


def _disks(domain: Element) -> t.Iterator[Disk]:
    for disk in domain.iterfind("devices/disk"):
        target, driver, source = disk.find("target"), disk.find("driver"), disk.find("source")
        where = ""
        if source is not None:
            places = [str(source.get(one)) for one in _PLACES if source.get(one)]
            volume = f"{source.get('pool')}/{source.get('volume')}"
            where = volume if source.get("pool") else (places or [""])[0]
        yield Disk(
            (target.get("dev") if target is not None else None) or "",
            where,
            driver.get("type") if driver is not None else None,
            disk.get("device") or "disk",
            disk.find("readonly") is not None,
            disk.get("snapshot"),
        )


def _unfit(name: str, domain: Element, *, active: bool) -> t.Iterator[str]:
    """Parts of the VM that would not go back with its disks, or keep its memory from being kept."""
    if domain.find("os/nvram") is not None or domain.find("os/loader[@type='pflash']") is not None:
        yield (
            f"{name!r} has UEFI firmware, whose variables are in a file that no snapshot holds;"
            " make VMs that are to have snapshots with firmware bios"
        )
    if domain.find("devices/tpm/backend[@type='emulator']") is not None:
        yield (
            f"{name!r} has a TPM, whose state is in a file that no snapshot holds; make VMs that"
            " are to have snapshots without one"
        )
    if any(encryption.secret_of(one) for one in domain.iterfind("devices/disk")):
        yield (
            f"{name!r} has a disk that is encrypted, over which libvirt would lay one that is not;"
            " make VMs that are to have snapshots without one"
        )
    if domain.find("devices/disk/shareable") is not None:
        yield (
            f"{name!r} has a disk that others may write to (shareable), which cannot go back alone;"
            " take it out first"
        )
    if not active:
        return
    for tag, what in (("filesystem", "shared folders"), ("hostdev", "devices of its hypervisor")):
        if domain.find(f"devices/{tag}") is not None:
            yield (
                f"{name!r} runs with {what}, with which its memory cannot be kept; shut it down,"
                " and its disks can be (fleet.virt.state -e vm_state=shutoff)"
            )


def _free_mib(connection: Connection, disks: t.Iterable[Disk]) -> int | None:
    """What is left where the memory of the VM would go: into its first disk."""
    first = next((disk.source for disk in disks if disk.taken), "")
    if not connection.local or not first.startswith("/"):
        return None
    try:
        space = deadline.call(
            lambda: os.statvfs(first), seconds=connection.timeout, what=f"look at {first}"
        )
    except OSError:
        return None
    return int(space.f_bavail * space.f_frsize // _MIB)
