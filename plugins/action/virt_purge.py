# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible.utils.display import Display
from ansible_collections.fleet.virt.plugins.module_utils._pure.lifecycle import (
    purge_decision,
    purge_report,
)
from ansible_collections.fleet.virt.plugins.module_utils._pure.lifecycle.purge_options import (
    ARGUMENTS,
    INTERNAL,
)
from ansible_collections.fleet.virt.plugins.plugin_utils._action import FleetAction
from ansible_collections.fleet.virt.plugins.plugin_utils._plain import to_plain
from ansible_collections.fleet.virt.plugins.plugin_utils._registered import registered


class ActionModule(FleetAction):
    """Stages of the hypervisor go to the module; those of the controller are here."""

    def work(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        stage = self._task.args.get("_stage", "all")
        if stage not in ("decide", "report"):
            return self.module(task_vars)
        options = to_plain(self.options(ARGUMENTS, INTERNAL))
        return (self._decide if stage == "decide" else self._report)(options, task_vars)

    def _decide(self, options: dict[str, t.Any], task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        def fleet(variable: str, key: str) -> purge_decision.Fleet:
            answers = registered(task_vars, variable, "purge_look")
            return purge_decision.fleet(answers, key, options["_expected"], options["_lost"])

        decision = purge_decision.decide(options["names"], fleet(options["_results"], "vms"))
        if options["_users"] and decision.files:
            purge_decision.require_unused(decision, fleet(options["_users"], "users"))
        return {"changed": False, **vars(decision)}

    def _report(self, options: dict[str, t.Any], task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        check = bool(self._task.check_mode)
        answers = registered(task_vars, options["_results"], "purged")
        text, failures = purge_report.report(
            options["names"], _shares(options), answers, check=check
        )
        Display().display(text.rstrip("\n"))
        found: dict[str, t.Any] = {"changed": False, "output": text}
        if failures:
            found.update(failed=True, msg="\n".join(failures))
        return found


def _shares(options: dict[str, t.Any]) -> dict[str, t.Any]:
    if options["_shares"] is None:
        raise AnsibleActionFail("_shares: missing; give what _stage: decide returned as shares")
    return t.cast("dict[str, t.Any]", options["_shares"])
