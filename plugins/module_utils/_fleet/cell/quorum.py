# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a cell keeps its quorum while some of its members are away."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from ..base.snapshot import CellEntry

_PAIR = 2  # members of a cell that has a quorum device, whose vote makes one of them a majority


def problem(gone: t.Collection[str], cell: CellEntry) -> str | None:
    """Why the cell would stop its VMs while the members ``gone`` are away; None if it would not, or
    has no quorum as it is."""
    members, online = {*cell["members"]}, {*cell["online"]}
    away = sorted(online & {*gone})
    left = sorted(online - {*gone})
    if not cell["quorate"] or not away or len(members) == _PAIR or 2 * len(left) > len(members):
        return None
    offline = sorted(members - online - {*gone})
    besides = f" ({', '.join(offline)} not online)" if offline else ""
    return (
        f"without {', '.join(away)}, {len(left)} of the {len(members)} members of the cell"
        f" {cell['name']!r} would be online{besides}, which is no majority, so it would stop all"
        " its VMs"
    )
