# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who owns a file: what else on this host references it, has it as backing file or has it open.

Everything that could refer to data is read: definitions and live state of all domains, their
snapshots and saved memory, the volumes in other domains' metadata, and the headers of all images in
the folders of all pools, attached or not, and of their backing files in turn. What cannot be read
is an error, never an absence.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import os
import stat
import struct
import typing as t
from pathlib import Path

from ... import _lxml
from ..._errors import DeadlineExceeded, LibvirtFailure, PlanRefused
from ..._libvirt import DOMAIN_XML_INACTIVE, ERR_NO_DOMAIN, ERR_NO_STORAGE_VOL, ERR_NO_SUPPORT
from ..._records import dataclass, field
from ..base import effects_deadline as deadline
from ..base.effects_connection import Connection
from ..base.names import is_card_file
from . import effects_storage as storage
from . import file_references, storage_info
from . import read_file_systems as file_systems
from . import read_paths as paths
from .file_references import Below
from .read_pools import describe_volume, list_handles, list_pools
from .read_shared_pools import SharedPools, read_id

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain, VirStoragePool
    from ..base.metadata import OwnVolume

FOLDER_TYPES = ("dir", "fs", "netfs")
# Pools that several machines can use at once
_SHARED_POOLS = ("netfs", "gluster", "iscsi", "iscsi-direct", "mpath", "rbd", "scsi", "sheepdog")

_SCAN_SECONDS = 120.0
# Errors of paths that lead to no file for any process
_NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)
# What QEMU locks in an image it uses: a byte for each permission from 100 on, one for each that it
# does not grant to others from 200 on (block/file-posix.c)
LOCK_FIRST, LOCK_BYTES = 100, 200
_FLOCK = struct.Struct("hhqqi4x")


@dataclass(frozen=True)
class PoolPlace:
    """A pool of this host; ``absent`` says why its shared storage is not mounted."""

    name: str
    type: str
    path: str | None
    active: bool
    handle: VirStoragePool
    shared: bool
    id: str | None
    absent: str | None = None


@dataclass(frozen=True)
class FileUser:
    """What references a file; ``uuid`` is the domain's, None for an image that it backs."""

    text: str
    uuid: str | None
    image: str | None = None


@dataclass
class References:
    """All files that are referenced on this host, by device and inode, and by path."""

    pools: dict[str, PoolPlace]
    domains: frozenset[str] = frozenset()  # their names
    by_path: dict[str, set[FileUser]] = field(default_factory=dict)
    by_file: dict[tuple[int, int], set[FileUser]] = field(default_factory=dict)
    chains: dict[str, list[str]] = field(default_factory=dict)  # image -> its backing files
    # the formats in which QEMU opens a file, by path, and by device and inode
    formats: dict[str | tuple[int, int], set[str | None]] = field(default_factory=dict)
    looking_at: str = ""

    def users(self, path: str) -> set[FileUser]:
        """All users of the file ``path``, under any of its names."""
        users = set(self.by_path.get(path, ())) | self.by_path.get(os.path.realpath(path), set())
        identity = _identity(path)
        return users | (self.by_file.get(identity, set()) if identity else set())

    def below(self, path: str) -> list[str]:
        """The files that the image names."""
        return self.chains.get(path) or self.chains.get(os.path.realpath(path)) or []

    def named(self, name: str) -> set[FileUser]:
        """All users of a file called ``name``, in any folder."""
        return {
            user
            for path, users in self.by_path.items()
            if os.path.basename(path) == name
            for user in users
        }

    def formats_of(self, path: str) -> set[str | None]:
        """The formats in which QEMU opens the file, by definitions and their images."""
        formats = self.formats.get(path, set()) | self.formats.get(os.path.realpath(path), set())
        identity = _identity(path)
        return formats | (self.formats.get(identity, set()) if identity else set())

    def add_format(self, path: str, kind: str | None) -> None:
        identity = _identity(path)
        for key in dict.fromkeys((path, os.path.realpath(path), identity)):
            if key is not None:
                self.formats.setdefault(key, set()).add(kind)

    def add(self, path: str, user: FileUser) -> None:
        for name in dict.fromkeys((path, os.path.realpath(path))):
            self.by_path.setdefault(name, set()).add(user)
        identity = _identity(path)
        if identity is not None:
            self.by_file.setdefault(identity, set()).add(user)


