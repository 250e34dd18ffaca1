# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import as_mapping
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.tables import clean
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import outcomes, proofs
from ansible_collections.fleet.virt.plugins.module_utils._fleet.fencing.facts import Fenced
from ansible_collections.fleet.virt.plugins.module_utils._fleet.fencing.plan import SWITCHED
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import decide as placement
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restart import (
    decide as restart_decision,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restart import (
    report as restart_report,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restart.facts import (
    Restarted,
    RestartLook,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restart.options import (
    ARGUMENTS,
    RestartOptions,
    RestartWork,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.seeding.facts import Waited
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output, _peers, _stated
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected
from ansible_collections.fleet.virt.plugins.plugin_utils.base._fleet_variables import Variables
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import (
    Answer,
    Values,
    shares,
    texts,
    to_plain,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import _placing

_PLAN = "virt_restart_plan"


class VirtRestartOptions(Connected, RestartOptions):
    """Those of every action, and its own."""


class ActionModule(StagedAction[RestartWork]):
    """The module runs the stages on hypervisors; this runs those on the controller."""

    WORK = RestartWork
    CONTROLLER = ("decide", "prove", "starts", "report")

    def asked(self, work: RestartWork, task_vars: Values) -> Answer:
        hosts = self.options(VirtRestartOptions, ARGUMENTS)["host"]
        known = _peers.hypervisors(task_vars)
        unknown = [host for host in hosts if host not in known]
        if unknown:
            raise PlanRefused(
                f"virt_host: {', '.join(map(repr, unknown))} is no hypervisor; name the one whose"
                " VMs are to be restarted, for example -e virt_host=hv3; there are:"
                f" {', '.join(known)}"
            )
        if work.stage == "act" and self.check:
            fenced = self.answers("virt_proven_off", Fenced, "act", verb="virt_fence")
            ends = {answer.get("outcome") for answer in fenced.values()}
            work = dataclasses.replace(work, unlocking=SWITCHED in ends)
        if work.stage in ("act", "finish"):
            host = str(task_vars["inventory_hostname"])
            answer = self.answers("virt_cards", RestartLook, "look").get(host)
            names = self._shares().get(host, [])
            seen = restart_decision.seen_cards(names, answer or RestartLook())
            ignored = _stated.for_this_run(self, _stated.SIGNS_IGNORED)
            places = [
                place
                for host_off in hosts
                if host_off in ignored
                for place in _peers.addresses(host_off, task_vars)
            ]
            work = dataclasses.replace(work, seen=seen, ignored=places)
        if work.stage == "note":
            work = dataclasses.replace(
                work, claims=self._claims(str(task_vars["inventory_hostname"]))
            )
        self._task.args.update(_peers.where_they_answer(hosts, task_vars))
        return super().asked(work, task_vars)

    def decided(self, work: RestartWork) -> Answer:
        options = self.options(VirtRestartOptions, ARGUMENTS)
        stages: dict[str, t.Callable[[VirtRestartOptions], Answer]] = {
            "decide": self._decide,
            "prove": self._prove,
            "starts": self._starts,
            "report": self._report,
        }
        return stages[work.stage](options)

    def _decide(self, options: VirtRestartOptions) -> Answer:
        values, lost, hosts_off = self._values, self.lost(), options["host"]
        answers = self.answers("virt_cards", RestartLook, "look")
        expected = self.expected()
        known = list(dict.fromkeys([*answers, *expected]))
        problem = proofs.unknown_lost(lost, known)
        if problem:
            raise PlanRefused(problem)
        answered = {
            name: answer for name, answer in answers.items() if answer.get("host") is not None
        }
        silent = proofs.silences(answers, answered, expected, lost)
        given = restart_decision.Silenced(
            {host: _peers.addresses(host, values) for host in hosts_off},
            _stated.for_this_run(self, _stated.FENCED),
            _stated.for_this_run(self, _stated.SIGNS_IGNORED),
        )
        restart_decision.require_silence(hosts_off, answered, silent, known, given)
        answered = restart_decision.without_leftovers(answered)
        limits = {name: _placing.limits_of(name, values) for name in answers}
        variables = Variables(values, self._templar)
        policy = placement.Policy(
            pool_paths=variables.pool_paths(), base_pool=variables.base_pool()
        )
        hosts = _placing.hosts_of({**answers, **answered}, limits, lost)
        names = options["names"]
        decision = restart_decision.decide(
            hosts_off, names, answered, hosts, silent, policy, given.stated
        )
        return {"changed": False, **vars(decision)}

    def _prove(self, options: VirtRestartOptions) -> Answer:
        """The end of the run unless the hypervisor is proven off, or nothing is taken over."""
        agent = str(self.decision(_PLAN)["agent"])
        if not agent:
            return {"changed": False}
        answer = self.answers("virt_proven_off", Fenced, "act", verb="virt_fence").get(agent)
        if answer is None or answer.get("failed") or not answer.get("outcome"):
            why = None if answer is None else answer.get("msg")
            host = " and ".join(options["host"])
            if why and answer and answer.get("unreachable"):
                why = f"{host} is not proven off: {agent}, which was to prove it, is gone ({why})"
            raise PlanRefused(
                f"{why or f'{host} is not proven off: {agent} gave no answer'}; nothing was renamed"
            )
        _output.say(f"{clean(str(answer.get('text')))}\n")
        return {"changed": False}

    def _shares(self) -> dict[str, list[str]]:
        return shares(self.decision(_PLAN)["shares"])

    def _taken(self) -> dict[str, Restarted]:
        return self.answers("virt_taken_over", Restarted, "act")

    def _claims(self, host: str) -> list[str]:
        """What a hypervisor notes of the VMs that go to others."""
        elsewhere = {place: names for place, names in self._shares().items() if place != host}
        answers = self.answers("virt_cards", RestartLook, "look")
        return restart_decision.claims(elsewhere, answers, self.header.run)

    def _starts(self, _options: VirtRestartOptions) -> Answer:
        for host, answer in self.answers("virt_restart_noted", Restarted, "note").items():
            ill = answer.get("failed") or answer.get("unreachable")
            if host in texts(self.decision(_PLAN)["noting"]) and ill:
                why = outcomes.reason(answer)
                _output.warn(f"{host} did not note where the VMs go: {why}")
        starts = restart_report.starts(self._shares(), self._taken())
        return {"changed": False, **vars(starts)}

    def _report(self, options: VirtRestartOptions) -> Answer:
        decision = self.decision(_PLAN)
        starts = self.decision("virt_restart_starts", "starts")
        waited = self.answers("virt_waited", Waited, "check", verb="virt_wait")
        failed: dict[str, str] = {}
        for host, answer in waited.items():
            if host in as_mapping(starts["waits"]):
                for vm in answer.get("vms") or ():
                    if not vm["answered"]:
                        failed[vm["name"]] = f"{vm['name']} runs on {host}: {vm['msg']}"
        noted = self.latest("virt_noted", "virt_state")
        failed.update(texts_of(noted.get("failures")))
        text, failures, ends = restart_report.report(
            options["host"],
            texts_of(decision["origins"]),
            self._shares(),
            texts_of(decision["failures"]),
            self._taken(),
            self.answers("virt_handed_over", Restarted, "finish"),
            failed,
            check=self.check,
        )
        self.happened(ends)
        notes = "".join(f"{clean(note)}\n" for note in texts(decision["notes"]))
        changed = bool(self._shares())
        return self.shown(text + notes, failures, changed=changed and not self.check)


def texts_of(given: object) -> dict[str, str]:
    """Reasons by name, as a decision has them."""
    return {str(name): str(text) for name, text in as_mapping(to_plain(given)).items()}
