# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._fleet.disk_move import decide as decision
from ansible_collections.fleet.virt.plugins.module_utils._fleet.disk_move.facts import (
    DiskLook,
    DiskMoved,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.disk_move.options import (
    ARGUMENTS,
    DiskMoveWork,
    wanted_of,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import located, outcomes
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction


class VirtMoveDiskOptions(Connected):
    names: list[str]
    disk: str | None
    pool: str | None
    base_pool: str


class ActionModule(StagedAction[DiskMoveWork]):
    """The module runs the stages on the hypervisor; this runs those on the controller."""

    WORK = DiskMoveWork
    CONTROLLER = ("decide", "report")
    REPORTS = ("report",)

    def decided(self, work: DiskMoveWork) -> t.Mapping[str, object]:
        options = self.options(VirtMoveDiskOptions, ARGUMENTS)
        if work.stage == "report":
            done = self.answers("virt_disks_moved", DiskMoved, "act")
            text, failures = decision.report(self.shares(), done, check=self.check)
            self.happened(outcomes.outcomes(self.shares(), done))
            silent = str(self.decision("virt_decision")["silent"])
            return self.shown(text, [*failures, *located.not_done(silent)])
        seen = located.sort(
            self.answers("virt_look", DiskLook, "look"), "vms", self.expected(), self.lost()
        )
        wanted_of(options)
        return {
            "changed": False,
            **vars(decision.decide(options["names"], seen, work.groups, self.chosen_host())),
        }
