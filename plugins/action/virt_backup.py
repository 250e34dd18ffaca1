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
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import located, outcomes
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import shares
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
    CONTROLLER = ("decide", "settle", "report")

    def decided(self, work: BackupWork) -> t.Mapping[str, object]:
        options = self.options(VirtBackupOptions, ARGUMENTS)
        number = work.round
        if work.stage == "report":
            last = self.latest("virt_settled", self.header.verb)
            ended = decision.settled(last)
            text, failures = decision.report(ended.shares, ended.ended, check=self.check)
            self.happened(outcomes.outcomes(ended.shares, ended.ended))
            return self.shown(text, [*failures, *located.not_done(str(last["silent"]))])
        if work.stage == "settle":
            decided = self.decision("virt_decision", number=number)
            made = self.answers("virt_backed_up", BackedUp, "act", number)
            before = self._settled(number - 1) if number else None
            after = decision.settle(shares(decided["shares"]), made, before)
            return {"changed": False, **vars(after), "silent": decided["silent"]}
        answers = self.answers("virt_look", BackupLook, "look", number)
        seen = decision.fleet(answers, self.expected(), self.lost())
        if number:
            again = decision.decide_again(options["names"], seen, self.chosen_host())
            again.silent = str(self.decision("virt_settled", "settle", number - 1)["silent"])
            return {"changed": False, "number": number, **vars(again)}
        first = decision.decide(options["names"], seen, work.groups, self.chosen_host())
        return {"changed": False, "number": number, **vars(first)}

    def _settled(self, number: int) -> decision.Settled:
        return decision.settled(self.decision("virt_settled", "settle", number))
