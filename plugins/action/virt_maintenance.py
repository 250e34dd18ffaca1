# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import dataclasses

from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import marks
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.marks import (
    MaintenanceWork,
    Marked,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values
from ansible_collections.fleet.virt.plugins.plugin_utils.base._registered import registered
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction

_MARKED = "virt_marked"  # what tasks register that set marks, in this play or the one before


class ActionModule(StagedAction[MaintenanceWork]):
    """The module does everything; this says what the others note of it."""

    WORK = MaintenanceWork
    CONTROLLER = ()

    def asked(self, work: MaintenanceWork, task_vars: Values) -> Answer:
        if work.stage == "note":
            own = str(task_vars["inventory_hostname"])
            noted = marks.volumes(registered(task_vars, _MARKED, Marked), own)
            if not noted:
                return {"changed": False}
            work = dataclasses.replace(work, marks=noted)
        return super().asked(work, task_vars)
