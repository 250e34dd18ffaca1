# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of ``virt_purge``, for the module and its action plugin."""

from __future__ import annotations

import typing as t

from ..._records import dataclass, field
from ..engine.envelope import SelectingWork

if t.TYPE_CHECKING:
    from ..base.arguments import Spec


ARGUMENTS: Spec = {
    "names": {"type": "list", "elements": "str", "required": True, "aliases": ["name"]},
    "force": {"type": "bool", "default": False},
    "base_pool": {"type": "str", "default": "base"},
    "asked": {"type": "list", "elements": "str", "default": []},
}


@dataclass(frozen=True)
class PurgeWork(SelectingWork):
    """A stage of removing VMs; ``confirm`` is how many they are, as a person has written it, for
    those that are selected by a pattern or a group. ``files`` on shared storage are looked for as
    stage ``users``, after which the decision is made again, as round 1."""

    STAGES = ("all", "look", "users", "decide", "act", "report")

    files: list[str] = field(default_factory=list)
    confirm: str = ""
