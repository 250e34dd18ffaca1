# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of ``virt_purge``, for the module and its action plugin."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from ..base.arguments import Spec


ARGUMENTS: Spec = {
    "names": {"type": "list", "elements": "str", "required": True, "aliases": ["name"]},
    "force": {"type": "bool", "default": False},
    "base_pool": {"type": "str", "default": "base"},
    "asked": {"type": "list", "elements": "str", "default": []},
}
INTERNAL: Spec = {
    "_stage": {"type": "str", "choices": ["all", "look", "decide", "report"], "default": "all"},
    "_files": {"type": "list", "elements": "str", "default": []},
    "_results": {"type": "str"},
    "_users": {"type": "str"},
    "_shares": {"type": "dict"},
}
