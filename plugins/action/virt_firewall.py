# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.plugin_utils.base import _peers
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import FleetAction
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Values


class ActionModule(FleetAction):
    """Fills in the peers, which only the inventory knows; the module does the rest."""

    def work(self, task_vars: Values) -> t.Mapping[str, object]:
        arguments = self.given
        if arguments.get("networks") is None:
            group = str(arguments.get("group") or "hypervisors")
            names = _peers.names(group, task_vars)
            arguments["networks"] = [
                address for name in names for address in _peers.addresses(name, task_vars)
            ]
            if arguments.get("controller") is None:
                # a local connection does not come from a separate controller
                arguments["controller"] = self._connection.transport != "local"
        return self.module(task_vars, arguments)
