# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The work of ``virt_image`` on the hypervisor: ensure that an image is a base image."""

from __future__ import annotations

import contextlib
import os
import typing as t

from ..._errors import FleetVirtError, PlanRefused
from ..._records import dataclass
from ..base.effects_connection import Connection
from ..base.options import show
from ..base.results import GENERATED
from ..base.xml_values import mib_up
from ..storage import storage_info
from ..storage.base_name import BaseName, Digest
from ..storage.effects_storage import Pool
from ..storage.read_pools import list_pools
from . import effects_base_file as base_file
from . import effects_base_images as images
from .effects_base_images import BaseImage, Examined
from .facts import ImageFacts, KnownImage
from .options import Limits
from .source import ImageSource, parse_image

if t.TYPE_CHECKING:
    from .entries import BaseEntry, Diff


@dataclass(frozen=True)
class Source:
    """A controller's file, described by the action plugin; ``received``: its path here.

    ``volume`` is the file name that the base image must have here, whatever else has its content:
    an overlay that comes from another hypervisor names it.
    """

    facts: ImageFacts
    received: str | None = None
    volume: BaseName | None = None


class SourceOption(KnownImage):
    """A controller's file, as the action plugin describes it."""

    received: str | None
    volume: str | None


def source_of(given: SourceOption | None) -> Source | None:
    """The described file; raises PlanRefused if it would not be named as a base image."""
    if given is None:
        return None
    volume = given["volume"]
    name = BaseName.parse(volume) if volume is not None else None
    if volume is not None and name is None:
        raise PlanRefused(
            f"{show(volume)} is not the name of a base image, <SHA-256>-<name>.qcow2 or .raw"
        )
    return Source(ImageFacts.of(given), given["received"], name)


class _Details(t.TypedDict, total=False):
    missing: bool
    alone: str
    needed: dict[str, int]
    diff: Diff


class ImageResult(_Details):
    """The module's result."""

    changed: bool
    image: BaseEntry
    steps: list[str]


def present(
    connection: Connection,
    image: object,
    source: Source | None,
    base_pool: str,
    base_path: str,
    limits: Limits,
    peers: t.Sequence[str] = (),
    *,
    check: bool,
) -> ImageResult:
    """Make ``image`` a base image; returns the result of the module.

    If it does not exist here, it comes from the first of ``peers`` that has it, else from its
    source. A controller's file (``source``) that is neither here, nor on a peer, nor received is
    reported as ``missing``, with ``alone``: why this hypervisor and others cannot exchange images,
    empty if they can. In check mode nothing is written, and the result is the predicted one;
    ``needed`` are the bytes that a required file would take of the pools that share its file
    system, by their folders.
    """
    images.require_local(connection)
    place = (base_pool, base_path)
    existing = images.find_pool(connection, *place, check=check)
    pool = existing or Pool(base_pool, base_path.rstrip("/"))
    make: t.Callable[[], BaseImage] | None
    if source is not None:
        seen, make = _of_controller(connection, pool, source, place, limits)
    else:
        parsed = _parsed(image)
        elsewhere = _of_others(connection, pool, parsed, peers)
        seen, make = elsewhere or _of_hypervisor(connection, pool, parsed, place, limits, check)
    base = seen.base
    changed = base is None or not images.is_known(connection, pool, base)
    available = base is not None
    steps: list[str] = []
    occupied = 0
    if base is None and source is not None and source.volume is not None:
        available, base, steps, occupied = _of_twin(connection, pool, source, check=check)
    if not available and peers:
        wanted = _digests(source, image)
        called = _Called(seen.facts.name, source.volume if source is not None else None)
        folder = pool.path if check else None
        available, base, tried, occupied = _of_peers(
            connection, place, wanted, peers, called, limits, folder
        )
        steps += tried
    missing = not available and make is None
    if not available and make is not None:
        if not check:
            base = make()
        if source is None:
            steps.append(f"from {parsed.url if parsed.kind == 'url' else parsed.value}")
    if not check and not missing:
        pool = existing or images.ensure_pool(connection, *place)
        if base is not None:
            images.settle(connection, pool, base)
        if source is not None and source.received:
            remove_siblings(source.received, source.facts.identity)
    if missing and source is None:
        raise PlanRefused(
            f"image {show(parsed.value)}: no hypervisor provided it ({'; '.join(steps)});"
            " hypervisors exchange images over libvirt's TLS (role libvirt_keys)"
        )
    entry = _entry(pool, seen.facts, base, source.volume if source is not None else None)
    result: ImageResult = {"changed": changed, "image": entry, "steps": steps}
    if check and occupied and source is not None and source.volume is not None:
        result["needed"] = dict.fromkeys(_beside(connection, pool.path), occupied)
    if missing:
        from . import effects_peer as image_peer  # not needed by a call that has the image

        result["missing"], result["alone"] = True, image_peer.peer_error()
    if changed:
        made = "" if existing else f"pool {pool.name} at {pool.path}\n"
        after = f"{made}base image {entry['volume']}\n"
        result["diff"] = {"before": "", "after": after}
    return result


