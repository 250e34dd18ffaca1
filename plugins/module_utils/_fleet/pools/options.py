# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of virt_pool."""

from __future__ import annotations

from ..base.arguments import Spec
from ..storage.nfs_options import VERSIONS

_NFS: Spec = {
    "server": {"type": "str", "required": True},
    "export": {"type": "str", "required": True},
    "version": {"type": "str", "choices": list(VERSIONS), "default": VERSIONS[0]},
    "options": {"type": "list", "elements": "str", "default": []},
}
_POOL: Spec = {
    "name": {"type": "str", "required": True},
    "path": {"type": "path", "required": True},
    "shared": {"type": "bool", "default": False},
    "nfs": {"type": "dict", "options": _NFS},
}
ARGUMENTS: Spec = {
    "pools": {"type": "list", "elements": "dict", "required": True, "options": _POOL}
}
