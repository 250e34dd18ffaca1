# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.fleet.virt.plugins.plugin_utils import _peers


class ActionModule(ActionBase):
    """Fills in who the peers are, which only the inventory knows; the module does the rest."""

    def run(
        self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None
    ) -> dict[str, t.Any]:
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        arguments = dict(self._task.args)
        if arguments.get("networks") is None:
            group = str(arguments.get("group") or "hypervisors")
            found = [_peers.addresses(name, variables) for name in _peers.names(group, variables)]
            arguments["networks"] = [one for several in found for one in several]
            if arguments.get("controller") is None:
                # a login that leads to this machine itself says nothing of a controller
                arguments["controller"] = self._connection.transport != "local"
        answer: dict[str, t.Any] = self._execute_module(module_args=arguments, task_vars=task_vars)
        return {**result, **answer}
