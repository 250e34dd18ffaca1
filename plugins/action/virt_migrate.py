# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.utils.display import Display
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._model import (
    migration_bases,
    migration_decision,
    migration_evacuation,
    migration_request,
    placement,
)
from ansible_collections.fleet.virt.plugins.module_utils._model.migration_options import ARGUMENTS
from ansible_collections.fleet.virt.plugins.plugin_utils import _batch, _images, _peers, _placing
from ansible_collections.fleet.virt.plugins.plugin_utils._action import FleetAction
from ansible_collections.fleet.virt.plugins.plugin_utils._plain import to_plain
from ansible_collections.fleet.virt.plugins.plugin_utils._registered import registered


class ActionModule(FleetAction):
    """Stages of the hypervisor go to the module; those of the controller are here."""

    def work(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        stage = self._task.args.get("stage", "all")
        works = {"decide": self._decide, "bases": self._bases, "report": self._report}
        if stage in works:
            return works[stage](to_plain(self.options(ARGUMENTS)), task_vars)
        given = dict(self._task.args)
        given.setdefault("source", str(task_vars["inventory_hostname"]))
        if self._task.check_mode and given.get("results"):
            given["vms"] = _with_coming(to_plain(given["vms"]), given["results"], task_vars)
        return self.module(task_vars, given)

    def _bases(self, options: dict[str, t.Any], task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        host = str(task_vars["inventory_hostname"])
        there: list[str] = []
        result: dict[str, t.Any] = {"changed": False, "bases": there, "diff": []}
        for base in options["bases"]:
            volume = base["volume"]
            Display().display(f"{host}: getting base image {volume} from {base['peers'][0]}")
            arguments = {key: options[key] for key in ("uri", "timeout", "base_pool", "base_path")}
            source = migration_bases.as_source(volume)
            arguments.update(image=source["name"], source=source, peers=base["peers"])
            answer = _images.run_module(self, task_vars, arguments)
            steps = list(answer.get("steps") or ())
            if answer.get("failed") or answer.get("missing"):
                why = answer.get("msg") or answer.get("alone") or "; ".join(steps)
                Display().display(f"{host}: base image {volume} did not come: {why}")
                continue
            there.append(volume)
            result["changed"] = result["changed"] or answer["changed"]
            result["diff"] += [answer["diff"]] if answer.get("diff") else []
            Display().display(f"{host}: base image {volume}: {'; '.join(steps) or 'is there'}")
        return result

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
                    "destination": {**self._destination(to, answers, task_vars), **marked},
                }
                for name, to in moves
            ]
            for source, moves in decision.shares.items()
        }
        bases = {
            to: [
                {"volume": volume, "peers": [_peers.address(name, task_vars) for name in have]}
                for volume, have in sorted(wanted.items())
            ]
            for to, wanted in migration_bases.lacking(decision.shares, heard).items()
        }
        return {
            "changed": False,
            "shares": shares,
            "bases": bases,
            "settled": sorted(decision.settled),
            "problems": decision.problems,
        }

    @staticmethod
    def _destination(
        name: str, answers: t.Mapping[str, t.Any], task_vars: t.Mapping[str, t.Any]
    ) -> dict[str, t.Any]:
        found: dict[str, t.Any] = {"name": name, "address": _peers.address(name, task_vars)}
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


def _with_coming(
    vms: list[dict[str, t.Any]], variable: str, task_vars: t.Mapping[str, t.Any]
) -> list[dict[str, t.Any]]:
    """The VMs, their destinations with the base images that check mode says would come there."""
    hostvars = task_vars["hostvars"]
    found = []
    for vm in vms:
        there = vm["destination"]
        said = to_plain(hostvars[there["name"]].get(variable) or {})
        found.append({**vm, "destination": {**there, "coming": said.get("bases") or []}})
    return found
