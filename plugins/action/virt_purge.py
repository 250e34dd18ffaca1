# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._model import purge_decision
from ansible_collections.fleet.virt.plugins.module_utils._model.purge_options import ARGUMENTS
from ansible_collections.fleet.virt.plugins.plugin_utils._plain import to_plain

_CONNECTION: dict[str, dict[str, t.Any]] = {
    "uri": {"type": "str", "default": "qemu:///system"},
    "timeout": {"type": "float", "default": 10.0},
}


class ActionModule(ActionBase):
    """Stages of the hypervisor go to the module; those of the controller are here."""

    if t.TYPE_CHECKING:  # ansible-core states no types for it
        validate_argument_spec: t.Any

    def run(
        self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None
    ) -> dict[str, t.Any]:
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        stage = self._task.args.get("stage", "all")
        if stage not in ("decide", "report"):
            answer: dict[str, t.Any] = self._execute_module(task_vars=task_vars)
            return {**result, **answer}
        _validation, options = self.validate_argument_spec(
            argument_spec={**ARGUMENTS, **_CONNECTION}
        )
        try:
            values = task_vars or {}
            work = self._decide if stage == "decide" else self._report
            result.update(work(to_plain(options), values))
        except FleetVirtError as error:
            raise AnsibleActionFail(str(error)) from None
        return result

    def _decide(self, options: dict[str, t.Any], task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        def fleet(variable: str, key: str) -> purge_decision.Fleet:
            registered = _registered(task_vars, variable)
            return purge_decision.fleet(registered, key, options["expected"], options["lost"])

        decision = purge_decision.decide(options["names"], fleet(options["results"], "vms"))
        if options["users"] and decision.files:
            purge_decision.require_unused(decision, fleet(options["users"], "users"))
        return {"changed": False, **vars(decision)}

    def _report(self, options: dict[str, t.Any], task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        check = bool(self._task.check_mode)
        results = _registered(task_vars, options["results"])
        text, failures = purge_decision.report(options["names"], results, check=check)
        Display().display(text.rstrip("\n"))
        found: dict[str, t.Any] = {"changed": False, "output": text}
        if failures:
            found.update(failed=True, msg="; ".join(failures))
        return found


def _registered(task_vars: t.Mapping[str, t.Any], variable: str) -> dict[str, dict[str, t.Any]]:
    """What each host of the play registered as ``variable``, as plain data."""
    hostvars = task_vars["hostvars"]
    return {
        str(name): to_plain(hostvars[name].get(variable) or {})
        for name in task_vars["ansible_play_hosts_all"]
    }
