# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible_collections.fleet.virt.plugins.module_utils._fleet.snapshots import decide as decision
from ansible_collections.fleet.virt.plugins.module_utils._fleet.snapshots.facts import (
    SnapshotLook,
    Snapshotted,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.snapshots.options import (
    ARGUMENTS,
    INTERNAL,
    wanted_of,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected, FleetAction
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Values, shares
from ansible_collections.fleet.virt.plugins.plugin_utils.base._registered import registered


class VirtSnapshotOptions(Connected):
    names: list[str]
    snapshot: str | None
    state: str
    children: bool
    keep: int | None
    disk_only: bool
    quiesce: str
    _stage: str
    _list: bool
    _results: str | None
    _shares: dict[str, object] | None


class ActionModule(FleetAction):
    """The module runs the stages on the hypervisor; this runs those on the controller."""

    def work(self, task_vars: Values) -> t.Mapping[str, object]:
        stage = self._task.args.get("_stage", "all")
        if stage not in ("decide", "report"):
            return self.module(task_vars)
        options = self.options(VirtSnapshotOptions, ARGUMENTS, INTERNAL)
        if stage == "report" and not options["_list"]:
            if options["_shares"] is None:
                raise AnsibleActionFail("_shares: missing; give what _stage: decide returned")
            outcome = decision.report(
                shares(options["_shares"]),
                registered(task_vars, options["_results"], Snapshotted),
                check=self.check,
            )
            return self.shown(*outcome)
        answers = registered(task_vars, options["_results"], SnapshotLook)
        seen = decision.fleet(answers, self.expected(), self.lost())
        if options["_list"]:
            return self.shown(*decision.listing(options["names"], seen))
        wanted_of(options)
        return {"changed": False, "shares": decision.decide(options["names"], seen)}
