# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading what belongs to a domain that is to be removed."""

from __future__ import annotations

import functools
import glob
import os
import stat
import typing as t

from ... import _lxml
from ..._libvirt import (
    DOMAIN_XML_INACTIVE,
)
from ..base import metadata
from ..base.effects_connection import Connection
from ..base.metadata import Owner, OwnVolume
from ..base.states import state_name
from ..base.xml_values import mib_up
from ..engine import effects_lease_holder as owners
from ..hosts import domain_info
from ..snapshots import external as files
from ..snapshots import facts as snapshot_facts
from ..snapshots import parsed
from ..snapshots.facts import Snapshot
from ..storage import effects_own_files as owned
from ..storage import image_format
from ..storage import read_file_users as ownership
from ..storage.read_file_users import References
from .plan import DomainFacts, VolumeFacts

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain
    from ..base.snapshot import DiskEntry, DomainInfo

BACKING = "a backing file"
_LOG_FOLDER = "/var/log/libvirt/qemu"
_NVRAM_FOLDER = "/var/lib/libvirt/qemu/nvram/"


class _Live(t.TypedDict):
    uuid: str
    active: bool
    persistent: bool
    managed_save: bool
    snapshots: tuple[str, ...]
    external_snapshots: tuple[str, ...]
    state: str


def read_domain(
    connection: Connection, dom: VirDomain, references: References, me: Owner | None = None
) -> DomainFacts:
    """Read the domain with everything that is removed or left with it, except its volumes.

    ``me`` does not count as another owner at work on it.
    """
    name = str(dom.name())

    def ask() -> tuple[str, _Live]:
        state = state_name(dom.state(0)[0])
        snapshots = sorted(_snapshots(dom), key=lambda snapshot: snapshot.name)
        others = tuple(
            snapshot.name
            for snapshot in snapshots
            if snapshot.kind == snapshot_facts.EXTERNAL and not snapshot.ours
        )
        facts: _Live = {
            "uuid": str(dom.UUIDString()),
            "active": bool(dom.isActive()),
            "persistent": bool(dom.isPersistent()),
            "managed_save": bool(dom.hasManagedSaveImage(0)),
            "snapshots": tuple(
                snapshot.name for snapshot in snapshots if snapshot.name not in others
            ),
            "external_snapshots": others,
            "state": state,
        }
        return dom.XMLDesc(DOMAIN_XML_INACTIVE), facts

    text, facts = connection.call(f"read domain {name}", ask)
    stored = metadata.parse(_lxml.parse(text, f"domain {name}"))
    info = domain_info.parse(text, f"domain {name}")
    nvram = info["firmware"]["nvram"]
    return DomainFacts(
        name=name,
        **facts,
        metadata=stored,
        holder=owners.holder(stored.owner) if stored is not None and stored.owner != me else None,
        disks=tuple(_disks(info, references)),
        nvram=nvram if nvram and os.path.lexists(nvram) else None,
        nvram_own=bool(nvram) and _own_nvram(str(nvram), facts["uuid"], references),
        logs=tuple(_logs(name, facts["uuid"], info, references)),
    )


def _snapshots(dom: VirDomain) -> list[Snapshot]:
    return [parsed.snapshot(snapshot.getXMLDesc(0)) for snapshot in dom.listAllSnapshots(0)]


def own_files(connection: Connection, dom: VirDomain) -> tuple[OwnVolume, ...]:
    """The files that the domain's snapshots have created, overlays before their backing files."""
    name = str(dom.name())

    def ask() -> tuple[str, list[Snapshot]]:
        return dom.XMLDesc(DOMAIN_XML_INACTIVE), _snapshots(dom)

    text, snapshots = connection.call(f"read domain {name}", ask)
    root = _lxml.parse(text, f"domain {name}")
    return files.own_files(metadata.parse(root), parsed.disks(root), snapshots)


def _disks(info: DomainInfo, references: References) -> t.Iterator[tuple[str, str]]:
    """Each existing disk with a description, and its backing files."""
    for disk in info["disks"]:
        path = _path_of(disk, references)
        if path is None or not os.path.lexists(path):
            continue
        kind = "its disk" if disk["device"] == "disk" else f"its {disk['device']} medium"
        yield path, f"{kind} ({disk['target']})"
        waiting, seen = list(references.chains.get(path, ())), {path}
        while waiting:
            below = waiting.pop(0)
            if below not in seen:
                seen.add(below)
                yield below, BACKING
                waiting += references.chains.get(below, ())


