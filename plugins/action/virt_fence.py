# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.fencing.options import devices_of
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _peers, _stated
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import (
    Answer,
    Values,
    to_plain,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import FleetModule

FENCED = "virt_fenced"


class ActionModule(FleetModule):
    """The module does everything; in a playbook this reads the variables of the other host."""

    def asked(self, _work: object, task_vars: Values) -> Answer:
        host = str(self.given["host"])
        variables = _peers.of_host(host, task_vars)
        arguments: Answer = {"host": host, **_peers.where_it_answers(host, task_vars)}
        stated = _stated.for_this_run(self, FENCED)
        declared = to_plain(variables.get("virt_fence"))
        if host in stated:
            arguments["stated"] = True
            lease = self._values.get("virt_fenced_lease")
            if lease is not None:
                arguments["lease"] = to_plain(self._templar.template(lease))
        elif stated:
            raise PlanRefused(
                f"{FENCED} names {', '.join(stated)}, not {host}, whose VMs are to be restarted;"
                f" give -e {FENCED}={host} if that is off"
            )
        elif declared:
            arguments["devices"] = devices_of(declared, f"virt_fence of {host}")
        else:
            raise PlanRefused(
                f"{host} is not proven off: its variable virt_fence is missing; declare there what"
                " switches it off, for example {agent: fence_ipmilan, ip: 192.0.2.113, username:"
                " admin, password: ...}, or, if you have seen that it is without power, state it"
                f" for this run: -e {FENCED}={host}"
            )
        return self.module(task_vars, arguments)
