# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rename import (
    decide as rename_decision,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rename.options import (
    ARGUMENTS,
    INTERNAL,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _peers
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected, FleetAction
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values
from ansible_collections.fleet.virt.plugins.plugin_utils.base._registered import registered


class Options(Connected):
    name: str
    new_name: str
    volumes: bool
    _stage: str
    _results: str | None
    _taken: str | None
    _host: str | None
    _problem: str


class ActionModule(FleetAction):
    """The module runs the stages on the hypervisor; this runs those on the controller."""

    def work(self, task_vars: Values) -> t.Mapping[str, object]:
        stage = self._task.args.get("_stage", "all")
        if stage not in ("decide", "report"):
            return self.module(task_vars)
        options = self.options(Options, ARGUMENTS, INTERNAL)
        old, new = options["name"], options["new_name"]
        if stage == "report":
            return self._report(options, task_vars)
        answers = registered(task_vars, options["_results"], "rename_look")
        if options["_taken"]:
            return self._confirm(options, answers, task_vars)
        seen = rename_decision.fleet(answers, self.expected(), self.lost())
        _peers.refuse_hypervisors([new], task_vars)
        return {"changed": False, "hypervisor": rename_decision.decide(old, new, seen)}

    def _confirm(self, options: Options, answers: dict[str, Answer], task_vars: Values) -> Answer:
        """Check for conflicts with the new name; there are none if it was not taken."""
        old, new, host = options["name"], options["new_name"], _host(options)
        taken = registered(task_vars, options["_taken"], "renamed")
        _text, failures = rename_decision.report(old, new, host, taken, "", check=self.check)
        if failures:
            return {"changed": False, "taken": False, "problem": ""}
        try:
            seen = rename_decision.fleet(answers, self.expected(), self.lost())
            problem = rename_decision.confirm(old, new, host, seen)
        except FleetVirtError as error:
            problem = str(error)
        return {"changed": False, "taken": True, "problem": problem}

    def _report(self, options: Options, task_vars: Values) -> Answer:
        answers = registered(task_vars, options["_results"], "renamed")
        taken = registered(task_vars, options["_taken"], "renamed") if options["_taken"] else None
        text, failures = rename_decision.report(
            options["name"],
            options["new_name"],
            _host(options),
            answers,
            options["_problem"],
            check=self.check,
            taken=taken,
        )
        return self.shown(text, failures)


def _host(options: Options) -> str:
    if not options["_host"]:
        raise AnsibleActionFail("_host: missing; give what _stage: decide returned as hypervisor")
    return options["_host"]
