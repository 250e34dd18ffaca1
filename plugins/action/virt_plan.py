# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.arguments import Spec
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import as_mapping
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards import leftover
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import (
    envelope,
    located,
    outcomes,
    proofs,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.read_neighbours import (
    own_addresses,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes import rule
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import decide as placement
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import unlike
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision import fleet_plan
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.facts import (
    Claims,
    Compared,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.fleet_plan import Place
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.work import ShowWork
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.domain import Domain
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output, _peers
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values
from ansible_collections.fleet.virt.plugins.plugin_utils.base._registered import registered
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import (
    _batch,
    _noted,
    _placing,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.provision._round import wanted_of

_ARGUMENTS: Spec = {
    "vms": {"type": "list", "elements": "dict"},
    "results": {"type": "str", "required": True},
    "expected": {"type": "list", "elements": "str"},
    "lost": {"type": "list", "elements": "str"},
    "strict": {"type": "bool", "default": False},
    "output": {"type": "str", "choices": _output.FORMS, "default": "table"},
    "output_file": {"type": "path"},
}
_INTERNAL: Spec = {"_told": {"type": "str"}}  # the variable with what was noted of silent machines


class VirtPlanOptions(Connected):
    vms: list[dict[str, object]] | None
    results: str
    expected: list[str] | None
    lost: list[str] | None
    strict: bool
    output: str
    output_file: str | None
    _told: str | None


class ActionModule(StagedAction[ShowWork]):
    WORK = ShowWork
    CONTROLLER = ("report",)
    _requires_connection = False
    _ask: t.Sequence[str] = ()  # who is to tell what is noted of machines that are not answering
    _answering: t.Sequence[str] = ()

    def decided(self, _work: ShowWork) -> Answer:
        return self.alone(self._values)

    def _reported(self, work: ShowWork, values: Values) -> Answer:
        report = super()._reported(work, values)
        asked = {"ask": [*self._ask], "answering": [*self._answering]}
        return {**report, envelope.OPTION: {**as_mapping(report[envelope.OPTION]), **asked}}

    def alone(self, task_vars: Values) -> Answer:
        options = self.options(VirtPlanOptions, _ARGUMENTS, _INTERNAL)
        variables = _batch.Variables(task_vars, self._templar)
        domains = _batch.validated(
            _batch.requested(options, variables),
            _batch.defaults(variables),
            _batch.written_as(options, variables),
        )
        _peers.refuse_hypervisors([domain.name for domain in domains], task_vars)
        _batch.warn_of_ignored(options, variables)
        own = (self.header.run, "virt_init")
        given = registered(task_vars, options["results"], Compared, *own)
        lost = self.lost(options["lost"])
        expected = self.expected(options["expected"])
        seen = located.sort(given, "host", expected, lost)
        silent, answers = seen.silent, seen.answers
        names = [domain.name for domain in domains]
        absent = fleet_plan.missing(names, answers)
        new = [domain for domain in domains if domain.name in absent]
        added = {
            entry["name"]: macs
            for answer in answers.values()
            for entry in answer.get("vms") or ()
            if (macs := entry.get("added_macs"))
        }
        there = _noted.answering(answers)
        if (new or added) and self.staged and not options["_told"] and rule.silent_machines(there):
            self._ask = [*there]
            self._answering = sorted(host.machine for host in there.values())
            return {"changed": False}
        refused = self._refused(options, new, added, given, expected, lost)
        free = [domain for domain in new if domain.name not in refused]
        existing = [domain for domain in domains if domain.name not in absent]
        places = self._places(free, existing, given, lost, task_vars)
        unusable = {name: refused[name] for name in added if name in refused}
        unusable |= self._unusable(existing, task_vars)
        entries = fleet_plan.compare(names, answers, places, refused, unusable)
        cut = [
            f"{name}: {silence.why}; {proofs.remedy({name: silence})}"
            for name, silence in silent.items()
            if outcomes.is_cut(given.get(name, {}))
        ]
        return self._shown(options, entries, silent, cut)

    def _refused(
        self,
        options: VirtPlanOptions,
        new: t.Sequence[Domain],
        added: t.Mapping[str, t.Sequence[str]],
        answers: t.Mapping[str, Compared],
        expected: t.Sequence[str],
        lost: t.Sequence[str],
    ) -> dict[str, str]:
        """Why new VMs may be on hypervisors that did not respond, or have the MAC addresses there
        that are ``added`` to others, as a run would say it."""
        texts: dict[str, str] = {}
        if options["_told"]:
            told = self.answers(options["_told"], Claims, "read", verb="virt_init")
            texts = _noted.noted(told)
        excused = _noted.unasked(self)
        standing = _noted.standing(
            *(answers, lost, expected, excused, texts), only_macs=not new and bool(added)
        )
        vms = [vm for answer in answers.values() for vm in _placing.vms_of(answer)]
        uuids = leftover.uuids(vms)
        wanted = [
            *(wanted_of(domain) for domain in new),
            *(rule.Wanted(name, macs, exists=True) for name, macs in added.items()),
        ]
        refused = rule.not_free(wanted, standing, uuids)
        names = [one.name for one in new if one.name not in refused]
        there = _noted.answering(answers)
        for remark in (*rule.remarks(standing, names), *rule.never_built(names, there)):
            _output.warn(remark)
        return refused

    def _unusable(self, domains: t.Sequence[Domain], task_vars: Values) -> dict[str, str]:
        """Why images of VMs that exist cannot be used, by VM; provisioning reads them as well."""
        variables = _batch.Variables(task_vars, self._templar)
        known: dict[frozenset[str], str | None] = {}
        problems = {}
        for domain in domains:
            values = frozenset(disk.image.value for disk in domain.disks if disk.image is not None)
            if values not in known:
                known[values] = _image_problem(domain, variables)
            problem = known[values]
            if problem is not None:
                problems[domain.name] = problem
        return problems

    def _places(
        self,
        domains: t.Sequence[Domain],
        existing: t.Sequence[Domain],
        answers: _placing.Answers,
        lost: t.Sequence[str],
        task_vars: Values,
    ) -> dict[str, Place]:
        if not domains:
            return {}
        variables = _batch.Variables(task_vars, self._templar)
        limits = {name: _placing.limits_of(name, task_vars) for name in answers}
        policy = placement.Policy(
            pool_paths=variables.pool_paths(), base_pool=variables.base_pool()
        )
        try:
            local = _batch.controller_images(domains, variables, check=True)
            images = {name: image.facts for name, image in local.items()}
            rules = [(one.name, one.groups, one.placement.anti_affinity) for one in existing]
            hosts = placement.with_rules(_placing.hosts_of(answers, limits, lost), rules)
            placements = _placing.place(domains, images, hosts, policy)
            taken = _placing.not_unique(domains, placements, answers, own_addresses())
            has_cpu = _batch.defaults(variables).fleet_cpu is not None
            remarks = unlike.find(domains, placements, hosts, fleet_cpu=has_cpu)
        except FleetVirtError as error:
            return {domain.name: Place(None, str(error)) for domain in domains}
        return {
            placed.name: Place(None, taken[placed.name])
            if placed.name in taken
            else Place(
                placed.host,
                placement.describe(placed).removeprefix(f"{placed.name} "),
                remarks.get(placed.name),
            )
            for placed in placements
        }

    def _shown(
        self,
        options: VirtPlanOptions,
        entries: list[fleet_plan.PlannedVm],
        silent: t.Mapping[str, proofs.Silence],
        cut: t.Sequence[str],
    ) -> Answer:
        empty = fleet_plan.is_empty(entries) and not silent
        reasons = {name: silence.why for name, silence in silent.items()}
        data: Answer = {
            "empty": empty,
            "silent": reasons,
            "vms": [dataclasses.asdict(entry) for entry in entries],
        }

        def shown() -> str:
            more = f"not all hypervisors answered: {proofs.named(silent)}\n" if silent else ""
            return fleet_plan.text(entries) + more

        text = _output.render(
            options["output"], data, shown, lambda: fleet_plan.records(entries, reasons)
        )
        diff = bool(self._task.diff)
        delivered = _output.deliver(text, options["output_file"], check=self.check, diff=diff)
        result: Answer = {**data, "output": text, **delivered}
        problems = [*fleet_plan.refusals(entries), *cut]
        if options["strict"] and not empty and not problems:
            problems = [f"the fleet does not match the request: {fleet_plan.summary(entries)}"]
            problems += [f"not all hypervisors answered: {proofs.named(silent)}"] if silent else []
        apart = options["output"] != "table" or bool(options["output_file"])
        return self.concluded(result, problems, apart=apart)


def _image_problem(domain: Domain, variables: _batch.Variables) -> str | None:
    try:
        _batch.controller_images([domain], variables, check=True)
    except FleetVirtError as error:
        return str(error)
    return None
