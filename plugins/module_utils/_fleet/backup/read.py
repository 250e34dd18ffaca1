# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading a VM that is to be backed up from libvirt, and what this hypervisor has for it."""

from __future__ import annotations

import glob
import json
import os
import typing as t
from pathlib import Path

from ... import _lxml
from ..._errors import FleetVirtError, LibvirtFailure, PlanRefused
from ..._libvirt import DOMAIN_XML_INACTIVE
from ..._records import dataclass
from ..base import effects_deadline as deadline
from ..base import effects_locks as locks
from ..base import effects_programs as programs
from ..base import metadata
from ..base.effects_connection import Connection
from ..base.json_values import as_mapping, as_number
from ..base.states import state_name
from ..engine import effects_backups as units
from ..engine import effects_lease_holder as owners
from ..snapshots import guest_agent
from ..storage import encryption, read_data_files
from ..storage import read_file_systems as file_systems
from . import definition, places
from .archives import FORMATS, LeftOut
from .facts import FILES, JOB, BackupDisk, BackupFacts, BackupRequest

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..._lxml import Element
    from .definition import DefinedDisk, Definition

SOCKET = "fleet-virt-backup.sock"
JOB_ENDED = "job-ended"  # a file in the folder of a backup whose job has ended as it should
_PRIVATE = "/var/lib/libvirt/qemu/domain-{number}-*"
_MONITOR = "monitor.sock"
_LISTENING = "/proc/net/unix"
_MIB = 1024**2
_SECONDS = 60.0
_MOST_WHY = 500  # characters
_NO_JOB = 0
_PROGRAMS = {"borg": "borgbackup", "qemu-storage-daemon": "qemu-system-common or qemu-utils"}


def facts(connection: Connection, dom: VirDomain, wanted: BackupRequest) -> BackupFacts:
    """Read the current state of the VM."""
    name, uuid = str(dom.name()), str(dom.UUIDString())

    def ask() -> tuple[bool, bool, str, bool, str, str]:
        active, persistent = bool(dom.isActive()), bool(dom.isPersistent())
        stored = dom.XMLDesc(DOMAIN_XML_INACTIVE) if persistent else dom.XMLDesc(0)
        now = dom.XMLDesc(0) if active else stored
        saved = bool(dom.hasManagedSaveImage(0))
        return active, persistent, state_name(dom.state(0)[0]), saved, stored, now

    active, persistent, state, saved, stored, now = connection.call(f"read domain {name}", ask)
    root = _lxml.parse(now, f"domain {name}")
    kept = metadata.parse(_lxml.parse(stored, f"domain {name}"))
    made, disks, blockers = _definition(
        connection, dom, _lxml.parse(stored, f"domain {name}"), root if active else None
    )
    if not blockers:
        blockers = definition.unrestorable(made.root, [disk.target for disk in disks])
    blockers += _firmware(root, name)
    blockers += _missing(wanted, name, active=active, number=root.get("id"))
    unit = units.is_at_work(uuid)
    own_job = has_own_job(connection, dom)
    left = set() if unit or not own_job else {JOB}
    if not unit and (folder(uuid).exists() or scratch_files(wanted.scratch, uuid)):
        left.add(FILES)
    return BackupFacts(
        name=name,
        uuid=uuid,
        state=state,
        active=active,
        persistent=persistent,
        managed_save=saved,
        agent=active and guest_agent.is_connected(root),
        disks=tuple(disks),
        domain=definition.unmarked(made.root),
        left_out=tuple(LeftOut(target, why[:_MOST_WHY]) for target, why in made.left_out),
        blockers=tuple(blockers),
        job="backup" if own_job else _job(connection, dom),
        own_unit=unit,
        left=frozenset(left),
        scratch_mib=scratch_mib(wanted) if active else 0,
        stored=kept,
        holder=owners.holder(kept.owner) if kept is not None else None,
    )


def folder(uuid: str) -> Path:
    """Where the backup of the VM shows its disks to borg; it does not outlive a boot."""
    return locks.own_folder() / f"backup-{uuid}"


def scratch_file(scratch: str, uuid: str, target: str) -> str:
    """The file for what the guest overwrites on a disk."""
    return f"{scratch}/{uuid}-{target}.qcow2"


