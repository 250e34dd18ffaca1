# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""UUIDs of machines: which of them tell a machine from others."""

from __future__ import annotations

import re

_HEX = re.compile(r"[0-9a-f]{32}")
# What firmware has whose maker did not fill it in, so that many boards have the same
_COMMON = frozenset(
    {
        "03000200040005000006000700080009",  # AMI's default, of many makers
        "03000200040005000006000700080008",  # ASRock
        "000102030405060708090a0b0c0d0e0f",
        "0123456789abcdef0123456789abcdef",
        "12345678123456781234567812345678",
        "123456781234567890abcddeefaabbcc",
        "000000000000000000000000ffffffff",
        "00000000000000000000ffffffffffff",
        "4c4c454400002010802080c04f202020",  # Dell without a service tag
        "6ab5b300538d10149fb5b0684d007b53",
        "deadbeefdeadbeefdeadbeefdeadbeef",
    }
)


def plain(uuid: str) -> str:
    """A UUID in the one form in which they are compared."""
    return uuid.strip().replace("-", "").lower()


def is_valid(uuid: str) -> bool:
    """Whether libvirt takes it: 16 bytes, which are not all the same."""
    digits = plain(uuid)
    return _HEX.fullmatch(digits) is not None and digits != digits[:2] * 16


def is_common(uuid: str) -> bool:
    """Whether many machines have it. Firmware may have its first three parts in either order."""
    digits = plain(uuid)
    return bool({digits, _swapped(digits)} & _COMMON)


def written(uuid: str) -> str:
    """A valid one with hyphens, as libvirt shows it."""
    digits = plain(uuid)
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return "-".join(parts)


def _swapped(digits: str) -> str:
    def turned(part: str) -> str:
        return "".join(part[at : at + 2] for at in range(len(part) - 2, -1, -2))

    return turned(digits[:8]) + turned(digits[8:12]) + turned(digits[12:16]) + digits[16:]
