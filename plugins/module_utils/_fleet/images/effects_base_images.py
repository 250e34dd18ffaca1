# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Base images on a hypervisor: named by their content, stored once, never written again.

The base pool is a folder of files ``<sha256>-<name>.qcow2`` (or ``.raw``), which are always
complete. Apart from libvirt calls, this module works on files of the machine it runs on.
"""

from __future__ import annotations

import contextlib
import os
import stat
import typing as t
from dataclasses import replace
from pathlib import Path

from ..._errors import FleetVirtError, LibvirtFailure, PlanRefused
from ..._records import dataclass
from ..base import effects_deadline as deadline
from ..base.effects_connection import Connection
from ..base.options import show
from ..base.xml_values import mib_up
from ..engine import effects_lease_holder as owner
from ..storage import effects_storage as storage
from ..storage.base_name import BaseName, Digest
from ..storage.effects_storage import Pool
from ..storage.image_format import ImageFormat
from ..storage.read_pools import list_pools
from . import effects_base_file as base_file
from . import read_check as image_check
from . import read_unpack as unpack
from .effects_digests import DigestCache
from .facts import ImageFacts

if t.TYPE_CHECKING:
    from .entries import BaseEntry

Done = t.TypeVar("Done")

DEFAULT_PATH = "/var/lib/libvirt/base"
CACHE = Path("/var/cache/fleet-virt/digests.json")
_LONG = 6 * 3600.0  # seconds that reading and copying one image may take
_SHORT = 60.0


@dataclass(frozen=True)
class BaseImage:
    """A base image: ``volume`` of the base pool, the file ``path``; ``format`` as its header
    says."""

    volume: BaseName
    format: str
    path: str
    virtual_bytes: int

    @property
    def name(self) -> str:
        """The image's name; an ending that does not fit the content is part of it."""
        return self.volume.name if self.volume.format == self.format else self.volume.file_name

    @property
    def digest(self) -> Digest:
        """The digest of its content."""
        return self.volume.digest

    @property
    def facts(self) -> ImageFacts:
        """What is known of its content."""
        return ImageFacts(self.name, self.digest, self.format, self.virtual_bytes)


def described(pool: Pool, base: BaseImage) -> BaseEntry:
    """The base image as shown in results."""
    return {
        "name": base.name,
        "digest": str(base.digest),
        "format": base.format,
        "pool": pool.name,
        "volume": str(base.volume),
        "path": base.path,
        "size_mib": mib_up(base.virtual_bytes),
    }


@dataclass(frozen=True)
class Examined:
    """An image file on this hypervisor, and its base image if that exists already."""

    facts: ImageFacts
    base: BaseImage | None = None


def require_local(connection: Connection) -> None:
    """Raise PlanRefused if libvirt's files are not on this machine."""
    scheme, _dummy, rest = connection.uri.partition("://")
    if scheme == "test" or "+" in scheme or not rest.startswith("/"):
        raise PlanRefused(
            f"uri {connection.uri}: images are files on the machine that the module runs on; use a"
            " local URI such as qemu:///system"
        )


def find_pool(
    connection: Connection, name: str, path: str, *, check: bool, to_make: bool = True
) -> Pool | None:
    """The pool of base images; except in check mode, not one that another call is creating.

    One that a kill left half made counts as none, unless nothing is to be put there.
    """
    if check:
        return storage.find_pool(connection, name, path, to_make=to_make)
    with owner.host_lock():
        return storage.find_pool(connection, name, path, to_make=to_make)


def ensure_pool(connection: Connection, name: str, path: str) -> Pool:
    """The pool of base images, created if it does not exist, by one call at a time."""
    with owner.host_lock():
        return storage.ensure_pool(connection, name, path)


def list_bases(connection: Connection, pool: Pool) -> list[BaseImage]:
    """The base images of the pool, sorted by volume; only headers are read."""
    names = connection.call(f"list {pool.path}", _names, pool.path)
    outcomes = connection.each(
        lambda name: _read_base(pool, name), names, lambda name: f"read base image {name}"
    )
    bases = []
    for outcome in outcomes:
        if isinstance(outcome, deadline.Failed):
            raise outcome.error
        if outcome.value is not None:
            bases.append(outcome.value)
    return bases


def find_base(
    connection: Connection, pool: Pool, digest: Digest, volume: BaseName | None = None
) -> BaseImage | None:
    """The base image with that content, regardless of its name; with ``volume``, only that file."""

    def read() -> BaseImage | None:
        for name in _names(pool.path):
            if name == volume if volume is not None else name.digest == digest:
                return _read_base(pool, name)
        return None

    return connection.call(f"find base image {digest}", read, seconds=_SHORT)


def is_known(connection: Connection, pool: Pool, base: BaseImage) -> bool:
    """Whether libvirt lists the volume (not if a call was killed just before refreshing it)."""
    return storage.find_volume(connection, pool, str(base.volume)) is not None


