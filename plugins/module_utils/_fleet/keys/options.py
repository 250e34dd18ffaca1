# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of ``virt_keys``, for the module and its action plugin."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from ..base.arguments import Spec


STAGES = ("all", "look", "prepare", "apply", "report", "request", "deploy")
# Stages that the module performs on a hypervisor; the controller performs the others
ON_HYPERVISOR = ("look", "request", "deploy")

ARGUMENTS: Spec = {
    "keys_dir": {"type": "path"},
    "organization": {"type": "str", "default": "fleet"},
    "client_name": {"type": "str", "default": "controller"},
    "days": {"type": "int", "default": 365},
    "ca_days": {"type": "int", "default": 3650},
    "renew_days": {"type": "int", "default": 30},
    "passphrase_variable": {"type": "str", "no_log": False},
    "control_ca_variable": {"type": "str"},
    "data_ca_variable": {"type": "str"},
    "expected": {"type": "list", "elements": "str"},
    "lost": {"type": "list", "elements": "str", "default": []},
    "names": {"type": "list", "elements": "str", "default": []},
    "renew": {"type": "bool", "default": False},
    "rotate": {"type": "list", "elements": "str", "default": []},
    "revoke": {"type": "list", "elements": "str", "default": []},
    "readmit": {"type": "list", "elements": "str", "default": []},
    "replace": {"type": "bool", "default": False},
    "qemu_user": {"type": "str"},
}
INTERNAL: Spec = {
    "_stage": {"type": "str", "choices": list(STAGES), "default": "all"},
    "_results": {"type": "str"},
    "_prepared": {"type": "str"},
    "_applied": {"type": "str"},
    "_new_keys": {"type": "dict", "no_log": False},
    "_files": {"type": "dict"},
    "_revoked": {"type": "list", "elements": "str", "default": []},
}