def pool_of(path: str, pools: t.Mapping[str, PoolPlace]) -> PoolPlace | None:
    """The active pool whose folder the file ``path`` is in; may access the file system."""
    usable = [pool for pool in pools.values() if pool.type in FOLDER_TYPES and pool.active]
    named = next((pool for pool in usable if pool.path == os.path.dirname(path)), None)
    return named or next((pool for pool in usable if paths.is_in(path, pool.path)), None)


def volume_path(volume: OwnVolume, pool: PoolPlace) -> str:
    """The file of a volume in its pool: as the definition names it, if that leads there."""
    if os.path.basename(volume.path) == volume.name and paths.is_in(volume.path, pool.path):
        return volume.path
    return f"{pool.path}/{volume.name}"


def read_domains(connection: Connection) -> References:
    """The files that domains reference, by path only: no file is accessed, so nothing can hang."""
    listed = connection.call("list domains", connection.conn.listAllDomains, 0)
    references = References(read_pools(connection, look=False), _names(listed))
    for named, user in _named_by_domains(connection, listed):
        for path in named.paths | _volume_paths(references, named.volumes):
            references.by_path.setdefault(path, set()).add(user)
    return references


def read(connection: Connection) -> References:
    """All files that are referenced on this host; raises rather than omitting one."""
    listed = connection.call("list domains", connection.conn.listAllDomains, 0)
    references = References(read_pools(connection), _names(listed))
    require_present(references.pools)
    domains = _named_by_domains(connection, listed)
    elsewhere = [pool for pool in references.pools.values() if pool.type not in FOLDER_TYPES]
    others = _backings(connection, elsewhere)
    try:
        deadline.call(
            lambda: _scan(references, domains, others),
            seconds=_SCAN_SECONDS,
            what="look at all images",
        )
    except DeadlineExceeded:
        raise PlanRefused(
            f"{references.looking_at} did not respond within {_SCAN_SECONDS:g} seconds, so the"
            " users of images are unknown; make sure that it responds (a dead mount?)"
        ) from None
    except OSError as error:
        raise PlanRefused(
            f"{references.looking_at}: {error.strerror or error}, so the users of images are"
            " unknown"
        ) from None
    return references


def require_present(pools: t.Mapping[str, PoolPlace]) -> None:
    """Raise PlanRefused if shared storage is not mounted: who uses files on it cannot be read."""
    for pool in pools.values():
        if pool.absent is not None:
            raise PlanRefused(f"the users of images are unknown here: {pool.absent}")


def read_elsewhere(connection: Connection) -> References:
    """The files that are referenced on another host, as its libvirt reads them, by path only.

    Its pools are refreshed, as libvirt lists images and their backing files as of then.
    """
    references = read_domains(connection)
    for pool in references.pools.values():
        if pool.type in FOLDER_TYPES and pool.active:
            refresh = functools.partial(pool.handle.refresh, 0)
            storage.patiently(connection, f"refresh pool {pool.name}", refresh)
    for path, user in _backings(connection, list(references.pools.values())):
        references.by_path.setdefault(path, set()).add(user)
    return references


