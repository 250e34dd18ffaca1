# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import (
    as_list,
    as_mapping,
    as_mappings,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seeding.facts import (
    Waited,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state import (
    decide as state_decision,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state import restarting
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state.facts import (
    Brought,
    StateLook,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.state.options import (
    ARGUMENTS,
    StateOptions,
    StateWork,
    require_sound,
    wanted_of,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, shares
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import _ended


class VirtStateOptions(Connected, StateOptions):
    """Those of every action, and its own."""


class ActionModule(StagedAction[StateWork]):
    """The module runs the stages on the hypervisor; this runs those on the controller."""

    WORK = StateWork
    CONTROLLER = ("decide", "note", "report", "order_restarts", "note_restarts")

    def decided(self, work: StateWork) -> t.Mapping[str, object]:
        options = self.options(VirtStateOptions, ARGUMENTS)
        stages: dict[str, t.Callable[[VirtStateOptions, StateWork], Answer]] = {
            "decide": self._decide,
            "note": self._note,
            "report": self._report,
            "order_restarts": self._order_restarts,
            "note_restarts": self._note_restarts,
        }
        return stages[work.stage](options, work)

    def _decide(self, options: VirtStateOptions, work: StateWork) -> Answer:
        wanted = wanted_of(options)
        require_sound(wanted)
        seen = self.fleet("virt_look", StateLook, "look")
        decision = state_decision.decide(
            options["names"], work.groups, seen, wanted, self.chosen_host()
        )
        return {"changed": False, **vars(decision)}

    def _note(self, _options: VirtStateOptions, work: StateWork) -> Answer:
        rounds = as_list(self.decision("virt_decision")["rounds"])
        noted = state_decision.tell(
            shares(rounds[work.round]),
            self.answers("virt_brought", Brought, "act", work.round),
            self._noted(work.round),
            check=self.check,
        )
        return {"changed": False, **vars(noted)}

    def _noted(self, number: int) -> state_decision.Told:
        """The outcomes of the rounds before this one."""
        note = self.decision("virt_noted", "note", number - 1) if number else None
        return state_decision.earlier_outcomes(note)

    def _report(self, _options: VirtStateOptions, _work: StateWork) -> Answer:
        decision = self.decision("virt_decision")
        noted = self._noted(len(as_list(decision["rounds"])))
        text, failures = state_decision.report(noted, str(decision["silent"]), check=self.check)
        self.happened(state_decision.ends(noted))
        return self.shown(text, failures)

    def _order_restarts(self, _options: VirtStateOptions, _work: StateWork) -> Answer:
        ended = _ended.of(self)
        done = {host: as_mappings(entries) for host, entries in as_mapping(ended["done"]).items()}
        names = restarting.required(_ended.made(self), done)
        order = restarting.order(names, self.answers("virt_restart_look", StateLook, "look"))
        noted = restarting.Noted(failures=order.unread)
        return {"changed": False, **vars(order), **vars(noted)}

    def _note_restarts(self, _options: VirtStateOptions, work: StateWork) -> Answer:
        number = work.round
        before = ("note_restarts", number - 1) if number else ("order_restarts", 0)
        earlier = self.decision("virt_restarts", *before)
        order = restarting.read_order(earlier)
        noted = restarting.note(
            order,
            number,
            restarting.Answers(
                self.answers("virt_answered", Waited, "check", number, "virt_wait"),
                self.answers("virt_restarted", Brought, "act", number),
                self.answers("virt_answered_again", Waited, "ssh", number, "virt_wait"),
            ),
            restarting.read_noted(earlier),
        )
        return {"changed": False, **vars(order), **vars(noted)}
