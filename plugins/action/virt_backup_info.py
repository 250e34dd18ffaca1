# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from datetime import datetime, timezone

from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import report
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.options import (
    REPOSITORIES,
    require_hours,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.arguments import Spec
from ansible_collections.fleet.virt.plugins.plugin_utils.backup import _repositories
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values

ARGUMENTS: Spec = {
    **REPOSITORIES,
    "sizes": {"type": "bool", "default": True},
    "hours": {"type": "float"},
    "output": {"type": "str", "choices": _output.FORMS, "default": "table"},
    "output_file": {"type": "path"},
}


class VirtBackupInfoOptions(_repositories.RepositoryOptions):
    sizes: bool
    hours: float | None
    output: str
    output_file: str | None


class ActionModule(_repositories.RepositoriesAction):
    def alone(self, _task_vars: Values) -> Answer:
        options = self.options(VirtBackupInfoOptions, ARGUMENTS)
        hours = options["hours"]
        if hours is not None:
            require_hours("virt_backup_hours", hours)
        given = _repositories.parsed(options["places"])
        repositories, problems = _repositories.read_all(
            given, self.access(options), options["names"], sizes=options["sizes"]
        )
        wished = None if hours is None else (hours, datetime.now(timezone.utc))
        vms = report.data(repositories, wished)
        problems += [why for repository in repositories for why in repository.problems]
        form = (options["output"], options["output_file"])
        result = self.delivered(
            {"vms": vms},
            lambda: report.text(vms, hours),
            lambda: report.records(vms),
            form,
        )
        return self.concluded(result, problems, apart=form != ("table", None))