def settle(connection: Connection, pool: Pool, base: BaseImage) -> None:
    """Finish what a killed call may have left undone: make it immutable and known to libvirt."""
    base_file.make_immutable(base.path)
    if is_known(connection, pool, base):
        return
    storage.patiently(connection, f"refresh pool {pool.name}", lambda: pool.existing.refresh(0))
    if not is_known(connection, pool, base):
        raise LibvirtFailure(
            f"refresh pool {pool.name}",
            f"volume {base.volume} is in {pool.path} but not listed; see the log of libvirtd",
        )


def adopt_file(
    connection: Connection,
    pool: Pool,
    path: str,
    name: str,
    digest: Digest | None = None,
    *,
    consume: bool = False,
    limit: int = unpack.LIMIT,
) -> BaseImage:
    """Make the file a base image: verified, copied sparse, flushed, immutable, known to libvirt.

    ``digest`` is the required digest of its content; None accepts any. A base image with the same
    content is reused. ``consume`` removes the file as soon as it was copied and verified, so that
    a crash never leaves both. ``limit``: maximum unpacked bytes of a compressed one. Raises
    PlanRefused, without changing anything, for a file that is not a usable image.
    """
    require_local(connection)

    def work() -> BaseImage:
        with base_file.folder_lock(pool.path, _LONG):
            base_file.remove_abandoned(pool.path)
            present = find_base(connection, pool, digest) if digest else None
            return present or _adopt(connection, pool, path, name, digest, consume, limit)

    base = file_work(f"copy image {name} to {pool.path}", work)
    settle(connection, pool, base)
    if consume:
        _consume(path)
    return base


def copy_base(connection: Connection, pool: Pool, base: BaseImage, volume: BaseName) -> BaseImage:
    """A copy of ``base`` as the file ``volume``, which an overlay that comes from another
    hypervisor names as its backing file; the digest is that of what was copied.

    No link: base images are immutable. The caller settles it (:func:`settle`). Raises PlanRefused
    if the content of ``base`` has another digest, or the copy does not fit.
    """

    def work() -> BaseImage:
        with base_file.folder_lock(pool.path, _LONG):
            base_file.remove_abandoned(pool.path)
            with _image(base.path) as source, base_file.new_file(pool.path) as new:
                base_file.require_room(pool.path, os.fstat(source).st_blocks * 512)
                came = new.fill(unpack.file_blocks(source))
                if came != base.digest:
                    raise PlanRefused(
                        f"base image {base.volume} has the SHA-256 {came} and not that of its"
                        " name; it is damaged: restore it from another hypervisor or its source"
                    )
                return publish(connection, pool, new, base.name, came, volume=volume)

    return file_work(f"copy base image {base.volume} to {volume}", work)


def examine_path(
    connection: Connection,
    pool: Pool | None,
    path: str,
    *,
    remember: bool = True,
    limit: int = unpack.LIMIT,
) -> Examined:
    """Examine the file ``path`` of this hypervisor. Reads it once; its digest is cached.

    ``pool`` None: there is no base pool yet. ``remember`` False writes nothing at all. Raises
    PlanRefused for anything that :func:`adopt_file` would refuse.
    """
    require_local(connection)
    name = os.path.basename(path)
    if pool is not None:
        real = os.path.realpath(path)
        volume = BaseName.at(real)
        if volume is not None and os.path.dirname(real) == os.path.realpath(pool.path):
            base = file_work(f"read image {path}", lambda: _read_base(pool, volume), _SHORT)
            if base is not None:
                return Examined(base.facts, base)

    def read() -> Examined:
        with _image(path) as descriptor:
            image_check.refuse_if_written(descriptor, path)
            cache = DigestCache(CACHE, remember=remember)
            digest, header = image_check.read_content(descriptor, path, cache, limit)
            base = find_base(connection, pool, digest) if pool is not None else None
            if base is None:
                image_check.judge(descriptor, path)
            facts = ImageFacts(name, digest, header.format, header.virtual_bytes)
            return Examined(facts, base)

    return file_work(f"read image {path}", read)


def volume_path(connection: Connection, pool_name: str, name: str) -> str:
    """The file of the volume ``name`` in the pool ``pool_name``."""
    shown = show(f"{pool_name}/{name}")
    pool = storage.find_pool(connection, pool_name, None)
    if pool is None:
        there = ", ".join(str(raw.name()) for raw in list_pools(connection)) or "none"
        raise PlanRefused(
            f"image {shown}: no pool {show(pool_name)} on this hypervisor; there are: {there}"
        )
    if storage.find_volume(connection, pool, name) is None:
        raise PlanRefused(
            f"image {shown}: no volume {show(name)} in pool {pool_name}; see virsh vol-list"
            f" {pool_name}; if the file is new, run virsh pool-refresh {pool_name}"
        )
    return pool.volume_path(name)


def judge_file(path: str, name: str) -> None:
    """Raise PlanRefused if the file, which is to become ``name``, is not a usable image."""

    def judge() -> None:
        with _image(path) as descriptor:
            image_check.judge(descriptor, name)

    file_work(f"read image {name}", judge)


