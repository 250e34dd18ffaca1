# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Statements of a person that are true of one run only, and so given as extra variables only."""

from __future__ import annotations

from ansible.utils.vars import load_extra_vars
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.plugin_utils.ansible_core import _alive
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import FleetAction

FENCED, SIGNS_IGNORED = "virt_fenced", "virt_signs_ignored"


def for_this_run(action: FleetAction, variable: str) -> list[str]:
    """The hypervisors that a variable names.

    Raises PlanRefused for the variable in a file: it is true of one run only.
    """
    given: object = action._values.get(variable)
    if given is None:
        return []
    names = sorted(_alive.named(action._templar.template(given)))
    if names and variable not in load_extra_vars(action._loader):
        raise PlanRefused(
            f"{variable} is given in a file, where it would be forgotten; it is true of one run"
            f" only: remove it there, and give it only with -e {variable}={','.join(names)}"
        )
    return names
