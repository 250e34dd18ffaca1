# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What limits the bringing of an image.

This file is private to the collection.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .._errors import PlanRefused
from .._units import MIB, parse_mib

# Zeros take hardly any space in a compressed file and none on a disk, but each of them takes time
MAX_UNPACKED = "256GiB"
DOWNLOAD_TIMEOUT = 30.0


@dataclass(frozen=True)
class Limits:
    """``seconds`` without progress end a download; ``unpacked`` bytes are taken."""

    seconds: float = DOWNLOAD_TIMEOUT
    unpacked: int = parse_mib(MAX_UNPACKED) * MIB


def limits_of(options: t.Mapping[str, t.Any]) -> Limits:
    """The limits that the options ``download_timeout`` and ``max_unpacked`` set."""
    try:
        unpacked = parse_mib(options.get("max_unpacked") or MAX_UNPACKED)
    except ValueError as error:
        raise PlanRefused(f"max_unpacked: {error}") from None
    given = options.get("download_timeout")
    try:
        seconds = DOWNLOAD_TIMEOUT if given is None else float(given)
    except (TypeError, ValueError):
        seconds = 0
    if not 0 < seconds <= 3600:
        raise PlanRefused(
            f"download_timeout: {given!r} is not a time limit; it is a number of seconds above 0,"
            " at most 3600"
        )
    return Limits(seconds, unpacked * MIB)
