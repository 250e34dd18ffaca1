# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of ``virt_rename``, for the module and its action plugin."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from ..base.arguments import Spec


ARGUMENTS: Spec = {
    "name": {"type": "str", "required": True},
    "new_name": {"type": "str", "required": True},
    "volumes": {"type": "bool", "default": False},
}
INTERNAL: Spec = {
    "_stage": {
        "type": "str",
        "choices": ["all", "look", "decide", "take", "finish", "withdraw", "report"],
        "default": "all",
    },
    "_results": {"type": "str"},
    "_taken": {"type": "str"},
    "_host": {"type": "str"},
    "_problem": {"type": "str", "default": ""},
}
