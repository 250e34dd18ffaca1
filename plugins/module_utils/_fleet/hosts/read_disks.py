# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The actual state of domains' disks: their volume, sizes, backing file, and problems."""

from __future__ import annotations

import typing as t

from ..._errors import FleetVirtError
from ..._units import MIB
from ..base.effects_connection import Connection
from ..base.states import ACTIVE_STATES
from ..storage import read_paths as paths
from ..storage.read_pools import VolumeHandle, Volumes, describe_volume

if t.TYPE_CHECKING:
    from ..base.snapshot import DiskEntry, DomainEntry

# virStorageType: what has a path on the hypervisor
_LOCAL = ("file", "block")
SILENT = "does not answer"  # said of storage that hangs


class Disks:
    """What is known of the disks of all domains of a host, with as few calls as possible."""

    def __init__(self, connection: Connection, entries: t.Sequence[DomainEntry]) -> None:
        self._volumes = Volumes(connection)
        self._found = paths.Probed()
        if connection.local:
            wanted = (path for entry in entries for path in self._paths(entry))
            self._found = paths.probe(wanted, connection.timeout)

    def _handle(self, disk: DiskEntry) -> VolumeHandle | None:
        if disk["type"] == "volume":
            return self._volumes.named(str(disk["pool"]), str(disk["volume"]))
        return self._volumes.at_path(disk["source"])

    def _paths(self, entry: DomainEntry) -> list[str]:
        """The files that libvirt would open to read the sizes of the entry's disks."""
        images = []
        for disk in entry["disks"]:
            images += [self._path(disk, self._handle(disk)), disk["backing"] or ""]
        return [path for path in images if path.startswith("/")]

    def hang(self, entry: DomainEntry) -> bool:
        """Whether the storage of one of the domain's disks does not respond."""
        return not self._found.hanging.isdisjoint(self._paths(entry))

    def complete(
        self, entry: DomainEntry, sizes: t.Mapping[str | None, tuple[int | None, int | None]]
    ) -> list[str]:
        """Fill in the entry's disks; returns their problems. ``sizes`` by target are known already.

        To be called inside :meth:`Connection.each`: reading a volume may hang, however unlikely.
        """
        problems: list[str] = []
        hang = self.hang(entry)
        for disk in entry["disks"]:
            disk["size_mib"], disk["allocation_mib"] = sizes.get(disk["target"], (None, None))
            handle = self._handle(disk)
            file = self._found.files.get(self._path(disk, handle))
            problem = None
            if file is not None and file.qcow2 is False and disk["format"] == "qcow2":
                disk["size_mib"] = disk["backing"] = None
                problem = "the file is not a qcow2 image, although the definition says so"
            if handle is not None:
                disk["pool"], disk["volume"] = handle.pool, handle.name
                if not hang and not problem:
                    problem = _from_volume(disk, handle, file, entry["state"])
            if file is not None:
                disk["allocation_mib"] = -(-file.occupied // MIB)
            if disk["size_mib"] is None and disk["source"]:
                problem = problem or self._why_unknown(disk, handle, entry["state"])
            if problem:
                problems.append(f"disk {disk['target']}: {problem}")
        return problems

    @staticmethod
    def _path(disk: DiskEntry, handle: VolumeHandle | None) -> str:
        if handle is not None:
            return handle.path
        return str(disk["source"]) if disk["type"] in _LOCAL and disk["source"] else ""

    def _why_unknown(
        self, disk: DiskEntry, handle: VolumeHandle | None, state: str | None
    ) -> str | None:
        """Why there is no size; None if that is no problem (a disk of another machine)."""
        path = self._path(disk, handle)
        for candidate in (path, str(disk["backing"])):
            if candidate in self._found.hanging:
                return f"{candidate} {SILENT}"
        if handle is not None:
            return None
        if disk["type"] == "volume":
            if self._volumes.errors:
                return "; ".join(self._volumes.errors)
            if disk["pool"] not in self._volumes.active:
                return f"pool {disk['pool']} is not active"
            return f"pool {disk['pool']} lists no volume {disk['volume']}"
        if path in self._found.errors and state not in ACTIVE_STATES:
            return f"{path}: {self._found.errors[path]}"
        return None


def _from_volume(
    disk: DiskEntry, handle: VolumeHandle, file: paths.RegularFile | None, state: str | None
) -> str | None:
    """Complete the disk from its volume; returns why that failed, if it was needed."""
    # libvirt reports the chain of a running domain; of one that is shut off only if its
    # definition does, so the header of the volume is read, unless we have read it already
    unknown = not disk["backing_known"] and state not in ACTIVE_STATES
    if unknown and disk["format"] == "raw":
        unknown = False  # QEMU looks for no backing file, whatever a guest wrote there
    elif unknown and file is not None and file.backing_known:
        disk["backing"] = disk["backing"] or file.backing
        unknown = False
    if not unknown and disk["size_mib"] is not None:
        return None
    try:
        volume = describe_volume(handle)
    except FleetVirtError as error:
        return str(error)
    if unknown:
        disk["backing"] = disk["backing"] or volume["backing"]
    if disk["size_mib"] is None:
        disk["size_mib"] = volume["capacity_mib"]
        disk["allocation_mib"] = volume["allocation_mib"]
    return None
