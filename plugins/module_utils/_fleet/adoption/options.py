# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of ``virt_adopt``, for the module and its action plugin."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from ..base.arguments import Spec


ARGUMENTS: Spec = {
    "names": {"type": "list", "elements": "str", "default": [], "aliases": ["name"]},
    "disks": {"type": "bool", "default": False},
    "pool": {"type": "str", "default": "default"},
    "base_pool": {"type": "str", "default": "base"},
}
INTERNAL: Spec = {
    "_stage": {"type": "str", "choices": ["all", "look", "decide", "report"], "default": "all"},
    "_host": {"type": "str"},
    "_results": {"type": "str"},
    "_shares": {"type": "dict"},
    "_shared_ids": {"type": "list", "elements": "str", "default": []},
    "_refused": {"type": "list", "elements": "str", "default": []},
    "_output_file": {"type": "path"},
}
