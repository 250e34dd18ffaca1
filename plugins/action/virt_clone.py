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
    CloneWork,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.options import OPTIONS
from ansible_collections.fleet.virt.plugins.module_utils._fleet.template.facts import (
    CloneLook,
    Templated,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _peers
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import _batch


class VirtCloneOptions(Connected):
    name: str
    clone_of: str
    pool: str
    _mode: str | None


class ActionModule(StagedAction[CloneWork]):
    """The module reads; this decides on the controller."""

    WORK = CloneWork
    CONTROLLER = ("decide", "prepare")

    def decided(self, work: CloneWork) -> t.Mapping[str, object]:
        task_vars = self._values
        options = self.options(VirtCloneOptions, ARGUMENTS, INTERNAL)
        name, clone_of = options["name"], options["clone_of"]
        seen = self.fleet("virt_look", CloneLook, "look", "defined")
        if work.stage == "decide":
            _peers.refuse_hypervisors([name], task_vars)
            requested = self._overrides(task_vars)
            decided = clone.decide(
                name, clone_of, options["_mode"], seen, secrets.token_hex(4), requested
            )
            warnings = clone.left_out(clone_of, decided, seen, requested)
            return {"changed": False, **decided.as_dict(), "warnings": warnings}
        decision = clone.decision_of(self.decision("virt_decision"))
        wanted = clone.wanted(
            name,
            clone_of,
            decision,
            seen,
            self.answers("virt_copied", Templated, "act", work.round, verb="virt_template"),
            self._overrides(task_vars),
        )
        vms: Answer = {"vms": wanted.vms, "images": wanted.images}
        return {
            "changed": False,
            **vms,
            "leftovers": wanted.leftovers,
            "intermediate": wanted.intermediate,
            "clone_of": clone_of,
        }

    def _overrides(self, task_vars: Values) -> Answer:
        """The settings in ``vm_*`` variables, except the name."""
        given = _batch.Variables(task_vars, self._templar).given("vm_")
        return {
            key: value
            for key, value in given.items()
            if key in OPTIONS and key != "name" and value is not None
        }
