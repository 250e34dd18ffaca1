# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import located, outcomes
from ansible_collections.fleet.virt.plugins.module_utils._fleet.snapshots import decide as decision
from ansible_collections.fleet.virt.plugins.module_utils._fleet.snapshots.facts import (
    SnapshotLook,
    Snapshotted,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.snapshots.options import (
    ARGUMENTS,
    SnapshotWork,
    wanted_of,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction


class VirtSnapshotOptions(Connected):
    names: list[str]
    snapshot: str | None
    state: str
    children: bool
    keep: int | None
    disk_only: bool
    quiesce: str


class ActionModule(StagedAction[SnapshotWork]):
    """The module runs the stages on the hypervisor; this runs those on the controller."""

    WORK = SnapshotWork
    CONTROLLER = ("decide", "report", "list")
    REPORTS = ("report", "list")

    def decided(self, work: SnapshotWork) -> t.Mapping[str, object]:
        options = self.options(VirtSnapshotOptions, ARGUMENTS)
        if work.stage == "report":
            done = self.answers("virt_snapshots_done", Snapshotted, "act")
            text, failures = decision.report(self.shares(), done, check=self.check)
            self.happened(outcomes.outcomes(self.shares(), done))
            silent = str(self.decision("virt_decision")["silent"])
            return self.shown(text, [*failures, *located.not_done(silent)])
        answers = self.answers("virt_look", SnapshotLook, "look")
        seen = decision.fleet(answers, self.expected(), self.lost())
        if work.stage == "list":
            return self.shown(*decision.listing(options["names"], seen, work.groups))
        wanted_of(options)
        return {
            "changed": False,
            **vars(decision.decide(options["names"], seen, work.groups, self.chosen_host())),
        }
