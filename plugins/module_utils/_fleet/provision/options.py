# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of ``virt_init``, apart from what reads them: some of its stages need no more."""

from __future__ import annotations

import typing as t

from ..base.settings import argument_spec, names
from ..hosts.fleet_seen import SEEN
from ..spec.settings import VM

if t.TYPE_CHECKING:
    from ..base.arguments import Spec

STAGES = ("all", "read", "look", "compare", "claim", "finish")
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
    "limits": {"type": "dict", "default": {}},
    "converge": {"type": "bool", "default": True},
}
INTERNAL: Spec = {
    "_stage": {"type": "str", "choices": list(STAGES), "default": "all"},
    "_run": {"type": "str"},
    "_only": {"type": "list", "elements": "str"},
    "_asked": {"type": "str", "default": "", "no_log": True},
    # Absolute paths of images, of which the hypervisor says which it does not have
    "_image_paths": {"type": "list", "elements": "str", "default": []},
    "_withdraw": {"type": "list", "elements": "str", "default": []},
    "_home": {"type": "str", "default": ""},
    "_fleet_machine": {"type": "str"},
    "_fleet_seen": {"type": "list", "elements": "dict", "default": [], "options": SEEN},
    "_earlier": {"type": "dict", "default": {}},
    "_images": {"type": "dict", "default": {}},
    "_clone_of": {"type": "str"},
    "_leftovers": {"type": "dict", "default": {}},
    "_passwords": {"type": "dict", "default": {}, "no_log": True},
    "_seeds": {"type": "str", "default": "", "no_log": True},
}
