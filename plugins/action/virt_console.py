# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError, PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console import decide as console
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console.decide import (
    ARGUMENTS,
    INTERNAL,
    OpenWork,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console.facts import (
    ConsoleLook,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import located
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output, _peers
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values
from ansible_collections.fleet.virt.plugins.plugin_utils.base._registered import read
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction
from ansible_collections.fleet.virt.plugins.plugin_utils.console import _console
from ansible_collections.fleet.virt.plugins.plugin_utils.ssh import _become, _ssh


class VirtConsoleOptions(Connected):
    names: list[str]
    ignore_missing: bool
    _view: str
    _minutes: int


class ActionModule(StagedAction[OpenWork]):
    """The module lists consoles; this opens one and waits until it is closed."""

    WORK = OpenWork
    CONTROLLER = ("open",)

    def asked(self, _work: OpenWork, task_vars: Values) -> Answer:
        return self.alone(task_vars)

    def alone(self, task_vars: Values) -> Answer:
        self._options()
        own = [name for name in self.given if not name.startswith("_")]
        answer = self.module(task_vars, {name: self.given[name] for name in own})
        return {**read(answer, ConsoleLook)}

    def _options(self) -> VirtConsoleOptions:
        options = self.options(VirtConsoleOptions, ARGUMENTS, INTERNAL)
        console.wanted_names(options)
        console.require_view(options["_view"], options["_minutes"])
        return options

    def decided(self, _work: OpenWork) -> t.Mapping[str, object]:
        options, task_vars = self._options(), self._values
        names = console.wanted_names(options)
        given = self.answers("virt_consoles", ConsoleLook, "read")
        seen = located.sort(given, "consoles", self.expected(), self.lost())
        chosen = console.choose(
            *(names, seen.answers, seen.silent, options["_view"], self.chosen_host())
        )
        hostvars = _peers.of_host(chosen.host, task_vars)
        password = None
        if not any(name in task_vars for name in _become.PASSWORDS):
            # what --ask-become-pass read, and not the password of the play's first host
            password = getattr(self._play_context, "become_pass", None) or None
        reached = _ssh.login(chosen.host, hostvars, 10.0, password)
        name = f"{chosen.vm['name']} on {chosen.host}"
        if self.check:
            text = f"{name}: its console ({chosen.kind}) would be opened"
            _output.say(text)
            return {"changed": False, "output": f"{text}\n"}
        screen = _console.Screen(options["uri"], str(chosen.vm["uuid"]), chosen.kind, name)
        try:
            held = _console.hold(reached, screen, options["_view"], options["_minutes"])
        except FleetVirtError as error:
            remedy = _become.remedy(str(error), chosen.host)
            raise FleetVirtError(f"{error}{remedy}") from None
        if held.problem is not None:
            raise PlanRefused(f"{name}: {held.problem}")
        return {"changed": False, "output": held.output}
