# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The score of one VM on one hypervisor (decide.py explains its parts)."""

from __future__ import annotations

from .filters import broken_rules
from .load import FleetLoad, HostLoad, spaces_of
from .types import DIGITS, Ranked, Request


class Scorer:
    """The parts of one VM's score that do not depend on the hypervisor."""

    def __init__(self, fleet: FleetLoad, request: Request, size: float | None = None) -> None:
        self.fleet = fleet
        self.request = request
        self.weights = fleet.policy.weights
        # the image's copy takes space, but is no load: it is there once, for all VMs
        self.spaces = spaces_of(request, fleet.policy, False)
        self.size = size or size_of(fleet, request) or 1.0
        self.groups = [
            (group, fleet.members[group])
            for group in sorted(set(request.groups))
            if fleet.members.get(group)
        ]

    def score(self, load: HostLoad, image_present: bool) -> Ranked:
        """The parts and their sum for one hypervisor that passed the filters."""
        values = self.values(load, image_present)
        notes = tuple(
            f"pool {space.pool} does not exist yet: its space is known once it is created"
            for space in self.spaces
            if not load.pools[space.pool].counted
        )
        return Ranked(load.host.name, round(sum(values), DIGITS), values, notes)

    def judged(self, load: HostLoad, request: Request) -> Ranked:
        """The score for one hypervisor, and the rules of ``request`` that would be broken there."""
        ranked = self.score(load, request.image is None or request.image in load.images)
        broken = broken_rules(load, request)
        if not broken:
            return ranked
        return ranked._replace(notes=(*ranked.notes, *broken), broken=len(broken))

    def values(self, load: HostLoad, image_present: bool) -> tuple[float, ...]:
        """The parts of the score, in the order of PARTS."""
        fleet, weights, request = self.fleet, self.weights, self.request
        ratio = load.memory / load.memory_size
        added = request.ordinary_mib / load.memory_size
        memory = fleet.memory.change(ratio, added)
        peak = ratio + added
        ratio = load.vcpus / load.vcpus_limit
        added = request.vcpus / load.vcpus_limit
        cpu = fleet.cpu.change(ratio, added)
        peak = max(peak, ratio + added)
        disk = 0.0
        for name, virtual, _thin in self.spaces:
            pool = load.pools[name]
            if pool.counted:
                ratio, added = pool.promised / pool.limit, virtual / pool.limit
                disk += fleet.disk[pool.key].change(ratio, added)
                peak = max(peak, ratio + added)
        spread = 0.0
        for group, members in self.groups:
            here = load.groups.get(group)
            if here:
                spread = max(spread, here / members)
        emulated = is_emulated(load, request)
        return (
            weights.memory * memory / self.size,
            weights.cpu * cpu / self.size,
            weights.disk * disk / self.size,
            weights.peak * peak * peak,
            0.0 if image_present else weights.image,
            weights.spread * spread,
            weights.emulation if emulated else 0.0,
        )


def is_emulated(load: HostLoad, request: Request) -> bool:
    """Whether the VM would have to do without KVM there, although it did not ask for that."""
    types = load.host.domain_types
    return request.domain_type is None and "qemu" in types and "kvm" not in types


def size_of(fleet: FleetLoad, request: Request) -> float:
    """The sum of the VM's shares of an average hypervisor."""
    size = fleet.memory.share(request.ordinary_mib) + fleet.cpu.share(request.vcpus)
    for space in spaces_of(request, fleet.policy, False):
        disk = fleet.evenness(space.pool)
        if disk is not None:
            size += disk.share(space.virtual_mib)
    return size
