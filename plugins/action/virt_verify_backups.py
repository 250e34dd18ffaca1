# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses

from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import places
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.effects_borg import Access
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import (
    as_mapping,
    as_text,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import decide as placement
from ansible_collections.fleet.virt.plugins.module_utils._fleet.verify import decide, read_saved
from ansible_collections.fleet.virt.plugins.module_utils._fleet.verify.facts import (
    Cleared,
    ProofLook,
    Proven,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.verify.options import (
    ARGUMENTS,
    SavedArchive,
    VerifyOptions,
    VerifyWork,
    verify_options,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected
from ansible_collections.fleet.virt.plugins.plugin_utils.base._fleet_variables import Variables
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import (
    Answer,
    Values,
    shares,
    texts,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction
from ansible_collections.fleet.virt.plugins.plugin_utils.images._images import cache_folder
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import _placing
from ansible_collections.fleet.virt.plugins.plugin_utils.verify import _report

_FOUND, _DECIDED = "virt_saved", "virt_decision"


class VirtVerifyBackupsOptions(Connected, VerifyOptions):
    """Those of every action, and its own."""


class ActionModule(StagedAction[VerifyWork]):
    """The module runs the stages on hypervisors; this runs those on the controller."""

    WORK = VerifyWork
    CONTROLLER = ("find", "decide", "report", "cleared")
    REPORTS = ("report", "cleared")

    def decided(self, work: VerifyWork) -> Answer:
        if work.stage == "cleared":
            return self._cleared()
        options = self.options(VirtVerifyBackupsOptions, ARGUMENTS)
        verify_options(options)
        if work.stage == "find":
            saved = read_saved.find(
                places.parse(self._place(options)), self._access(options), options
            )
            return {"changed": False, **dataclasses.asdict(saved)}
        return self._decide() if work.stage == "decide" else self._report(options)

    def asked(self, work: VerifyWork, task_vars: Values) -> Answer:
        if work.stage != "clear":
            vms = self._vms()
            if work.stage == "boot":
                decided = self.decision(_DECIDED)
                names = shares(decided["shares"])[str(task_vars["inventory_hostname"])]
                why = as_mapping(decided["unbootable"])
                vms = [
                    dataclasses.replace(vm, unbootable=as_text(why.get(vm.name)) or "")
                    for vm in vms
                    if vm.name in names
                ]
            work = dataclasses.replace(work, vms=vms)
        return super().asked(work, task_vars)

    def _vms(self) -> list[SavedArchive]:
        """What stage ``find`` has found and is not damaged."""
        saved = self.decision(_FOUND, "find")
        work = envelope.read(VerifyWork, {envelope.OPTION: {"vms": saved["vms"]}})
        damaged = as_mapping(saved["damaged"])
        return [vm for vm in work.vms if vm.name not in damaged]

    def _variables(self) -> Variables:
        return Variables(self._values, self._templar)

    def _place(self, options: VirtVerifyBackupsOptions) -> str:
        """Where this controller reaches the place."""
        near = self._variables().get("virt_backup_read_from")
        if near is None:
            return options["place"]
        return str(near[0] if isinstance(near, list) and near else near)

    def _access(self, options: VirtVerifyBackupsOptions) -> Access:
        key = as_text(self._variables().get("virt_backup_ssh_key"))
        return Access(options["passphrase"], str(cache_folder() / "borg"), key)

    def _decide(self) -> Answer:
        vms, variables = self._vms(), self._variables()
        if not vms:
            return {"changed": False, "shares": {}, "unbootable": {}}
        given = self.answers("virt_look", ProofLook, "look")
        limits = {name: _placing.limits_of(name, self._values) for name in given}
        decision = decide.decide(
            vms,
            {name: answer for name, answer in given.items() if answer.get("entries") is not None},
            _placing.hosts_of(given, limits, self.lost()),
            placement.Policy(pool_paths=variables.pool_paths(), base_pool=variables.base_pool()),
        )
        return {"changed": False, **vars(decision)}

    def _report(self, options: VirtVerifyBackupsOptions) -> Answer:
        saved, decided = self.decision(_FOUND, "find"), self.decision(_DECIDED)
        work = envelope.read(VerifyWork, {envelope.OPTION: {"vms": saved["vms"]}})
        reporter = _report.Reporter(
            place=places.parse(self._place(options)),
            access=self._access(options),
            vms={vm.name: vm for vm in work.vms},
            shares=shares(decided["shares"]),
            unbootable={str(k): str(v) for k, v in as_mapping(decided["unbootable"]).items()},
            damaged={str(k): str(v) for k, v in as_mapping(saved["damaged"]).items()},
            notes=texts(saved["notes"]),
            check=self.check,
        )
        verified = reporter.verified(self.answers("virt_proven", Proven, "boot"))
        result = reporter.delivered(verified, options, diff=bool(self._task.diff))
        apart = (options["output"], options["output_file"]) != ("table", None)
        failures = [*texts(saved["problems"]), *reporter.failures(verified)]
        return self.concluded(result, failures, apart=apart)

    def _cleared(self) -> Answer:
        answers = self.answers("virt_cleared", Cleared, "clear")
        return self.shown(*_report.cleared(answers, check=self.check))
