# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import binascii
import dataclasses

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.effects_borg import Access
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import (
    as_mappings,
    as_text,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore import (
    decide_file as decision,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore import effects_file
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore.facts import (
    FileLook,
    FileRestored,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore.options import (
    SavedVm,
    skipped,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore.options_file import (
    ARGUMENTS,
    RestoreFileOptions,
    RestoreFileWork,
    require_sound,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.backup import _restored_file
from ansible_collections.fleet.virt.plugins.plugin_utils.backup._place import nearby
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected
from ansible_collections.fleet.virt.plugins.plugin_utils.base._fleet_variables import Variables
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction


class VirtRestoreFileOptions(Connected, RestoreFileOptions):
    """Those of every action, and its own."""


class ActionModule(StagedAction[RestoreFileWork]):
    """The module reads the file on a hypervisor; this writes it on the controller."""

    WORK = RestoreFileWork
    CONTROLLER = ("find", "decide", "report")

    def decided(self, work: RestoreFileWork) -> Answer:
        options = self.options(VirtRestoreFileOptions, ARGUMENTS)
        if work.stage == "find":
            require_sound(options)
            place, key, base = nearby(self._values, self._templar, options["place"])
            options["place"] = place
            vms = effects_file.find(Access(options["passphrase"], base, key), options, "")
            for remark in skipped(vms):
                _output.warn(remark)
            return {"changed": False, "vms": [dataclasses.asdict(vm) for vm in vms]}
        (vm,) = self._vms()
        if work.stage == "report":
            made = self.answers("virt_file_restored", FileRestored, "act")
            given = (self.shares(), made, vm.archive, options["dest"])
            text, failures = decision.report(*given, check=self.check)
            return self.shown(text, failures)
        host = as_text(Variables(self._values, self._templar).get("vm_host"))
        answers = self.answers("virt_look", FileLook, "look")
        return {"changed": False, "shares": decision.decide(vm.name, host, answers)}

    def asked(self, work: RestoreFileWork, task_vars: Values) -> Answer:
        if work.stage == "look":
            return super().asked(work, task_vars)
        work = dataclasses.replace(work, vms=self._vms())
        return self._written(super().asked(work, task_vars))

    def alone(self, task_vars: Values) -> Answer:
        return self._written(super().alone(task_vars))

    def _written(self, answer: Answer) -> Answer:
        """The answer without the content, which is in a file of the controller."""
        text = as_text(answer.pop("content", None))
        if text is None or answer.get("failed"):
            return answer
        options = self.options(VirtRestoreFileOptions, ARGUMENTS)
        try:
            content = base64.b64decode(text, validate=True)
        except binascii.Error:
            raise FleetVirtError("what the hypervisor returned is no file; try again") from None
        changed = _restored_file.write(options["dest"], content, check=self.check)
        vms = [
            {**vm, "changed": changed, "size": len(content)}
            for vm in as_mappings(answer.get("vms"))
        ]
        return {**answer, "changed": changed, "vms": vms}

    def _vms(self) -> list[SavedVm]:
        """What stage ``find`` has found."""
        vms = self.decision("virt_saved", "find")["vms"]
        return envelope.read(RestoreFileWork, {envelope.OPTION: {"vms": vms}}).vms
