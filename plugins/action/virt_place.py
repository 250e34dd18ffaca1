# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.arguments import Spec
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.options import show
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.work import PlaceWork
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import (
    Answer,
    Values,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction
from ansible_collections.fleet.virt.plugins.plugin_utils.provision._round import RoundOptions
from ansible_collections.fleet.virt.plugins.plugin_utils.provision._round_confirm import (
    ConfirmRound,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.provision._round_place import PlaceRound

# What virt_restart may be
RESTART = ("never", "when_required")
_ARGUMENTS: Spec = {
    "vms": {"type": "list", "elements": "dict"},
    "results": {"type": "str", "required": True},
    "expected": {"type": "list", "elements": "str"},
    "lost": {"type": "list", "elements": "str"},
    "every": {"type": "bool", "default": False},
}
_INTERNAL: Spec = {"_told": {"type": "str"}}


class ActionModule(StagedAction[PlaceWork]):
    WORK = PlaceWork
    CONTROLLER = ("place", "confirm")
    _requires_connection = False

    def alone(self, task_vars: Values) -> Answer:
        return PlaceRound(*self._of(PlaceWork(), task_vars)).place()

    def decided(self, work: PlaceWork) -> t.Mapping[str, object]:
        given = self._of(work, self._values)
        return (
            ConfirmRound(*given).confirm()
            if work.stage == "confirm"
            else PlaceRound(*given).place()
        )

    def _of(
        self, work: PlaceWork, task_vars: Values
    ) -> tuple[StagedAction[PlaceWork], RoundOptions, PlaceWork, Values]:
        """What a round is made of."""
        options = self.options(RoundOptions, _ARGUMENTS, _INTERNAL)
        restart = self._templar.template(task_vars.get("virt_restart", RESTART[0]))
        if restart not in RESTART:
            raise PlanRefused(f"virt_restart: {show(restart)} is not one of {', '.join(RESTART)}")
        return self, options, work, task_vars
