# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import as_list
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.selected import Selected
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import located, outcomes
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge import (
    decide as purge_decision,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge import report as purge_report
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge.facts import (
    Purged,
    PurgeLook,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge.options import (
    ARGUMENTS,
    PurgeWork,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _peers
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values, texts
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction


class VirtPurgeOptions(Connected):
    names: list[str]
    force: bool
    base_pool: str
    asked: list[str]


class ActionModule(StagedAction[PurgeWork]):
    """The module runs the stages on the hypervisor; this runs those on the controller."""

    WORK = PurgeWork

    def asked(self, work: PurgeWork, task_vars: Values) -> Answer:
        if work.stage == "users":
            files = [str(file) for file in as_list(self.decision("virt_decision")["files"])]
            work = dataclasses.replace(work, files=files)
        return super().asked(work, task_vars)

    def decided(self, work: PurgeWork) -> t.Mapping[str, object]:
        options = self.options(VirtPurgeOptions, ARGUMENTS)
        return (self._report if work.stage == "report" else self._decide)(options, work)

    def _decide(self, options: VirtPurgeOptions, work: PurgeWork) -> Answer:
        seen = self.fleet("virt_look", PurgeLook, "look")
        hypervisors = _peers.hypervisors(self._values)
        decision = purge_decision.decide(
            options["names"], seen, hypervisors, work.groups, self.chosen_host()
        )
        selected = Selected.of(options["names"], work.groups)
        confirm = work.confirm.lstrip("= ")
        purge_decision.require_confirmed(selected, confirm, decision, check=self.check)
        if work.round:
            users = self.fleet("virt_users", PurgeLook, "users", "users")
            purge_decision.require_unused(decision, users)
        return {"changed": False, **vars(decision)}

    def _report(self, _options: VirtPurgeOptions, _work: PurgeWork) -> Answer:
        answers = self.answers("virt_purged", Purged, "act")
        decision = self.decision("virt_decision")
        text, failures = purge_report.report(
            texts(decision["absent"]), self.shares(), answers, check=self.check
        )
        self.happened(outcomes.outcomes(self.shares(), answers))
        unconfirmed = str(decision["unconfirmed"])
        text += f"{unconfirmed}\n" if unconfirmed else ""
        return self.shown(text, [*failures, *located.not_done(str(decision["silent"]))])
