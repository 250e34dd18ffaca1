# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What provisioning came to: what was decided last, and what was made.

Both are in variables of the playbook, as it depends on the decisions which register has them.
"""

from __future__ import annotations

from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import as_mapping
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.envelope import AnyWork
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.facts import Made
from ansible_collections.fleet.virt.plugins.plugin_utils.base._fleet_variables import Variables
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer
from ansible_collections.fleet.virt.plugins.plugin_utils.base._registered import registered
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction


def of(action: StagedAction[AnyWork]) -> Answer:
    """The last decision of this run about its VMs: ``requested``, ``done``, ``refused`` and
    ``problems``. Raises PlanRefused if there is none."""
    given = as_mapping(_variables(action).get("virt_ended"))
    decision = envelope.of_run(given, action.header.run, "virt_place")
    if envelope.OPTION not in given or decision.get("failed"):
        raise PlanRefused("virt_ended is no decision of this run; run the playbook again")
    return decision


def made(action: StagedAction[AnyWork]) -> dict[str, Made]:
    """What each hypervisor answered when it made its VMs."""
    name = str(_variables(action).get("virt_made_in"))
    return registered(action._values, name, Made, action.header.run, "virt_init")


def _variables(action: StagedAction[AnyWork]) -> Variables:
    return Variables(action._values, action._templar)
