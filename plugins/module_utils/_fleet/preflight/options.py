# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of virt_preflight, which module and action plugin share."""

from __future__ import annotations

from ..._records import dataclass, field
from ..base.arguments import Spec
from ..engine.envelope import Work

ARGUMENTS: Spec = {
    "expected": {"type": "list", "elements": "str"},
    "peers": {
        "type": "list",
        "elements": "dict",
        "options": {
            "name": {"type": "str", "required": True},
            "address": {"type": "str", "required": True},
        },
    },
    "bridges": {"type": "list", "elements": "str"},
    "pools": {"type": "list", "elements": "str", "default": ["default", "base"]},
    "min_free": {"type": "str", "default": "10GiB"},
    "expiry_days": {"type": "int", "default": 30},
    "clock_seconds": {"type": "float", "default": 1.0},
    "output": {"type": "str", "choices": ["table", "json", "yaml", "csv"], "default": "table"},
    "output_file": {"type": "path"},
}


@dataclass(frozen=True)
class LockPeer:
    """A pool to try a lock in, with the hypervisor that must see it; both have it at a path."""

    pool: str = ""
    path: str = ""
    name: str = ""
    address: str = ""
    peer_path: str = ""


@dataclass(frozen=True)
class PreflightWork(Work):
    """A stage of checking a fleet; ``cpus`` are those of the others, as libvirt describes them,
    ``bridges`` those that profiles name, ``own`` is this hypervisor, which tries locks with others.
    """

    STAGES = ("all", "read", "compare", "report", "gate")

    cpus: list[str] = field(default_factory=list)
    bridges: list[str] = field(default_factory=list)
    own: str = ""
    locks: list[LockPeer] = field(default_factory=list)
