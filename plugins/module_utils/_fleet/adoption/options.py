# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of ``virt_adopt``, for the module and its action plugin."""

from __future__ import annotations

import typing as t

from ..._records import dataclass, field
from ..engine.envelope import Work

if t.TYPE_CHECKING:
    from ..base.arguments import Spec


ARGUMENTS: Spec = {
    "names": {"type": "list", "elements": "str", "default": [], "aliases": ["name"]},
    "disks": {"type": "bool", "default": False},
    "pool": {"type": "str", "default": "default"},
    "base_pool": {"type": "str", "default": "base"},
}


@dataclass(frozen=True)
class AdoptWork(Work):
    """A stage of adopting VMs; ``shared_ids`` are those of pools that several hypervisors have."""

    STAGES = ("all", "look", "decide", "act", "report")

    shared_ids: list[str] = field(default_factory=list)
