# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import time
import typing as t

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.utils.unsafe_proxy import wrap_var
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.arguments import Spec
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import as_mappings
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seeding.facts import (
    Waited,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seeding.options import WaitWork
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values, plain
from ansible_collections.fleet.virt.plugins.plugin_utils.base._registered import read
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction
from ansible_collections.fleet.virt.plugins.plugin_utils.base._wait import Progress

_ARGUMENTS: Spec = {
    "names": {"type": "list", "elements": "str", "required": True},
    "wait_timeout": {"type": "float", "default": 300},
    "port": {"type": "int", "default": 22},
    "slice": {"type": "float", "default": 10},
    "until": {"type": "str", "choices": ["ssh", "address"], "default": "ssh"},
}
_RETRY_PAUSE = 2.0  # after a call that did not reach the hypervisor
_LAST = 1.0  # seconds for a last attempt, however late it is
# Errors that a retry may resolve: the daemon restarts, a call hung
_PASSING = ("HostUnreachable", "DeadlineExceeded", "LibvirtFailure")


class VirtWaitOptions(Connected):
    names: list[str]
    wait_timeout: float
    port: int
    slice: float
    until: str


class ActionModule(StagedAction[WaitWork]):
    WORK = WaitWork
    CONTROLLER = ()

    def asked(self, work: WaitWork, task_vars: Values) -> Answer:
        host = str(task_vars.get("inventory_hostname"))
        earlier = work.stage == "ssh" and self.answers("virt_addressed", Waited, "address")[host]
        return self._waited(task_vars, {**(earlier or {})}, quiet=work.stage == "check")

    def alone(self, task_vars: Values) -> Answer:
        return self._waited(task_vars, {}, quiet=False)

    def _waited(self, task_vars: Values, earlier: Answer, *, quiet: bool) -> Answer:
        """Wait; ``earlier`` is what the wait before this one found. If ``quiet``, print nothing,
        and no response is no failure: only reports which VMs respond now."""
        options = self.options(VirtWaitOptions, _ARGUMENTS)
        self._quiet = quiet
        limits = {"wait_timeout": options["wait_timeout"], "slice": options["slice"]}
        for name, seconds in limits.items():
            if seconds <= 0:
                raise AnsibleActionFail(
                    f"{name}: {seconds:g} is not a time limit; use a number of seconds above 0"
                )
        if not 0 < options["port"] < 65536:
            raise AnsibleActionFail(f"port: {options['port']} is not a TCP port; use 1 to 65535")
        progress = Progress(
            str(task_vars.get("inventory_hostname")),
            list(dict.fromkeys(options["names"])),
            options["until"],
            as_mappings(earlier.get("vms")),
        )
        if self.check or not progress.pending:
            return self._ask(options, options["wait_timeout"], progress, task_vars)
        before = earlier.get("elapsed")
        elapsed = float(before) if isinstance(before, (int, float)) else 0.0
        begun = time.monotonic() - elapsed
        self._say(progress.begin(options["port"], max(options["wait_timeout"] - elapsed, _LAST)))
        result: Answer = {}
        failed = self._wait(options, begun, progress, task_vars, result)
        if failed is not None:
            result.update(failed)
        changed = any(vm["changed"] for vm in progress.vms())
        result.update(changed=changed, vms=wrap_var(progress.vms()), waiting=[])
        result["elapsed"] = round(time.monotonic() - begun, 1)
        missing = progress.failure()
        if missing is not None and failed is None and not quiet:
            result.update(failed=True, msg=wrap_var(missing))
            self._say(progress.consoles() if options["until"] == "ssh" else ())
        return result

    def _wait(
        self,
        options: VirtWaitOptions,
        begun: float,
        progress: Progress,
        task_vars: Values,
        result: Answer,
    ) -> Answer | None:
        """Ask until no VM is waited for; returns the failed result if it cannot go on."""
        first = True
        while progress.pending:
            passed = time.monotonic() - begun
            left = options["wait_timeout"] - passed
            answer = self._ask_again(options, max(left, _LAST), progress, task_vars, first)
            if answer.get("vms") is not None:
                self._say(progress.take(read(plain(answer), Waited), passed))
                for key in ("ansible_facts", "deprecations", "warnings"):
                    if first and key in answer:
                        result[key] = answer[key]
                first = False
            elif left <= 0 or answer.get("error") not in _PASSING or first:
                return answer
            else:
                self._say([f"{progress.host}: {answer.get('msg')}; retrying"])
                time.sleep(_RETRY_PAUSE)
        return None

    def _ask_again(
        self,
        options: VirtWaitOptions,
        seconds: float,
        progress: Progress,
        task_vars: Values,
        first: bool,
    ) -> Answer:
        """As :meth:`_ask`; after a first response, an unreachable hypervisor is retried."""
        if first:
            return self._ask(options, seconds, progress, task_vars)
        try:
            return self._ask(options, seconds, progress, task_vars)
        except AnsibleConnectionFailure as error:
            with contextlib.suppress(Exception):  # drop a master connection that hangs
                self._connection.reset()
            if seconds <= _LAST:
                raise
            return {"failed": True, "error": _PASSING[0], "msg": f"cannot be reached ({error})"}

    def _ask(
        self,
        options: VirtWaitOptions,
        seconds: float,
        progress: Progress,
        task_vars: Values,
    ) -> Answer:
        arguments: Answer = {**options, "names": progress.pending, "wait_timeout": seconds}
        answer = self.module(task_vars, arguments)
        validated = read(plain(answer), Waited)
        return {**validated} if validated.get("failed") else answer

    def _say(self, lines: t.Sequence[str]) -> None:
        for line in () if self._quiet else lines:
            _output.say(line)