def is_locked(path: str) -> bool:
    """Whether QEMU, here or over the network on a shared file system, uses the image.

    Tests QEMU's own locks (fcntl(2), F_OFD_GETLK) and loop devices; takes no lock.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, LOCK_FIRST, LOCK_BYTES, 0)
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, asked)
        if _FLOCK.unpack(answer)[0] != fcntl.F_UNLCK:
            return True
    finally:
        os.close(descriptor)
    real = os.path.realpath(path)
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            if backing.read_text(encoding="utf-8", errors="replace").rstrip("\n") == real:
                return True
        except OSError:
            continue  # detached just now
    return False


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError as error:
        if error.errno not in (*_NOWHERE, errno.EACCES, errno.EPERM):
            raise
        return None
    return (status.st_dev, status.st_ino)


def _names(domains: t.Iterable[VirDomain]) -> frozenset[str]:
    return frozenset(str(handle.name()) for handle in domains)


def read_pools(connection: Connection, *, look: bool = True) -> dict[str, PoolPlace]:
    """The pools of this host by name, active or not. Without ``look``, their folders, which may
    hang, are not accessed, and whether they are shared stays unknown."""
    places = {}
    declared = SharedPools(connection) if look else None
    for handle in list_pools(connection):
        name = str(handle.name())
        info = storage_info.pool(connection.call(f"read pool {name}", handle.XMLDesc, 0))
        active = bool(connection.call(f"read pool {name}", handle.isActive))
        kind = str(info["type"])
        path = str(info["path"]).rstrip("/") if info["path"] else None
        folder = path if kind in FOLDER_TYPES else None
        shared, pool_id, absent = kind in _SHARED_POOLS, None, None
        if folder and declared is not None:
            lies_on_shared, pool_id = connection.call(f"look at {folder}", _sharing, folder)
            recorded = declared.recorded(folder)
            shared = shared or lies_on_shared or bool(recorded)
            absent = declared.absent(name, folder)
            pool_id = recorded[0] if absent is not None else pool_id
        places[name] = PoolPlace(name, kind, path, active, handle, shared, pool_id, absent)
    return places


def _sharing(folder: str) -> tuple[bool, str | None]:
    """Whether other machines may access the folder's file system, and the pool's id."""
    try:
        pool_id = read_id(folder)
    except OSError:
        pool_id = None
    return file_systems.is_shared(folder), pool_id


def _named_by_domains(
    connection: Connection, domains: t.Sequence[VirDomain]
) -> list[tuple[file_references.NamedFiles, FileUser]]:
    """What each domain's definition, live state, snapshots and saved memory reference."""

    def documents(handle: VirDomain) -> list[tuple[str, str]]:
        texts = [("", handle.XMLDesc(DOMAIN_XML_INACTIVE))]
        if handle.isActive():
            texts.append(("", handle.XMLDesc(0)))
        if handle.hasManagedSaveImage(0):
            texts.append(("the saved memory of ", handle.managedSaveGetXMLDesc(0)))
        for snapshot in handle.listAllSnapshots(0):
            texts.append((f"snapshot {snapshot.getName()} of ", snapshot.getXMLDesc(0)))
        return texts

    def read_one(handle: VirDomain) -> list[tuple[file_references.NamedFiles, FileUser]]:
        name, uuid = str(handle.name()), str(handle.UUIDString())
        return [
            (
                file_references.of_definition(_lxml.parse(text, f"domain {name}")),
                FileUser(f"used by {what}domain {name!r}", uuid),
            )
            for what, text in documents(handle)
        ]

    read = connection.each_there(
        read_one, domains, lambda handle: f"read domain {handle.name()}", ERR_NO_DOMAIN
    )
    return [named for _handle, names in read for named in names]


def _backings(connection: Connection, pools: t.Sequence[PoolPlace]) -> list[tuple[str, FileUser]]:
    """Backing files of the volumes in these pools, as libvirt reads them."""
    backings = []
    for pool in pools:
        if not pool.active:
            continue
        try:
            handles = connection.call(f"list pool {pool.name}", list_handles, pool.handle)
        except LibvirtFailure as error:
            if error.code == ERR_NO_SUPPORT:
                continue
            raise
        described = connection.each_there(
            describe_volume,
            list(handles.values()),
            lambda handle: f"read volume {handle.name}",
            ERR_NO_STORAGE_VOL,
        )
        for handle, volume in described:
            if volume["backing"]:
                user = FileUser(f"backs {handle.path}", None, handle.path)
                backings.append((str(volume["backing"]), user))
    return backings


