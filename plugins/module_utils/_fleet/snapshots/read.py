# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading a VM and its snapshots from libvirt."""

from __future__ import annotations

import dataclasses
import os
import typing as t

from ... import _lxml
from ..._libvirt import DOMAIN_XML_INACTIVE
from ..base import effects_deadline as deadline
from ..base import metadata
from ..base.effects_connection import Connection
from ..base.names import playbook_command
from ..base.states import state_name
from ..base.xml_values import bytes_of
from ..engine import effects_lease_holder as owners
from ..storage import encryption
from ..storage import read_file_users as ownership
from . import external as files
from . import guest_agent, parsed
from .facts import EXTERNAL, SnapshotDisk, SnapshotFacts, SnapshotRequest, ordered

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..._lxml import Element

_MIB = 1024**2


def facts(connection: Connection, dom: VirDomain) -> SnapshotFacts:
    """Read the current state of the VM."""
    name = str(dom.name())

    def ask() -> tuple[SnapshotFacts, str, str, list[str], str | None]:
        active = bool(dom.isActive())
        persistent = bool(dom.isPersistent())
        stored = dom.XMLDesc(DOMAIN_XML_INACTIVE) if persistent else dom.XMLDesc(0)
        now = dom.XMLDesc(0) if active else stored
        current = str(dom.snapshotCurrent(0).getName()) if dom.hasCurrentSnapshot(0) else None
        basics = SnapshotFacts(
            name=name,
            uuid=str(dom.UUIDString()),
            state=state_name(dom.state(0)[0]),
            active=active,
            persistent=persistent,
            managed_save=bool(dom.hasManagedSaveImage(0)),
        )
        return (
            basics,
            stored,
            now,
            [snapshot.getXMLDesc(0) for snapshot in dom.listAllSnapshots(0)],
            current,
        )

    basics, stored, now, snapshots, current = connection.call(f"read domain {name}", ask)
    defined, running = _lxml.parse(stored, f"domain {name}"), _lxml.parse(now, f"domain {name}")
    disks = tuple(parsed.disks(running))
    snapshot_blockers = list(_snapshot_blockers(name, running))
    if basics.active and basics.persistent and disks != tuple(parsed.disks(defined)):
        snapshot_blockers.append(
            f"{name!r} is running with other disks than its definition has; shut it down and start"
            " it, so that both are the same"
        )
    kept = metadata.parse(defined)
    return SnapshotFacts(
        **{
            **vars(basics),
            "memory_mib": (bytes_of(running.find("memory"), "KiB") or 0) // _MIB,
            "free_mib": _free_mib(connection, disks),
            "disks": disks,
            "snapshot_blockers": tuple(snapshot_blockers),
            "memory_blockers": tuple(_memory_blockers(name, running)) if basics.active else (),
            "agent": basics.active and guest_agent.is_connected(running),
            "libvirt": connection.call("read libvirt's version", connection.conn.getLibVersion),
            "stored": kept,
            "holder": owners.holder(kept.owner) if kept is not None else None,
            "snapshots": ordered(map(parsed.snapshot, snapshots)),
            "current": current,
        }
    )


def with_files(
    connection: Connection, current: SnapshotFacts, wanted: SnapshotRequest
) -> SnapshotFacts:
    """Add which of the files to create exist, and who else needs those that may be removed."""
    if not connection.local:
        return current
    disks = [disk for disk in current.disks if disk.taken] if wanted.disk_only else []
    paths = [files.path_of(current, disk, wanted.snapshot) for disk in disks]
    there = deadline.call(
        lambda: frozenset(path for path in paths if os.path.lexists(path)),
        seconds=connection.timeout,
        what=f"look beside the disks of {current.name}",
    )
    return dataclasses.replace(current, there=there, used=_used(connection, current))


def _used(connection: Connection, current: SnapshotFacts) -> dict[str, str]:
    """By snapshot, who else uses a file that would be merged, or the one it is merged into."""
    ours = [snapshot for snapshot in current.of_kind(EXTERNAL) if snapshot.ours]
    if not ours:
        return {}
    references = ownership.read(connection)
    own = {disk.source for disk in current.disks}
    for snapshot in current.snapshots:
        own |= {path for _target, path in snapshot.files} | {disk.source for disk in snapshot.disks}
    problems = {}
    for snapshot in ours:
        targets = {target for target, _path in snapshot.files}
        lower = {disk.source for disk in snapshot.disks if disk.target in targets}
        for path in sorted({path for _target, path in snapshot.files} | lower):
            users = sorted(
                user.text
                for user in references.users(path)
                if (user.uuid != current.uuid if user.image is None else user.image not in own)
            )
            if users:
                problems[snapshot.name] = (
                    f"{path} of snapshot {snapshot.name} of {current.name!r} is needed by others:"
                    f" {'; '.join(users)}; make those independent of it first (virsh blockpull;"
                    " what a transient disk has goes when its VM is shut off)"
                )
    return problems


def merged_bytes(connection: Connection, current: SnapshotFacts) -> int:
    """The most that the files of its snapshots occupy, as far as that is known."""
    paths = {path for snapshot in current.snapshots for _target, path in snapshot.files}

    def sizes() -> int:
        return sum(os.stat(path).st_size for path in paths if os.path.exists(path))

    if not connection.local or not paths:
        return 0
    what = f"look at the files of the snapshots of {current.name}"
    return deadline.call(sizes, seconds=connection.timeout, what=what)


def _snapshot_blockers(name: str, domain: Element) -> t.Iterator[str]:
    """Parts of the VM that would not be reverted with its disks."""
    if domain.find("os/nvram") is not None or domain.find("os/loader[@type='pflash']") is not None:
        yield (
            f"{name!r} has UEFI firmware, whose variables are in a file that snapshots do not"
            " include; create VMs that are to have snapshots with firmware bios"
        )
    if domain.find("devices/tpm/backend[@type='emulator']") is not None:
        yield (
            f"{name!r} has a TPM, whose state is in a file that snapshots do not include; create"
            " VMs that are to have snapshots without one"
        )
    if any(encryption.secret_of(disk) for disk in domain.iterfind("devices/disk")):
        yield (
            f"{name!r} has an encrypted disk, for which libvirt would create an overlay that is not"
            " encrypted; create VMs that are to have snapshots without one"
        )
    if domain.find("devices/disk/shareable") is not None:
        yield (
            f"{name!r} has a disk that other VMs may write to (shareable), which cannot be reverted"
            " for one VM alone; detach it first"
        )


def _memory_blockers(name: str, domain: Element) -> t.Iterator[str]:
    """Parts of a running VM that prevent saving its memory."""
    for tag, what in (("filesystem", "shared folders"), ("hostdev", "devices of its hypervisor")):
        if domain.find(f"devices/{tag}") is not None:
            yield (
                f"{name!r} is running with {what}, so its memory cannot be saved; shut it down"
                f" ({playbook_command('state', vm_name=name, vm_state='shutoff')}), or take a"
                " snapshot of its disks only (disk_only)"
            )


def _free_mib(connection: Connection, disks: t.Iterable[SnapshotDisk]) -> int | None:
    """The free space where the VM's memory would be saved: at its first disk."""
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
