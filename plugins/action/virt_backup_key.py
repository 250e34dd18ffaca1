# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.options import REPOSITORIES
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.arguments import Spec
from ansible_collections.fleet.virt.plugins.plugin_utils.backup import _keys, _repositories
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values

ARGUMENTS: Spec = {**REPOSITORIES, "dest": {"type": "path", "required": True}}


class VirtBackupKeyOptions(_repositories.RepositoryOptions):
    dest: str


class ActionModule(_repositories.RepositoriesAction):
    def alone(self, _task_vars: Values) -> Answer:
        options = self.options(VirtBackupKeyOptions, ARGUMENTS)
        access = self.access(options)
        places = _repositories.parsed(options["places"])
        repositories, problems = _repositories.read_all(
            places, access, options["names"], sizes=False
        )
        exported = _keys.export(repositories, access, options["dest"], check=self.check)
        failures = [*problems, *(str(key["msg"]) for key in exported if key["failed"])]
        changed = any(key["changed"] for key in exported)
        text = _keys.text(exported, check=self.check)
        result = self.shown("\n".join([text, *failures]), failures, changed=changed)
        return {**result, "keys": exported}
