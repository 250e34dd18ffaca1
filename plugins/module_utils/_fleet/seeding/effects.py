# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Seeding an existing VM: the work of ``virt_seed`` on a hypervisor."""

from __future__ import annotations

import typing as t

from ..._errors import PlanRefused, Problem, SpecError
from ..base.effects_connection import Connection
from ..base.names import check_host_name
from ..base.results import json_diff
from ..base.settings import argument_spec
from ..engine import effects_executor as executor
from ..engine import effects_lease as lease
from ..engine import effects_lease_holder as owners
from ..engine.steps import predict
from ..seed import network as seed_network
from ..seed import specification as seeds
from ..seed.settings import SEED
from ..seed.types import Seed, SeededNic
from . import medium as seed_domain
from . import plan as planning
from . import read as seeding_facts
from .effects_steps import Work

if t.TYPE_CHECKING:
    from ..base.arguments import Spec
    from ..base.results import Diff
    from ..engine.steps import Step
    from ..seed.guest_image import Seeded
    from .plan import Facts

STATES = ("present", "absent")
ARGUMENTS: Spec = {
    "name": {"type": "str", "required": True},
    "state": {"type": "str", "choices": list(STATES), "default": "present"},
    "pool": {"type": "str"},
    # _fleet/seed/specification.py reads them, and reports every problem at once
    **argument_spec(SEED),
}
INTERNAL: Spec = {"_seed": {"type": "str", "default": "", "no_log": True}}
_LOCK = "seed"  # two calls for one VM would undo each other


class _Diff(t.TypedDict, total=False):
    diff: list[Diff]


class Result(_Diff):
    """The module's result; ``seed`` is the method and the features of the image."""

    changed: bool
    name: str
    host_key: str | None
    steps: list[str]
    seed: Seeded | None


def run(
    connection: Connection,
    name: str,
    state: str,
    options: t.Mapping[str, object],
    pool: str | None,
    *,
    check: bool,
) -> Result:
    """Bring the seed medium of the VM ``name`` to ``state``; returns the module's result."""
    if not connection.local:
        raise PlanRefused(
            f"uri {connection.uri} is remote; a seed medium is created on the hypervisor itself"
        )
    if not check:
        lease.wait_for_others(connection, [name])
    with owners.host_lock(lease.PATIENCE, _LOCK):
        vm = seeding_facts.read(connection, name)
        nics = seed_domain.nics_of(vm.root, vm.facts.stored)
        seed = None if state == "absent" else _seed(name, options, nics)
        if seed is not None and planning.needs_method(vm.facts, seed):
            vm = seeding_facts.with_method(connection, vm, seed, pool, check=check)
        plan = planning.plan(vm.facts, seed)
        if plan.refusals:
            raise PlanRefused("; ".join(plan.refusals))
        if check:
            return _result(vm.facts, predict(vm.facts, plan.steps), seed, plan.steps)
        work = Work(connection, vm, seed, nics)
        done = executor.Run(plan.steps, work)
        executor.carry_out([done])
        if done.problem is not None:
            raise done.problem
        return _result(vm.facts, work.facts, seed, plan.steps)


def _seed(name: str, options: t.Mapping[str, object], nics: t.Sequence[SeededNic]) -> Seed:
    problems: list[Problem] = []
    seed = seeds.from_options(dict(options), "", (), problems)
    problems += seed_network.twins(nics)
    problems += seed_network.problems(seed, nics, "")
    if seed.hostname is None and seed.fqdn is None:
        problems += check_host_name(name, "hostname")
    if problems:
        raise SpecError(problems)
    return seed


def _result(
    before: Facts, after: Facts, seed: Seed | None, steps: t.Sequence[Step[Facts]]
) -> Result:
    result: Result = {
        "changed": bool(steps),
        "name": before.name,
        "host_key": after.noted.host_key if seed is not None else None,
        "steps": planning.texts(steps),
        "seed": after.chosen,
    }
    if steps:
        shown = planning.shown(before, seed), planning.shown(after, seed)
        result["diff"] = [json_diff(before.name, *shown)]
    return result
