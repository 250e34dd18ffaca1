# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import secrets
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._fleet.clone import decide as clone
from ansible_collections.fleet.virt.plugins.module_utils._fleet.clone.options import (
    ARGUMENTS,
    INTERNAL,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.options import OPTIONS
from ansible_collections.fleet.virt.plugins.module_utils._fleet.template.facts import (
    CloneLook,
    Templated,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _peers
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected, FleetAction
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values
from ansible_collections.fleet.virt.plugins.plugin_utils.base._registered import registered
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import _batch


class VirtCloneOptions(Connected):
    name: str
    clone_of: str
    pool: str
    _stage: str
    _mode: str | None
    _results: str | None
    _copied: str | None
    _decision: dict[str, object]


class ActionModule(FleetAction):
    """The module reads; this decides on the controller."""

    def work(self, task_vars: Values) -> t.Mapping[str, object]:
        stage = self._task.args.get("_stage", "look")
        if stage == "look":
            return self.module(task_vars)
        options = self.options(VirtCloneOptions, ARGUMENTS, INTERNAL)
        name, clone_of = options["name"], options["clone_of"]
        answers = registered(task_vars, options["_results"], CloneLook)
        seen = clone.fleet(answers, self.expected(), self.lost())
        if stage == "decide":
            _peers.refuse_hypervisors([name], task_vars)
            requested = self._overrides(task_vars)
            decided = clone.decide(
                name, clone_of, options["_mode"], seen, secrets.token_hex(4), requested
            )
            return {"changed": False, **decided.as_dict()}
        decision = clone.decision_of(options["_decision"])
        wanted = clone.wanted(
            name,
            clone_of,
            decision,
            seen,
            registered(task_vars, options["_copied"], Templated),
            self._overrides(task_vars),
        )
        vms: Answer = {"vms": wanted.vms, "images": wanted.images}
        return {
            "changed": False,
            **vms,
            "leftovers": wanted.leftovers,
            "intermediate": wanted.intermediate,
        }

    def _overrides(self, task_vars: Values) -> Answer:
        """The settings in ``vm_*`` variables, except the name."""
        given = _batch.Variables(task_vars, self._templar).given("vm_")
        return {
            key: value
            for key, value in given.items()
            if key in OPTIONS and key != "name" and value is not None
        }
