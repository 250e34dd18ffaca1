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
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.console.facts import (
    ConsoleLook,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import located
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output, _peers
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected, FleetAction
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Values
from ansible_collections.fleet.virt.plugins.plugin_utils.base._registered import read, registered
from ansible_collections.fleet.virt.plugins.plugin_utils.console import _console
from ansible_collections.fleet.virt.plugins.plugin_utils.ssh import _become, _ssh


class VirtConsoleOptions(Connected):
    names: list[str]
    ignore_missing: bool
    _stage: str
    _results: str | None
    _view: str
    _minutes: int


class ActionModule(FleetAction):
    """The module lists consoles; this opens one and waits until it is closed."""

    def work(self, task_vars: Values) -> t.Mapping[str, object]:
        options = self.options(VirtConsoleOptions, ARGUMENTS, INTERNAL)
        names = console.wanted_names(options)
        console.require_view(options["_view"], options["_minutes"])
        if options["_stage"] != "open":
            own = [name for name in self.given if not name.startswith("_")]
            answer = self.module(task_vars, {name: self.given[name] for name in own})
            return read(answer, ConsoleLook)
        given = registered(task_vars, options["_results"], ConsoleLook)
        seen = located.sort(given, "consoles", self.expected(), self.lost())
        chosen = console.choose(names, seen.answers, seen.silent, options["_view"])
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
