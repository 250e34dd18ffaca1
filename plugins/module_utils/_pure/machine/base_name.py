# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of base images: the digest of the content (SHA-256), the image's name, the format.

This file is private to the collection.
"""

from __future__ import annotations

import re

_BASE = re.compile(r"(?P<digest>[0-9a-f]{64})-(?P<name>.+\.(?P<format>qcow2|raw))")


def parts(volume: str) -> dict[str, str] | None:
    """``digest``, ``name`` with its ending, and ``format``; None if not a base image's name."""
    match = _BASE.fullmatch(volume)
    return None if match is None else match.groupdict()
