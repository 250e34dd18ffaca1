# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A round of placing VMs: the batch, what the hypervisors answered, and what that proves."""

from __future__ import annotations

import typing as t

from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import (
    as_mapping,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards import leftover
from ansible_collections.fleet.virt.plugins.module_utils._fleet.notes import rule
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement import decide as placement
from ansible_collections.fleet.virt.plugins.module_utils._fleet.placement.facts import (
    Placing,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.facts import (
    Claims,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.provision.work import PlaceWork
from ansible_collections.fleet.virt.plugins.module_utils._fleet.spec.domain import Domain
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _peers
from ansible_collections.fleet.virt.plugins.plugin_utils.base._action import Connected
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import (
    Answer,
    Values,
    texts,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base._registered import hosts, registered
from ansible_collections.fleet.virt.plugins.plugin_utils.base._stages import StagedAction
from ansible_collections.fleet.virt.plugins.plugin_utils.provision import (
    _batch,
    _cloned,
    _noted,
    _placing,
)

NOT_TRIED = "not tried, because the request as a whole failed"
_INIT = "virt_init"


class RoundOptions(Connected):
    """The options of ``virt_place``."""

    vms: list[dict[str, object]] | None
    results: str
    expected: list[str] | None
    lost: list[str] | None
    _told: str | None
    every: bool


class Round:
    """One call: the batch, the hypervisors' facts, and the decisions from both."""

    def __init__(
        self,
        action: StagedAction[PlaceWork],
        options: RoundOptions,
        work: PlaceWork,
        task_vars: Values,
    ) -> None:
        self.action = action
        self.round = work.round
        self.check = action.check
        self.task_vars = task_vars
        self.names = hosts(task_vars)
        self.lost = action.lost(options["lost"])
        self.expected = action.expected(options["expected"])
        self.variables = _batch.Variables(task_vars, action._templar)
        self.answers: dict[str, Placing] = {}
        reading = "read" if work.stage == "confirm" else "look"
        self.looked = (
            action.answers(options["results"], Claims, reading, work.round, _INIT)
            if action.staged
            else registered(task_vars, options["results"], Claims)
        )
        self.answers.update(self.looked)
        self.limits = {name: _placing.limits_of(name, task_vars) for name in self.names}
        self.policy = placement.Policy(
            pool_paths=self.variables.pool_paths(), base_pool=self.variables.base_pool()
        )
        # what the round before this one left to place, and decided
        self.earlier: Answer = {}
        self.only: list[str] | None = None
        self.unasked = _noted.unasked(action)
        self.standing = rule.Standing()
        self.texts: dict[str, str] = {}
        self.told = bool(options["_told"])  # what was noted of machines that do not answer
        if options["_told"]:
            told = action.answers(options["_told"], Claims, "read", work.round, _INIT)
            self.texts.update(_noted.noted(told))
        if work.round:
            self.earlier = action.decision("virt_confirmed", "confirm", work.round - 1)
            self.only = texts(self.earlier["pending"])
            self.texts.update(_noted.texts_by_name(self.earlier["noted"]))
        self.cloned = _cloned.of(action)
        self.options = {**options, **({"vms": self.cloned["vms"]} if self.cloned else {})}
        vms = _batch.requested(self.options, self.variables, self.only)
        chosen = _batch.defaults(self.variables)
        self.domains = _batch.validated(
            vms, chosen, _batch.written_as(self.options, self.variables)
        )
        self.has_fleet_cpu = chosen.fleet_cpu is not None
        _peers.refuse_hypervisors([domain.name for domain in self.domains], task_vars)
        local = _batch.controller_images(self.domains, self.variables, check=self.check)
        self.images = {name: image.facts for name, image in local.items()}
        self.images.update(_batch.known_images(as_mapping(self.cloned.get("images"))))

    def standing_now(
        self,
        claimed: t.Mapping[str, Claims] | None = None,
        run: str = "",
        *,
        only_macs: bool = False,
    ) -> rule.Standing:
        """What is known of hypervisors that gave no answer. ``only_macs``: no VM is new, but MAC
        addresses of existing ones are. After ``run`` has ``claimed``, one that
        did not note the claims counts as silent."""
        answers = self.answers
        if claimed is not None:
            answers = {
                name: answer
                if (host := answer.get("host")) is None
                or {*_noted.claims(claimed, run, name)} <= {*(host.get("notes") or ())}
                else Claims(msg=f"it did not note the claims: {self._unnoted(name)}")
                for name, answer in answers.items()
            }
        self.texts.update(_noted.noted(self.looked))
        return _noted.standing(
            *(answers, self.lost, self.expected, self.unasked, self.texts),
            only_macs=only_macs,
        )

    def _unnoted(self, name: str) -> str:
        return str(self.looked[name].get("unnoted") or "it has them no more")

    def uuids(self) -> set[str]:
        """The VMs of hypervisors that answer."""
        vms = (vm for answer in self.answers.values() for vm in _placing.vms_of(answer))
        return leftover.uuids(vms)

    def placed_before(self) -> Answer:
        """How the round before this one placed the VMs."""
        return self.action.decision("virt_placed", "place", self.round - 1) if self.round else {}


def not_tried(name: str) -> Answer:
    """The entry of a VM of a batch that goes no further."""
    entry = {"name": name, "changed": False, "failed": True, "msg": NOT_TRIED}
    return {**entry, "not_tried": True}


def wanted_of(domain: Domain, added: t.Sequence[str] | None = None) -> rule.Wanted:
    """What is new with a VM: of one that exists, the MAC addresses that it gets."""
    if added is not None:
        return rule.Wanted(domain.name, added, exists=True)
    return rule.Wanted(domain.name, [str(nic.mac) for nic in domain.nics])