_Place = tuple[str, str]  # name and folder of the pool of base images
_Found = tuple[Examined, t.Union[t.Callable[[], BaseImage], None]]  # and what creates the base


def _of_controller(
    connection: Connection, pool: Pool, source: Source, place: _Place, limits: Limits
) -> _Found:
    facts, received = source.facts, source.received
    base = None
    if facts.digest is not None:
        base = images.find_base(connection, pool, facts.digest, source.volume)
    seen = Examined(facts, base)
    if received is None:
        return seen, None

    def make() -> BaseImage:
        images.judge_file(received, facts.name)  # before a pool is created for it
        made = images.ensure_pool(connection, *place)
        return images.adopt_file(
            connection,
            made,
            received,
            facts.name,
            facts.digest,
            consume=True,
            limit=limits.unpacked,
        )

    return seen, make


def _of_others(
    connection: Connection, pool: Pool, image: ImageSource, peers: t.Sequence[str]
) -> _Found | None:
    """A base image identified by its name that may not exist here; None for any other image."""
    if image.kind != "volume" or not peers:
        return None
    where, volume = image.pool_and_volume
    name = BaseName.parse(volume)
    if where != pool.name or name is None:
        return None
    base = images.find_base(connection, pool, name.digest)
    return Examined(ImageFacts(name.file_name, name.digest, name.format, 0), base), None


def _of_hypervisor(
    connection: Connection,
    pool: Pool,
    image: ImageSource,
    place: _Place,
    limits: Limits,
    check: bool,
) -> _Found:
    if image.kind == "url":
        from . import effects_url as image_url  # the others need no download code

        base = image_url.find(connection, pool, image)
        if base is None and check:
            facts = image_url.preview(image, limits)
        else:
            facts = ImageFacts(image.file_name, None, "", 0)
        return Examined(facts, base), lambda: image_url.fetch(connection, *place, image, limits)
    path = path_of(connection, image)
    seen = images.examine_path(connection, pool, path, remember=not check, limit=limits.unpacked)

    def make() -> BaseImage:
        made = images.ensure_pool(connection, *place)
        return images.adopt_file(
            connection, made, path, seen.facts.name, seen.facts.digest, limit=limits.unpacked
        )

    return seen, make


def _digests(source: Source | None, image: object) -> list[Digest]:
    """Digests known before the content is here; empty for files of this hypervisor."""
    if source is not None:
        digest = source.facts.digest  # None: only a download's start was read
        return [] if digest is None else [digest]
    parsed = _parsed(image)
    if parsed.kind == "volume":
        name = BaseName.parse(parsed.pool_and_volume[1])
        return [] if name is None else [name.digest]
    if parsed.kind != "url":
        return []
    from . import effects_url as image_url

    return image_url.digests(parsed)


class _Called(t.NamedTuple):
    """The name of an image here, and the file name that it must have, if any."""

    name: str
    volume: BaseName | None


