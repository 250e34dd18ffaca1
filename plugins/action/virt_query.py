# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine.envelope import Work
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes.silent import NotedWork
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import FleetReader

INTERNAL = ("_direct",)


class ActionModule(FleetReader):
    """The module does everything; this sanitises its result."""

    WORK = NotedWork

    def asked(self, work: Work, task_vars: Values) -> Answer:
        if work.stage != "noted":
            return super().asked(work, task_vars)
        return self.module(task_vars, {**self.given, envelope.OPTION: envelope.plain(work)})
