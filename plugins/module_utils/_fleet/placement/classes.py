# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The best hypervisors for each VM of a batch, without scoring all of them for each.

VMs of like shape share a heap, and in it hypervisors of like load are one class: their scores are
equal, to the last bit. What a class is queued by is its score when it was last looked at, and a
score changes for two reasons only. One is that a VM was put there: then the hypervisor changes its
class. The other is that the fleet's means rose, by which every score falls, none by more than that
of the hypervisor of which the VM takes the largest share. That most (the drift) is subtracted from
all, so a class at the top whose queued score is worse than the best found ends the search.

Groups of few VMs of the batch are left out of a shape, or each would have a heap of its own.
Hypervisors with members of these are scored one by one where they come before others.

VMs that are to be beside others are tried on each hypervisor: what is near them is not the shape's.

Choices are those of ``rank``, exactly; it holds while VMs are only added.
"""

from __future__ import annotations

import dataclasses
import heapq
import typing as t
from bisect import bisect_left, insort
from collections import Counter

from .filters import (
    broken_rules,
    load_rejection,
    room_rejection,
    storage_rejection,
    wishes_of,
)
from .load import FleetLoad, HostLoad, spaces_of
from .score import Scorer, is_emulated, size_of
from .together import groups_of
from .types import SOFT, Ranked, Request

# the best ones that an answer has: the chosen one and the next, with which it is compared
KEPT = 2
# a group is part of a shape if it has more than this part of the batch
_COMMON = 1 / 16
# what rounding can make of a score, and of the sums in it
_ROUNDING = 1e-6

_Signature = tuple[object, ...]


class Chooser:
    """Finds the best hypervisors for the VMs of ``requests``, which are added to ``fleet`` by
    ``add`` alone."""

    def __init__(
        self,
        fleet: FleetLoad,
        requests: t.Sequence[Request],
        candidates: t.Callable[[Request], t.Sequence[str]],
    ) -> None:
        self.fleet = fleet
        self.candidates = candidates
        labels = Counter(label for one in requests for label in {*one.groups, *one.anti_affinity})
        least = len(requests) * _COMMON
        self.common = frozenset(label for label, number in labels.items() if number > least)
        self.coming = Counter(group for one in requests for group in set(one.groups))
        self.members = dict(fleet.members)
        self.left = Counter(map(self._shape, requests))
        self.heaps: dict[_Signature, _Heap] = {}
        # the hypervisors that got a VM, in turn, and whether they got its image with it
        self.log: list[tuple[str, str | None]] = []

    def best(self, request: Request) -> list[Ranked]:
        """The best hypervisors for the VM now, up to ``KEPT``; none if it fits nowhere."""
        shape = self._shape(request)
        if any(self.fleet.together.get(group) for group in groups_of(request.affinity)):
            return self._each(request, shape)
        request = dataclasses.replace(request, affinity=())
        heap = self.heaps.get(shape)
        if heap is None:
            heap = self.heaps[shape] = self._heap(request)
        heap.follow(self.log)
        ranked_first = heap.best(request, self.common)
        self._passed(shape)
        return ranked_first

    def _passed(self, shape: _Signature) -> None:
        self.left[shape] -= 1
        if self.left[shape] <= 0:
            self.heaps.pop(shape, None)

    def _each(self, request: Request, shape: _Signature) -> list[Ranked]:
        """The same without classes."""
        self._passed(shape)
        scorer, policy = Scorer(self.fleet, request), self.fleet.policy
        loads = (self.fleet.loads[name] for name in self.candidates(request))
        able = (load for load in loads if room_rejection(load, request, policy) is None)
        ranked = (scorer.judged(load, request) for load in able)
        return heapq.nsmallest(KEPT, ranked, key=lambda like: (like.broken, like.score, like.host))

    def add(self, host: str, request: Request) -> None:
        """Put the VM on ``host``."""
        new = bool(request.image) and request.image not in self.fleet.loads[host].images
        self.fleet.add(host, request)
        self.log.append((host, request.image if new else None))

    def _heap(self, request: Request) -> _Heap:
        groups = self._of(request.groups)
        plain = dataclasses.replace(
            request, groups=groups, anti_affinity=self._of(request.anti_affinity)
        )
        # the share of a group is at least what it is once all of the batch are members
        most = [(one, self.members.get(one, 0) + self.coming[one]) for one in sorted(set(groups))]
        return _Heap(self.fleet, plain, most, self.candidates(request), len(self.log))

    def _of(self, labels: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(label for label in labels if label in self.common)

    def _shape(self, request: Request) -> _Signature:
        return (
            request.memory_mib,
            request.vcpus,
            request.disks,
            request.image,
            request.image_mib,
            request.relaxed,
            self._of(request.groups),
            self._of(request.anti_affinity),
            *wishes_of(request),
        )


class _Class:
    """Hypervisors of like load, sorted by name. ``key`` is their score plus the drift so far."""

    __slots__ = ("broken", "hosts", "key", "queued", "signature")

    def __init__(self, signature: _Signature, broken: int) -> None:
        self.signature = signature
        self.broken = broken
        self.hosts: list[str] = []
        self.key = 0.0
        self.queued = False


class _Heap:
    """The hypervisors that can take VMs of one shape, the best class first."""

    def __init__(
        self,
        fleet: FleetLoad,
        request: Request,
        groups: list[tuple[str, int]],
        candidates: t.Sequence[str],
        position: int,
    ) -> None:
        self.fleet = fleet
        self.request = request
        self.size = size_of(fleet, request) or 1.0
        self.scorer = Scorer(fleet, request, self.size)
        self.scorer.groups = groups
        self.here = spaces_of(request, fleet.policy, False)
        self.copied = spaces_of(request, fleet.policy, True)
        self.position = position
        self.candidates = frozenset(candidates)
        self.classes: dict[_Signature, _Class] = {}
        self.member: dict[str, _Class] = {}
        self.heap: list[tuple[int, float, int, _Class]] = []
        self.number = 0
        self.shares = self._shares(candidates)
        drift = self._drift()
        for name in candidates:
            self._enter(name, drift)
        for like in self.classes.values():
            like.hosts.sort()

    def _shares(self, candidates: t.Iterable[str]) -> tuple[float, float, dict[str, float]]:
        """The largest share of a hypervisor that the VM takes, by resource."""
        memory = cpu = 0.0
        disk: dict[str, float] = {}
        for name in candidates:
            load = self.fleet.loads[name]
            if load.memory_size > 0 and load.vcpus_limit > 0:
                memory = max(memory, self.request.ordinary_mib / load.memory_size)
                cpu = max(cpu, self.request.vcpus / load.vcpus_limit)
            own: dict[str, float] = {}
            for space in self.here:
                pool = load.pools.get(space.pool)
                if pool is not None and pool.counted:
                    own[pool.key] = own.get(pool.key, 0.0) + space.virtual_mib / pool.limit
            for key, share in own.items():
                disk[key] = max(disk.get(key, 0.0), share)
        return memory, cpu, disk

    def _drift(self) -> float:
        """By how much a score can have fallen at most, for the means that there were at first."""
        fleet, weights = self.fleet, self.fleet.policy.weights
        memory, cpu, disk = self.shares
        total = 0.0
        if fleet.memory.count:
            total += weights.memory * memory * fleet.memory.ratios / fleet.memory.count
            total += weights.cpu * cpu * fleet.cpu.ratios / fleet.cpu.count
        for key, share in disk.items():
            if key in fleet.disk:
                total += weights.disk * share * fleet.disk[key].ratios / fleet.disk[key].count
        return 2 * total / self.size

    def _has_image(self, load: HostLoad) -> bool:
        return self.request.image is None or self.request.image in load.images

    def _fits(self, load: HostLoad) -> bool:
        if load_rejection(load, self.request) is not None:
            return False
        spaces = self.here if self._has_image(load) else self.copied
        policy = self.fleet.policy
        return all(storage_rejection(load, space, policy) is None for space in spaces)

    def _signature(self, load: HostLoad, broken: int) -> _Signature:
        """All that the score of this shape depends on."""
        pools = [load.pools[space.pool] for space in self.here]
        return (
            load.memory,
            load.memory_size,
            load.vcpus,
            load.vcpus_limit,
            self._has_image(load),
            is_emulated(load, self.request),
            broken,
            *((pool.key, pool.promised, pool.limit) for pool in pools if pool.counted),
            *(load.groups.get(group) for group, _members in self.scorer.groups),
        )

    def _enter(self, name: str, drift: float) -> _Class | None:
        """Put the hypervisor at the end of its class, if it can take such a VM."""
        load = self.fleet.loads[name]
        if not self._fits(load):
            return None
        broken = len(broken_rules(load, self.request))
        signature = self._signature(load, broken)
        its_class = self.classes.get(signature)
        if its_class is None:
            its_class = self.classes[signature] = _Class(signature, broken)
        its_class.hosts.append(name)
        self.member[name] = its_class
        if not its_class.queued:
            self._queue(its_class, drift)
        return its_class

    def _queue(self, its_class: _Class, drift: float) -> None:
        load = self.fleet.loads[its_class.hosts[0]]
        its_class.key = sum(self.scorer.values(load, self._has_image(load))) + drift
        its_class.queued = True
        self.number += 1
        heapq.heappush(self.heap, (its_class.broken, its_class.key, self.number, its_class))

    def follow(self, log: t.Sequence[tuple[str, str | None]]) -> None:
        """Have the hypervisors that got a VM since in the classes where they belong now."""
        changed: dict[str, bool] = {}
        for name, image in log[self.position :]:
            came = image is not None and image == self.request.image
            changed[name] = came or changed.get(name, False)
        self.position = len(log)
        drift = self._drift() if changed else 0.0
        for name, image_came in changed.items():
            old = self.member.pop(name, None)
            if old is not None:
                del old.hosts[bisect_left(old.hosts, name)]
            elif not (image_came and name in self.candidates):
                continue  # it was full, and still is
            new = self._enter(name, drift)
            if new is not None:
                new.hosts.pop()
                insort(new.hosts, name)

    def best(self, request: Request, common: t.Container[str]) -> list[Ranked]:
        """The best hypervisors for one VM of this shape."""
        scorer = Scorer(self.fleet, request, self.size)
        near = _Near(request, common)
        best: list[tuple[tuple[int, float, str], Ranked]] = []
        looked: list[_Class] = []
        drift = self._drift()
        while self.heap:
            broken, key, _number, first = self.heap[0]
            if len(best) == KEPT:
                last = best[-1][0]
                if (broken, key - drift - _ROUNDING) > last[:2]:
                    break
            heapq.heappop(self.heap)
            first.queued = False
            if first.hosts:
                looked.append(first)
                self._look(first, request, scorer, near, best)
            else:
                del self.classes[first.signature]
        for like in looked:
            self._queue(like, drift)
        return [ranked for _key, ranked in best]

    def _look(
        self,
        like: _Class,
        request: Request,
        scorer: Scorer,
        near: _Near,
        best: list[tuple[tuple[int, float, str], Ranked]],
    ) -> None:
        alike = 0
        for name in like.hosts:
            load = self.fleet.loads[name]
            special = near.any(load)
            if special and load_rejection(load, request) is not None:
                continue
            ranked = scorer.judged(load, request)
            insort(best, ((ranked.broken, ranked.score, name), ranked))
            del best[KEPT:]
            if not special:
                alike += 1
                if alike == KEPT:  # the others are as good, and come later by name
                    break


class _Near:
    """Whether a hypervisor differs for a VM from others of its class: it has members of groups
    that are not part of the VM's shape."""

    def __init__(self, request: Request, common: t.Container[str]) -> None:
        rare = [group for group in request.groups if group not in common]
        rules = [rule for rule in request.anti_affinity if rule not in common]
        self.groups = {*rare, *(rule[: -len(SOFT)] for rule in rules if rule.endswith(SOFT))}
        self.groups.update(rule for rule in rules)
        self.avoided = {*rare, *(group + SOFT for group in rare)}

    def any(self, load: HostLoad) -> bool:
        """Whether it is one of those."""
        return bool(
            (self.groups and not self.groups.isdisjoint(load.groups))
            or (self.avoided and not self.avoided.isdisjoint(load.avoided))
        )