# Whether the image is available, the base image created from it, the steps, and the bytes that it
# would occupy here (0: unknown, or it was created)
_Available = tuple[bool, t.Union[BaseImage, None], list[str], int]


def _of_twin(connection: Connection, pool: Pool, source: Source, *, check: bool) -> _Available:
    """A copy of the base image that exists here under another name than ``source.volume``."""
    digest = source.facts.digest
    twin = None if digest is None else images.find_base(connection, pool, digest)
    if twin is None:
        return False, None, [], 0
    occupied, made = 0, None
    try:
        if check:
            occupied = os.stat(twin.path).st_blocks * 512
            base_file.require_room(pool.path, occupied)
        else:
            made = images.copy_base(connection, pool, twin, source.volume or twin.volume)
    except FleetVirtError as error:  # another hypervisor may still provide it
        return False, None, [str(error)], 0
    return True, made, [f"copied from {twin.volume}"], occupied


def _beside(connection: Connection, folder: str) -> list[str]:
    """The folders of pools on the file system of ``folder``, which may be yet to be made."""
    device = base_file.device(folder)
    folders = []
    for handle in list_pools(connection, active_only=True):
        path = storage_info.pool(handle.XMLDesc(0))["path"]
        with contextlib.suppress(OSError):
            if path and os.stat(path).st_dev == device:
                folders.append(str(path).rstrip("/"))
    return folders


def _of_peers(
    connection: Connection,
    place: _Place,
    digests: t.Sequence[Digest],
    peers: t.Sequence[str],
    called: _Called,
    limits: Limits,
    folder: str | None,
) -> _Available:
    """The image of another hypervisor; with ``folder``, in which it would be, nothing is
    created."""
    from . import effects_peer as image_peer

    steps: list[str] = []
    for digest in digests:
        if folder is not None:
            occupied, looked = image_peer.look(*place, digest, peers, connection.timeout, folder)
            steps += looked
            if occupied is not None:
                return True, None, steps, occupied
            continue
        transferred = image_peer.take(
            connection, *place, digest, peers, **called._asdict(), limits=limits
        )
        steps += transferred.steps
        if transferred.base is not None:
            return True, transferred.base, steps, 0
    return False, None, steps, 0


def _parsed(image: object) -> ImageSource:
    try:
        return parse_image(image)
    except ValueError as error:
        raise PlanRefused(f"image: {error}") from None


def path_of(connection: Connection, image: ImageSource) -> str:
    """The file on this hypervisor for a path, or for a pool and its volume."""
    if image.kind == "path":
        return image.value
    if image.kind == "volume":
        return images.volume_path(connection, *image.pool_and_volume)
    raise PlanRefused(
        f"image {show(image.value)} is a file on the controller, but this module was called without"
        " its action plugin; call fleet.virt.virt_image from a task"
    )


def _entry(
    pool: Pool, seen: ImageFacts, base: BaseImage | None, exact: BaseName | None = None
) -> BaseEntry:
    if base is not None:
        volume, path = str(base.volume), base.path
    elif seen.digest is not None:
        volume = str(exact or BaseName.of(seen.name, seen.digest, seen.format))
        path = pool.volume_path(volume)
    else:
        volume = path = GENERATED  # a download whose name depends on its entire content
    return {
        "name": seen.name,
        "digest": str(base.digest if base else seen.digest or GENERATED),
        "format": base.format if base else seen.format,
        "pool": pool.name,
        "volume": volume,
        "path": path,
        "size_mib": mib_up(base.virtual_bytes if base else seen.virtual_bytes),
    }


def remove_siblings(received: str, digest: str) -> None:
    """Remove what killed transfers of the same image have left beside this one.

    A transfer in progress loses its file as well, but does not need it any more: the image exists
    here now.
    """
    folder = os.path.dirname(received)
    prefix = f"fleet-virt-tmp-{digest}-"
    for name in os.listdir(folder):
        if name.startswith(prefix):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, name))
