# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Creating VMs: whether this hypervisor has room for them."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._records import dataclass, field
from ..hosts import read_placement_facts as placement_facts
from ..placement import decide as placement
from ..placement import demand, offers
from ..placement import hosts as placement_hosts
from ..spec.devices import Nic
from .effects_batch import CreationJob, Host

if t.TYPE_CHECKING:
    from ..base.snapshot import PlacementEntry


def place(host: Host, jobs: t.Sequence[CreationJob]) -> None:
    """Fail the jobs that do not fit on this hypervisor together."""
    facts = read(host)
    requests = [
        demand.request_of(job.domain, host.settings.facts, host.settings.leftovers) for job in jobs
    ]
    placements = placement.place([_candidate(host, facts)], requests, _policy(host))
    taken = {mac: vm["name"] for vm in facts["vms"] for mac in vm["macs"]}
    for job, choice in zip(jobs, placements):
        if choice.host is None:
            job.fail(placement.describe(choice), refused=True)
            continue
        for nic in job.domain.nics:
            if nic.mac in taken:
                job.fail(
                    f"MAC address {nic.mac} of NIC {nic.name!r} is used by {taken[nic.mac]!r};"
                    " give the NIC another"
                )


@dataclass(frozen=True)
class Growth:
    """What an existing VM gains: ``memory`` and ``disks`` (by pool) in MiB, and new NICs;
    ``hugepages`` is what it gains of huge pages, by their size in KiB."""

    name: str
    memory: int = 0
    vcpus: int = 0
    disks: t.Mapping[str, int] = field(default_factory=dict)
    nics: tuple[Nic, ...] = ()
    hugepages: tuple[tuple[int, int], ...] = ()


def grown(host: Host, growths: t.Sequence[Growth]) -> dict[str, str]:
    """Why an existing VM cannot grow on this hypervisor, by its name."""
    facts = read(host)
    candidate = _candidate(host, facts)
    refusals: dict[str, str] = {}
    for growth in growths:
        reasons = [*_nic_problems(candidate, growth, facts)]
        more = dataclasses.replace(
            candidate,
            memory_promised_mib=candidate.memory_promised_mib + max(0, growth.memory),
            pages=_taken(candidate, growth),
            vcpus_promised=candidate.vcpus_promised + max(0, growth.vcpus),
            pools=tuple(
                dataclasses.replace(pool, promised_mib=pool.promised_mib + growth.disks[pool.name])
                if growth.disks.get(pool.name)
                else pool
                for pool in candidate.pools
            ),
        )
        pools = [name for name, size in growth.disks.items() if size > 0]
        asked = {"memory": growth.memory, "vcpus": growth.vcpus, "storage": len(pools)}
        asked["hugepages"] = sum(size for _page, size in growth.hugepages)
        reasons += [
            entry.reason
            for entry in placement.excess(more, pools, _policy(host))
            if asked.get(entry.filter, 0) > 0
        ]
        if reasons:
            refusals[growth.name] = "; ".join(reasons)
        else:
            candidate = more
    return refusals


def _taken(
    candidate: placement.PlacementHost, growth: Growth
) -> tuple[placement_hosts.PageFacts, ...] | None:
    """The huge pages with what the VM gains of them."""
    if not growth.hugepages or candidate.pages is None:
        return candidate.pages
    drawn = candidate.drawn(growth.hugepages)
    return tuple(
        dataclasses.replace(one, promised_mib=one.promised_mib + drawn.get(one.size_kib, 0))
        for one in candidate.pages
    )


def _nic_problems(
    candidate: placement.PlacementHost, growth: Growth, facts: PlacementEntry
) -> t.Iterator[str]:
    """Problems of its NICs on this hypervisor."""
    taken = {mac: vm["name"] for vm in facts["vms"] for mac in vm["macs"]}
    for nic in growth.nics:
        if taken.get(nic.mac, growth.name) != growth.name:
            yield (
                f"MAC address {nic.mac} of NIC {nic.name!r} is used by {taken[nic.mac]!r}; give"
                " the NIC another"
            )
        wants = offers.Wants(
            interfaces=(nic.source,) if nic.type == "direct" else (),
            openvswitch=(nic.source,) if nic.virtualport else (),
            portgroups=((nic.source, nic.portgroup),) if nic.portgroup else (),
            nwfilters=offers.nwfilters_of([nic]),
        )
        reason = offers.interfaces(wants, candidate.offers)
        if reason is not None:
            yield f"NIC {nic.name!r}: {reason}"
        linux = None if nic.virtualport else nic.bridge
        if linux and candidate.bridges is not None and linux not in candidate.bridges:
            known = ", ".join(sorted(candidate.bridges)) or "none"
            yield f"there is no bridge {nic.bridge!r} for NIC {nic.name!r}; there are: {known}"
        networks = candidate.networks
        if nic.network and networks is not None and nic.network not in networks:
            known = ", ".join(sorted(networks)) or "none"
            yield f"there is no network {nic.network!r} for NIC {nic.name!r}; there are: {known}"


def exceeding(
    host: Host, jobs: t.Sequence[CreationJob]
) -> tuple[CreationJob | None, str, PlacementEntry]:
    """The last of the claimed ``jobs`` whose claim exceeds a limit now, if any, and why; and the
    host's facts. Each counts in its own pools, with all that others have promised there."""
    facts = read(host)
    candidate, policy = _candidate(host, facts), _policy(host)
    for job in reversed(jobs):
        pools = [plan.key for plan in job.draft.disks]
        own = demand.request_of(job.domain, host.settings.facts, host.settings.leftovers)
        # another's excess is not this one's: of memory where all of its own is in huge pages, or
        # the other way about
        foreign = "hugepages" if not own.wants.hugepages else "" if own.ordinary_mib else "memory"
        excesses = [
            entry for entry in placement.excess(candidate, pools, policy) if entry.filter != foreign
        ]
        if excesses:
            return job, "; ".join(entry.reason for entry in excesses), facts
    return None, "", facts


def read(host: Host) -> PlacementEntry:
    """This hypervisor, as placement reads it."""
    base = host.settings.base_pool
    return placement_facts.read(host.connection, base, host.settings.pool_paths.get(base, ""))


def _policy(host: Host) -> placement.Policy:
    return placement.Policy(pool_paths=host.settings.pool_paths, base_pool=host.settings.base_pool)


def _candidate(host: Host, facts: PlacementEntry) -> placement.PlacementHost:
    return placement.host_from_info(facts, host.settings.limits, name=host.settings.home)
