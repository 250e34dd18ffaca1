# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import decide as decision
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.facts import (
    BackedUp,
    BackedUpVm,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.options_saving import (
    BackupWork,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.answers import GroupedVm
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, shares
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import Selection, VerbAction


class ActionModule(VerbAction[BackupWork, GroupedVm, BackedUpVm]):
    """Backups, as they are declared; what gave way is tried again in the next round."""

    WORK = BackupWork
    VERB = decision.VERB
    CONTROLLER = ("decide", "settle", "report")

    def decided(self, work: BackupWork) -> t.Mapping[str, object]:
        number = work.round
        if work.stage == "settle":
            decided = self.decision("virt_decision", number=number)
            made = self.answers("virt_backed_up", BackedUp, "act", number)
            before = self._settled(number - 1) if number else None
            after = decision.settle(shares(decided["shares"]), made, before)
            return {"changed": False, **vars(after), "silent": decided["silent"]}
        if work.stage == "decide" and number:
            names = self.options(Selection, self.VERB.arguments)["names"]
            again = decision.decide_again(names, self.seen(number), self.chosen_host())
            again.silent = str(self.decision("virt_settled", "settle", number - 1)["silent"])
            return {"changed": False, "number": number, **vars(again)}
        return {**super().decided(work), **({} if work.stage == "report" else {"number": number})}

    def report(self) -> Answer:
        last = self.latest("virt_settled", self.header.verb)
        ended = decision.settled(last)
        return self.reported(ended.shares, ended.ended, str(last["silent"]))

    def _settled(self, number: int) -> decision.Settled:
        return decision.settled(self.decision("virt_settled", "settle", number))
