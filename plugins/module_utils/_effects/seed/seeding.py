# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Seeding an existing VM: the work of ``virt_seed`` on a hypervisor.

This file is private to the collection.
"""

from __future__ import annotations

import typing as t

from ..._errors import PlanRefused, Problem, SpecError
from ..._pure.base.names import check_host_name
from ..._pure.base.results import json_diff
from ..._pure.base.settings import argument_spec
from ..._pure.change import seeding as planning
from ..._pure.domain import seed_domain
from ..._pure.plan.steps import predict
from ..._pure.seed import network as seed_network
from ..._pure.seed import seed as seeds
from ..._pure.seed.settings import SEED
from ..._pure.seed.types import Seed, SeededNic
from ..base import owner as owners
from ..base.connection import Connection
from ..plan import executor, lease
from . import seeding_facts
from .seeding_steps import Work

if t.TYPE_CHECKING:
    from ..._pure.base.arguments import Spec
    from ..._pure.base.results import Diff
    from ..._pure.change.seeding import Facts
    from ..._pure.plan.steps import Step
    from ..._pure.seed.guest_image import Seeded

STATES = ("present", "absent")
ARGUMENTS: Spec = {
    "name": {"type": "str", "required": True},
    "state": {"type": "str", "choices": list(STATES), "default": "present"},
    "pool": {"type": "str"},
    # _pure/seed/seed.py reads them, and reports every problem at once
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
