# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import outcomes
from ansible_collections.fleet.virt.plugins.module_utils._fleet.template import (
    decide as template_decision,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.template.facts import (
    Templated,
    TemplateLook,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.template.options import (
    ARGUMENTS,
    TemplateWork,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction


class VirtTemplateOptions(Connected):
    name: str
    image: str | None
    disk: str | None
    identity: str
    quiesce: str
    base_pool: str
    base_path: str


class ActionModule(StagedAction[TemplateWork]):
    """The module runs the stages on the hypervisor; this runs those on the controller."""

    WORK = TemplateWork

    def decided(self, work: TemplateWork) -> t.Mapping[str, object]:
        options = self.options(VirtTemplateOptions, ARGUMENTS)
        if work.stage == "report":
            return self._report(options)
        name, image = options["name"], options["image"] or ""
        seen = self.fleet("virt_look", TemplateLook, "look", "defined")
        host, present = template_decision.decide(name, image, seen, self.chosen_host())
        return {"changed": False, "hypervisor": host, "present": present}

    def _report(self, options: VirtTemplateOptions) -> Answer:
        decision = self.decision("virt_decision")
        answers = self.answers("virt_copied", Templated, "act")
        host = str(decision["hypervisor"])
        if not decision["present"]:
            self.happened(outcomes.outcomes({host: [options["name"]]}, answers))
        text, failures = template_decision.report(
            options["name"],
            options["image"] or "",
            host,
            answers,
            str(decision["present"]),
            check=self.check,
        )
        return self.shown(text, failures)
