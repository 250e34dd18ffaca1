# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of ``virt_migrate``, for the module and its action plugin."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from ..base.arguments import Spec


VM: Spec = {
    "name": {"type": "str", "required": True},
    "destination": {
        "type": "dict",
        "required": True,
        "options": {
            "name": {"type": "str", "required": True},
            "address": {"type": "str"},
            "bridges": {"type": "list", "elements": "str"},
            "marked": {"type": "bool", "default": False},
            "expired": {"type": "list", "elements": "str", "default": []},
            "missing_certificates": {"type": "list", "elements": "str", "default": []},
            "needed": {"type": "dict", "default": {}},
            "coming": {"type": "list", "elements": "str", "default": []},
        },
    },
    "lost_source": {
        "type": "dict",
        "options": {
            "name": {"type": "str", "required": True},
            "addresses": {"type": "list", "elements": "str", "default": []},
        },
    },
}
BASE: Spec = {
    "volume": {"type": "str", "required": True},
    "peers": {"type": "list", "elements": "str", "required": True},
}

ARGUMENTS: Spec = {
    "vms": {"type": "list", "elements": "dict", "options": VM, "default": []},
    "state": {"type": "str", "choices": ["moved", "repaired"], "default": "moved"},
    "source": {"type": "str"},
    "keep_volumes": {"type": "bool", "default": False},
    "parallel": {"type": "int", "default": 2},
    "bandwidth": {"type": "int"},
    "max_downtime": {"type": "int"},
    "auto_converge": {"type": "bool", "default": True},
    "tunnelled": {"type": "bool", "default": False},
    "parallel_connections": {"type": "int"},
    "seconds_per_gib": {"type": "int", "default": 800},
    "on_timeout": {"type": "str", "choices": ["abort", "pause"], "default": "abort"},
    "base_pool": {"type": "str", "default": "base"},
}
INTERNAL: Spec = {
    "_stage": {
        "type": "str",
        "choices": ["all", "look", "decide", "bases", "report"],
        "default": "all",
    },
    "_bases": {"type": "list", "elements": "dict", "options": BASE, "default": []},
    "_names": {"type": "list", "elements": "str", "default": []},
    "_problems": {"type": "list", "elements": "str", "default": []},
    "_host": {"type": "str"},
    "_evacuated": {"type": "str"},
    "_home": {"type": "str"},
    "_base_path": {"type": "str", "default": "/var/lib/libvirt/base"},
    "_results": {"type": "str"},
    "_shares": {"type": "dict"},
    "_marked": {"type": "str"},
}
