# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible_collections.fleet.virt.plugins.module_utils._fleet.template import (
    decide as template_decision,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.template.facts import (
    Templated,
    TemplateLook,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.template.options import (
    ARGUMENTS,
    INTERNAL,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected, FleetAction
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values
from ansible_collections.fleet.virt.plugins.plugin_utils.base._registered import registered


class VirtTemplateOptions(Connected):
    name: str
    image: str | None
    disk: str | None
    identity: str
    quiesce: str
    base_pool: str
    base_path: str
    _stage: str
    _every_disk: bool
    _results: str | None
    _host: str | None
    _present: str


class ActionModule(FleetAction):
    """The module runs the stages on the hypervisor; this runs those on the controller."""

    def work(self, task_vars: Values) -> t.Mapping[str, object]:
        stage = self._task.args.get("_stage", "all")
        if stage not in ("decide", "report"):
            return self.module(task_vars)
        options = self.options(VirtTemplateOptions, ARGUMENTS, INTERNAL)
        name, image = options["name"], options["image"] or ""
        if stage == "report":
            return self._report(options, task_vars)
        answers = registered(task_vars, options["_results"], TemplateLook)
        seen = template_decision.fleet(answers, self.expected(), self.lost())
        host, present = template_decision.decide(name, image, seen)
        return {"changed": False, "hypervisor": host, "present": present}

    def _report(self, options: VirtTemplateOptions, task_vars: Values) -> Answer:
        if options["_host"] is None:
            raise AnsibleActionFail("_host: missing; give what _stage: decide returned")
        answers = registered(task_vars, options["_results"], Templated)
        text, failures = template_decision.report(
            options["name"],
            options["image"] or "",
            options["_host"],
            answers,
            options["_present"],
            check=self.check,
        )
        return self.shown(text, failures)
