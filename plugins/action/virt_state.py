# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import as_mappings
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
    require_sound,
    wanted_of,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected, FleetAction
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values, shares
from ansible_collections.fleet.virt.plugins.plugin_utils.base._registered import registered

# The stages of the controller
_ON_CONTROLLER = ("decide", "note", "report", "order_restarts", "note_restarts")


class VirtStateOptions(Connected):
    names: list[str]
    state: str | None
    shutdown_timeout: float
    force: bool
    autostart: bool | None
    reset: bool
    reboot: bool
    _stage: str
    _groups: list[str]
    _results: str | None
    _more: bool
    _round: dict[str, object] | None
    _earlier: dict[str, object] | None
    _made: str | None
    _done: dict[str, object]
    _order: dict[str, object] | None
    _number: int
    _before: str | None
    _waited: str | None
    _silent: str


class ActionModule(FleetAction):
    """The module runs the stages on the hypervisor; this runs those on the controller."""

    def work(self, task_vars: Values) -> t.Mapping[str, object]:
        stage = self._task.args.get("_stage", "all")
        if stage not in _ON_CONTROLLER:
            return self.module(task_vars)
        options = self.options(VirtStateOptions, ARGUMENTS, INTERNAL)
        if stage == "order_restarts":
            return _order_restarts(options, task_vars)
        if stage == "note_restarts":
            return _note_restarts(options, task_vars)
        if stage == "note":
            return self._note(options, task_vars)
        if stage == "report":
            return self._report(options)
        wanted = wanted_of(options)
        require_sound(wanted)
        answers = registered(task_vars, options["_results"], StateLook)
        seen = state_decision.fleet(answers, self.expected(), self.lost())
        decision = state_decision.decide(options["names"], options["_groups"], seen, wanted)
        return {"changed": False, **vars(decision)}

    def _note(self, options: VirtStateOptions, task_vars: Values) -> Answer:
        noted = state_decision.tell(
            shares(options["_round"]),
            registered(task_vars, options["_results"], Brought),
            state_decision.earlier_outcomes(options["_earlier"]),
            check=self.check,
        )
        return {"changed": False, **vars(noted)}

    def _report(self, options: VirtStateOptions) -> Answer:
        noted = state_decision.earlier_outcomes(options["_earlier"])
        text, failures = state_decision.report(noted, options["_silent"], check=self.check)
        return self.shown(text, failures)


def _order_restarts(options: VirtStateOptions, task_vars: Values) -> Answer:
    done = {host: as_mappings(entries) for host, entries in options["_done"].items()}
    names = restarting.required(registered(task_vars, options["_made"], Made), done)
    looked = registered(task_vars, options["_results"], StateLook)
    return {"changed": False, **vars(restarting.order(names, looked))}


def _note_restarts(options: VirtStateOptions, task_vars: Values) -> Answer:
    noted = restarting.note(
        restarting.read_order(options["_order"]),
        options["_number"],
        restarting.Answers(
            registered(task_vars, options["_before"], Waited),
            registered(task_vars, options["_results"], Brought),
            registered(task_vars, options["_waited"], Waited),
        ),
        restarting.read_noted(options["_earlier"]),
    )
    return {"changed": False, **vars(noted)}
