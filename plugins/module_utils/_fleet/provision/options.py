# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of ``virt_init``, apart from what reads them: some of its stages need no more."""

from __future__ import annotations

import typing as t

from ..base.settings import argument_spec, names
from ..engine.envelope import SPEC
from ..spec.settings import VM

if t.TYPE_CHECKING:
    from ..base.arguments import Spec

# Every key that describes a VM; _fleet/spec/domain.py reads them, and reports every problem of a
# batch at once. The action plugin hands them on in ``vms``.
OPTIONS = tuple(names(VM))
ARGUMENTS: Spec = {
    **argument_spec(VM),
    "vms": {"type": "list", "elements": "dict"},
    "disk_profiles": {"type": "dict", "default": {}},
    "nic_profiles": {"type": "dict", "default": {}},
    "pool": {"type": "str", "default": "default"},
    "base_pool": {"type": "str", "default": "base"},
    "pool_paths": {"type": "dict", "default": {}},
    "ssh_public_keys": {"type": "list", "elements": "str", "default": [], "no_log": False},
    "fleet": {"type": "str", "default": ""},
    "fleet_cpu": {"type": "raw"},
    "limits": {"type": "dict", "default": {}},
    "converge": {"type": "bool", "default": True},
}
# The VMs of all hypervisors with what may be secret, and secrets: no_log hides entire options only
INTERNAL: Spec = {
    **SPEC,
    "_asked": {"type": "str", "default": "", "no_log": True},
    # Notes to keep and to tell (notes/handed.py): long, and of no use to who reads an invocation
    "_notes": {"type": "str", "default": "", "no_log": True},
    "_passwords": {"type": "dict", "default": {}, "no_log": True},
    "_seeds": {"type": "str", "default": "", "no_log": True},
}
