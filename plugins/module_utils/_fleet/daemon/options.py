# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of virt_daemon, which module and action plugin share."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from ..base.arguments import Spec

ARGUMENTS: Spec = {
    "listen": {"type": "bool", "default": True},
    "tls_allowed_dn_list": {"type": "list", "elements": "str", "default": []},
    "qemu_conf": {"type": "dict", "default": {}},
    "lockspace": {"type": "path"},
    "postcopy": {"type": "bool", "default": False},
    "shutdown_timeout": {"type": "int", "default": 300},
    "shutdown_parallel": {"type": "int", "default": 10},
    "ordered_autostart": {"type": "bool", "default": True},
    "host_uuid_source": {"type": "str", "choices": ["smbios", "machine-id"]},
}
# "ask" and "take": see DaemonSettings; "machine": which machine this is, and what it tells of the
# hypervisors ``_about``
INTERNAL: Spec = {
    "_stage": {"type": "str", "choices": ["all", "ask", "machine", "take"], "default": "all"},
    "_about": {"type": "list", "elements": "str", "default": []},
}
