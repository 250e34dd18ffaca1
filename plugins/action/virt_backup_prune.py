# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup import keep, report
from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.options import REPOSITORIES
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.arguments import Spec
from ansible_collections.fleet.virt.plugins.plugin_utils.backup import _prune, _repositories
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values

ARGUMENTS: Spec = {
    **REPOSITORIES,
    "keep": {"type": "dict", "required": True},
    "keep_proven": {"type": "bool", "default": True},
    "known": {"type": "path"},
    "accept": {"type": "list", "elements": "str", "default": []},
    "output": {"type": "str", "choices": _output.FORMS, "default": "table"},
    "output_file": {"type": "path"},
}


class VirtBackupPruneOptions(_repositories.RepositoryOptions):
    keep: dict[str, object]
    keep_proven: bool
    known: str | None
    accept: list[str]
    output: str
    output_file: str | None


def _accepted(given: list[str]) -> frozenset[str]:
    """What is accepted; the path of a place may have a comma, which divides a list."""
    return frozenset(each.rstrip("/") for each in (*given, ",".join(given)))


class ActionModule(_repositories.RepositoriesAction):
    def alone(self, _task_vars: Values) -> Answer:
        options = self.options(VirtBackupPruneOptions, ARGUMENTS)
        pruner = _prune.Pruner(
            self.access(options),
            keep.policy(options["keep"], proven=options["keep_proven"]),
            _repositories.state_file(options["known"]),
            _accepted(options["accept"]),
            check=self.check,
        )
        vms, problems = pruner.prune(_repositories.parsed(options["places"]), options["names"])
        form = (options["output"], options["output_file"])
        result = self.delivered(
            {"vms": vms},
            lambda: report.pruned_text(vms, check=self.check),
            lambda: report.pruned_records(vms),
            form,
        )
        result["changed"] = bool(result["changed"]) or any(vm["changed"] for vm in vms)
        failures = [*problems, *(str(vm["msg"]) for vm in vms if vm["failed"])]
        return self.concluded(result, failures, apart=form != ("table", None))
