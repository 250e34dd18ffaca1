# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.arguments import Spec
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import Json
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import located, proofs
from ansible_collections.fleet.virt.plugins.module_utils._fleet.foresight import (
    capacity,
    report,
    what_if,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.foresight.capacity import Loss
from ansible_collections.fleet.virt.plugins.module_utils._fleet.foresight.state import (
    Answers,
    NewHost,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.migration.facts import MigrateLook
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import decide as placement
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.demand import request_of
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.work import ShowWork
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _output
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Answer, Values
from ansible_collections.fleet.virt.plugins.plugin_utils.base._registered import registered
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import _batch, _placing

_ARGUMENTS: Spec = {
    "view": {"type": "str", "choices": ["capacity", "what_if"], "default": "capacity"},
    "vms": {"type": "list", "elements": "dict"},
    "results": {"type": "str", "required": True},
    "loss": {"type": "int", "default": 1},
    "require": {"type": "int"},
    "lose": {"type": "list", "elements": "str"},
    "add_hosts": {"type": "list", "elements": "raw"},
    "expected": {"type": "list", "elements": "str"},
    "lost": {"type": "list", "elements": "str"},
    "strict": {"type": "bool", "default": False},
    "output": {"type": "str", "choices": _output.FORMS, "default": "table"},
    "output_file": {"type": "path"},
}


class VirtCapacityOptions(Connected):
    view: str
    vms: list[dict[str, object]] | None
    results: str
    loss: int
    require: int | None
    lose: list[str] | None
    add_hosts: list[object] | None
    expected: list[str] | None
    lost: list[str] | None
    strict: bool
    output: str
    output_file: str | None


class ActionModule(StagedAction[ShowWork]):
    WORK = ShowWork
    CONTROLLER = ("report",)
    _requires_connection = False

    def decided(self, _work: ShowWork) -> Answer:
        return self.alone(self._values)

    def alone(self, task_vars: Values) -> Answer:
        options = self.options(VirtCapacityOptions, _ARGUMENTS)
        if options["loss"] < 0 or (options["require"] or 0) < 0:
            raise PlanRefused("virt_loss and virt_require are numbers of 0 or more")
        given = registered(
            task_vars, options["results"], MigrateLook, self.header.run, "virt_migrate"
        )
        seen = located.sort(
            given, "host", self.expected(options["expected"]), self.lost(options["lost"])
        )
        if options["loss"] or options["lose"]:
            unread = [name for name, answer in seen.answers.items() if answer.get("vms") is None]
            if unread:
                raise PlanRefused(
                    f"{options['results']} does not say what the VMs of {', '.join(unread)} need;"
                    " use the playbook fleet.virt.capacity or what_if, or give loss: 0"
                )
        view = _View(self, options, task_vars, given, dict(seen.answers), seen.silent)
        return view.what_if() if options["view"] == "what_if" else view.capacity()


class _View:
    """One call: the fleet as it was read, and what is asked about it."""

    def __init__(
        self,
        action: ActionModule,
        options: VirtCapacityOptions,
        task_vars: Values,
        given: t.Mapping[str, MigrateLook],
        answers: Answers,
        silent: t.Mapping[str, proofs.Silence],
    ) -> None:
        self.action = action
        self.options = options
        self.task_vars = task_vars
        self.variables = _batch.Variables(task_vars, action._templar)
        self.answers = answers
        self.silent = silent
        self.mute = {name: answer for name, answer in given.items() if name not in answers}
        self.lost = action.lost(options["lost"])
        self.new: list[NewHost] = report.new_hosts(options["add_hosts"] or ())
        self.policy = placement.Policy(
            pool_paths=self.variables.pool_paths(), base_pool=self.variables.base_pool()
        )

    def hosts(self, answers: Answers) -> list[placement.PlacementHost]:
        """The hypervisors as placement sees them; those that did not answer take nothing."""
        like = {new.name: new.like for new in self.new}
        limits = {
            name: _placing.limits_of(like.get(name, name), self.task_vars) for name in answers
        }
        return _placing.hosts_of({**self.mute, **answers}, limits, self.lost)

    def _requests(self, vms: list[Json]) -> list[placement.Request]:
        domains = _batch.validated(vms, _batch.defaults(self.variables))
        local = _batch.controller_images(domains, self.variables, check=True)
        images = {name: image.facts for name, image in local.items()}
        return [request_of(domain, images) for domain in domains]

    def capacity(self) -> Answer:
        (request,) = self._requests(_batch.shape(self.options, self.variables))
        rooms = capacity.rooms(self.hosts(self.answers), request, self.policy)
        more, wanted = sum(room.more for room in rooms), self.options["require"]
        shape = _shape(request)
        problems = []
        then, answers = "", self.answers
        if wanted is not None and more < wanted:
            problems.append(f"{wanted} more VMs of {shape} are required, {more} fit")
        elif wanted:
            then = f"with {wanted} more VMs, "
            copies = [
                dataclasses.replace(request, name=f"{request.name}-{number}")
                for number in range(wanted)
            ]
            foreseen = what_if.foresee(answers, self.hosts, (), (), copies, self.policy)
            problems += foreseen.problems
            answers = foreseen.answers
        losses = self._losses(answers)
        if wanted is not None and losses:
            problems.append(f"{then}{report.loss_text(self.options['loss'], losses).strip()}")
        rows = report.rooms_plain(rooms)
        data: Answer = {"shape": shape, "more": more, "hypervisors": rows}
        text = report.rooms_text(rooms, shape)
        return self._shown(data, text, losses, then, problems, required=wanted is not None)

    def what_if(self) -> Answer:
        variables, vms = self.variables, self.options["vms"]
        asked = (vms, variables.get("virt_vms"), variables.get("vm_name"))
        wanted = any(one is not None for one in asked)
        requests = self._requests(_batch.requested(self.options, variables)) if wanted else []
        lost = self.options["lose"] or []
        foreseen = what_if.foresee(self.answers, self.hosts, lost, self.new, requests, self.policy)
        losses = self._losses(foreseen.answers)
        rows = report.hosts_rows(self.hosts(foreseen.answers))
        data: Answer = {
            "steps": [dataclasses.asdict(step) for step in foreseen.steps],
            "problems": foreseen.problems,
            "hypervisors": rows,
        }
        text = report.steps_text(foreseen.steps, rows)
        text += "".join(f"{problem}\n" for problem in foreseen.problems)
        problems = list(foreseen.problems)
        if losses:
            problems.append(f"then {report.loss_text(self.options['loss'], losses).strip()}")
        return self._shown(data, text, losses, "then ", problems, required=self.options["strict"])

    def _losses(self, answers: Answers) -> list[Loss] | None:
        """The losses that are not survived; None where none is tried, or nothing is there."""
        number = self.options["loss"]
        if not number or not answers:
            return None
        return capacity.losses(answers, self.hosts(answers), number, self.policy)

    def _shown(
        self,
        data: Answer,
        text: str,
        losses: list[Loss] | None,
        then: str,
        problems: list[str],
        *,
        required: bool,
    ) -> Answer:
        options, number = self.options, self.options["loss"]
        tried = number if losses is not None else 0
        data = {
            **data,
            "loss": number,
            "survives": None if losses is None else not losses,
            "losses": report.plain(losses or ()),
            "silent": {name: silence.why for name, silence in self.silent.items()},
        }
        unanswered = f"not all hypervisors answered: {proofs.named(self.silent)}"

        def shown() -> str:
            more = f"{unanswered}\n" if self.silent else ""
            return text + report.loss_text(tried, losses or (), then) + more

        rows = t.cast("list[dict[str, object]]", data["hypervisors"])
        output = _output.render(options["output"], data, shown, lambda: report.records(rows))
        diff, check = bool(self.action._task.diff), self.action.check
        delivered = _output.deliver(output, options["output_file"], check=check, diff=diff)
        if self.silent:
            problems = [*problems, f"{unanswered}; {proofs.remedy(self.silent)}"]
        apart = options["output"] != "table" or bool(options["output_file"])
        result: Answer = {**data, "output": output, **delivered}
        return self.action.concluded(result, problems if required else [], apart=apart)


def _shape(request: placement.Request) -> str:
    """The size of a VM, for people."""
    disks = "".join(f", disk {disk.size_mib} MiB" for disk in request.disks)
    ending = "" if request.vcpus == 1 else "s"
    return f"{request.vcpus} vCPU{ending}, {request.memory_mib} MiB{disks}"
