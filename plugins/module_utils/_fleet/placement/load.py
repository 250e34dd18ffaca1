# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is promised on each hypervisor, with VMs added and removed, and the fleet's running sums.

With the sums, the evenness of the fleet, and the effect of one more VM on it, take only a few
multiplications, however many hypervisors there are. Placement adds; evacuation and rebalance
remove a VM from one hypervisor and add it to another with the same two calls.
"""

from __future__ import annotations

import typing as t

from .hosts import DefinedVm, PlacementHost, PoolFacts
from .types import Policy, Request


class Evenness:
    """Running sums over one ratio (promised / limit) of every counted hypervisor.

    The measure is n times the variance of the ratios, sum(r^2) - sum(r)^2 / n: Ganeti's sigma,
    squared and not divided by n, so that one VM counts the same in a small and in a large fleet.
    """

    __slots__ = ("count", "limits", "ratios", "squares")

    def __init__(self) -> None:
        self.count = 0
        self.limits = 0
        self.ratios = 0.0
        self.squares = 0.0

    def enter(self, promised: int, limit: int) -> None:
        """Count one more hypervisor (or pool)."""
        ratio = promised / limit
        self.count += 1
        self.limits += limit
        self.ratios += ratio
        self.squares += ratio * ratio

    def shift(self, before: int, after: int, limit: int) -> None:
        """Update the sums: one counted hypervisor's promises went from ``before`` to ``after``."""
        old, new = before / limit, after / limit
        self.ratios += new - old
        self.squares += new * new - old * old

    def value(self) -> float:
        """n times the variance; 0 is perfectly even."""
        if not self.count:
            return 0.0
        return max(0.0, self.squares - self.ratios * self.ratios / self.count)

    def change(self, ratio: float, added: float) -> float:
        """The change of ``value`` if the hypervisor at ``ratio`` gets ``added`` more."""
        return 2 * added * (ratio - self.ratios / self.count) + added * added * (1 - 1 / self.count)

    def share(self, amount: int) -> float:
        """``amount`` as a fraction of what the average hypervisor can promise."""
        return amount * self.count / self.limits if self.limits else 0.0


class Space(t.NamedTuple):
    """What one VM demands of one pool.

    ``thin_mib`` is the part of the virtual size that is allocated only as the guest writes.
    """

    pool: str
    virtual_mib: int
    thin_mib: int


class PoolLoad:
    """One pool of one hypervisor; ``facts`` is None for a pool that is yet to be created."""

    __slots__ = ("added_full", "added_thin", "facts", "key", "limit", "promised")

    def __init__(self, key: str, facts: PoolFacts | None) -> None:
        self.key = key
        self.facts = facts
        self.limit = facts.limit_mib if facts else 0
        self.promised = facts.promised_mib if facts else 0
        self.added_full = 0
        self.added_thin = 0

    @property
    def counted(self) -> bool:
        """Whether it has a known capacity, and so is part of the fleet's sums."""
        return self.facts is not None and not self.facts.problem and self.limit > 0


class HostLoad:
    """What is promised on one hypervisor now: what it reported, and what was added since."""

    __slots__ = (
        "added",
        "avoided",
        "counted",
        "groups",
        "host",
        "images",
        "memory",
        "memory_limit",
        "memory_size",
        "names",
        "pages",
        "pools",
        "together",
        "vcpus",
        "vcpus_limit",
    )

    def __init__(self, host: PlacementHost, policy: Policy) -> None:
        self.host = host
        self.memory = host.memory_promised_mib
        self.memory_limit = host.memory_limit_mib
        self.pages = {one.size_kib: one.promised_mib for one in host.pages or ()}
        # the whole of which shares are taken; where huge pages leave nothing, it is full
        self.memory_size = self.memory_limit
        if self.memory_limit <= 0 < host.memory_in_pages_mib:
            self.memory_size = max(1, self.memory)
        self.vcpus = host.vcpus_promised
        self.vcpus_limit = host.vcpus_limit
        # a host in maintenance or without an answer does not count for evenness
        self.counted = (
            host.problem is None
            and host.maintenance is False
            and self.memory_size > 0
            and self.vcpus_limit > 0
        )
        self.names: dict[str, str | None] = {vm.name: vm.uuid for vm in host.vms}
        self.images = set(host.images)
        self.added: dict[str, Request] = {}
        # how many VMs on this host are in each group, and how many must keep away from it
        self.groups: dict[str, int] = {}
        self.together: dict[str, int] = self.groups  # of all hypervisors in service
        self.avoided: dict[str, int] = {}
        for vm in host.vms:
            count(self.groups, vm.groups)
            count(self.avoided, vm.anti_affinity)
        # what a kill left half made is made when the first VM is created there
        there = [
            facts
            for facts in host.pools
            if not (facts.half_made and policy.pool_paths.get(facts.name) == facts.path)
        ]
        self.pools = {facts.name: PoolLoad(facts.name, facts) for facts in there}
        by_path = {facts.path: facts.name for facts in there if facts.path}
        for name, path in policy.pool_paths.items():
            if name in self.pools:
                continue
            same = by_path.get(path.rstrip("/") or path)
            if same is None:
                self.pools[name] = PoolLoad(name, None)
            else:
                self.pools[name] = self.pools[same]
                self.pools[name].key = name
        for path, name in by_path.items():
            self.pools[path] = self.pools[name]

    def vms(self) -> t.Iterator[DefinedVm | Request]:
        """The VMs that are here now."""
        yield from (vm for vm in self.host.vms if vm.name in self.names)
        yield from self.added.values()

    def spaces(self, request: Request, policy: Policy) -> list[Space]:
        """The VM's demands on this host's pools, with a copy of its image if that is absent."""
        copied = bool(request.image) and request.image not in self.images
        return spaces_of(request, policy, copied)


