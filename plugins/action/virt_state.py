# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import (
    as_list,
    as_mappings,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.facts import (
    Made,
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
    INTERNAL,
    StateWork,
    require_sound,
    wanted_of,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, shares
from ansible_collections.fleet.virt.plugins.plugin_utils.base._registered import registered
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction


class VirtStateOptions(Connected):
    names: list[str]
    state: str | None
    shutdown_timeout: float
    force: bool
    autostart: bool | None
    reset: bool
    reboot: bool
    _made: str | None
    _done: dict[str, object]
    _order: dict[str, object] | None
    _before: str | None
    _waited: str | None
    _earlier: dict[str, object] | None


class ActionModule(StagedAction[StateWork]):
    """The module runs the stages on the hypervisor; this runs those on the controller."""

    WORK = StateWork
    CONTROLLER = ("decide", "note", "report", "order_restarts", "note_restarts")

    def decided(self, work: StateWork) -> t.Mapping[str, object]:
        options = self.options(VirtStateOptions, ARGUMENTS, INTERNAL)
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
        answers = self.answers("virt_look", StateLook, "look")
        seen = state_decision.fleet(answers, self.expected(), self.lost())
        decision = state_decision.decide(options["names"], work.groups, seen, wanted)
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
        return self.shown(text, failures)

    def _order_restarts(self, options: VirtStateOptions, _work: StateWork) -> Answer:
        done = {host: as_mappings(entries) for host, entries in options["_done"].items()}
        names = restarting.required(registered(self._values, options["_made"], Made), done)
        looked = self.answers("virt_restart_look", StateLook, "look")
        return {"changed": False, **vars(restarting.order(names, looked))}

    def _note_restarts(self, options: VirtStateOptions, work: StateWork) -> Answer:
        noted = restarting.note(
            restarting.read_order(options["_order"]),
            work.round,
            restarting.Answers(
                registered(self._values, options["_before"], Waited),
                self.answers("virt_restarted", Brought, "act", work.round),
                registered(self._values, options["_waited"], Waited),
            ),
            restarting.read_noted(options["_earlier"]),
        )
        return {"changed": False, **vars(noted)}
