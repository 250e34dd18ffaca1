# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of base images: the digest of the content (SHA-256), the image's name, the format."""

from __future__ import annotations

import posixpath
import re

_BASE = re.compile(r"(?P<digest>[0-9a-f]{64})-(?P<name>.+\.(?P<format>qcow2|raw))")


def parts(volume: str) -> dict[str, str] | None:
    """``digest``, ``name`` with its ending, and ``format``; None if not a base image's name."""
    match = _BASE.fullmatch(volume)
    return None if match is None else match.groupdict()


def have_same_content(path: str | None, other: str | None) -> bool:
    """Whether two paths are one file, or base images of one digest, whatever their names."""
    if path is None or other is None or path == other:
        return path == other
    ours, theirs = parts(posixpath.basename(path)), parts(posixpath.basename(other))
    return ours is not None and theirs is not None and ours["digest"] == theirs["digest"]