def take_path(
    connection: Connection, pool_name: str, pool_path: str, path: str, *, check: bool
) -> Examined:
    """The base image for an absolute path on this hypervisor, created if it does not exist.

    In check mode nothing is created, and ``base`` is None if it would be.
    """
    pool = find_pool(connection, pool_name, pool_path, check=check)
    planned = pool or Pool(pool_name, pool_path.rstrip("/"))
    seen = examine_path(connection, planned, path, remember=not check)
    if check:
        return seen
    pool = pool or ensure_pool(connection, pool_name, pool_path)
    if seen.base is not None:
        settle(connection, pool, seen.base)
        return seen
    base = adopt_file(connection, pool, path, seen.facts.name, seen.facts.digest)
    return replace(seen, base=base)


def _adopt(
    connection: Connection,
    pool: Pool,
    path: str,
    name: str,
    digest: Digest | None,
    consume: bool,
    limit: int,
) -> BaseImage:
    with _image(path) as source, base_file.new_file(pool.path) as new:
        if not image_check.is_packed(source):
            image_check.read_format(source, name)  # before copying gigabytes of a wrong file
        before = os.fstat(source)
        came = new.fill(unpack.content(unpack.file_blocks(source), name, limit))
        after = os.fstat(source)
        if (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size):
            raise PlanRefused(
                f"image {name} changed while it was being copied;"
                " try again once it is no longer being written to"
            )
        if digest is not None and came != digest:
            raise PlanRefused(
                f"image {name} arrived with the SHA-256 {came} instead of {digest}: it changed in"
                " transit, or its source was modified meanwhile; try again"
            )
        return publish(
            connection, pool, new, name, came, lambda: _consume(path) if consume else None
        )


def publish(
    connection: Connection,
    pool: Pool,
    new: base_file.NewFile,
    name: str,
    digest: Digest,
    last: t.Callable[[], None] = lambda: None,
    *,
    volume: BaseName | None = None,
) -> BaseImage:
    """Give the complete file its final name, if it is valid; ``last`` is called just before.

    A base image with the same content is used instead, unless ``volume`` requires that file name.
    The caller holds the folder's lock.
    """
    present = find_base(connection, pool, digest, volume)
    if present is not None:
        return present
    header = image_check.read_format(new.descriptor, name)
    os.fchmod(new.descriptor, 0o644)  # qemu-img reads it as nobody
    image_check.check_structure(new.descriptor, header, name)
    if volume is not None and (volume.digest, volume.format) != (digest, header.format):
        raise PlanRefused(
            f"{volume}: the content is {header.format} with the SHA-256 {digest}, which is not what"
            " the name says; the hypervisor that it comes from has a damaged or renamed file"
        )
    volume = volume or BaseName.of(name, digest, header.format)
    last()
    new.publish(str(volume))  # False without a lock, if another call published the same file first
    return _describe(pool, volume, header)


def _consume(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _describe(pool: Pool, volume: BaseName, header: ImageFormat) -> BaseImage:
    return BaseImage(volume, header.format, pool.volume_path(str(volume)), header.virtual_bytes)


def _read_base(pool: Pool, volume: BaseName) -> BaseImage | None:
    """The base image of a file in the pool; None if it is gone."""
    path = pool.volume_path(str(volume))
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PlanRefused(f"base image {path}: {error.strerror}") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise PlanRefused(f"base image {path} is not a file; remove it")
        header = image_check.read_format(descriptor, path)
    finally:
        os.close(descriptor)
    return _describe(pool, volume, header)


def _names(folder: str) -> list[BaseName]:
    try:
        names = map(BaseName.parse, sorted(os.listdir(folder)))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise PlanRefused(f"base pool: {folder}: {error.strerror}") from None
    return [name for name in names if name is not None]


@contextlib.contextmanager
def _image(path: str) -> t.Iterator[int]:
    """Open the image file for reading."""
    try:
        # without O_NONBLOCK, opening a named pipe would block
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise PlanRefused(f"image {path}: {error.strerror}{_neighbours(path)}") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise PlanRefused(
                f"image {path} is not a regular file; specify the path of an image file"
            )
        yield descriptor
    finally:
        os.close(descriptor)


def _neighbours(path: str) -> str:
    """The files in the same folder, for the message."""
    folder = os.path.dirname(path)
    with contextlib.suppress(OSError):
        names = sorted(n for n in os.listdir(folder) if os.path.isfile(os.path.join(folder, n)))
        more = f" and {len(names) - 10} more" if len(names) > 10 else ""
        return f"; {folder} has {', '.join(names[:10]) or 'no files'}{more}"
    return ""


def file_work(what: str, function: t.Callable[[], Done], seconds: float = _LONG) -> Done:
    """Run work on files within a limit (hours), with its OSError as FleetVirtError."""

    def guarded() -> Done:
        try:
            return function()
        except OSError as error:
            raise FleetVirtError(f"{what}: {error.strerror or error}") from None

    return deadline.call(guarded, seconds=seconds, what=what)
