# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Placement: which hypervisor gets which VM. A pure function of one snapshot of the fleet.

What counts is what is promised to defined domains, running or not, never what happens to be free.
The filters (filters.py) decide where a VM can be; the score decides where it is best. Lower
is better. Its unit is load: 1.0 is the difference between an empty and a full hypervisor for
half of the VM's size, so parts can be compared with each other and between runs. With r the
promised part of a hypervisor's limit and d what the VM adds to it:

memory, cpu, disk
    The VM's effect on the evenness of the fleet: the change of sum((r - mean)^2), which is
    2 d (r - mean) + d^2 (1 - 1/n), divided by the VM's size. The size is the sum of its shares
    of an average hypervisor's memory, CPUs and pool space: a VM that is mostly memory is placed
    mostly by memory. Disk is per pool; a pool yet to be created counts as average.
peak
    The square of the highest of the hypervisor's shares afterwards: no resource is saturated
    while another one is idle.
image
    Its weight where the base image has to be copied first, else 0.
spread
    The fraction of the VM's group that is already on the hypervisor (the worst of its groups).
emulation
    Its weight where a VM that did not ask for a domain type would have to do without KVM.

A hypervisor where a soft rule of affinity or anti-affinity would be broken comes after all others.

Ties go to the name that sorts first, and no sum depends on the order of the hosts, so the same
snapshot gives the same answer. Nothing is normalised over the current candidates: that would
inflate a tiny difference to the full range, and make scores of two runs incomparable.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections import Counter
from functools import cached_property
from heapq import merge
from itertools import islice
from operator import itemgetter

from ..._errors import Problem, SpecError
from . import together, why
from .classes import Chooser
from .filters import (
    Wishes,
    excess,
    fixed_rejection,
    leftover_rejection,
    name_rejection,
    room_rejection,
    wishes_of,
)
from .hosts import (
    ANSWERED,
    DefinedVm,
    HostSettings,
    PlacementHost,
    default_reserve_mib,
    host_from_info,
    settings_from,
    silent_host,
)
from .load import FleetLoad, HostLoad
from .score import Scorer, size_of
from .types import DiskNeed, Placement, Policy, Ranked, Rejection, Request, Weights

__all__ = [
    "ANSWERED",
    "DiskNeed",
    "FleetLoad",
    "HostSettings",
    "Placement",
    "PlacementHost",
    "Policy",
    "Ranked",
    "Rejection",
    "Request",
    "Weights",
    "claim_conflicts",
    "default_reserve_mib",
    "describe",
    "excess",
    "host_from_info",
    "place",
    "rank",
    "settings_from",
    "silent_host",
    "with_rules",
]

# how often a batch is retried in another order if a VM that fits on its own found no room
_ROUNDS = 4
# how many hypervisors are named that cannot take a VM, unless all are asked for
NAMED = 10


def place(
    hosts: t.Iterable[PlacementHost],
    requests: t.Sequence[Request],
    policy: Policy | None = None,
    *,
    every: bool = False,
) -> list[Placement]:
    """A placement for each of ``requests``, in their order; the batch is placed together.

    Each VM sees what those placed before it took; the hardest to place come first, but a VM after
    those that it is to be beside. If one that
    would fit on its own finds no room, the batch is tried again with it in front. A ranking shows
    the scores when its VM was placed: a later entry may be full by the end of the batch.

    An answer has the hypervisor that was chosen and the next best, or ``NAMED`` reasons why none
    was; with ``every`` it has all hypervisors, with their scores or reasons. The choices are the
    same.

    Raises SpecError if hosts or requests share a name, or a number in a request is too small.
    """
    hosts = list(hosts)
    policy = policy or Policy()
    _check(hosts, requests)
    hosts = with_rules(hosts, [(one.name, one.groups, one.anti_affinity) for one in requests])
    fresh = FleetLoad(hosts, policy)
    static = _static_filters(fresh, requests)
    turns = together.turns([(one.groups, one.affinity) for one in requests])
    order = sorted(
        range(len(requests)), key=lambda index: _hardness(fresh, requests[index], static)
    )
    order.sort(key=turns.__getitem__)
    best: dict[int, Placement] = {}
    tried: list[list[Request]] = []
    for attempt in range(_ROUNDS):
        fleet = FleetLoad(hosts, policy) if attempt else fresh
        placements = _in_order(fleet, requests, order, static, every=every)
        if not best or _placed(placements) > _placed(best):
            best = placements
        failed = {index for index in order if placements[index].host is None}
        hopeful = _hopeful(hosts, policy, requests, failed, static)
        if not hopeful:
            break
        tried.append(_alike(requests, order))
        order = [i for i in order if i in hopeful] + [i for i in order if i not in hopeful]
        order.sort(key=turns.__getitem__)
        if _alike(requests, order) in tried:
            break
    return [best[index] for index in range(len(requests))]


