# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import decide as decision
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.facts import (
    BackedUp,
    BackupLook,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.options_saving import (
    ARGUMENTS,
    BackupWork,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import located
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction


class VirtBackupOptions(Connected):
    names: list[str]
    to: str | None
    passphrase: str | None
    ssh_key: str | None
    quiesce: str
    scratch: str
    scratch_mib: int | None


class ActionModule(StagedAction[BackupWork]):
    """The module runs the stages on the hypervisor; this runs those on the controller."""

    WORK = BackupWork

    def decided(self, work: BackupWork) -> t.Mapping[str, object]:
        options = self.options(VirtBackupOptions, ARGUMENTS)
        if work.stage == "report":
            made = self.answers("virt_backed_up", BackedUp, "act")
            text, failures = decision.report(self.shares(), made, check=self.check)
            silent = str(self.decision("virt_decision")["silent"])
            return self.shown(text, [*failures, *located.not_done(silent)])
        answers = self.answers("virt_look", BackupLook, "look")
        seen = decision.fleet(answers, self.expected(), self.lost())
        return {"changed": False, **vars(decision.decide(options["names"], seen, work.groups))}
