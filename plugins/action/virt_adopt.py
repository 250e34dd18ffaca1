# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._fleet.adoption import (
    decide as adopt_decision,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.adoption.facts import (
    Adopted,
    AdoptLook,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.adoption.options import (
    ARGUMENTS,
    INTERNAL,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output, _peers
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected, FleetAction
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values, shares
from ansible_collections.fleet.virt.plugins.plugin_utils.base._registered import hosts, registered
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import _batch, _vms_file


class VirtAdoptOptions(Connected):
    names: list[str]
    disks: bool
    pool: str
    base_pool: str
    _stage: str
    _host: str | None
    _results: str | None
    _shares: dict[str, object] | None
    _shared_ids: list[str]
    _refused: list[str]
    _output_file: str | None


class ActionModule(FleetAction):
    """The module runs the stages on the hypervisor; this runs those on the controller."""

    def work(self, task_vars: Values) -> t.Mapping[str, object]:
        stage = self._task.args.get("_stage", "all")
        if stage not in ("decide", "report"):
            return self.module(task_vars)
        options = self.options(VirtAdoptOptions, ARGUMENTS, INTERNAL)
        return (self._decide if stage == "decide" else self._report)(options, task_vars)

    def _decide(self, options: VirtAdoptOptions, task_vars: Values) -> Answer:
        answers = registered(task_vars, options["_results"], AdoptLook)
        seen = adopt_decision.fleet(answers, self.expected(), self.lost())
        variables = _batch.Variables(task_vars, self._templar)
        taken = [*_peers.names("hypervisors", task_vars), *hosts(task_vars)]
        decision = adopt_decision.decide(
            options["names"], options["_host"], seen, taken, _batch.defaults(variables)
        )
        if options["_output_file"]:
            specifications = adopt_decision.specifications(decision, seen)
            _vms_file.require_nothing_lost(options["_output_file"], specifications)
        return {"changed": False, **vars(decision)}

    def _report(self, options: VirtAdoptOptions, task_vars: Values) -> Answer:
        answers = registered(task_vars, options["_results"], Adopted)
        report = adopt_decision.report(
            shares(options["_shares"]), answers, options["_refused"], check=self.check
        )
        _output.say(report.text)
        result: Answer = {"changed": False, "output": report.text, "virt_vms": report.vms}
        if report.vms:
            text, path = _vms_file.render(report.vms), options["_output_file"]
            if path:
                _vms_file.require_nothing_lost(path, report.vms)
            diff = bool(self._task.diff)
            result.update(_output.deliver(text, path, check=self.check, diff=diff))
        if report.failures:
            result.update(failed=True, msg="\n".join(report.failures))
        return result
