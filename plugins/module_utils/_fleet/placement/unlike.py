# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hypervisors that could not take a VM later, because its CPU is that of another.

This is told, and decides nothing: a VM with the CPU of its hypervisor starts there.
"""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from ..spec.domain import Domain
    from .hosts import PlacementHost
    from .types import Placement

_MOST = 3  # features that are named
_VMS = 5


def find(
    domains: t.Iterable[Domain],
    placements: t.Iterable[Placement],
    hosts: t.Sequence[PlacementHost],
    *,
    fleet_cpu: bool,
) -> dict[str, str]:
    """What is to be said of each new VM of which there is something to say.

    ``fleet_cpu``: those that do not choose their CPU get one that was chosen for the fleet.
    """
    known = {host.name: host for host in hosts}
    remarks = {}
    for domain, placement in zip(domains, placements):
        host = known.get(placement.host or "")
        if host is None or placement.existing or not _has_cpu_of(domain, host, fleet_cpu):
            continue
        unlike = [reason for other in hosts if (reason := _lacks(domain, host, other))]
        if unlike:
            remarks[domain.name] = (
                f"its CPU is that of {host.name} (host-model), so it could not move to"
                f" {', '.join(unlike)}; for a CPU that all support, set virt_cpu to the line that"
                " ansible-playbook fleet.virt.preflight prints"
            )
    return remarks


def told(remarks: t.Mapping[str, str]) -> list[str]:
    """The remarks, the same of several VMs once."""
    names: dict[str, list[str]] = {}
    for name, remark in remarks.items():
        names.setdefault(remark, []).append(name)
    return [f"{_named(vms)}: {remark}" for remark, vms in names.items()]


def _named(vms: t.Sequence[str]) -> str:
    more = f" and {len(vms) - _VMS} more" if len(vms) > _VMS else ""
    return f"{', '.join(vms[:_VMS])}{more}"


def _type(domain: Domain, host: PlacementHost) -> str:
    return domain.domain_type or ("kvm" if "kvm" in host.domain_types else "qemu")


def _has_cpu_of(domain: Domain, host: PlacementHost, fleet_cpu: bool) -> bool:
    """Whether the VM gets the CPU of ``host``, as far as that is known."""
    kind = _type(domain, host)
    default = "host-model" if kind == "kvm" and not fleet_cpu else None
    offered = "kvm" if "kvm" in host.domain_types else "qemu"  # of which the features are known
    return (domain.cpu.mode or default) == "host-model" and kind == offered


def _lacks(domain: Domain, host: PlacementHost, other: PlacementHost) -> str | None:
    """The other hypervisor and what of the CPU it lacks, if that is known."""
    own, theirs = host.offers.cpu, other.offers.cpu
    if own is None or theirs is None or other.name == host.name or other.arch != host.arch:
        return None
    if _type(domain, host) != _type(domain, other):
        return None
    if own.vendor != theirs.vendor:
        return f"{other.name} (its CPU is of {theirs.vendor}, not {own.vendor})"
    wanted = (own.features - set(domain.cpu.disable)) | set(domain.cpu.require)
    lost = sorted(wanted - theirs.features)
    more = f" and {len(lost) - _MOST} more" if len(lost) > _MOST else ""
    return f"{other.name} (lacks {', '.join(lost[:_MOST])}{more})" if lost else None
