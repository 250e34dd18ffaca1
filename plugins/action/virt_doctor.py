# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import time
import typing as t

from ansible.errors import AnsibleActionFail
from ansible_collections.fleet.virt.plugins.module_utils._fleet.doctor import decide as doctor
from ansible_collections.fleet.virt.plugins.module_utils._fleet.doctor import report
from ansible_collections.fleet.virt.plugins.module_utils._fleet.doctor.facts import Examined
from ansible_collections.fleet.virt.plugins.module_utils._fleet.doctor.options import (
    ARGUMENTS,
    DoctorWork,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import (
    envelope,
    located,
    outcomes,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import decide as placement
from ansible_collections.fleet.virt.plugins.module_utils._fleet.preflight.decide_host import Limits
from ansible_collections.fleet.virt.plugins.module_utils._units import parse_mib
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected
from ansible_collections.fleet.virt.plugins.plugin_utils.base._fleet_variables import Variables
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values, plain
from ansible_collections.fleet.virt.plugins.plugin_utils.base._registered import read
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import _placing


class VirtDoctorOptions(Connected):
    base_pool: str
    min_free: str
    expiry_days: int
    clock_seconds: float
    strict: bool
    output: str
    output_file: str | None


class ActionModule(StagedAction[DoctorWork]):
    """The module reads a hypervisor; this compares them."""

    WORK = DoctorWork
    CONTROLLER = ("report",)
    _found: t.Sequence[outcomes.Failure] = ()

    def alone(self, task_vars: Values) -> Answer:
        """The findings about this hypervisor, as far as they need no other."""
        result = self._look(DoctorWork(stage="look"), task_vars)
        if result.get("failed") or result.get("unreachable"):
            return result
        own = str(task_vars["inventory_hostname"])
        told = {own: read(plain(result), Examined)}
        return {"changed": False, **self._judged(told, [own], task_vars)}

    def asked(self, work: DoctorWork, task_vars: Values) -> Answer:
        return self._look(work, task_vars)

    def _look(self, work: DoctorWork, task_vars: Values) -> Answer:
        path = str(Variables(task_vars, self._templar).get("virt_base_path", work.base_path))
        work = dataclasses.replace(work, base_path=path)
        before = time.time()
        answer = self.module(task_vars, {**self.given, envelope.OPTION: envelope.plain(work)})
        return {**answer, "clock": report.clock(answer, before, time.time())}

    def decided(self, _work: DoctorWork) -> Answer:
        told = self.answers("virt_look", Examined, "look")
        return self._judged(told, self.expected(), self._values)

    def _judged(self, told: dict[str, Examined], expected: list[str], task_vars: Values) -> Answer:
        options = self.options(VirtDoctorOptions, ARGUMENTS)
        lost = self.lost()
        seen = located.sort(told, "host", expected, lost)
        limits = {name: _placing.limits_of(name, task_vars) for name in seen.answers}
        hosts = _placing.hosts_of(told, limits, lost)
        variables = Variables(task_vars, self._templar)
        policy = placement.Policy(
            pool_paths=variables.pool_paths(), base_pool=variables.base_pool()
        )
        diagnosis = doctor.diagnose(
            seen.answers, seen.silent, hosts, policy, _limits(options), lost
        )
        data = report.plain(diagnosis)
        output = _output.render(
            options["output"],
            data,
            lambda: report.text(diagnosis),
            lambda: report.records(diagnosis),
        )
        delivered = _output.deliver(
            output, options["output_file"], check=self.check, diff=bool(self._task.diff)
        )
        self._found = report.failures(diagnosis, strict=options["strict"])
        messages = ["".join(failure) for failure in self._found]
        apart = options["output"] != "table" or bool(options["output_file"])
        result: Answer = {**data, "output": output, **delivered}
        return self.concluded(result, messages, apart=apart, shown=True, separator="; ")

    def _by_host(self) -> dict[str, list[str]]:
        """The findings that fail the run, by host: one of several hypervisors is each one's."""
        return self._sorted(self._found)


def _limits(options: VirtDoctorOptions) -> Limits:
    try:
        min_free = parse_mib(options["min_free"])
    except ValueError as error:
        raise AnsibleActionFail(f"min_free: {error}") from None
    return Limits(
        min_free_mib=min_free,
        expiry_days=options["expiry_days"],
        clock_seconds=options["clock_seconds"],
    )
