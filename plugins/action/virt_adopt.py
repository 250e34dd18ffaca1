# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import os
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
    AdoptWork,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import outcomes
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output, _peers
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values, texts
from ansible_collections.fleet.virt.plugins.plugin_utils.base._registered import hosts
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import _batch, _vms_file


class VirtAdoptOptions(Connected):
    names: list[str]
    disks: bool
    pool: str
    base_pool: str


class ActionModule(StagedAction[AdoptWork]):
    """The module runs the stages on the hypervisor; this runs those on the controller."""

    WORK = AdoptWork

    def asked(self, work: AdoptWork, task_vars: Values) -> Answer:
        if work.stage == "act":
            ids = texts(self.decision("virt_decision")["shared_ids"])
            work = dataclasses.replace(work, shared_ids=ids)
        return super().asked(work, task_vars)

    def decided(self, work: AdoptWork) -> t.Mapping[str, object]:
        options = self.options(VirtAdoptOptions, ARGUMENTS)
        variables = _batch.Variables(self._values, self._templar)
        file = variables.get("virt_output_file")
        path = None if file is None else os.path.expanduser(os.path.expandvars(str(file)))
        return (
            self._report(path) if work.stage == "report" else self._decide(options, variables, path)
        )

    def _decide(
        self, options: VirtAdoptOptions, variables: _batch.Variables, path: str | None
    ) -> Answer:
        seen = self.fleet("virt_look", AdoptLook, "look", "defined")
        taken = [*_peers.names("hypervisors", self._values), *hosts(self._values)]
        host = variables.get("vm_host")
        decision = adopt_decision.decide(
            options["names"],
            None if host is None else str(host),
            seen,
            taken,
            _batch.defaults(variables),
            disks=options["disks"],
        )
        if path:
            specifications = adopt_decision.specifications(decision, seen)
            _vms_file.require_nothing_lost(path, specifications)
        return {"changed": False, **vars(decision)}

    def _report(self, path: str | None) -> Answer:
        answers = self.answers("virt_adopted", Adopted, "act")
        refused = texts(self.decision("virt_decision")["refused"])
        report = adopt_decision.report(self.shares(), answers, refused, check=self.check)
        self.happened(outcomes.outcomes(self.shares(), answers))
        _output.say(report.text)
        result: Answer = {"changed": False, "output": report.text, "virt_vms": report.vms}
        if report.vms:
            text = _vms_file.render(report.vms)
            if path:
                _vms_file.require_nothing_lost(path, report.vms)
            diff = bool(self._task.diff)
            result.update(_output.deliver(text, path, check=self.check, diff=diff))
        return self.concluded(result, report.failures)
