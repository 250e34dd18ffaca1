# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of ``virt_cell``, for the module and its action plugin."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from ..base.arguments import Spec

# Stages that the module performs on a hypervisor; the controller performs the others
LOOK, DECIDE, WRITE, ACTIVATE, CONFIGURE = "look", "decide", "write", "activate", "configure"
STAGES = (LOOK, DECIDE, WRITE, ACTIVATE, CONFIGURE)

ARGUMENTS: Spec = {
    "keys_dir": {"type": "path"},
    "token": {"type": "int", "default": 3000, "no_log": False},
    "system": {"type": "dict", "default": {}},
}
INTERNAL: Spec = {
    "_stage": {"type": "str", "choices": list(STAGES), "default": LOOK},
    "_results": {"type": "str"},
    "_decided": {"type": "str"},
    "_round": {"type": "int", "default": 0},
    "_agents": {"type": "list", "elements": "str", "default": []},
    "_job": {"type": "dict"},
    "_secrets": {"type": "dict", "no_log": True},
}
