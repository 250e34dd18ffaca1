# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Creating VMs: whether this hypervisor has room for them.

This file is private to the collection.
"""

from __future__ import annotations

import typing as t

from ..._pure.placement import demand, placement
from ..machine import placement_facts
from .creation_types import Host, Job

if t.TYPE_CHECKING:
    from ..._pure.machine.snapshot import PlacementEntry


def place(host: Host, jobs: t.Sequence[Job]) -> None:
    """Fail the jobs that this hypervisor cannot take, all together."""
    facts = _read(host)
    requests = [demand.request_of(job.domain, host.settings.facts) for job in jobs]
    placements = placement.place([_candidate(host, facts)], requests, _policy(host))
    taken = {mac: vm["name"] for vm in facts["vms"] for mac in vm["macs"]}
    for job, found in zip(jobs, placements):
        if found.host is None:
            job.fail(placement.describe(found), refused=True)
            continue
        for nic in job.domain.nics:
            if nic.mac in taken:
                job.fail(
                    f"MAC address {nic.mac} of {nic.name!r} is that of {taken[nic.mac]!r};"
                    " give the NIC another"
                )


def excess(host: Host) -> tuple[str, PlacementEntry]:
    """What is promised beyond a limit now, empty if nothing is; and the host's facts."""
    facts = _read(host)
    found = placement.excess(_candidate(host, facts), _policy(host))
    return "; ".join(entry.reason for entry in found), facts


def _read(host: Host) -> PlacementEntry:
    base = host.settings.base_pool
    return placement_facts.read(host.connection, base, host.settings.pool_paths.get(base, ""))


def _policy(host: Host) -> placement.Policy:
    return placement.Policy(pool_paths=host.settings.pool_paths, base_pool=host.settings.base_pool)


def _candidate(host: Host, facts: PlacementEntry) -> placement.PlacementHost:
    return placement.host_from_info(facts, host.settings.limits, name=host.settings.home)
