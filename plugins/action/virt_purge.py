# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import as_list
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
    INTERNAL,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _peers
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected, FleetAction
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values
from ansible_collections.fleet.virt.plugins.plugin_utils.base._registered import registered


class VirtPurgeOptions(Connected):
    names: list[str]
    force: bool
    base_pool: str
    asked: list[str]
    _stage: str
    _files: list[str]
    _results: str | None
    _users: str | None
    _shares: dict[str, object] | None


class ActionModule(FleetAction):
    """The module runs the stages on the hypervisor; this runs those on the controller."""

    def work(self, task_vars: Values) -> t.Mapping[str, object]:
        stage = self._task.args.get("_stage", "all")
        if stage not in ("decide", "report"):
            return self.module(task_vars)
        options = self.options(VirtPurgeOptions, ARGUMENTS, INTERNAL)
        return (self._decide if stage == "decide" else self._report)(options, task_vars)

    def _decide(self, options: VirtPurgeOptions, task_vars: Values) -> Answer:
        def fleet(variable: str | None, key: str) -> purge_decision.Fleet:
            answers = registered(task_vars, variable, PurgeLook)
            return purge_decision.fleet(answers, key, self.expected(), self.lost())

        seen = fleet(options["_results"], "vms")
        hypervisors = _peers.hypervisors(task_vars)
        decision = purge_decision.decide(options["names"], seen, hypervisors)
        if options["_users"] and decision.files:
            purge_decision.require_unused(decision, fleet(options["_users"], "users"))
        return {"changed": False, **vars(decision)}

    def _report(self, options: VirtPurgeOptions, task_vars: Values) -> Answer:
        answers = registered(task_vars, options["_results"], Purged)
        text, failures = purge_report.report(
            options["names"], _shares(options), answers, check=self.check
        )
        return self.shown(text, failures)


def _shares(options: VirtPurgeOptions) -> dict[str, list[str]]:
    if options["_shares"] is None:
        raise AnsibleActionFail("_shares: missing; give what _stage: decide returned as shares")
    return {
        host: [str(name) for name in as_list(names)] for host, names in options["_shares"].items()
    }
