# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._pure.lifecycle import located
from ansible_collections.fleet.virt.plugins.module_utils._pure.screens import report
from ansible_collections.fleet.virt.plugins.module_utils._pure.screens.options import (
    INTERNAL,
    wanted_lines,
)
from ansible_collections.fleet.virt.plugins.module_utils._pure.screens.options import (
    LOG_ARGUMENTS as ARGUMENTS,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected, FleetAction
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Values
from ansible_collections.fleet.virt.plugins.plugin_utils.base._registered import registered, sound


class Options(Connected):
    names: list[str]
    ignore_missing: bool
    lines: int
    _stage: str
    _results: str | None
    _expected: list[str] | None
    _lost: list[str]


class ActionModule(FleetAction):
    """The module reads; what a guest wrote is shown here, as text alone."""

    def work(self, task_vars: Values) -> t.Mapping[str, object]:
        options = self.options(Options, ARGUMENTS, INTERNAL)
        wanted_lines(options)
        if options["_stage"] != "report":
            return sound(self.module(task_vars), "consoles")
        given = registered(task_vars, options["_results"], "consoles")
        answers, silent = located.sort(given, "consoles", options["_expected"], options["_lost"])
        found: list[report.Console] = []
        for host, answer in answers.items():
            found += report.read_consoles(host, answer)
        text = report.consoles_text(found, {host: one.why for host, one in silent.items()})
        return self.shown(text, report.problems(found, options["names"], given, silent))
