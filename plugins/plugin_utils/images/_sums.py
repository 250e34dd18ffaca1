# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checksums that publishers list in a file beside an image, such as ``SHA256SUMS``.

The controller reads the file, once in a run of Ansible, so that all hypervisors get the same image
even if its publisher replaces both meanwhile.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
from urllib.parse import unquote, urlsplit

from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.options import show
from ansible_collections.fleet.virt.plugins.module_utils._fleet.images.source import ImageSource
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.base_name import Checksum
from ansible_collections.fleet.virt.plugins.plugin_utils.ansible_core import _constants

_LIMIT = 1 << 20  # bytes; those of the distributions have a tenth
_SECONDS = 30.0
# Of sha256sum and sha512sum, and of those with --tag and BSD's programs
_GNU = re.compile(r"\\?([0-9a-fA-F]{64}|[0-9a-fA-F]{128})[ \t]+\*?(\S.*)")
_BSD = re.compile(
    r"(SHA2?-?256|SHA2?-?512)[ \t]*\((.+)\)[ \t]*=[ \t]*([0-9a-fA-F]+)", re.IGNORECASE
)
_ALGORITHMS = {64: "sha256", 128: "sha512"}


def is_url(checksum: object) -> bool:
    """Whether a checksum is the address of a file that has it."""
    return isinstance(checksum, str) and "://" in checksum


def checksum_of(image_url: str, sums_url: str) -> Checksum:
    """The checksum that the file at ``sums_url`` has for the image.

    Raises PlanRefused if it cannot be read, is not https, or has none or several for that name.
    """
    if not sums_url.startswith("https://") or not sums_url.isprintable():
        raise PlanRefused(
            f"checksum {show(sums_url)} is not an https URL; give that of the file with the"
            " checksums, or the checksum as sha256:..."
        )
    name = unquote(urlsplit(image_url).path).rpartition("/")[2]
    # That of one image alone may name the file of a build, to which the image's name is a link
    beside = unquote(urlsplit(sums_url).path).rpartition("/")[2].startswith(f"{name}.")
    checksums = checksums_in(_text(sums_url), name, alone=beside)
    if len(checksums) != 1:
        what = "different checksums" if checksums else "no checksum (SHA-256 or SHA-512)"
        raise PlanRefused(
            f"{sums_url} has {what} for {show(name)}; give the URL of the file that has it, or the"
            " checksum as sha256:..."
        )
    return checksums[0]


def checksums_in(text: str, name: str, *, alone: bool = False) -> list[Checksum]:
    """The different checksums for a file of that name, in GNU's and in BSD's lines, of the
    stronger kind if there are both; a file of nothing but one checksum is that of any name, and
    if it is the file of this image ``alone``, one line is, whatever that names."""
    lines = [line.strip() for line in text.lstrip("\ufeff").splitlines() if line.strip()]
    pairs = [pair for line in lines if (pair := _pair(line)) is not None]
    if len(lines) == 1 and not pairs:
        pairs = [(name, lines[0].lower())]
    if alone and len(pairs) == 1:
        pairs = [(name, pairs[0][1])]
    listed_for_it = {
        Checksum(_ALGORITHMS[len(digits)], digits)
        for listed, digits in pairs
        if listed.rpartition("/")[2] == name and re.fullmatch(r"[0-9a-f]{64}|[0-9a-f]{128}", digits)
    }
    strong = [checksum for checksum in listed_for_it if checksum.algorithm == "sha512"]
    return sorted(strong or listed_for_it, key=str)


def _pair(line: str) -> tuple[str, str] | None:
    """The file and the digits of a line; None if it is another."""
    gnu = _GNU.fullmatch(line)
    if gnu:
        return gnu[2], gnu[1].lower()
    bsd = _BSD.fullmatch(line)
    return (bsd[2], bsd[3].lower()) if bsd else None


def _text(url: str) -> str:
    """The file, as it was when this run first read it."""
    folder = _constants.local_tmp()
    kept = folder / f"fleet-virt-sums-{hashlib.sha256(url.encode()).hexdigest()}"
    with contextlib.suppress(FileNotFoundError):
        return kept.read_text(encoding="utf-8")
    text = _read(url)
    part = folder / f"{kept.name}-{secrets.token_hex(8)}"
    part.write_text(text, encoding="utf-8")
    with contextlib.suppress(FileExistsError):  # another process was faster: its answer counts
        os.link(part, kept)
    part.unlink()
    return kept.read_text(encoding="utf-8")


def _read(url: str) -> str:
    from ansible_collections.fleet.virt.plugins.module_utils._fleet.images import (
        effects_download as download,
    )

    # of a file whose checksum nobody knows; it is not compared
    source = ImageSource("url", f"{url}#sha256:{'0' * 64}")
    with download.opened(source, _SECONDS, _LIMIT) as answer:
        return b"".join(answer.blocks()).decode("utf-8", "replace")