def count(counts: dict[str, int], groups: t.Iterable[str], change: int = 1) -> None:
    """Count a VM's groups, each once; empty groups are removed."""
    for group in set(groups):
        now = counts.get(group, 0) + change
        if now:
            counts[group] = now
        else:
            counts.pop(group, None)


def spaces_of(request: Request, policy: Policy, copied: bool) -> list[Space]:
    """The VM's demands, summed by pool; ``copied``: its image has to be copied there first."""
    wanted: dict[str, tuple[int, int]] = {}
    for pool, size, full in request.disks:
        virtual, thin = wanted.get(pool, (0, 0))
        wanted[pool] = (virtual + size, thin + (0 if full else size))
    if copied:  # even if its size is unknown: the pool has to be usable
        virtual, thin = wanted.get(policy.base_pool, (0, 0))
        wanted[policy.base_pool] = (virtual + request.image_mib, thin)
    return [Space(pool, virtual, thin) for pool, (virtual, thin) in wanted.items()]


class FleetLoad:
    """All hypervisors with their loads, by name, and the running sums over them."""

    def __init__(self, hosts: t.Iterable[PlacementHost], policy: Policy) -> None:
        self.policy = policy
        # sorted, so that sums of floats do not depend on the order of the hosts
        self.loads = {
            host.name: HostLoad(host, policy) for host in sorted(hosts, key=lambda host: host.name)
        }
        self.memory = Evenness()
        self.cpu = Evenness()
        self.disk: dict[str, Evenness] = {}
        self.members: dict[str, int] = {}
        self.together: dict[str, int] = {}  # members on hypervisors in service
        self.where: dict[str, tuple[str, ...]] = {}
        self.left = {
            (load.host.name, vm.name): vm.uuid
            for load in self.loads.values()
            for vm in load.host.vms
            if vm.leftover
        }
        for load in self.loads.values():
            for name in load.names:
                self.where[name] = (*self.where.get(name, ()), load.host.name)
            for group, vms in load.groups.items():
                self.members[group] = self.members.get(group, 0) + vms
                if load.counted:
                    self.together[group] = self.together.get(group, 0) + vms
            load.together = self.together
            if load.counted:
                self.memory.enter(load.memory, load.memory_size)
                self.cpu.enter(load.vcpus, load.vcpus_limit)
                for pool in {id(pool): pool for pool in load.pools.values()}.values():
                    if pool.counted:
                        self.disk.setdefault(pool.key, Evenness()).enter(pool.promised, pool.limit)

        for host, name in self.left:
            self.where[name] = self._without_leftover(name, host)

    def _without_leftover(self, name: str, host: str) -> tuple[str, ...]:
        """Where the VM is, without ``host``, which only has a leftover of it, if another has it."""
        uuid = self.left[host, name]
        there = [
            other
            for other in self.where[name]
            if (other, name) not in self.left and self.loads[other].names[name] == uuid
        ]
        rest = tuple(other for other in self.where[name] if other != host)
        return rest if there and uuid is not None else self.where[name]

    def evenness(self, pool: str) -> Evenness | None:
        """The sums over the pools with that name or folder; None where no hypervisor has one."""
        for load in self.loads.values():
            if pool in load.pools and load.pools[pool].key in self.disk:
                return self.disk[load.pools[pool].key]
        return None

    def add(self, host: str, request: Request) -> None:
        """Put the VM on ``host``; whether it fits is not checked here but by the filters."""
        load = self.loads[host]
        self._move(load, request, 1)
        load.names[request.name] = None
        load.added[request.name] = request
        self.where[request.name] = (*self.where.get(request.name, ()), host)
        self._count(load, request, 1)
        if request.image:
            load.images.add(request.image)

    def remove(self, host: str, request: Request) -> None:
        """Remove the VM from ``host``: the reverse of ``add``, except that its base image stays.

        Raises KeyError if no VM of that name is there.
        """
        load = self.loads[host]
        del load.names[request.name]
        load.added.pop(request.name, None)
        self.where[request.name] = tuple(one for one in self.where[request.name] if one != host)
        if not self.where[request.name]:
            del self.where[request.name]
        if request.image:
            load.images.add(request.image)
        self._move(load, request, -1)
        self._count(load, request, -1)

    def _count(self, load: HostLoad, request: Request, change: int) -> None:
        count(load.groups, request.groups, change)
        count(load.avoided, request.anti_affinity, change)
        count(self.members, request.groups, change)
        if load.counted:
            count(self.together, request.groups, change)

    def _move(self, load: HostLoad, request: Request, sign: int) -> None:
        memory, vcpus = load.memory, load.vcpus
        load.memory += sign * request.ordinary_mib
        if request.wants.hugepages:
            for size, mib in load.host.drawn(request.wants.hugepages).items():
                load.pages[size] = load.pages.get(size, 0) + sign * mib
        load.vcpus += sign * request.vcpus
        if load.counted:
            self.memory.shift(memory, load.memory, load.memory_size)
            self.cpu.shift(vcpus, load.vcpus, load.vcpus_limit)
        for name, virtual, thin in load.spaces(request, self.policy):
            pool = load.pools.get(name)
            if pool is None:  # a disk of a VM that moves away may be outside all pools
                continue
            before = pool.promised
            pool.promised += sign * virtual
            pool.added_thin += sign * thin
            pool.added_full += sign * (virtual - thin)
            if load.counted and pool.counted:
                self.disk[pool.key].shift(before, pool.promised, pool.limit)