def _path_of(disk: DiskEntry, references: References) -> str | None:
    if disk["type"] == "volume":
        pool = references.pools.get(str(disk["pool"]))
        return f"{pool.path}/{disk['volume']}" if pool and pool.path else None
    source = disk["source"]
    return str(source) if source and str(source).startswith("/") else None


def _others(path: str, uuid: str, references: References) -> list[str]:
    """Describe who else than the domain ``uuid`` uses the file."""
    return sorted({user.text for user in references.users(path) if user.uuid != uuid})


def _own_nvram(path: str, uuid: str, references: References) -> bool:
    """Whether the file is one that libvirt made for this domain alone."""
    return (
        os.path.normpath(path) == path
        and path.startswith(_NVRAM_FOLDER)
        and not _others(path, uuid, references)
    )


def _logs(name: str, uuid: str, info: DomainInfo, references: References) -> t.Iterator[str]:
    """The serial console's log, if named by this collection, with those that virtlogd rotated."""
    path = f"{_LOG_FOLDER}/{name}-console.log"
    if path not in [console["log"] for console in info["consoles"]]:
        return
    # a domain of that name has its own log there, by libvirt's naming
    if _others(path, uuid, references) or f"{name}-console" in references.domains:
        return
    for log in [path, *sorted(glob.glob(f"{glob.escape(path)}.[0-9]"))]:
        if os.path.isfile(log) and not os.path.islink(log):
            yield log


def read_volume(
    own: OwnVolume,
    uuid: str,
    disks: t.Collection[str],
    references: References,
    asked: t.Collection[str],
    *,
    claimed: bool,
    made: t.Sequence[OwnVolume] = (),
) -> VolumeFacts:
    """Read one of the domain's own volumes; ``disks`` are the paths of all its disks.

    ``made`` are files that its snapshots have created, of which ``own`` may be one. ``claimed``:
    the domain is the claim of a creation, which may not have created the volume yet.
    """
    pool = references.pools.get(own.pool)
    left_behind = os.path.lexists(own.path)
    if pool is None or pool.path is None or pool.type not in ownership.FOLDER_TYPES:
        return VolumeFacts(own, pool.type if pool else None, left_behind=left_behind)
    path = ownership.volume_path(own, pool)
    volume_facts = functools.partial(
        VolumeFacts,
        own,
        pool_type=pool.type,
        pool_path=pool.path,
        pool_active=pool.active,
        shared=pool.shared,
        asked=path in asked,
    )
    inside = own.name not in (".", "..") and "/" not in own.name
    if not inside:
        return volume_facts(left_behind=left_behind)
    kind = _kind(path)
    if kind != "file":
        return volume_facts(path=path, kind=kind, left_behind=left_behind)
    users = references.users(path)
    above = {volume.path for volume in made}
    images = {user.image for user in users if user.image is not None}
    overlays = images & set(disks) - above
    known = {*overlays, *above}
    others = {user.text for user in users if user.uuid != uuid and user.image not in known}
    attached = own in made or bool(images & above)
    return volume_facts(
        path=path,
        kind=kind,
        size_mib=_size(path),
        attached=attached
        or any(os.path.realpath(disk) == os.path.realpath(path) for disk in disks),
        users=tuple(sorted(others)),
        own_overlays=tuple(sorted(str(overlay) for overlay in overlays)),
        locked=ownership.is_locked(path),
        foreign=(claimed and owned.foreign(own, uuid) is not None)
        or (own in made and not _is_over_its_own(path, own, references)),
    )


def _is_over_its_own(path: str, own: OwnVolume, references: References) -> bool:
    """Whether a snapshot's overlay is over the volume that it is named after."""
    waiting, seen = [path], set()
    while waiting:
        below = waiting.pop()
        if below not in seen:
            seen.add(below)
            waiting += references.chains.get(below, ())
    lowest = [image for image in seen if own.path.startswith(f"{os.path.splitext(image)[0]}.")]
    return any(image != own.path for image in lowest)


def _kind(path: str) -> str:
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "absent"
    if stat.S_ISLNK(mode):
        return "link"
    if stat.S_ISDIR(mode):
        return "directory"
    return "file" if stat.S_ISREG(mode) else "other"


def _size(path: str) -> int | None:
    """Virtual size in MiB; the file's size if it is not an image."""
    with open(path, "rb") as file:
        head = file.read(image_format.HEAD_BYTES)
        size = os.fstat(file.fileno()).st_size
    return mib_up(image_format.parse_header(head, size).virtual_bytes or size)
