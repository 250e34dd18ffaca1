# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Images that the hypervisor downloads by itself, straight into the pool of base images.

A download is identified by its checksum, a base image by its content. For an uncompressed file
with a SHA-256 checksum the two are the same; for others, the mapping is cached, and if the cache
entry is lost the file is downloaded once more.
"""

from __future__ import annotations

import itertools
import typing as t

from ..base.effects_connection import Connection
from ..storage import image_format
from ..storage.base_name import Digest
from ..storage.effects_storage import Pool
from . import effects_base_file as base_file
from . import effects_base_images as images
from . import effects_download as download
from . import read_unpack as unpack
from .effects_base_images import BaseImage, Examined
from .effects_digests import DigestCache
from .facts import ImageFacts
from .options import Limits
from .source import ImageSource

_LONG = 6 * 3600.0
_MAGIC = 16  # more than the longest magic number of a compressed file


def take_url(
    connection: Connection, pool_name: str, pool_path: str, source: ImageSource, *, check: bool
) -> Examined:
    """The base image for a URL, downloaded if missing; in check mode as :func:`preview`."""
    images.require_local(connection)
    pool = images.find_pool(connection, pool_name, pool_path, check=check)
    base = find(connection, pool, source) if pool else None
    if base is None and check:
        return Examined(preview(source, Limits()))
    base = base or fetch(connection, pool_name, pool_path, source, Limits())
    if not check:
        images.settle(
            connection, pool or images.ensure_pool(connection, pool_name, pool_path), base
        )
    facts = ImageFacts(source.file_name, base.digest, base.format, base.virtual_bytes)
    return Examined(facts, base)


def find(connection: Connection, pool: Pool, source: ImageSource) -> BaseImage | None:
    """The base image with the content of the URL's file, if it exists and the content is known."""
    for digest in digests(source):
        base = images.find_base(connection, pool, digest)
        if base is not None:
            return base
    return None


def digests(source: ImageSource) -> list[Digest]:
    """Possible digests of the content of the URL's file, as far as known without reading it."""
    known = DigestCache(images.CACHE, remember=False).came_as(source.checksum)
    candidates = dict.fromkeys([source.checksum.digest, known])
    return [digest for digest in candidates if digest]


def preview(source: ImageSource, limits: Limits) -> ImageFacts:
    """Preview a download from its beginning; nothing else is read, and nothing is written.

    The digest is unknown and the size of the disk 0 if they depend on the entire file.
    """
    raw = b""

    def pieces() -> t.Iterator[bytes]:
        nonlocal raw
        for piece in answer.blocks():
            raw += b"" if len(raw) > _MAGIC else piece
            yield piece

    head = b""
    with download.opened(source, limits.seconds, limits.unpacked) as answer:
        for block in unpack.content(pieces(), source.url, limits.unpacked):
            head += block
            if len(head) >= image_format.HEAD_BYTES:
                break
    packed = image_format.packing(raw) is not None
    size = None if packed else answer.length
    header = image_format.parse_header(
        head, image_format.MAX_VIRTUAL_BYTES if size is None else size
    )
    unpack.refuse(header, source.url)
    virtual = 0 if header.format == "raw" and size is None else header.virtual_bytes
    digest = None if packed else source.checksum.digest
    return ImageFacts(source.file_name, digest, header.format, virtual)


def fetch(
    connection: Connection, pool_name: str, pool_path: str, source: ImageSource, limits: Limits
) -> BaseImage:
    """Download the image, by one call at a time; others then find it. The caller settles it."""

    def work() -> BaseImage:
        with base_file.content_lock(source.checksum):
            pool = images.find_pool(connection, pool_name, pool_path, check=False)
            present = find(connection, pool, source) if pool else None
            return present or _download(connection, pool, (pool_name, pool_path), source, limits)

    return images.file_work(f"download {source.url}", work)


def _download(
    connection: Connection,
    pool: Pool | None,
    wanted: tuple[str, str],
    source: ImageSource,
    limits: Limits,
) -> BaseImage:
    with download.opened(source, limits.seconds, limits.unpacked) as answer:
        blocks = unpack.content(answer.blocks(), source.url, limits.unpacked)
        first = next(blocks, b"")  # a file that is not an image is refused before creating a pool
        pool = pool or images.ensure_pool(connection, *wanted)
        answer.require_space(pool.path)
        with base_file.folder_lock(pool.path, _LONG):
            base_file.remove_abandoned(pool.path)
        with base_file.new_file(pool.path) as new:
            digest = new.fill(itertools.chain([first], blocks))
            answer.verify()
            with base_file.folder_lock(pool.path, _LONG):
                base = images.publish(connection, pool, new, source.file_name, digest)
    DigestCache(images.CACHE).remember_came_as(source.checksum, digest)
    return base
