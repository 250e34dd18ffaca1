# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Why a VM goes to one hypervisor and not to the next best, in words.

A score is a sum of parts, and one of them makes most of the difference: that part is named, with
what it stands for on both.
"""

from __future__ import annotations

import typing as t

from .load import FleetLoad, HostLoad, spaces_of
from .types import PARTS, Ranked, Request

_FREE = "most free {}: {} after it, {} {}"


def words(fleet: FleetLoad, request: Request, ranking: t.Sequence[Ranked]) -> str:
    """The reason for the first of ``ranking``; ``fleet`` is as it was before the VM."""
    if not ranking:
        return ""
    best = fleet.loads[ranking[0].host]
    if len(ranking) == 1:
        if request.host == ranking[0].host:
            return "the request names it"
        return "no other can take it" if len(fleet.loads) > 1 else "the only hypervisor"
    other = fleet.loads[ranking[1].host]
    if ranking[0].broken < ranking[1].broken:
        return f"keeps away from VMs that are on {other.host.name}"
    gains = [(theirs - own) for own, theirs in zip(ranking[0].values, ranking[1].values)]
    if ranking[0].score == ranking[1].score:
        return f"as good as {other.host.name}, and first by name"
    part = PARTS[gains.index(max(gains))]
    if part == "peak":
        part = _fullest(other, request)
    if part in ("memory", "cpu", "disk"):
        return _most_free(part, best, other, request, fleet)
    name = other.host.name
    return {
        "image": f"has the base image, {name} has not",
        "spread": f"fewer VMs of its group than on {name}",
        "emulation": f"has KVM, {name} has not",
    }[part]


def _most_free(
    part: str, best: HostLoad, other: HostLoad, request: Request, fleet: FleetLoad
) -> str:
    own, theirs = (_free(part, load, request, fleet) for load in (best, other))
    what = {"memory": "memory", "cpu": "CPUs", "disk": "disk space"}[part]
    if own is None or theirs is None or own <= theirs:  # its evenness, not its room, decides
        return f"keeps the fleet more even in {what} than {other.host.name}"
    return _FREE.format(what, _percent(own), other.host.name, _percent(theirs))


def _shares(load: HostLoad, request: Request) -> dict[str, float]:
    """What is promised of memory and CPUs once the VM is there."""
    return {
        "memory": (load.memory + request.ordinary_mib) / load.memory_size,
        "cpu": (load.vcpus + request.vcpus) / load.vcpus_limit,
    }


def _fullest(load: HostLoad, request: Request) -> str:
    """The resource of which the hypervisor would have least, disks aside."""
    shares = _shares(load, request)
    return max(shares, key=lambda part: shares[part])


def _free(part: str, load: HostLoad, request: Request, fleet: FleetLoad) -> float | None:
    """The free fraction once the VM is there, of its fullest pool for disks; None if unknown."""
    if part != "disk":
        return 1 - _shares(load, request)[part]
    pools = [
        (load.pools[space.pool], space.virtual_mib)
        for space in spaces_of(request, fleet.policy, False)
    ]
    if not pools or not all(pool.counted for pool, _added in pools):
        return None
    return min(1 - (pool.promised + added) / pool.limit for pool, added in pools)


def _percent(share: float) -> str:
    return f"{round(100 * share)} %"
