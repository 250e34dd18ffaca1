# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check that no other hypervisor has a VM, for a task that runs on one.

The controller reads the others itself, in parallel, as the inventory plugin does.
"""

from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import (
    as_list,
    as_mapping,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.ansible_core import _alive
from ansible_collections.fleet.virt.plugins.plugin_utils.base._fleet_variables import Variables
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Values

_GROUP = "hypervisors"


def others(task_vars: Values) -> list[str]:
    """The other members of the group ``hypervisors``, if this host is one; none otherwise."""
    own = str(task_vars["inventory_hostname"])
    members = [str(name) for name in as_list(as_mapping(task_vars.get("groups")).get(_GROUP))]
    return [name for name in members if name != own] if own in members else []


def not_lost(task_vars: Values, variables: Variables) -> list[str]:
    """Those of :func:`others` that are not declared lost."""
    lost = _alive.named(variables.get("virt_hypervisors_lost"))
    return [name for name in others(task_vars) if name not in lost]


def require_absent(
    names: t.Collection[str],
    task_vars: Values,
    variables: Variables,
    uri: str,
    timeout: float,
) -> None:
    """Raise PlanRefused if another hypervisor has a VM of ``names``, or may have."""
    contacted = not_lost(task_vars, variables)
    if not contacted:
        return
    # Ansible compiles it in every run, and creating VMs by a playbook needs nothing of it
    from ansible_collections.fleet.virt.plugins.plugin_utils.provision import _defined_elsewhere

    _defined_elsewhere.require_absent(names, contacted, task_vars, uri, timeout)