def with_rules(
    hosts: t.Sequence[PlacementHost],
    batch: t.Iterable[tuple[str, t.Sequence[str], t.Sequence[str]]],
) -> list[PlacementHost]:
    """The hypervisors; VMs of the ``batch`` that exist have also the groups and rules of
    anti-affinity that they get with it."""
    wanted = {name: (groups, rules) for name, groups, rules in batch if groups or rules}

    def requested(vm: DefinedVm) -> DefinedVm:
        groups, rules = wanted.get(vm.name, ((), ()))
        return dataclasses.replace(
            vm,
            groups=tuple(dict.fromkeys((*vm.groups, *groups))),
            anti_affinity=tuple(dict.fromkeys((*vm.anti_affinity, *rules))),
        )

    return [
        dataclasses.replace(host, vms=tuple(requested(vm) for vm in host.vms))
        if any(vm.name in wanted for vm in host.vms)
        else host
        for host in hosts
    ]


def _in_order(
    fleet: FleetLoad,
    requests: t.Sequence[Request],
    order: t.Sequence[int],
    static: t.Mapping[Wishes, Fixed],
    *,
    every: bool,
) -> dict[int, Placement]:
    """A placement for each VM, one after the other."""
    chooser = Chooser(fleet, requests, lambda request: static[wishes_of(request)].passed)
    nowhere: dict[object, Placement] = {}  # of VMs that are alike, while nothing changes
    placements: dict[int, Placement] = {}
    for index in order:
        request = requests[index]
        if every or request.name in fleet.where:
            placement = rank(fleet, request, static[wishes_of(request)])
        else:
            ranking = chooser.best(request)
            if ranking:
                host, told = ranking[0].host, why.words(fleet, request, ranking)
                placement = Placement(request.name, host, tuple(ranking), (), why=told)
            else:
                alike = dataclasses.replace(request, name="")
                if alike not in nowhere:
                    nowhere[alike] = _nowhere(fleet, request, static[wishes_of(request)])
                placement = dataclasses.replace(nowhere[alike], name=request.name)
        placements[index] = placement
        if placement.host is not None:
            nowhere.clear()
            chooser.add(placement.host, request)
    return placements


def _nowhere(fleet: FleetLoad, request: Request, fixed: Fixed) -> Placement:
    """The answer for a VM that none can take, with the most telling reasons."""
    telling = (one for one in fixed.rejected if not one.is_other)
    now = (room_rejection(fleet.loads[name], request, fleet.policy) for name in fixed.passed)
    named = list(islice(merge(telling, filter(None, now)), NAMED))
    named += [one for one in fixed.rejected if one.is_other][: NAMED - len(named)]
    hidden = len(fixed.passed) + len(fixed.rejected) - len(named)
    return Placement(request.name, None, (), tuple(sorted(named)), hidden=hidden)


