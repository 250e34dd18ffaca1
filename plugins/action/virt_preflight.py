# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import time
import typing as t

from ansible.errors import AnsibleActionFail
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import tables
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.answers import unsound
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.findings import Finding
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope, outcomes
from ansible_collections.fleet.virt.plugins.module_utils._fleet.preflight import decide as preflight
from ansible_collections.fleet.virt.plugins.module_utils._fleet.preflight import decide_pools
from ansible_collections.fleet.virt.plugins.module_utils._fleet.preflight import (
    facts as preflight_facts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.preflight.decide_host import Limits
from ansible_collections.fleet.virt.plugins.module_utils._fleet.preflight.facts import (
    CommonCpu,
    Preflight,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.preflight.options import (
    ARGUMENTS,
    PreflightWork,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec import profiles
from ansible_collections.fleet.virt.plugins.module_utils._units import parse_mib
from ansible_collections.fleet.virt.plugins.plugin_utils.ansible_core._once import FailedStage
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _clock, _output, _peers
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected
from ansible_collections.fleet.virt.plugins.plugin_utils.base._fleet_variables import Variables
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values, plain
from ansible_collections.fleet.virt.plugins.plugin_utils.base._registered import read
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction


class Peer(t.TypedDict):
    name: str
    address: str


class VirtPreflightOptions(Connected):
    expected: list[str] | None
    peers: list[Peer] | None
    bridges: list[str] | None
    pools: list[str]
    min_free: str
    expiry_days: int
    clock_seconds: float
    output: str
    output_file: str | None


class ActionModule(StagedAction[PreflightWork]):
    """The module runs the stages of a hypervisor; this runs those that compare hypervisors.

    ``gate`` is the task by itself in a play of ours: it fails with the errors and no more, as the
    findings have been shown.
    """

    WORK = PreflightWork
    CONTROLLER = ("report", "gate")
    REPORTED = "hypervisor_reported"
    _errors: t.Sequence[Finding] = ()

    def alone(self, task_vars: Values) -> Answer:
        """The findings about this hypervisor, as far as they need no other."""
        options, variables = self._options, task_vars
        result = self._read(PreflightWork(stage="read"), variables)
        if result.get("failed") or result.get("unreachable"):
            return result
        own = str(variables["inventory_hostname"])
        ((_name, answer),) = _judged({own: read(plain(result), Preflight)}).items()
        facts = answer.get("facts")
        reason = None if facts else str(answer.get("msg"))
        own_answer = preflight.Answer(own, _complete(facts) if facts else None, reason)
        return {**result, **self._findings([own_answer], [own], options)}

    @property
    def _options(self) -> VirtPreflightOptions:
        return self.options(VirtPreflightOptions, ARGUMENTS)

    def asked(self, work: PreflightWork, task_vars: Values) -> Answer:
        stages = {"read": self._read, "compare": self._compare}
        return stages[work.stage](work, task_vars)

    def _read(self, work: PreflightWork, variables: Values) -> Answer:
        options = self._options
        own = str(variables.get("inventory_hostname"))
        if options["bridges"] is None:
            chosen = Variables(variables, self._templar).get("virt_nic_profiles")
            work = dataclasses.replace(work, bridges=profiles.bridges(chosen))
        arguments = {**self.given, envelope.OPTION: envelope.plain(work)}
        if options["peers"] is None:
            arguments["peers"] = [
                {"name": name, "address": _peers.address(name, variables)}
                for name in _expected(options, variables)
                if name != own
            ]
        answer = self.module(variables, arguments)
        facts = answer.get("facts")
        if isinstance(facts, dict):
            answer["facts"] = {**facts, "clock": _clock.measure(self._date, time.time)}
        return answer

    def _date(self) -> str:
        return str(self._low_level_execute_command(_clock.COMMAND, sudoable=False)["stdout"])

    def _compare(self, work: PreflightWork, variables: Values) -> Answer:
        facts_by_host = {
            host: facts for host, answer in self._seen().items() if (facts := answer.get("facts"))
        }
        own = facts_by_host.get(str(variables["inventory_hostname"]))
        models = {
            (facts.get("cpu") or {}).get("xml")
            for facts in facts_by_host.values()
            if own is not None and facts.get("arch") == own.get("arch")
        }
        name = str(variables["inventory_hostname"])
        locks = (
            []
            if self.check
            else decide_pools.lock_peers(
                name, facts_by_host, lambda peer: _peers.address(peer, variables)
            )
        )
        cpus = sorted(xml for xml in models if xml)
        work = dataclasses.replace(work, cpus=cpus, own=name, locks=locks)
        return self.module(variables, {**self.given, envelope.OPTION: envelope.plain(work)})

    def _seen(self) -> dict[str, Preflight]:
        """What every host answered; facts that cannot be judged by themselves count as failed."""
        return _judged(self.answers("hypervisor_looked", Preflight, "read"))

    def decided(self, work: PreflightWork) -> Answer:
        if work.stage == "gate":
            result = self.alone(self._values)
            if result.get("failed"):
                raise FailedStage(str(result.get("msg")), {})
            return result
        options, answers = self._options, []
        compared = self.answers("hypervisor_compared", CommonCpu, "compare")
        for name, answer in self._seen().items():
            seen = answer.get("facts")
            if seen is None:
                answers.append(preflight.Answer(name, None, outcomes.reason(answer)))
                continue
            baseline = compared[name].get("baseline")
            facts: Answer = {**seen, "baseline": baseline, "locks": compared[name].get("locks")}
            if baseline is None:
                facts["not_compared"] = outcomes.reason(compared[name])
            answers.append(preflight.Answer(name, _complete(facts)))
        return self._findings(answers, _expected(options, self._values), options)

    def _is_set(self, common: preflight.CommonCpu) -> bool:
        """Whether it is the fleet's already; a wrong one is reported where VMs are created."""
        from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec import (
            fleet_cpu,  # the tables of settings
        )

        value = Variables(self._values, self._templar).get("virt_cpu")
        return fleet_cpu.same(common.cpu, fleet_cpu.read(value, []))

    def _by_host(self) -> dict[str, list[str]]:
        """The errors by host: one of several hypervisors is each one's."""
        failures = [
            outcomes.Failure(host, f"{finding.id}: {finding.message}")
            for finding in self._errors
            for host in finding.hosts
        ]
        return self._sorted(failures)

    def _findings(
        self,
        answers: list[preflight.Answer],
        expected: list[str],
        options: VirtPreflightOptions,
    ) -> Answer:
        """The findings, shown; failed if there are errors among them."""
        try:
            min_free = parse_mib(options["min_free"])
        except ValueError as error:
            raise AnsibleActionFail(f"min_free: {error}") from None
        limits = Limits(
            min_free_mib=min_free,
            expiry_days=options["expiry_days"],
            clock_seconds=options["clock_seconds"],
        )
        findings = preflight.judge(answers, expected, limits)
        entries, summary = [finding.as_dict() for finding in findings], preflight.summary(findings)
        common = preflight.common_cpus(answers)
        cpus = [cpu.as_dict() for cpu in common]
        report: Answer = {"findings": entries, "summary": summary, "cpus": cpus}
        told = [one.as_dict() for one in common if not self._is_set(one)]
        text = _output.render(
            options["output"],
            report,
            lambda: tables.findings(entries, told),
            lambda: tables.finding_records(entries),
        )
        delivered = _output.deliver(
            text, options["output_file"], check=self.check, diff=bool(self._task.diff)
        )
        result = {**report, "output": text, **delivered}
        if summary["error"]:
            errors = [finding for finding in findings if finding.severity == "error"]
            self._errors = errors
            failures = [
                f"{finding.id} ({', '.join(finding.hosts)}): {finding.message}"
                for finding in errors
            ]
            apart = options["output"] != "table" or bool(options["output_file"])
            return self.concluded(result, failures, apart=apart, shown=True, separator="; ")
        return result


def _expected(options: VirtPreflightOptions, variables: Values) -> list[str]:
    return options["expected"] or _peers.names("hypervisors", variables)


def _judged(answers: dict[str, Preflight]) -> dict[str, Preflight]:
    for host, answer in answers.items():
        facts = answer.get("facts")
        if facts is not None:
            try:
                preflight.judge([preflight.Answer(host, _complete(facts))], [host], Limits())
            except Exception as error:
                answers[host] = {"failed": True, "msg": unsound(f"facts: {error!r}")}
    return answers


def _complete(facts: t.Mapping[str, object]) -> preflight_facts.PreflightFacts:
    """Facts in the type that judging needs; each host's are tried separately before use."""
    return t.cast("preflight_facts.PreflightFacts", facts)
