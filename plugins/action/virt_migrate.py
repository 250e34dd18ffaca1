# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.utils.display import Display
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._model import (
    migration_decision,
    migration_evacuation,
    migration_request,
    placement,
)
from ansible_collections.fleet.virt.plugins.module_utils._model.migration_options import ARGUMENTS
from ansible_collections.fleet.virt.plugins.plugin_utils import _batch, _placing
from ansible_collections.fleet.virt.plugins.plugin_utils._action import FleetAction, registered
from ansible_collections.fleet.virt.plugins.plugin_utils._plain import to_plain

# Where a hypervisor is reached by others, best first
_ADDRESSES = ("virt_migration_address", "ansible_host")


class ActionModule(FleetAction):
    """Stages of the hypervisor go to the module; those of the controller are here."""

    def work(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        stage = self._task.args.get("stage", "all")
        if stage not in ("decide", "report"):
            given = dict(self._task.args)
            given.setdefault("source", str(task_vars["inventory_hostname"]))
            return self.module(task_vars, given)
        options = to_plain(self.options(ARGUMENTS))
        return (self._decide if stage == "decide" else self._report)(options, task_vars)

    def _decide(self, options: dict[str, t.Any], task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        migration_request.options(options)  # or somebody is marked who then moves nothing
        answers = registered(task_vars, options["results"])
        lost = options["lost"]
        unknown = [name for name in lost if name not in {*answers, *(options["expected"] or ())}]
        if unknown:
            raise PlanRefused(
                f"virt_hypervisors_lost names {', '.join(unknown)}: no hypervisor of this play;"
                f" there are: {', '.join(answers)}"
            )
        mute = migration_decision.silent(answers, options["expected"], lost)
        hostvars = task_vars["hostvars"]
        limits = {
            name: {
                key: to_plain(hostvars[name].get(key))
                for key in _batch.LIMITS
                if hostvars[name].get(key) is not None
            }
            for name in answers
        }
        variables = _batch.Variables(task_vars, self._templar)
        policy = placement.Policy(
            pool_paths=variables.pool_paths(), base_pool=variables.base_pool()
        )
        heard = {name: one for name, one in answers.items() if isinstance(one.get("host"), dict)}
        if options["state"] == "repaired":
            decision = migration_decision.repair(options["names"], heard, mute)
        else:
            hosts = _placing.hosts_of(answers, limits, lost)
            if options["evacuated"]:
                decision = migration_evacuation.leave(
                    options["evacuated"], heard, hosts, mute, policy
                )
            elif options["home"]:
                decision = migration_evacuation.come_back(
                    options["home"], heard, hosts, mute, policy
                )
            else:
                decision = migration_decision.decide(
                    options["names"], options["host"], heard, hosts, mute, policy
                )
        # it is removed before they come, which check mode does not do
        marked = {"marked": True} if options["home"] else {}
        shares = {
            source: [
                {
                    "name": name,
                    "destination": {**self._destination(to, answers, hostvars), **marked},
                }
                for name, to in moves
            ]
            for source, moves in decision.shares.items()
        }
        return {
            "changed": False,
            "shares": shares,
            "settled": sorted(decision.settled),
            "problems": decision.problems,
        }

    @staticmethod
    def _destination(
        name: str, answers: t.Mapping[str, t.Any], hostvars: t.Any
    ) -> dict[str, t.Any]:
        variables = hostvars[name]
        given = (to_plain(variables.get(key)) for key in _ADDRESSES)
        found: dict[str, t.Any] = {"name": name}
        found["address"] = str(next(filter(None, given), name))
        found["expired"] = to_plain(answers[name].get("expired") or [])
        bridges = answers[name]["host"].get("bridges")
        return found if bridges is None else {**found, "bridges": bridges}

    def _report(self, options: dict[str, t.Any], task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        check = bool(self._task.check_mode)
        results = registered(task_vars, options["results"])
        text, failures = migration_decision.report(options["names"], results, check=check)
        Display().display(text.rstrip("\n"))
        found: dict[str, t.Any] = {"changed": False, "output": text}
        failures += options["problems"]
        if failures:
            found.update(failed=True, msg="; ".join(failures))
        return found
