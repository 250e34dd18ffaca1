# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import socket
from datetime import datetime, timezone

from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import effects_turns
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.options import (
    REPOSITORIES,
    require_hours,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.arguments import Spec
from ansible_collections.fleet.virt.plugins.plugin_utils.backup import _repositories
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values

ARGUMENTS: Spec = {
    **{name: spec for name, spec in REPOSITORIES.items() if name != "names"},
    "hours": {"type": "float", "default": 12.0},
    "output_file": {"type": "path"},
}


class VirtBackupTurnOptions(_repositories.AccessOptions):
    hours: float
    output_file: str | None


class ActionModule(_repositories.RepositoriesAction):
    def alone(self, _task_vars: Values) -> Answer:
        options = self.options(VirtBackupTurnOptions, ARGUMENTS)
        require_hours("virt_turn_hours", options["hours"])
        place = _repositories.parsed(options["places"])[0]
        now = datetime.now(timezone.utc)
        access, own = self.access(options), socket.gethostname()
        taken, turn = effects_turns.take(
            place, access, own, now, options["hours"], check=self.check
        )
        data = {"taken": taken, "by": turn.by, "at": turn.at}
        text = "taken\n" if taken else f"{turn.by} has the turn since {turn.at}\n"
        result = self.delivered(data, lambda: text, str, ("table", options["output_file"]))
        return {**result, "changed": taken}
