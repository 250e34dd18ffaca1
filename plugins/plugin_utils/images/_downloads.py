# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Images that the controller downloads, once for all hypervisors.

They are in the user's cache folder under their checksum, complete or not at all, and can be removed
at any time.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import read_sparse as sparse
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images import (
    effects_base_file as base_file,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images import (
    effects_download as download,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images import (
    effects_url as image_url,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.effects_digests import (
    DigestCache,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.options import Limits
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.source import ImageSource
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.base_name import Checksum
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output
from ansible_collections.fleet.virt.plugins.plugin_utils.images._images import (
    LocalImage,
    cache_folder,
    local_image,
)

_PATIENCE = 6 * 3600.0


def downloaded(source: ImageSource, limits: Limits, *, check: bool) -> LocalImage:
    """The image of a URL as a file on the controller, downloaded if missing.

    In check mode nothing is written; the image is identified by its beginning.
    """
    path = _path(source, cache_folder() / "images")
    if check and not path.exists():
        return LocalImage("", 0, image_url.preview(source, limits))
    path = file(source, limits, cache_folder() / "images", remember=not check)
    return local_image(str(path.parent), path.name, remember=not check, limit=limits.unpacked)


def file(source: ImageSource, limits: Limits, folder: Path, *, remember: bool) -> Path:
    """The file of a URL, downloaded to ``folder`` if missing there, and verified."""
    path = _path(source, folder)
    if not path.exists():
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with base_file.folder_lock(str(path.parent), _PATIENCE):
                if not path.exists():
                    base_file.remove_abandoned(str(path.parent))
                    _download(source, limits, path.parent)
        except OSError as error:
            raise FleetVirtError(f"image {source.url}: {path.parent}: {error.strerror}") from None
    try:
        _verify(source, path, remember=remember)
    except OSError as error:
        raise FleetVirtError(f"image {path}: {error.strerror}; remove it") from None
    return path


def _path(source: ImageSource, folder: Path) -> Path:
    path = folder / str(source.checksum).replace(":", "-") / source.file_name
    if path.is_symlink() and not path.exists():
        raise FleetVirtError(f"image {path} is a broken symbolic link; remove it")
    return path


def _download(source: ImageSource, limits: Limits, folder: Path) -> None:
    _output.say(f"downloading {source.url} to {folder}")
    with (
        download.opened(source, limits.seconds, limits.unpacked) as answer,
        base_file.new_file(str(folder)) as new,
    ):
        answer.require_space(str(folder))
        new.fill(answer.blocks())
        answer.verify()
        new.publish(source.file_name)


def _verify(source: ImageSource, path: Path, *, remember: bool) -> None:
    """Raise FleetVirtError if the file has changed since its download."""
    algorithm = source.checksum.algorithm
    with path.open("rb") as file:
        if algorithm == "sha256":  # read once for all hypervisors, until the file changes
            cache = DigestCache(cache_folder() / "digests.json", remember=remember)
            came = cache.digest(file.fileno(), str(path)).checksum
        else:
            summed = hashlib.new(algorithm)
            for block in sparse.blocks(file.fileno()):
                summed.update(block)
            came = Checksum(algorithm, summed.hexdigest())
    if came != source.checksum:
        raise FleetVirtError(
            f"image {path} has changed since it was downloaded from {source.url}; remove it, and it"
            " will be downloaded again"
        )
