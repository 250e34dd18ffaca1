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

from .._errors import PlanRefused
from .._model.image_source import ImageSource, parse_image
from .._model.options import show
from .._model.xml_values import mib_up
from . import images
from .connection import Connection
from .images import BaseImage
from .storage import Pool

if t.TYPE_CHECKING:
    from .image_url import Limits


@dataclass(frozen=True)
class Source:
    """A controller's file as the action plugin describes it; ``received``: where it is here."""

    name: str
    digest: str
    format: str
    virtual_bytes: int
    received: str | None = None


def present(
    connection: Connection,
    image: t.Any,
    source: Source | None,
    base_pool: str,
    base_path: str,
    limits: Limits,
    *,
    check: bool,
) -> dict[str, t.Any]:
    """Make ``image`` a base image; the result of the module.

    A controller's file (``source``) that is neither here nor received is reported as ``missing``.
    In check mode nothing is written, and the result is what would come of it.
    """
    images.require_local(connection)
    existing = images.find_pool(connection, base_pool, base_path, check=check)
    pool = existing or Pool(base_pool, base_path.rstrip("/"))
    path = None
    url = _url(image) if source is None else None
    if url is not None:
        from . import image_url  # what downloads is not needed by the others

        base = image_url.find(connection, pool, url)
        if base is None and check:
            found = image_url.preview(url, limits)
            source = Source(found.name, found.digest, found.format, found.virtual_bytes)
    elif source is None:
        path = path_of(connection, image)
        seen = images.examine_path(
            connection, pool, path, remember=not check, limit=limits.unpacked
        )
        source, base = Source(seen.name, seen.digest, seen.format, seen.virtual_bytes), seen.base
    else:
        base = images.find_base(connection, pool, source.digest)
    changed = base is None or not images.is_known(connection, pool, base)
    origin = path or (source.received if source else None)
    missing = base is None and origin is None and url is None
    if source and source.received and base is None and not check:
        images.judge_file(source.received, source.name)  # before a pool is made for it
    if url is not None and base is None and not check:
        base = image_url.fetch(connection, base_pool, base_path, url, limits)
    if not check and not missing:
        pool = existing or images.ensure_pool(connection, base_pool, base_path)
        if base is not None:
            images.settle(connection, pool, base)
        elif origin is not None and source is not None:
            base = images.adopt_file(
                connection,
                pool,
                origin,
                source.name,
                source.digest,
                consume=path is None,
                limit=limits.unpacked,
            )
        if source and source.received:
            _remove_siblings(source.received, source.digest)
    if source is None and url is not None and base is not None:
        source = Source(url.file_name, base.digest, base.format, base.virtual_bytes)
    assert source is not None
    entry = _entry(pool, source, base)
    result: dict[str, t.Any] = {"changed": changed, "missing": missing, "image": entry}
    if changed:
        made = "" if existing else f"pool {pool.name} at {pool.path}\n"
        after = f"{made}base image {entry['volume'] or source.name}\n"
        result["diff"] = {"before": "", "after": after}
    return result


def _parsed(image: t.Any) -> ImageSource:
    try:
        return parse_image(image)
    except ValueError as error:
        raise PlanRefused(f"image: {error}") from None


def _url(image: t.Any) -> ImageSource | None:
    parsed = _parsed(image)
    return parsed if parsed.kind == "url" else None


def path_of(connection: Connection, image: t.Any) -> str:
    """The file of this hypervisor that a path, or a pool and its volume, name."""
    parsed = _parsed(image)
    if parsed.kind == "path":
        return parsed.value
    if parsed.kind == "volume":
        return images.volume_path(connection, *parsed.pool_and_volume)
    raise PlanRefused(
        f"image {show(parsed.value)} is a file of the controller, which reached this module without"
        " its action plugin; call fleet.virt.virt_image from a task"
    )


def _entry(pool: Pool, source: Source, base: BaseImage | None) -> dict[str, t.Any]:
    volume = images.base_volume_name(source.name, source.digest, source.format)
    return {
        "name": source.name,
        "digest": source.digest,
        "format": base.format if base else source.format,
        "pool": pool.name,
        # of a download that only its whole content names, neither is known before
        "volume": base.volume if base else volume if source.digest else "",
        "path": base.path if base else pool.volume_path(volume) if source.digest else "",
        "size_mib": mib_up(base.virtual_bytes if base else source.virtual_bytes),
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
