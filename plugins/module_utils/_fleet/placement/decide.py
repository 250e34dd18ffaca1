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

A hypervisor where a soft rule of anti-affinity would be broken comes after all others.

Ties go to the name that sorts first, and no sum depends on the order of the hosts, so the same
snapshot gives the same answer. Nothing is normalised over the current candidates: that would
inflate a tiny difference to the full range, and make scores of two runs incomparable.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from operator import itemgetter

from ..._errors import Problem, SpecError
from . import why
from .filters import (
    Wishes,
    broken_rules,
    excess,
    fixed_rejection,
    load_rejection,
    name_rejection,
    storage_rejection,
    wishes_of,
)
from .hosts import (
    HostSettings,
    PlacementHost,
    default_reserve_mib,
    host_from_info,
    settings_from,
    silent_host,
)
from .load import FleetLoad, HostLoad, spaces_of
from .types import DIGITS, DiskNeed, Placement, Policy, Ranked, Rejection, Request, Weights

__all__ = [
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
]

# how often a batch is retried in another order if a VM that fits on its own found no room
_ROUNDS = 4
# the names of the hypervisors that pass the filters no placement changes, and the rejections
_Static = tuple[list[str], list[Rejection]]


def place(
    hosts: t.Iterable[PlacementHost], requests: t.Sequence[Request], policy: Policy | None = None
) -> list[Placement]:
    """A placement for each of ``requests``, in their order; the batch is placed together.

    Each VM sees what those placed before it took; the hardest to place come first. If one that
    would fit on its own finds no room, the batch is tried again with it in front. A ranking shows
    the scores when its VM was placed: a later entry may be full by the end of the batch.

    Raises SpecError if hosts or requests share a name, or a number in a request is too small.
    """
    hosts = list(hosts)
    policy = policy or Policy()
    _check(hosts, requests)
    fresh = FleetLoad(hosts, policy)
    static = _static_filters(fresh, requests)
    order = sorted(
        range(len(requests)), key=lambda index: _hardness(fresh, requests[index], static)
    )
    best: dict[int, Placement] = {}
    for attempt in range(_ROUNDS):
        fleet = FleetLoad(hosts, policy) if attempt else fresh
        placements: dict[int, Placement] = {}
        for index in order:
            request = requests[index]
            placement = placements[index] = rank(fleet, request, static[wishes_of(request)])
            if placement.host is not None:
                fleet.add(placement.host, request)
        if not best or _placed(placements) > _placed(best):
            best = placements
        failed = {index for index in order if placements[index].host is None}
        hopeful = failed and _fit_alone(hosts, policy, requests, failed, static)
        if not hopeful:
            break
        order = [i for i in order if i in hopeful] + [i for i in order if i not in hopeful]
    return [best[index] for index in range(len(requests))]


def rank(fleet: FleetLoad, request: Request, static: _Static | None = None) -> Placement:
    """Every hypervisor that could take the VM now, best first, and why not the others.

    Changes nothing; ``fleet.add`` does. ``static`` are the results of the filters that do not
    depend on load, if the caller already has them: (hypervisors that pass, rejections).
    """
    candidates, fixed = static or _filtered(fleet, request)
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
    policy = fleet.policy
    here, copied = spaces_of(request, policy, False), spaces_of(request, policy, True)
    scorer = _Scorer(fleet, request)
    ranking: list[Ranked] = []
    rejected = list(fixed)
    for name in candidates:
        load = fleet.loads[name]
        present = request.image is None or request.image in load.images
        spaces = here if present else copied
        rejection = load_rejection(load, request)
        if rejection is None:
            for space in spaces:
                rejection = storage_rejection(load, space, policy)
                if rejection is not None:
                    break
        if rejection is None:
            ranked = scorer.score(load, present)
            broken = broken_rules(load, request)
            if broken:
                notes = (*ranked.notes, *broken)
                ranked = ranked._replace(notes=notes, broken=len(broken))
            ranking.append(ranked)
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
    telling = sorted(placement.rejected, key=lambda entry: "request names" in entry.reason)
    reasons = [f"{entry.host}: {entry.reason}" for entry in telling[:limit]]
    hidden = len(placement.rejected) - len(reasons)
    if hidden:
        reasons.append(f"and {hidden} more")
    return f"{placement.name} fits nowhere. {'; '.join(reasons)}"


