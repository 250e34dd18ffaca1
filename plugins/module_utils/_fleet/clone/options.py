# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of ``virt_clone``, for the module and its action plugin."""

from __future__ import annotations

import typing as t

from ..._records import dataclass
from ..engine.envelope import Work

if t.TYPE_CHECKING:
    from ..base.arguments import Spec

MODES = ("linked", "full")
ARGUMENTS: Spec = {
    "name": {"type": "str", "required": True},
    "clone_of": {"type": "str", "required": True},
    "pool": {"type": "str", "default": "default"},
}
INTERNAL: Spec = {"_mode": {"type": "str", "choices": list(MODES)}}


@dataclass(frozen=True)
class CloneWork(Work):
    """A stage of cloning a VM, until the clone is provisioned as any VM."""

    STAGES = ("all", "look", "decide", "prepare")
