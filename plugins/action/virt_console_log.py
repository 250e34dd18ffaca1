# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.selected import Selected
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console import report
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console.facts import (
    ConsoleLogs,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console.options import (
    LOG_ARGUMENTS as ARGUMENTS,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console.options import (
    LOG_INTERNAL as INTERNAL,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console.options import (
    ConsoleWork,
    wanted_lines,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import located
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values
from ansible_collections.fleet.virt.plugins.plugin_utils.base._registered import read
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction

_PAUSE = 1.0  # seconds between two reads of the consoles that are followed


class VirtConsoleLogOptions(Connected):
    names: list[str]
    ignore_missing: bool
    lines: int
    follow: int
    _groups: list[str]
    _since: dict[str, object]


class ActionModule(StagedAction[ConsoleWork]):
    """The module reads; this shows what a guest wrote, as plain text."""

    WORK = ConsoleWork

    def asked(self, work: ConsoleWork, task_vars: Values) -> Answer:
        return {**self._read(self._wanted(work.groups), task_vars)}

    def alone(self, task_vars: Values) -> Answer:
        return {**self._read(self._wanted([]), task_vars)}

    def _wanted(self, groups: list[str]) -> VirtConsoleLogOptions:
        """The options; raises SpecError for invalid ones."""
        options = self.options(VirtConsoleLogOptions, ARGUMENTS, INTERNAL)
        options["_groups"] = groups
        wanted_lines(options)
        return options

    def decided(self, work: ConsoleWork) -> t.Mapping[str, object]:
        options = self._wanted(work.groups)
        given = self.answers("virt_consoles", ConsoleLogs, "read")
        seen = located.sort(given, "consoles", self.expected(), self.lost())
        consoles: list[report.ConsoleOutput] = []
        for host, answer in seen.answers.items():
            consoles += report.read_consoles(host, answer)
        text = report.consoles_text(
            consoles, {host: silence.why for host, silence in seen.silent.items()}
        )
        selected = Selected.of(options["names"], work.groups)
        return self.shown(text, report.problems(consoles, selected, given, seen.silent))

    def _read(self, options: VirtConsoleLogOptions, task_vars: Values) -> ConsoleLogs:
        """Follow the consoles for the requested time; returns the end of each."""
        first = read(self.module(task_vars, _given(options)), ConsoleLogs)
        limit = time.monotonic() + (0 if self.check else options["follow"])
        followed = report.followed(first)
        while followed.read_to and time.monotonic() < limit:
            for line in followed.lines:
                _output.say(line)
            time.sleep(_PAUSE)
            more = read(self.module(task_vars, self._again(options, followed.read_to)), ConsoleLogs)
            if more.get("failed"):
                return more
            followed = report.followed(more)
        return first if not options["follow"] or self.check else self._end(options, task_vars)

    def _again(self, options: VirtConsoleLogOptions, read_to: t.Mapping[str, int]) -> Answer:
        # those that were selected at first, by their names
        given = {key: value for key, value in _given(options).items() if key != "_groups"}
        return {**given, "names": list(read_to), "_since": dict(read_to)}

    def _end(self, options: VirtConsoleLogOptions, task_vars: Values) -> ConsoleLogs:
        return read(self.module(task_vars, _given(options)), ConsoleLogs)


def _given(options: VirtConsoleLogOptions) -> Answer:
    """The module's options that were set."""
    both: Answer = {**options}
    given = {
        key: value for key, value in both.items() if not key.startswith("_") and value is not None
    }
    return {**given, "_groups": options["_groups"]} if options["_groups"] else given
