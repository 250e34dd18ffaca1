# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._fleet.backup.effects_borg import Access
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import (
    as_mapping,
    as_text,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes import note, rule
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import decide as placement
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore import (
    decide as restore_decision,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore import (
    read_archives,
    report,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore.facts import (
    Restored,
    RestoreLook,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.restore.options import (
    ARGUMENTS,
    RestoreOptions,
    RestoreWork,
    SavedVm,
    skipped,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.backup._place import nearby
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output, _peers
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected
from ansible_collections.fleet.virt.plugins.plugin_utils.base._fleet_variables import Variables
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import (
    Answer,
    Values,
    shares,
    texts,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import _noted, _placing

_FOUND, _DECIDED, _CONFIRMED = "virt_saved", "virt_decision", "virt_confirmed"


class VirtRestoreOptions(Connected, RestoreOptions):
    """Those of every action, and its own."""


class ActionModule(StagedAction[RestoreWork]):
    """The module runs the stages on hypervisors; this runs those on the controller."""

    WORK = RestoreWork
    CONTROLLER = ("find", "decide", "report")

    def decided(self, work: RestoreWork) -> Answer:
        options = self.options(VirtRestoreOptions, ARGUMENTS)
        if work.stage == "find":
            return self._find(options)
        if work.stage == "report":
            return self._report()
        return self._confirm() if work.round else self._decide()

    def asked(self, work: RestoreWork, task_vars: Values) -> Answer:
        vms = self._vms()
        if work.stage == "look" and work.round:
            decided = self.decision(_DECIDED)
            work = dataclasses.replace(work, answering=texts(decided["answering"]))
            if not self.check:
                claims = self._claims(decided, self._here(task_vars))
                work = dataclasses.replace(work, claims=claims)
        if work.stage in ("claim", "finish", "withdraw"):
            number = 0 if work.stage == "claim" else 1
            kind = {"claim": _DECIDED, "finish": _CONFIRMED, "withdraw": _CONFIRMED}[work.stage]
            key = "withdrawn" if work.stage == "withdraw" else "shares"
            names = shares(self.decision(kind, number=number)[key])[self._here(task_vars)]
            vms = [vm for vm in vms if vm.name in names]
        return super().asked(dataclasses.replace(work, vms=vms), task_vars)

    def _here(self, task_vars: Values) -> str:
        return str(task_vars["inventory_hostname"])

    def _vms(self) -> list[SavedVm]:
        """What stage ``find`` has found."""
        return self._found().vms

    def _found(self) -> RestoreWork:
        archives_found = self.decision(_FOUND, "find")
        return envelope.read(RestoreWork, {envelope.OPTION: {"vms": archives_found["vms"]}})

    def _find(self, options: VirtRestoreOptions) -> Answer:
        options["place"], key, base = nearby(self._values, self._templar, options["place"])
        access = Access(options["passphrase"], base, key)
        vms = read_archives.find(access, options, self.header.run)
        for remark in skipped(vms):
            _output.warn(remark)
        _peers.refuse_hypervisors([vm.name for vm in vms], self._values)
        return {"changed": False, "vms": [dataclasses.asdict(vm) for vm in vms]}

    def _answers(self, number: int) -> dict[str, RestoreLook]:
        return self.answers("virt_look", RestoreLook, "look", number)

    def _variables(self) -> Variables:
        return Variables(self._values, self._templar)

    def _policy(self) -> placement.Policy:
        variables = self._variables()
        return placement.Policy(pool_paths=variables.pool_paths(), base_pool=variables.base_pool())

    def _hosts(self, answers: t.Mapping[str, RestoreLook]) -> list[placement.PlacementHost]:
        limits = {name: _placing.limits_of(name, self._values) for name in answers}
        return _placing.hosts_of(answers, limits, self.lost())

    def _there(self, answers: t.Mapping[str, RestoreLook]) -> dict[str, RestoreLook]:
        return {name: answer for name, answer in answers.items() if answer.get("host") is not None}

    def _decide(self) -> Answer:
        answers = self._answers(0)
        # who is silent, and whether names given as lost are known
        self._standing(answers, {})
        decision = restore_decision.decide(
            self._vms(),
            as_text(self._variables().get("vm_host")),
            self._there(answers),
            self._hosts(answers),
            self._policy(),
        )
        claims = {
            volume
            for host in _noted.answering(answers).values()
            for volume in note.claims_in(host.held)
        }
        answering = sorted(host.machine for host in _noted.answering(answers).values())
        return {
            "changed": False,
            **vars(decision),
            "seen": sorted(claims),
            "answering": answering,
            "claims": self._claimed(decision.shares, answers),
        }

    def _standing(
        self, answers: t.Mapping[str, RestoreLook], noted: t.Mapping[str, str]
    ) -> rule.Standing:
        excused = _noted.unasked(self)
        return _noted.standing(answers, self.lost(), self.expected(), excused, noted)

    def _claims(self, decided: Answer, but: str) -> list[str]:
        """What a hypervisor notes of the others."""
        by_host = shares(decided["claims"])
        return [volume for host, volumes in by_host.items() if host != but for volume in volumes]

    def _claimed(
        self, decided: t.Mapping[str, t.Sequence[str]], answers: t.Mapping[str, RestoreLook]
    ) -> dict[str, list[str]]:
        """The notes that VMs are where they are claimed, by hypervisor."""
        vms, claims = {vm.name: vm for vm in self._vms()}, {}
        for host, names in decided.items():
            there = answers[host].get("host")
            at = None if there is None else there.get("at")
            if there is None or at is None:
                continue
            made: list[note.Claim] = []
            for vm in (vms[name] for name in names):
                entries = restore_decision.entries_of(vm, answers)
                groups = [group for entry in entries.values() for group in entry["groups"]]
                own = {
                    "run": vm.claimer,
                    "name": vm.name,
                    "uuid": vm.uuid,
                    "macs": restore_decision.macs_of(entries),
                    "groups": sorted({*groups}),
                }
                made += note.claims_of(str(there.get("uuid")), at, vm.claimer, [own])
            claims[host] = [claim.volume for claim in made]
        return claims

    def _confirm(self) -> Answer:
        """Which claims are finished, and why others are withdrawn."""
        decision, answers = self.decision(_DECIDED), self._answers(1)
        decided = shares(decision["shares"])
        answers = {
            name: answer
            if self.check or {*self._claims(decision, name)} <= {*self._notes(answer)}
            else RestoreLook(msg="it did not note what is restored")
            for name, answer in answers.items()
        }
        standing = self._standing(answers, _noted.noted(answers))
        problems = restore_decision.confirm(
            self._vms(),
            decided,
            self._there(answers),
            self._hosts(answers),
            standing,
            self._policy(),
            texts(decision["seen"]),
            check=self.check,
        )
        names = [name for those in decided.values() for name in those]
        remarks = rule.remarks(standing, names)
        kept = {
            host: [one for one in those if one not in problems] for host, those in decided.items()
        }
        gone = {host: [one for one in those if one in problems] for host, those in decided.items()}
        remarks += restore_decision.left_out(self._vms(), kept)
        for remark in [*remarks, *restore_decision.remarks(kept, self._there(answers))]:
            _output.say(f"{remark}\n")
        return {
            "changed": False,
            "shares": kept,
            "withdrawn": gone,
            "problems": problems,
        }

    def _notes(self, answer: RestoreLook) -> list[str]:
        host = answer.get("host")
        return [] if host is None else [*(host.get("notes") or ())]

    def _report(self) -> Answer:
        decision = self.decision(_DECIDED)
        confirmed = self.decision(_CONFIRMED, number=1)
        text, failures, ends = report.report(
            shares(decision["shares"]),
            _texts_of(decision["there"]),
            {vm.name: vm.archive for vm in self._vms()},
            self.answers("virt_claimed", Restored, "claim"),
            self.answers("virt_restored", Restored, "finish"),
            _texts_of(confirmed["problems"]),
            check=self.check,
        )
        self.happened(ends)
        return self.shown(text, failures)


def _texts_of(given: object) -> dict[str, str]:
    return {str(name): str(text) for name, text in as_mapping(given).items()}