def rank(fleet: FleetLoad, request: Request, fixed: Fixed | None = None) -> Placement:
    """Every hypervisor that could take the VM now, best first, and why not the others.

    Changes nothing; ``fleet.add`` does. ``fixed`` are the results of the filters that do not
    depend on load, if the caller already has them.
    """
    fixed = fixed or Fixed(fleet, request)
    existing = fleet.where.get(request.name)
    if existing:
        named = (name_rejection(fleet, load, request) for load in fleet.loads.values())
        return Placement(
            name=request.name,
            host=None,
            ranking=(),
            rejected=tuple(rejection for rejection in named if rejection is not None),
            existing=tuple(sorted(existing)),
        )
    scorer = Scorer(fleet, request)
    ranking: list[Ranked] = []
    rejected = list(fixed.rejected)
    for name in fixed.passed:
        load = fleet.loads[name]
        rejection = leftover_rejection(fleet, name, request)
        rejection = rejection or room_rejection(load, request, fleet.policy)
        if rejection is None:
            ranking.append(scorer.judged(load, request))
        else:
            rejected.append(rejection)
    ranking.sort(key=itemgetter(4, 1, 0))  # broken rules, score, host
    rejected.sort(key=itemgetter(0))  # host
    return Placement(
        name=request.name,
        host=ranking[0].host if ranking else None,
        ranking=tuple(ranking),
        rejected=tuple(rejected),
        why=why.words(fleet, request, ranking),
    )


def claim_conflicts(
    hosts: t.Iterable[PlacementHost], host: str, request: Request, policy: Policy | None = None
) -> tuple[Rejection, ...]:
    """Why a claim just made on ``host`` must be withdrawn; empty if it may stay.

    ``hosts`` is the fleet as read after the claim was made, with the claim among its domains (and
    its disks among the pool's volumes or ``claimed_mib``). The claim is removed and requested
    again, so that every filter applies, against everything that others claimed meanwhile.
    """
    fleet = FleetLoad(hosts, policy or Policy())
    load = fleet.loads.get(host)
    if load is not None and load.host.problem is not None:
        return (Rejection(host, load.host.problem_filter, load.host.problem),)
    if load is None or request.name not in load.names:
        return (Rejection(host, "name", f"the claim of {request.name} no longer exists"),)
    missing = sorted({disk[0] for disk in request.disks} - set(load.pools))
    if missing:
        return (Rejection(host, "storage", f"pool {', '.join(missing)} no longer exists"),)
    fleet.remove(host, request)
    return tuple(entry for entry in rank(fleet, request).rejected if entry.host == host)


def describe(placement: Placement, limit: int = 10) -> str:
    """One message for people: where the VM goes, or why nowhere, naming up to ``limit`` hosts."""
    if placement.existing:
        return f"{placement.name} already exists on {', '.join(placement.existing)}"
    if placement.host is not None:
        others = [ranked.host for ranked in placement.ranking[1:limit]]
        more = f", next best: {', '.join(others)}" if others else ""
        return f"{placement.name} goes to {placement.host}{more}"
    if not placement.rejected:
        return f"{placement.name} fits nowhere: there is no hypervisor to choose from"
    # that the request names another host is the least informative reason
    telling = sorted(placement.rejected, key=lambda entry: entry.is_other)
    reasons = [f"{entry.host}: {entry.reason}" for entry in telling[:limit]]
    hidden = len(placement.rejected) - len(reasons) + placement.hidden
    if hidden:
        reasons.append(f"and {hidden} more")
    return f"{placement.name} fits nowhere. {'; '.join(reasons)}"


