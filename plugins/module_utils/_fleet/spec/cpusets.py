# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sets of CPUs and of NUMA nodes as libvirt writes them: ``0-3,^2,8``."""

from __future__ import annotations

PATTERN = r"[0-9]{1,4}(-[0-9]{1,4})?(,\^?[0-9]{1,4}(-[0-9]{1,4})?)*"
RULE = "write numbers and ranges with commas, ^ before exclusions, for example 0-3,^2"


def numbers(text: str) -> frozenset[int]:
    """The numbers in the set."""
    members: set[int] = set()
    for part in text.split(","):
        first, _dummy, last = part.lstrip("^").partition("-")
        these = range(int(first), int(last or first) + 1)
        members = members.difference(these) if part.startswith("^") else members.union(these)
    return frozenset(members)


def same(asked: object, real: object) -> bool:
    """Whether two texts mean the same set."""
    if not isinstance(asked, str) or not isinstance(real, str):
        return asked == real
    return numbers(asked) == numbers(real)
