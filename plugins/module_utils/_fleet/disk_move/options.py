# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of ``virt_move_disk``, for the module and its action plugin."""

from __future__ import annotations

import typing as t

from ..._errors import Problem, SpecError
from ..base.arguments import Spec
from ..base.json_values import as_text
from .facts import DiskMoveRequest

ARGUMENTS: Spec = {
    "names": {"type": "list", "elements": "str", "required": True, "aliases": ["name"]},
    "disk": {"type": "str"},
    "pool": {"type": "str"},
    "base_pool": {"type": "str", "default": "base"},
}


def wanted_of(options: t.Mapping[str, object]) -> DiskMoveRequest:
    """The options as a request; raises SpecError for missing ones."""
    disk, pool = as_text(options["disk"]) or "", as_text(options["pool"]) or ""
    problems = []
    if not disk:
        rule = "none is named; give its name or target (in a playbook virt_disk=system)"
        problems.append(Problem("disk", rule))
    if not pool:
        rule = "none is named; give the pool it is to be in (in a playbook virt_to_pool=fast)"
        problems.append(Problem("pool", rule))
    elif pool == options["base_pool"]:
        rule = "the pool of base images, which belong to no VM; choose another"
        problems.append(Problem("pool", f"{pool!r} is {rule}"))
    if problems:
        raise SpecError(problems)
    return DiskMoveRequest(disk, pool)
