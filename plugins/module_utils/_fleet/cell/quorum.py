# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a cell keeps its quorum while some of its members are away."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from ..base.snapshot import CellEntry


def problem(gone: t.Collection[str], cell: CellEntry) -> str | None:
    """Why the cell would stop its VMs while the members ``gone`` are away; None if it would not, or
    has no quorum as it is. A quorum device has a vote, and counts only where it casts that."""
    members, online, device = {*cell["members"]}, {*cell["online"]}, cell["device"]
    away = sorted(online & {*gone})
    left = sorted(online - {*gone})
    votes = len(left) + (device is True)
    if not cell["quorate"] or not away or 2 * votes > len(members) + (device is not None):
        return None
    offline = sorted(members - online - {*gone})
    besides = f" ({', '.join(offline)} not online)" if offline else ""
    voting = (
        ""
        if device is None
        else " with its quorum device"
        if device
        else (", and its quorum device does not vote")
    )
    return (
        f"without {', '.join(away)}, {len(left)} of the {len(members)} members of the cell"
        f" {cell['name']!r} would be online{besides}{voting}, which is no majority, so it would"
        " stop all its VMs"
    )