class _Scorer:
    """The parts of one VM's score that do not depend on the hypervisor."""

    def __init__(self, fleet: FleetLoad, request: Request) -> None:
        self.fleet = fleet
        self.request = request
        self.weights = fleet.policy.weights
        # the image's copy takes space, but is no load: it is there once, for all VMs
        self.spaces = spaces_of(request, fleet.policy, False)
        self.size = _size(fleet, request) or 1.0
        self.groups = [
            (group, fleet.members[group])
            for group in sorted(set(request.groups))
            if fleet.members.get(group)
        ]

    def score(self, load: HostLoad, image_present: bool) -> Ranked:
        """The parts and their sum for one hypervisor that passed the filters."""
        fleet, weights, request = self.fleet, self.weights, self.request
        ratio = load.memory / load.memory_limit
        added = request.memory_mib / load.memory_limit
        memory = fleet.memory.change(ratio, added)
        peak = ratio + added
        ratio = load.vcpus / load.vcpus_limit
        added = request.vcpus / load.vcpus_limit
        cpu = fleet.cpu.change(ratio, added)
        peak = max(peak, ratio + added)
        disk = 0.0
        notes: tuple[str, ...] = ()
        for name, virtual, _thin in self.spaces:
            pool = load.pools[name]
            if pool.counted:
                ratio, added = pool.promised / pool.limit, virtual / pool.limit
                disk += fleet.disk[pool.key].change(ratio, added)
                peak = max(peak, ratio + added)
            else:
                notes += (f"pool {name} does not exist yet: its space is known once it is created",)
        spread = 0.0
        for group, members in self.groups:
            here = load.groups.get(group)
            if here:
                spread = max(spread, here / members)
        types = load.host.domain_types
        emulated = request.domain_type is None and "qemu" in types and "kvm" not in types
        values = (
            weights.memory * memory / self.size,
            weights.cpu * cpu / self.size,
            weights.disk * disk / self.size,
            weights.peak * peak * peak,
            0.0 if image_present else weights.image,
            weights.spread * spread,
            weights.emulation if emulated else 0.0,
        )
        return Ranked(load.host.name, round(sum(values), DIGITS), values, notes)


def _size(fleet: FleetLoad, request: Request) -> float:
    """The sum of the VM's shares of an average hypervisor."""
    size = fleet.memory.share(request.memory_mib) + fleet.cpu.share(request.vcpus)
    for space in spaces_of(request, fleet.policy, False):
        disk = fleet.evenness(space.pool)
        if disk is not None:
            size += disk.share(space.virtual_mib)
    return size


def _filtered(fleet: FleetLoad, request: Request) -> _Static:
    passed: list[str] = []
    rejected: list[Rejection] = []
    if request.host is not None and request.host not in fleet.loads:
        known = ", ".join(list(fleet.loads)[:10]) or "there is none"
        reason = f"is not among the hypervisors of this run: {known}"
        rejected.append(Rejection(request.host, "host", reason))
    for load in fleet.loads.values():
        rejection = fixed_rejection(load.host, request)
        if rejection is None:
            passed.append(load.host.name)
        else:
            rejected.append(rejection)
    return passed, rejected


def _static_filters(fleet: FleetLoad, requests: t.Iterable[Request]) -> dict[Wishes, _Static]:
    """The results of filters that no placement changes, once for all VMs with the same demands."""
    static: dict[Wishes, _Static] = {}
    for request in requests:
        wishes = wishes_of(request)
        if wishes not in static:
            static[wishes] = _filtered(fleet, request)
    return static


def _hardness(
    fleet: FleetLoad, request: Request, static: t.Mapping[Wishes, _Static]
) -> tuple[int, float, str]:
    """Sort key, hardest to place first: no choice at all, then size by choice, then name."""
    choice = len(static[wishes_of(request)][0])
    return (0 if choice == 1 else 1, -_size(fleet, request) / max(choice, 1), request.name)


def _placed(placements: t.Mapping[int, Placement]) -> int:
    return sum(placement.host is not None for placement in placements.values())


def _fit_alone(
    hosts: t.Sequence[PlacementHost],
    policy: Policy,
    requests: t.Sequence[Request],
    failed: t.Collection[int],
    static: t.Mapping[Wishes, _Static],
) -> set[int]:
    """The failed VMs that would fit without the rest of the batch."""
    if len(failed) == len(requests) or not failed:
        return set()  # no VM took room from another
    alone = FleetLoad(hosts, policy)
    fit = set()
    for index in failed:
        request = requests[index]
        if rank(alone, request, static[wishes_of(request)]).host is not None:
            fit.add(index)
    return fit


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
