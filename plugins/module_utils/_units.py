# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sizes: bare numbers are MiB, strings may carry a unit."""

from __future__ import annotations

import re

MIB = 1024 * 1024
MOST = 2**64  # largest number that a hypervisor may report: bytes, MiB, seconds, processors
_POWERS = {"": 2, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_SIZE = re.compile(r"(?P<number>\d{1,18}(?:\.\d{1,6})?)\s*(?P<unit>[KMGTP]?)(?P<kind>iB|B)?", re.I)
_LIMIT_MIB = 1 << 43  # 8 EiB: where a signed 64 bit count of bytes, libvirt's own, ends


def parse_mib(value: object) -> int:
    """MiB of ``value``, rounded up to a whole MiB.

    ``2048`` and ``"2048"`` are MiB; ``K M G T P`` with or without ``iB`` are powers of 1024;
    ``KB MB GB TB PB`` are powers of 1000 (as libvirt's own ``unit`` attribute has it).

    Raises ValueError, with the rule and an example in the text.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"{value!r} is not a size; write MiB as a number or for example 4GiB")
    match = _SIZE.fullmatch(str(value).strip())
    if match is None:
        raise ValueError(f"{value!r} is not a size; write MiB as a number or for example 4GiB")
    power, kind = _POWERS[match["unit"].upper()], (match["kind"] or "").lower()
    if not match["unit"] and kind:
        power = 0  # "4096B" is bytes
    base = 1000 if kind == "b" and match["unit"] else 1024
    whole, _dummy, fraction = match["number"].partition(".")
    scaled = int(whole + fraction) * base**power
    mib: int = -(-scaled // (10 ** len(fraction) * MIB))
    if mib > _LIMIT_MIB:
        raise ValueError(f"{value!r} is larger than libvirt can express (8 EiB)")
    return mib


def format_size(mib: int | None) -> str:
    """``2.0G`` for 2048, as the tables show it; ``-`` for an unknown size."""
    if mib is None:
        return "-"
    size, unit = float(mib), "M"
    for unit in "MGTP":
        if size < 1024 or unit == "P":
            break
        size /= 1024
    return f"{size:.1f}{unit}"
