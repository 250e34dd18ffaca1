# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses

from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.effects_borg import Access
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore import (
    decide_disk as decision,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore import effects_disk
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore.facts import (
    DiskLook,
    DiskRestored,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore.options import (
    SavedVm,
    skipped,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore.options_disk import (
    ARGUMENTS,
    RestoreDiskOptions,
    RestoreDiskWork,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.backup._place import nearby
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction


class VirtRestoreDiskOptions(Connected, RestoreDiskOptions):
    """Those of every action, and its own."""


class ActionModule(StagedAction[RestoreDiskWork]):
    """The module runs the stages on hypervisors; this runs those on the controller."""

    WORK = RestoreDiskWork
    CONTROLLER = ("find", "decide", "report")

    def decided(self, work: RestoreDiskWork) -> Answer:
        options = self.options(VirtRestoreDiskOptions, ARGUMENTS)
        if work.stage == "find":
            place, key, base = nearby(self._values, self._templar, options["place"])
            options["place"] = place
            vms = effects_disk.find(Access(options["passphrase"], base, key), options, "")
            for remark in skipped(vms):
                _output.warn(remark)
            return {"changed": False, "vms": [dataclasses.asdict(vm) for vm in vms]}
        (vm,) = self._vms()
        if work.stage == "report":
            made = self.answers("virt_disk_restored", DiskRestored, "act")
            text, failures = decision.report(self.shares(), made, vm.archive, check=self.check)
            return self.shown(text, failures)
        seen = self.fleet("virt_look", DiskLook, "look", "disks")
        return {"changed": False, "shares": decision.decide(vm, seen)}

    def asked(self, work: RestoreDiskWork, task_vars: Values) -> Answer:
        return super().asked(dataclasses.replace(work, vms=self._vms()), task_vars)

    def _vms(self) -> list[SavedVm]:
        """What stage ``find`` has found."""
        vms = self.decision("virt_saved", "find")["vms"]
        return envelope.read(RestoreDiskWork, {envelope.OPTION: {"vms": vms}}).vms
