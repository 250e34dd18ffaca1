# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t
from pathlib import Path

from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError, PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cell.corosync import (
    CellMember,
    CellSettings,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cell.facts import (
    CellDecision,
    CellLook,
    CellPlan,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cell.files import digest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import envelope
from ansible_collections.fleet.virt.plugins.module_utils._fleet.fencing import pacemaker
from ansible_collections.fleet.virt.plugins.module_utils._fleet.ha import decide
from ansible_collections.fleet.virt.plugins.module_utils._fleet.ha.decide import CellHost
from ansible_collections.fleet.virt.plugins.module_utils._fleet.ha.options import (
    ARGUMENTS,
    CONFIGURE,
    DECIDE,
    INTERNAL,
    LOOK,
    WRITE,
    CellJob,
    CellWork,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.ansible_core._once import FailedStage
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _peers, _registered
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import (
    Answer,
    Values,
    to_plain,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction
from ansible_collections.fleet.virt.plugins.plugin_utils.keys import _cell_keys

_AGENT = Path(__file__).parents[2] / "roles/ha/files/domain.py"
_STATES = ("present", "absent")
_SILENT = "it is not among the hosts of this run"


class VirtCellOptions(Connected):
    keys_dir: str | None
    token: int
    system: dict[str, object]
    _secrets: dict[str, object] | None


class ActionModule(StagedAction[CellWork]):
    """Decides which hypervisors form which cells, and has the keys; the module does the rest."""

    WORK = CellWork
    CONTROLLER = (DECIDE,)
    REPORTS = ()

    def _worked(self, values: Values) -> Answer:
        """A member that fails ends the run: the others must not go on without it. One that does not
        say what it has is judged with all others."""
        answer = super()._worked(values)
        if self.staged and self.given_work.stage not in (LOOK, DECIDE):
            opened = envelope.opened(answer, self.given_work)
            if opened.get("failed") or opened.get("unreachable"):
                raise FailedStage(str(opened.get("msg")), {})
        return answer

    def alone(self, task_vars: Values) -> Answer:
        return self._look(CellWork(), task_vars)

    def decided(self, _work: CellWork) -> t.Mapping[str, object]:
        return self._decide(self.options(VirtCellOptions, ARGUMENTS, INTERNAL), self._values)

    def asked(self, work: CellWork, task_vars: Values) -> Answer:
        if work.stage == LOOK:
            return self._look(work, task_vars)
        options = self.options(VirtCellOptions, ARGUMENTS, INTERNAL)
        return self._perform(work, options, str(task_vars["inventory_hostname"]), task_vars)

    def _look(self, work: CellWork, task_vars: Values) -> Answer:
        cell = _cell(str(task_vars["inventory_hostname"]), task_vars)
        names = self._names(cell, task_vars)
        declared = [_variable(name, "virt_fence", task_vars) for name in names]
        agents = {
            agent
            for name, value in zip(names, declared)
            if not pacemaker.problem(name, value)
            for agent in pacemaker.agents_of(value)
        }
        work = dataclasses.replace(work, agents=sorted(agents))
        return self.module(task_vars, {**self.given, envelope.OPTION: envelope.plain(work)})

    def _names(self, cell: str, task_vars: Values) -> list[str]:
        """The hypervisors of the inventory that are to be in a cell, or to leave it."""
        names = _peers.hypervisors(task_vars)
        return [name for name in names if cell and _cell(name, task_vars) == cell]

    def _hosts(self, cell: str, task_vars: Values) -> list[CellHost]:
        looks = self._looks()
        hosts = []
        for name in self._names(cell, task_vars):
            answer = looks.get(name)
            known = answer is not None and "release" in answer
            state = _variable(name, "virt_ha_state", task_vars) or _STATES[0]
            if state not in _STATES:
                raise PlanRefused(
                    f"virt_ha_state of {name} is {state!r}; use {' or '.join(_STATES)}"
                )
            addresses = _variable(name, "virt_ha_addresses", task_vars)
            listed = addresses if isinstance(addresses, list) else [addresses]
            places = [str(place) for place in listed if place] or [_peers.address(name, task_vars)]
            declared = _variable(name, "virt_fence", task_vars)
            hosts.append(
                CellHost(
                    name,
                    state == _STATES[0],
                    tuple(places),
                    answer if known else None,
                    str((answer or {}).get("msg") or _SILENT),
                    pacemaker.problem(name, declared),
                )
            )
        return hosts

    def _looks(self) -> dict[str, CellLook]:
        return self.answers("ha_look", CellLook, LOOK)

    def _decide(self, options: VirtCellOptions, task_vars: Values) -> CellDecision:
        """The plan of each cell; all that is wrong with them is said before anything changes."""
        folder = _keys_folder(options)
        play = [*self._looks().items()]
        cells = list(dict.fromkeys(_cell(name, task_vars) for name, _look in play))
        problems = [
            f"{name} is a member of the cell {look['cell']!r}, and its virt_ha_cell is not set; to"
            f" take it out, set virt_ha_cell: {look['cell']} and virt_ha_state: absent"
            for name, look in play
            if look.get("cell") and not _cell(name, task_vars)
        ]
        plans: dict[str, CellPlan] = {}
        for cell in filter(None, cells):
            hosts = self._hosts(cell, task_vars)
            problems += decide.refusals(cell, hosts, qdevice=bool(_qdevice(hosts, task_vars)))
            problems += _key_problems(folder, cell, hosts)
            plans[cell] = {
                "rounds": decide.rounds(cell, hosts),
                "numbers": decide.all_numbers(cell, hosts),
                "running": decide.is_running(cell, hosts),
            }
        if problems:
            raise PlanRefused("; ".join(dict.fromkeys(problems)))
        for cell, plan in plans.items():
            if any(plan["rounds"]) and not self.check:
                _cell_keys.make(folder, cell)
        rounds = max((len(plan["rounds"]) for plan in plans.values()), default=0)
        members = [name for plan in plans.values() for name in plan["rounds"][-1]]
        return {
            "changed": False,
            "plans": plans,
            "members": members,
            "rounds": [*range(rounds)],
        }

    def _perform(
        self, work: CellWork, options: VirtCellOptions, host: str, task_vars: Values
    ) -> Answer:
        folder = _keys_folder(options)
        cell, number = _cell(host, task_vars), work.round
        decision = _registered.read(self.decision("ha_decided"), CellDecision)
        plan = (decision.get("plans") or {}).get(cell)
        if plan is None or number >= len(plan["rounds"]):
            return {"changed": False}
        members = plan["rounds"][number]
        before = plan["rounds"][number - 1] if number else list(plan["numbers"])
        hosts = self._hosts(cell, task_vars)
        answers = any(item.name == host and item.look is not None for item in hosts)
        leaves = host not in members and host in before and work.stage == WRITE and answers
        if not leaves and host not in members:
            return {"changed": False}
        if work.stage == CONFIGURE and host != members[0]:
            return {"changed": False}
        places = {one.name: one.addresses for one in hosts}
        resources = [
            resource
            for name in members
            if name in places
            for resource in pacemaker.resources_of(name, _variable(name, "virt_fence", task_vars))
        ]
        own = _cell_keys.read(folder, cell) or (b"", b"")
        secrets = {
            "corosync": own[0].hex(),
            "pacemaker": own[1].hex(),
            **{
                f"{item.id}/{name}": value
                for item in resources
                for name, value in item.secrets.items()
            },
        }
        settings = CellSettings(
            cell,
            [
                CellMember(name, plan["numbers"][name], list(places.get(name, ())))
                for name in members
            ],
            options["token"],
            {str(key): str(value) for key, value in options["system"].items()},
            _qdevice(hosts, task_vars),
        )
        shown = [dataclasses.replace(item, secrets={}) for item in resources]
        job = CellJob(host, settings, _AGENT.read_text(encoding="utf-8"), shown, leaves)
        work = dataclasses.replace(work, job=job)
        given = {envelope.OPTION: envelope.plain(work), "_secrets": secrets}
        return self.module(task_vars, given)


def _keys_folder(options: VirtCellOptions) -> str:
    if not options["keys_dir"]:
        raise FleetVirtError("keys_dir: name the folder of the fleet's keys")
    return options["keys_dir"]


def _variable(host: str, name: str, task_vars: Values) -> object:
    return to_plain(_peers.of_host(host, task_vars).get(name))


def _cell(host: str, task_vars: Values) -> str:
    return str(_variable(host, "virt_ha_cell", task_vars) or "")


def _qdevice(hosts: t.Sequence[CellHost], task_vars: Values) -> dict[str, str]:
    """The quorum device that the members name; all of them the same."""
    for host in hosts:
        value = _variable(host.name, "virt_ha_qdevice", task_vars)
        if isinstance(value, dict) and host.stays:
            return {str(key): str(item) for key, item in value.items()}
    return {}


def _key_problems(folder: str, cell: str, hosts: t.Sequence[CellHost]) -> t.Iterator[str]:
    keys = _cell_keys.read(folder, cell)
    own = digest(*keys) if keys is not None else None
    for host in hosts:
        look = host.look or {}
        if host.stays and look.get("cell") == cell and look.get("keys") != own:
            yield (
                f"{host.name} has other keys of the cell {cell!r} than this controller; copy"
                f" {folder}/cells from the controller that made the cell"
            )
            return