def _scan(
    references: References,
    domains: t.Sequence[tuple[file_references.NamedFiles, FileUser]],
    others: t.Sequence[tuple[str, FileUser]],
) -> None:
    """Add everything to ``found``; all access to files is in here."""
    attached: set[str] = set()
    images: set[str] = set()
    for named, user in domains:
        for path in named.paths | _volume_paths(references, named.volumes):
            references.looking_at = path
            references.add(path, user)
            images.add(path)
        for path, kind in _formats(references, named):
            references.looking_at = path
            references.add_format(path, kind)
            attached.add(path)
    for path, user in others:
        references.looking_at = path
        references.add(path, user)
    for pool in references.pools.values():
        if pool.type in FOLDER_TYPES and pool.path is not None:
            references.looking_at = pool.path
            images.update(_files_of(pool.path))
    seen: set[tuple[int, int]] = set()
    # an image that QEMU opens has the formats of its backing files in its header
    for image in sorted(attached):
        _follow(references, image, seen, believed=True)
    for image in sorted(images):
        _follow(references, image, seen, believed=False)


def _formats(
    references: References, named: file_references.NamedFiles
) -> t.Iterator[tuple[str, str | None]]:
    """The formats that the document gives for files."""
    yield from named.formats
    for volume, kind in named.volume_formats:
        for path in _volume_paths(references, [volume]):
            yield path, kind


def _volume_paths(references: References, volumes: t.Iterable[tuple[str, str]]) -> set[str]:
    named = set()
    for pool_name, name in volumes:
        pool = references.pools.get(pool_name)
        if pool is not None and pool.path is not None:
            named.add(f"{pool.path}/{name}")
    return named


def _files_of(folder: str) -> list[str]:
    """The files that may be images; cards of VMs are none, and are replaced all the time."""
    try:
        with os.scandir(folder) as entries:
            return [
                entry.path for entry in entries if entry.is_file() and not is_card_file(entry.name)
            ]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _follow(
    references: References, image: str, seen: set[tuple[int, int]], *, believed: bool
) -> None:
    """Record the backing chain of ``image``.

    What QEMU opens as raw has no backing file, whatever is written there. ``believed``: QEMU opens
    ``image``, so its header decides the formats of its backing files. ``seen`` are files that were
    followed under any name.
    """
    waiting = [image]
    while waiting:
        path = waiting.pop()
        if path in references.chains:
            continue
        references.looking_at = path
        is_raw = references.formats_of(path) == {file_references.RAW}
        below = [] if is_raw else read_header(path)
        references.chains[path] = [lower.name for lower in below]
        identity = _identity(path)
        if identity is not None:
            seen.add(identity)
        for lower in below:
            references.looking_at = lower.name
            references.add(lower.name, FileUser(f"backs {path}", None, path))
            if believed:
                references.add_format(lower.name, lower.format)
            if _identity(lower.name) not in seen:  # else a file that references itself would loop
                waiting.append(lower.name)


def read_header(path: str) -> list[Below]:
    """The files that the image references, with absolute paths, as QEMU resolves them."""
    try:
        status = os.stat(path)
        device = stat.S_ISBLK(status.st_mode)
        if not device and (not stat.S_ISREG(status.st_mode) or status.st_size == 0):
            return []
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in _NOWHERE:
            raise
        return []
    try:
        named = file_references.of_image(lambda at, count: os.pread(descriptor, count, at))
    except OSError:
        if not device:
            raise
        return []  # a drive without a medium, or a disk that is gone: no image can be read from it
    finally:
        os.close(descriptor)
    folder = os.path.dirname(path)
    resolved = [
        Below(os.path.normpath(os.path.join(folder, image.name)), image.format) for image in named
    ]
    return [image for image in resolved if image.name != path]  # a VMDK image references itself
