# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._errors import (
    PlanRefused,
    Problem,
    SpecError,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import as_mapping
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seed import specification as seed
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import FleetAction
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values, plain
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import _batch, _seeds

_PASSED_ON = ("name", "state", "pool", "uri", "timeout")


class ActionModule(FleetAction):
    def work(self, task_vars: Values) -> t.Mapping[str, object]:
        options = plain(self.given)
        arguments = {key: options.pop(key) for key in _PASSED_ON if key in options}
        if arguments.get("state") != "absent":
            arguments["_seed"] = _seeds.packed(self._seed(options, task_vars))
        elif options:
            raise PlanRefused(
                f"{', '.join(sorted(options))}: with state absent no seed options are accepted;"
                " leave them out"
            )
        return self.module(task_vars, arguments)

    def _seed(self, options: Answer, task_vars: Values) -> Answer:
        """The validated options, except for the VM's NICs, which only the hypervisor knows."""
        problems: list[Problem] = []
        defaults = _batch.defaults(_batch.Variables(task_vars, self._templar))
        keys = defaults.ssh_public_keys
        given = {key: value for key, value in options.items() if value is not None}
        parsed = seed.from_options(given, "", keys, problems, defaults.read_yaml)
        if problems:
            raise SpecError(problems)
        return {**as_mapping(_seeds.plain(given)), "ssh_public_keys": list(parsed.ssh_public_keys)}
