# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t
import uuid

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError, PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import (
    as_number,
    as_text,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import outcomes, proofs
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes import note, rule
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rename import (
    decide as rename_decision,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rename.facts import (
    Renamed,
    RenamedVm,
    RenameLook,
    RenameNoted,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.rename.options import (
    ARGUMENTS,
    RenameWork,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output, _peers, _stated
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values, texts
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import _noted


class VirtRenameOptions(Connected):
    name: str
    new_name: str
    volumes: bool


class ActionModule(StagedAction[RenameWork]):
    """The module runs the stages on the hypervisor; this runs those on the controller."""

    WORK = RenameWork

    def decided(self, work: RenameWork) -> t.Mapping[str, object]:
        options = self.options(VirtRenameOptions, ARGUMENTS)
        if work.stage == "report":
            return self._report(options)
        if work.round:
            return self._confirm(options)
        old, new = options["name"], options["new_name"]
        seen = self._fleet(0)
        _peers.refuse_hypervisors([new], self._values)
        known = self._standing(seen)
        host = rename_decision.decide(old, new, seen, known, self.chosen_host())
        for remark in rule.remarks(known, [new]):
            _output.warn(remark)
        there = seen.answers[host]
        place = {"machine": there.get("machine"), "at": there.get("at")}
        claims = rename_decision.claims(seen)
        return {"changed": False, "hypervisor": host, **place, "claims": claims}

    def asked(self, work: RenameWork, task_vars: Values) -> Answer:
        if work.stage == "noted":
            seen = rename_decision.answering(self._fleet(0))
            silent = rule.silent_machines(seen)
            if not silent or str(task_vars["inventory_hostname"]) not in seen:
                return {"changed": False}
            machines = sorted(host.machine for host in seen.values())
            return super().asked(dataclasses.replace(work, answering=machines), task_vars)
        if work.stage == "look" and work.round and not self.check:
            place = self.decision("virt_decision")
            if str(task_vars["inventory_hostname"]) != place["hypervisor"]:
                work = dataclasses.replace(work, claims=self._claims(place))
        return super().asked(work, task_vars)

    def _claims(self, place: Answer) -> list[str]:
        """What the other hypervisors note: that the VM has the new name where it is."""
        machine, at = as_text(place["machine"]), as_number(place["at"])
        if not machine or at is None:
            return []
        new = self.options(VirtRenameOptions, ARGUMENTS)["new_name"]
        return [note.Claim(machine, at, self._run(new), "name", new).volume]

    def _run(self, new: str) -> str:
        """The run, as its claims name it."""
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.header.run} {new}"))

    def _standing(self, seen: rename_decision.Fleet) -> rule.Standing:
        """What is known of hypervisors that do not answer."""
        excused = _stated.for_this_run(self, _noted.UNASKED)
        problem = proofs.unknown_names(
            _noted.UNASKED, excused, list(dict.fromkeys([*seen.answers, *self.expected()]))
        )
        if problem:
            raise PlanRefused(problem)
        told = self.answers("virt_told", RenameNoted, "noted")
        return rename_decision.standing(seen, _noted.noted(told), {*excused, *self.lost()})

    def _fleet(self, number: int) -> rename_decision.Fleet:
        return self.fleet("virt_look", RenameLook, "look", "defined", number)

    def _taken(self) -> dict[str, Renamed]:
        return self.answers("virt_taken", Renamed, "take")

    def _host(self) -> str:
        return str(self.decision("virt_decision")["hypervisor"])

    def _confirm(self, options: VirtRenameOptions) -> Answer:
        """Whether the new name is kept, and the stage that follows from that; none if it was not
        taken, or in check mode, where the stage before has predicted all steps."""
        old, new, host = options["name"], options["new_name"], self._host()
        _text, failures = rename_decision.report(
            old, new, host, self._taken(), "", check=self.check
        )
        if failures:
            return {"changed": False, "next": "", "problem": ""}
        try:
            seen = self._fleet(1)
            known, run = self._standing(seen), self._run(new)
            before = texts(self.decision("virt_decision")["claims"])
            problem = rename_decision.confirm(old, new, host, seen, known, run, before)
        except FleetVirtError as error:
            problem = str(error)
        following = "" if self.check else "withdraw" if problem else "finish"
        return {"changed": False, "next": following, "problem": problem}

    def _report(self, options: VirtRenameOptions) -> Answer:
        confirmed = self.decision("virt_confirmed", number=1)
        taken, ended = self._taken(), str(confirmed["next"])
        answers = self.answers("virt_ended", Renamed, ended) if ended else taken
        text, failures = rename_decision.report(
            options["name"],
            options["new_name"],
            self._host(),
            answers,
            str(confirmed["problem"]),
            check=self.check,
            taken=taken if ended else None,
        )
        new, host = options["new_name"], self._host()
        stages = [taken, answers] if ended else [taken]
        ends = [outcomes.outcomes({host: [new]}, stage, RenamedVm)[0] for stage in stages]
        changed = any(end.entry is not None and end.entry["changed"] for end in ends)
        problem = "; ".join(failures) or None
        self.happened([outcomes.Outcome(host, new, {"changed": changed}, problem)])
        return self.shown(text, failures)
