# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of ``virt_rename``, for the module and its action plugin."""

from __future__ import annotations

import typing as t

from ..._records import dataclass, field
from ..engine.envelope import Work

if t.TYPE_CHECKING:
    from ..base.arguments import Spec


ARGUMENTS: Spec = {
    "name": {"type": "str", "required": True},
    "new_name": {"type": "str", "required": True},
    "volumes": {"type": "bool", "default": False},
}


@dataclass(frozen=True)
class RenameWork(Work):
    """A stage of renaming a VM; after ``take`` all hypervisors are asked again, as round 1.

    They note the ``claims`` first: that the VM has the new name where it is. Before the decision
    they tell what they noted of machines that are none of ``answering``."""

    STAGES = ("all", "look", "noted", "decide", "take", "finish", "withdraw", "report")

    claims: list[str] = field(default_factory=list)
    answering: list[str] = field(default_factory=list)