class Fixed:
    """The results of the filters that no placement changes, for all VMs with the same demands."""

    def __init__(self, fleet: FleetLoad, request: Request) -> None:
        self.fleet = fleet
        self.request = request
        able = fleet.loads.values() if request.host is None else self._named()
        self.passed = [
            load.host.name for load in able if fixed_rejection(load.host, request) is None
        ]

    def _named(self) -> list[HostLoad]:
        load = self.fleet.loads.get(self.request.host or "")
        return [] if load is None else [load]

    @cached_property
    def rejected(self) -> list[Rejection]:
        """Why the others do not pass."""
        wanted, loads = self.request.host, self.fleet.loads
        rejected: list[Rejection] = []
        if wanted is not None and wanted not in loads:
            known = ", ".join(list(loads)[:10]) or "there is none"
            reason = f"is not among the hypervisors of this run: {known}"
            rejected.append(Rejection(wanted, "host", reason))
        each = (fixed_rejection(load.host, self.request) for load in loads.values())
        return sorted((*rejected, *filter(None, each)), key=itemgetter(0))


def _static_filters(fleet: FleetLoad, requests: t.Iterable[Request]) -> dict[Wishes, Fixed]:
    static: dict[Wishes, Fixed] = {}
    for request in requests:
        wishes = wishes_of(request)
        if wishes not in static:
            static[wishes] = Fixed(fleet, request)
    return static


def _hardness(
    fleet: FleetLoad, request: Request, static: t.Mapping[Wishes, Fixed]
) -> tuple[int, float, str]:
    """Sort key, hardest to place first: no choice at all, then size by choice, then name."""
    choice = len(static[wishes_of(request)].passed)
    return (0 if choice == 1 else 1, -size_of(fleet, request) / max(choice, 1), request.name)


def _placed(placements: t.Mapping[int, Placement]) -> int:
    return sum(placement.host is not None for placement in placements.values())


def _alike(requests: t.Sequence[Request], order: t.Iterable[int]) -> list[Request]:
    """The VMs in that order without their names: another order of such that are alike is none."""
    return [dataclasses.replace(requests[index], name="") for index in order]


def _hopeful(
    hosts: t.Sequence[PlacementHost],
    policy: Policy,
    requests: t.Sequence[Request],
    failed: t.Collection[int],
    static: t.Mapping[Wishes, Fixed],
) -> set[int]:
    """The failed VMs that another order may place: those that would fit without the rest, if
    there is as much in all as the batch needs."""
    if len(failed) == len(requests) or not failed:
        return set()  # no VM took room from another
    alone = FleetLoad(hosts, policy)
    chooser = Chooser(alone, requests, lambda request: static[wishes_of(request)].passed)
    fit = {
        index
        for index in failed
        if requests[index].name not in alone.where and chooser.best(requests[index])
    }
    new = [
        request
        for index, request in enumerate(requests)
        if request.name not in alone.where and (index not in failed or index in fit)
    ]
    loads = [load for load in alone.loads.values() if load.counted]
    memory = sum(max(0, load.memory_limit - load.memory) for load in loads)
    vcpus = sum(max(0, load.vcpus_limit - load.vcpus) for load in loads)
    enough = memory >= sum(one.ordinary_mib for one in new) and vcpus >= sum(
        one.vcpus for one in new
    )
    return fit if enough else set()


def _check(hosts: t.Sequence[PlacementHost], requests: t.Sequence[Request]) -> None:
    problems: list[Problem] = []
    for name, count in Counter(host.name for host in hosts).items():
        if count == 1:
            continue
        text = f"{name} is given twice; each hypervisor has its own name in the inventory"
        problems.append(Problem("hosts", text))
    first: dict[str, int] = {}
    for index, request in enumerate(requests):
        path = f"vms[{index}]"
        if request.name in first:
            text = f"{request.name!r} is the name of vms[{first[request.name]}] too; use another"
            problems.append(Problem(f"{path}.name", text))
        first.setdefault(request.name, index)
        for what, value, least in (
            ("vcpus", request.vcpus, 1),
            ("memory", request.memory_mib, 1),
            ("image_mib", request.image_mib, 0),
            *((f"disks[{n}].size", disk[1], 1) for n, disk in enumerate(request.disks)),
        ):
            if value < least:
                problems.append(Problem(f"{path}.{what}", f"{value} is less than {least}"))
    if problems:
        raise SpecError(problems)
