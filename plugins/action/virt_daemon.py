# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import (
    as_list,
    as_mapping,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.daemon import identity
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _registered
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import (
    Answer,
    Values,
    plain,
    to_plain,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import FleetModule

_MACHINES = "libvirtd_machines"  # what the role registers of the fleet


class ActionModule(FleetModule):
    """The module does everything; whether libvirt may take the machine ID as its UUID is decided
    here, as that takes the answers of the other hypervisors."""

    def alone(self, task_vars: Values) -> Answer:
        if self._task.args.get("_stage") == "take":
            own = str(task_vars["inventory_hostname"])
            told = self._told()
            others = {host: facts for host, facts in told.items() if host != own}
            problem = identity.refusal(own, told.get(own, _SILENT), others)
            if problem:
                raise PlanRefused(f"{own}: {problem}")
        return self.module(task_vars)

    def _worked(self, values: Values) -> Answer:
        if self._task.args.get("_stage") != "machine":
            return super()._worked(values)
        answer = self._ending(values)  # one that cannot be asked is an answer too
        failed = answer.get("failed") or answer.get("unreachable")
        return {"changed": False, "error": str(answer.get("msg"))} if failed else answer

    def _told(self) -> dict[str, identity.MachineFacts]:
        """What each hypervisor of the fleet told; nothing of those that are declared lost."""
        registered = as_mapping(to_plain(self._values.get(_MACHINES)))
        results = [as_mapping(result) for result in as_list(registered.get("results"))]
        answers = {str(result.get("item")): result for result in results}
        lost = self.lost()
        return {
            host: _read(answers[host]) if host in answers else _SILENT
            for host in dict.fromkeys([*self.expected(), *_registered.hosts(self._values)])
            if host not in lost
        }


_SILENT: identity.MachineFacts = {"error": "it was not asked"}


def _read(result: t.Mapping[str, object]) -> identity.MachineFacts:
    facts = _registered.read(plain(result), identity.MachineFacts)
    return {"error": str(facts.get("msg"))} if facts.get("failed") else facts
