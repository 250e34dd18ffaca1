# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What ``virt_image`` does on the hypervisor: an image is among the base images, once.

This file is private to the collection.
"""

from __future__ import annotations

import contextlib
import os
import typing as t
from dataclasses import dataclass

from ..._errors import PlanRefused
from ..._pure.base.options import show
from ..._pure.base.results import GENERATED
from ..._pure.base.xml_values import mib_up
from ..._pure.images.options import Limits
from ..._pure.images.source import ImageSource, parse_image
from ..._pure.machine import base_name
from ..base.connection import Connection
from ..machine.storage import Pool
from . import images
from .images import BaseImage, Examined

if t.TYPE_CHECKING:
    from ..._pure.images.entries import BaseEntry, Diff


@dataclass(frozen=True)
class Source:
    """A controller's file as the action plugin describes it; ``received``: where it is here."""

    name: str
    digest: str
    format: str
    virtual_bytes: int
    received: str | None = None


class _Details(t.TypedDict, total=False):
    missing: bool
    alone: str
    diff: Diff


class Result(_Details):
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
) -> Result:
    """Make ``image`` a base image; the result of the module.

    One that is not here comes from the first of ``peers`` that has it, else from where it is. A
    controller's file (``source``) that is neither here, nor there, nor received is reported as
    ``missing``, with ``alone``: why this hypervisor and others cannot help each other, empty if
    they can. In check mode nothing is written, and the result is what would come of it.
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
    found = base is not None
    steps: list[str] = []
    if base is None and peers:
        wanted = _digests(source, image)
        found, base, steps = _of_peers(connection, place, wanted, peers, seen.name, limits, check)
    missing = not found and make is None
    if not found and make is not None:
        if not check:
            base = make()
        if source is None:
            steps.append(f"from {parsed.url if parsed.kind == 'url' else parsed.value}")
    if not check and not missing:
        pool = existing or images.ensure_pool(connection, *place)
        if base is not None:
            images.settle(connection, pool, base)
        if source is not None and source.received:
            _remove_siblings(source.received, source.digest)
    if missing and source is None:
        raise PlanRefused(
            f"image {show(parsed.value)}: no hypervisor gave it ({'; '.join(steps)}); hypervisors"
            " give each other images by libvirt's TLS (role libvirt_keys)"
        )
    entry = _entry(pool, seen, base)
    result: Result = {"changed": changed, "image": entry, "steps": steps}
    if missing:
        from . import peer as image_peer  # not needed by a call that has the image

        result["missing"], result["alone"] = True, image_peer.alone()
    if changed:
        made = "" if existing else f"pool {pool.name} at {pool.path}\n"
        after = f"{made}base image {entry['volume']}\n"
        result["diff"] = {"before": "", "after": after}
    return result


_Place = tuple[str, str]  # name and folder of the pool of base images
_Found = tuple[Examined, t.Union[t.Callable[[], BaseImage], None]]  # and what makes the base


def _of_controller(
    connection: Connection, pool: Pool, source: Source, place: _Place, limits: Limits
) -> _Found:
    base = images.find_base(connection, pool, source.digest)
    seen = Examined(source.name, source.digest, source.format, source.virtual_bytes, base)
    received = source.received
    if received is None:
        return seen, None

    def make() -> BaseImage:
        images.judge_file(received, source.name)  # before a pool is made for it
        made = images.ensure_pool(connection, *place)
        return images.adopt_file(
            connection,
            made,
            received,
            source.name,
            source.digest,
            consume=True,
            limit=limits.unpacked,
        )

    return seen, make


def _of_others(
    connection: Connection, pool: Pool, image: ImageSource, peers: t.Sequence[str]
) -> _Found | None:
    """A base image that is not here, and is known by its name; None for any other image."""
    if image.kind != "volume" or not peers:
        return None
    where, volume = image.pool_and_volume
    parts = base_name.parts(volume)
    if where != pool.name or parts is None:
        return None
    base = images.find_base(connection, pool, parts["digest"])
    return Examined(parts["name"], parts["digest"], parts["format"], 0, base), None


def _of_hypervisor(
    connection: Connection,
    pool: Pool,
    image: ImageSource,
    place: _Place,
    limits: Limits,
    check: bool,
) -> _Found:
    if image.kind == "url":
        from . import url as image_url  # what downloads is not needed by the others

        base = image_url.find(connection, pool, image)
        if base is None and check:
            seen = image_url.preview(image, limits)
        else:
            seen = Examined(image.file_name, "", "", 0, base)
        return seen, lambda: image_url.fetch(connection, *place, image, limits)
    path = path_of(connection, image)
    seen = images.examine_path(connection, pool, path, remember=not check, limit=limits.unpacked)

    def make() -> BaseImage:
        made = images.ensure_pool(connection, *place)
        return images.adopt_file(
            connection, made, path, seen.name, seen.digest, limit=limits.unpacked
        )

    return seen, make


def _digests(source: Source | None, image: object) -> list[str]:
    """What is known of the content before it is here; nothing for files of this hypervisor."""
    if source is not None:
        return [source.digest] if source.digest else []  # of a download: its beginning was read
    parsed = _parsed(image)
    if parsed.kind == "volume":
        parts = base_name.parts(parsed.pool_and_volume[1])
        return [parts["digest"]] if parts else []
    if parsed.kind != "url":
        return []
    from . import url as image_url

    return image_url.digests(parsed)


def _of_peers(
    connection: Connection,
    place: _Place,
    digests: t.Sequence[str],
    peers: t.Sequence[str],
    name: str,
    limits: Limits,
    check: bool,
) -> tuple[bool, BaseImage | None, list[str]]:
    """Whether another hypervisor has it, the base image that was made of it, and what was done."""
    from . import peer as image_peer

    steps: list[str] = []
    for digest in digests:
        if check:
            found, looked = image_peer.look(*place, digest, peers, connection.timeout)
            steps += looked
            if found:
                return True, None, steps
            continue
        brought = image_peer.take(connection, *place, digest, peers, name=name, limits=limits)
        steps += brought.steps
        if brought.base is not None:
            return True, brought.base, steps
    return False, None, steps


def _parsed(image: object) -> ImageSource:
    try:
        return parse_image(image)
    except ValueError as error:
        raise PlanRefused(f"image: {error}") from None


def path_of(connection: Connection, image: ImageSource) -> str:
    """The file of this hypervisor that a path, or a pool and its volume, name."""
    if image.kind == "path":
        return image.value
    if image.kind == "volume":
        return images.volume_path(connection, *image.pool_and_volume)
    raise PlanRefused(
        f"image {show(image.value)} is a file of the controller, which reached this module without"
        " its action plugin; call fleet.virt.virt_image from a task"
    )


def _entry(pool: Pool, seen: Examined, base: BaseImage | None) -> BaseEntry:
    if base is not None:
        volume, path = base.volume, base.path
    elif seen.digest:
        volume = images.base_volume_name(seen.name, seen.digest, seen.format)
        path = pool.volume_path(volume)
    else:
        volume = path = GENERATED  # a download that only its whole content names
    return {
        "name": seen.name,
        "digest": base.digest if base else seen.digest or GENERATED,
        "format": base.format if base else seen.format,
        "pool": pool.name,
        "volume": volume,
        "path": path,
        "size_mib": mib_up(base.virtual_bytes if base else seen.virtual_bytes),
    }


def _remove_siblings(received: str, digest: str) -> None:
    """Remove what killed transfers of the same image have left beside this one.

    A transfer that is under way meanwhile loses its file as well, and does not miss it: the image
    is here.
    """
    folder = os.path.dirname(received)
    prefix = f"fleet-virt-tmp-{digest}-"
    for name in os.listdir(folder):
        if name.startswith(prefix):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, name))