def scratch_files(scratch: str, uuid: str) -> list[str]:
    """The VM's files in the folder ``scratch``."""
    return sorted(glob.glob(f"{glob.escape(scratch)}/{uuid}-*.qcow2"))


def scratch_mib(wanted: BackupRequest) -> int:
    """How much a guest may overwrite: the free space, and no more than was given."""
    place = Path(wanted.scratch)
    while not place.exists():
        place = place.parent
    space = os.statvfs(place)
    free = int(space.f_bavail * space.f_frsize // _MIB)
    return free if wanted.scratch_mib is None else min(free, wanted.scratch_mib)


def private_folder(number: str | None) -> str | None:
    """The folder of a running domain that its QEMU and root alone may enter.

    After a loss of power there are still those of VMs that had the number before: theirs have no
    monitor that listens.
    """
    matches = glob.glob(_PRIVATE.format(number=number)) if number else []
    if len(matches) > 1:
        sockets = Path(_LISTENING).read_text(encoding="utf-8", errors="replace").split()
        matches = [folder for folder in matches if f"{folder}/{_MONITOR}" in sockets]
    return matches[0] if len(matches) == 1 else None


def has_own_job(connection: Connection, dom: VirDomain) -> bool:
    """Whether libvirt has a backup job of this collection for the domain."""
    try:
        text = connection.call(f"read the backup of {dom.name()}", dom.backupGetXMLDesc, 0)
    except LibvirtFailure:
        return False  # none, or it was shut off
    server = _lxml.parse(text, f"backup of {dom.name()}").find("server")
    return server is not None and os.path.basename(server.get("socket") or "") == SOCKET


def _job(connection: Connection, dom: VirDomain) -> str | None:
    try:
        kind = int(connection.call(f"read the job of {dom.name()}", dom.jobInfo)[0])
    except LibvirtFailure:
        return None  # it is shut off
    return None if kind == _NO_JOB else "see virsh domjobinfo"


def _firmware(root: Element, name: str) -> list[str]:
    if root.find("os/varstore") is not None:
        return [f"the UEFI variables of {name!r} are in a varstore; those in an nvram can be saved"]
    nvram = root.find("os/nvram")
    kind = "file" if nvram is None else nvram.get("type", "file")
    if kind == "file":
        return []
    return [f"the UEFI variables of {name!r} are of type {kind}; those in files can be saved"]


@dataclass
class _Source:
    """Where a disk's content is: a path, or what libvirt calls it, and why it cannot be saved."""

    path: str
    why: str = ""


class _Sources:
    """Where the disks of the VM have their content; each volume is looked up once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._volumes: dict[tuple[str, str], _Source] = {}

    def of(self, disk: Element) -> _Source:
        """Where the content of ``disk`` is."""
        source = disk.find("source")
        if source is None:
            return _Source("", "it has no source")
        if disk.get("type") == "volume":
            pool, volume = source.get("pool", ""), source.get("volume", "")
            if (pool, volume) not in self._volumes:
                self._volumes[pool, volume] = self._volume(pool, volume)
            return self._volumes[pool, volume]
        path = source.get("file") or source.get("dev") or ""
        return (
            _Source(path) if path.startswith("/") else _Source(str(sorted(source.attrib.items())))
        )

    def place(self, disk: Element) -> str:
        """The same for whatever is the same file or device."""
        path = self.of(disk).path
        if not path.startswith("/"):
            return path
        return deadline.call(
            lambda: os.path.realpath(path), seconds=_SECONDS, what=f"look at {path}"
        )

    def _volume(self, pool: str, volume: str) -> _Source:
        connection = self._connection
        try:
            handle = connection.call(
                f"look for pool {pool}", connection.conn.storagePoolLookupByName, pool
            )
            in_pool = connection.call(
                f"look for volume {volume}", handle.storageVolLookupByName, volume
            )
            return _Source(str(connection.call(f"read volume {volume}", in_pool.path)))
        except LibvirtFailure as error:
            return _Source(f"{pool}/{volume}", f"its volume {pool}/{volume} is not there: {error}")


def _definition(
    connection: Connection, dom: VirDomain, stored: Element, running: Element | None
) -> tuple[Definition, list[BackupDisk], list[str]]:
    """The definition for the archive, its disks, and why some cannot be saved."""
    sources, name = _Sources(connection), str(dom.name())
    made = definition.for_archive(stored, running, sources.place)
    disks, blockers = [], []
    for disk in list(made.disks):
        source = sources.of(disk.element)
        why = _unsaved(disk.element, source)
        if not why:
            try:
                disks.append(_saved_disk(connection, dom, disk, source.path))
            except FleetVirtError as error:
                why = f"cannot be read ({error})"
        if why and (disk.readonly or disk.waits):
            made.leave_out(disk.target, f"it {why}")
        elif why:
            blockers.append(f"disk {disk.target} of {name!r} {why}")
    return made, disks, blockers


def _unsaved(disk: Element, source: _Source) -> str:
    """Why a disk cannot be saved, empty if it can."""
    if disk.find("shareable") is not None:
        return (
            "is shareable: other VMs write to it, so no moment of it is this VM's; detach it first"
        )
    if encryption.secret_of(disk):
        return "is encrypted by QEMU, and would be saved in clear; back up from inside the guest"
    if source.why:
        return f"cannot be saved: {source.why}"
    driver = disk.find("driver")
    kind = None if driver is None else driver.get("type")
    if not source.path.startswith("/") or kind not in FORMATS:
        return (
            f"is {kind or 'of no format'} of type {disk.get('type', 'file')}; files and block"
            f" devices in {' and '.join(FORMATS)} can be saved"
        )
    return ""


def _saved_disk(connection: Connection, dom: VirDomain, disk: DefinedDisk, path: str) -> BackupDisk:
    driver = disk.element.find("driver")
    kind = "" if driver is None else driver.get("type", "")
    size = None
    if not disk.written:
        there = deadline.call(
            lambda: os.path.lexists(path), seconds=_SECONDS, what=f"look at {path}"
        )
        if not there:
            raise PlanRefused(f"{path} does not exist")
    aside = disk.waits or disk.readonly
    if not aside:
        try:
            size = int(
                connection.call(f"read disk {disk.target}", dom.blockInfo, disk.target, 0)[0]
            )
        except LibvirtFailure:  # it knows no volume of a VM that is off
            size = None
    if size is None:
        # What another VM writes to has no moment of this one, which does not run from it or only
        # reads it: who writes holds a lock
        share = () if aside else ("--force-share",)
        words = ["qemu-img", "info", "--output=json", *share, "-f", kind, path]
        said = as_mapping(json.loads(programs.run(words, seconds=_SECONDS)))
        size = as_number(said.get("virtual-size"))
    if size is None:
        raise PlanRefused(f"the size of {path} is not known")
    block = disk.element.get("type") == "block" or path.startswith("/dev/")
    data = read_data_files.find(connection, disk.element, path)
    return BackupDisk(disk.target, path, kind, size, block, disk.written, data and data[:_MOST_WHY])


def _missing(wanted: BackupRequest, name: str, *, active: bool, number: str | None) -> list[str]:
    """What this hypervisor lacks for it."""
    problems = [
        f"{program} is not installed here; install {package}, or set libvirtd_backup: true and run"
        " ansible-playbook fleet.virt.setup_hypervisors"
        for program, package in _PROGRAMS.items()
        if programs.find(program) is None
    ]
    if not os.path.exists("/dev/fuse"):
        problems.append("/dev/fuse does not exist here; load the kernel's module fuse")
    if active and private_folder(number) is None:
        problems.append(
            f"libvirt's own folder of {name!r} was not found ({_PRIVATE.format(number=number)});"
            " only the system's libvirt (qemu:///system) can be backed up"
        )
    place = places.parse(wanted.to)
    if place.is_folder:
        problems += deadline.call(
            lambda: list(_folder_problems(place.folder)),
            seconds=30.0,
            what=f"look at {place.folder}",
        )
    return problems


def _folder_problems(path: str) -> t.Iterator[str]:
    if not os.path.isdir(path):
        yield f"{path} does not exist here; mount the place of backups there"
    elif not file_systems.is_shared(path):
        yield (
            f"{path} is on a disk of this hypervisor, and what is lost with it is no backup; mount"
            " a network file system there, or give a server (ssh://backup@server/srv/backup)"
        )
